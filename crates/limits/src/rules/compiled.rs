//! Rules as integers, so that a decision neither divides by nor looks up what is known beforehand.

use super::{CapRule, Place, RateRule};
use crate::{
    Algorithm, Mode, Priority,
    cell::{MAX_RING, Stamp, window_tag},
    fair::Ceiling,
    identity::OVERFLOW,
};

/// More than any bucket holds, and little enough to be added to what one holds.
const MOST_CHARGE: u64 = 1 << 62;

/// Rates and caps, those of the tenant apart from those of the server since they lie behind different locks.
#[derive(Debug, Clone)]
pub(crate) struct Compiled {
    pub(crate) tenant_rates: Box<[CompiledRate]>,
    pub(crate) server_rates: Box<[CompiledRate]>,
    /// The lowest of the server's rates that all tenants share.
    pub(crate) ceiling: Option<Ceiling>,
    /// Caps that enforce come before those that observe.
    pub(crate) tenant_caps: Box<[CompiledCap]>,
    pub(crate) server_caps: Box<[CompiledCap]>,
}

impl Compiled {
    /// Of rates and caps with their positions in the rules as given.
    pub(super) fn new(
        rates: impl IntoIterator<Item = (u8, RateRule)>,
        caps: impl IntoIterator<Item = (u8, CapRule)>,
        cost: u32,
        priority: Priority,
        reserve: bool,
    ) -> Self {
        let rates: Vec<_> = rates.into_iter().collect();
        let ceiling = ceiling(rates.iter().map(|(_, rule)| rule));
        let rates = rates.iter().map(|(index, rule)| CompiledRate::new(rule, *index, cost));
        let mut caps: Vec<_> =
            caps.into_iter().map(|(index, rule)| CompiledCap::new(&rule, index, priority, reserve)).collect();
        // Who enforces takes the slot; who observes the same slots looks on.
        caps.sort_by_key(|cap| cap.observe);
        let (server_rates, tenant_rates) = rates.partition::<Vec<_>, _>(|rate| rate.place.is_server_wide());
        let (server_caps, tenant_caps) = caps.into_iter().partition::<Vec<_>, _>(|cap| cap.place.is_server_wide());
        Self {
            tenant_rates: tenant_rates.into(),
            server_rates: server_rates.into(),
            ceiling,
            tenant_caps: tenant_caps.into(),
            server_caps: server_caps.into(),
        }
    }
}

/// The lowest of the rates that hold for all of the server.
fn ceiling<'a>(rates: impl Iterator<Item = &'a RateRule>) -> Option<Ceiling> {
    let server_wide = rates.filter(|rule| rule.place.is_server_wide());
    let shared = server_wide.enumerate().filter(|(_, rule)| rule.place == Place::Server && rule.mode == Mode::Enforce);
    let ceilings = shared.map(|(at, rule)| {
        let quota = rule.limit.quota();
        Ceiling::new(at, quota.count(), quota.window_ns(), rule.limit.capacity())
    });
    ceilings.min_by(|one, other| one.per_second().total_cmp(&other.per_second()))
}

/// Which algorithm, and the numbers only it needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Bucket {
        /// Time per call, and for which window.
        stamp: Stamp,
        /// Time a full bucket takes to drain.
        depth: u64,
        /// Time this call adds.
        charge: u64,
        /// Calls per nanosecond, in units of 2^-64: multiplying is cheaper than dividing by `interval`.
        per_ns: u64,
    },
    /// A window small enough for one timestamp per call.
    Ring {
        /// Length of the window.
        window: u64,
    },
    /// A window that counts calls per span.
    Spans {
        /// Length of the window.
        window: u64,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct CompiledRate {
    pub(crate) kind: Kind,
    /// The most that fits: burst or count.
    pub(crate) capacity: u64,
    pub(crate) cost: u64,
    pub(crate) place: Place,
    pub(crate) ordinal: u8,
    /// Tells the length of the window; see [`window_tag`].
    pub(crate) window_tag: u16,
    mask: KeyMask,
    /// The id under which callers without state of their own share a state. It depends on the numbers, so that two
    /// agents with different limits never convert each other's state back and forth.
    pub(crate) overflow: u32,
    /// Position in the rules as given.
    pub(crate) index: u8,
    pub(crate) observe: bool,
}

impl CompiledRate {
    fn new(rule: &RateRule, index: u8, cost: u32) -> Self {
        let cost = u64::from(cost);
        let capacity = rule.limit.capacity();
        let kind = match rule.limit.algorithm() {
            Algorithm::TokenBucket => {
                let interval = rule.limit.interval_ns();
                let per_ns = u64::MAX / interval;
                Kind::Bucket {
                    stamp: Stamp::new(interval, rule.limit.quota().window_ns()),
                    depth: capacity * interval,
                    charge: cost.saturating_mul(interval).min(MOST_CHARGE),
                    per_ns,
                }
            }
            Algorithm::SlidingWindow => match rule.limit.quota().window_ns() {
                window if capacity <= MAX_RING => Kind::Ring { window },
                window => Kind::Spans { window },
            },
        };
        Self {
            kind,
            capacity,
            cost,
            place: rule.place,
            ordinal: rule.ordinal,
            window_tag: window_tag(rule.limit.quota().window_ns()),
            mask: KeyMask::new(rule.place, rule.ordinal),
            overflow: OVERFLOW | fingerprint(kind, capacity),
            index,
            observe: rule.mode == Mode::Observe,
        }
    }

    /// Whether the cost of a call fits at all.
    pub(crate) fn is_possible(&self) -> bool {
        self.cost <= self.capacity
    }

    /// The key of the state this rule counts in.
    pub(crate) fn key(&self, who: &Identity) -> u64 {
        let key = self.mask.key(who);
        if key >> 63 == 0 { key } else { self.overflow_key(key) }
    }

    /// The key of the state that callers without one of their own share.
    pub(crate) fn overflow_key(&self, key: u64) -> u64 {
        u64::from(self.overflow) << 32 | key & u64::from(u32::MAX)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct CompiledCap {
    /// The slots that calls of these rules may use.
    pub(crate) allowed: u32,
    pub(crate) place: Place,
    /// Position in the rules as given.
    pub(crate) index: u8,
    pub(crate) observe: bool,
}

impl CompiledCap {
    fn new(rule: &CapRule, index: u8, priority: Priority, reserve: bool) -> Self {
        Self { allowed: slots(rule, priority, reserve), place: rule.place, index, observe: rule.mode == Mode::Observe }
    }
}

/// The slots of a cap that calls of this priority may use.
pub(super) fn slots(rule: &CapRule, priority: Priority, reserve: bool) -> u32 {
    let cap = rule.cap.get();
    let percent = match priority {
        _ if !(reserve && rule.place.is_shared_by_tools()) => 100,
        Priority::Low => 80,
        Priority::Normal => 95,
        Priority::High => 100,
    };
    let allowed = (u64::from(cap) * percent).div_ceil(100);
    u32::try_from(allowed).unwrap_or(cap)
}

/// The key of the slots that are counted in `place`.
pub(crate) fn slot_key(place: Place, who: &Identity) -> u64 {
    KeyMask::new(place, 0).key(who)
}

/// The place whose slots are counted under a key of [`slot_key`].
pub(crate) fn place_of_slots(key: u64) -> Option<Place> {
    let place = usize::try_from(key >> 4 & 0xf).ok()?.checked_sub(1)?;
    Place::ALL.get(place).copied()
}

/// The ids of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) agent: u32,
    /// The API key, or the agent for calls without one: both come from the same numbers, so they cannot meet.
    pub(crate) key: u32,
    pub(crate) tool: u32,
}

/// Picks those ids of a call that a place names.
///
/// A key is, from the top: 32 bits of agent or API key, 24 of tool, 4 of place, 4 of ordinal. Keys count inside one tenant.
#[derive(Debug, Clone, Copy)]
struct KeyMask {
    agent: u32,
    key: u32,
    tool: u32,
    low: u32,
}

impl KeyMask {
    const fn new(place: Place, ordinal: u8) -> Self {
        const ALL: u32 = u32::MAX;
        let (agent, key, tool) = match place {
            Place::Server | Place::Tenant => (0, 0, 0),
            Place::ServerTool | Place::TenantTool => (0, 0, ALL),
            Place::Agent | Place::AgentRequests => (ALL, 0, 0),
            Place::AgentKey => (0, ALL, 0),
            Place::AgentTool => (ALL, 0, ALL),
        };
        // Places are counted from 1 here, so that no key is 0.
        Self { agent, key, tool, low: (place as u32 + 1) << 4 | ordinal as u32 }
    }

    const fn key(self, who: &Identity) -> u64 {
        let high = who.agent & self.agent | who.key & self.key;
        let low = (who.tool & self.tool) << 8 | self.low;
        (high as u64) << 32 | low as u64
    }
}

/// 31 bits that differ, almost surely, between limits of different numbers.
fn fingerprint(kind: Kind, capacity: u64) -> u32 {
    let (tag, a, b) = match kind {
        Kind::Bucket { stamp, .. } => (1, stamp.interval(), capacity),
        Kind::Ring { window } | Kind::Spans { window } => (2, window, capacity),
    };
    let mixed =
        [tag, a, b].into_iter().fold(0_u64, |hash, n| (hash ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31));
    (mixed >> 33) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_slot_can_be_read_from_its_key() {
        for place in Place::ALL {
            let key = slot_key(place, &Identity { agent: u32::MAX, key: u32::MAX, tool: (1 << 24) - 1 });
            assert_eq!(place_of_slots(key), Some(place));
        }
    }

    #[test]
    fn a_place_uses_exactly_the_ids_it_names() {
        let base = Identity { agent: 1, key: 2, tool: 3 };
        let uses = |place, other: Identity| KeyMask::new(place, 0).key(&base) != KeyMask::new(place, 0).key(&other);
        for (place, agent, key, tool) in [
            (Place::Server, false, false, false),
            (Place::ServerTool, false, false, true),
            (Place::Tenant, false, false, false),
            (Place::TenantTool, false, false, true),
            (Place::Agent, true, false, false),
            (Place::AgentKey, false, true, false),
            (Place::AgentTool, true, false, true),
            (Place::AgentRequests, true, false, false),
        ] {
            assert_eq!(uses(place, Identity { agent: 9, ..base }), agent, "agent at {place:?}");
            assert_eq!(uses(place, Identity { key: 9, ..base }), key, "key at {place:?}");
            assert_eq!(uses(place, Identity { tool: 9, ..base }), tool, "tool at {place:?}");
        }
    }
}
