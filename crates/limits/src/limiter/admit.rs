//! Admission: every limit is asked, then all are charged or none.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use super::{Call, Core, Limiter};
use crate::{
    Admission, Permit, Place, Reason, Refusal, RuleRef, RuleSet, Rules, Standing, ToolId, Wait,
    cell::Usage,
    fair::{Ceiling, Portion, Verdict},
    lock::{Lock, Locked},
    permit::Places,
    rules::{CompiledCap, CompiledRate, Identity, Kind, slot_key},
    table::{Site, Table},
};

/// The least that a caller refused for concurrency is asked to wait.
const LEAST_CONCURRENCY_WAIT_NS: u64 = 1_000_000_000;

impl Limiter {
    /// Admits the call if every one of its limits allows it, charging all of them; otherwise charges none.
    ///
    /// The clock is read once. Server-wide slots are taken first, by compare-and-swap; then the tenant's lock is held while
    /// all of the tenant's limits are asked; then, only if there are server-wide rates, the server's lock. Neither outcome
    /// allocates once the states exist.
    ///
    /// # Errors
    ///
    /// The [`Refusal`] with the longest wait. Every limit counts what it counted before the call.
    pub fn admit(&self, call: &Call<'_>) -> Result<Admission, Refusal> {
        debug_assert!(Arc::ptr_eq(&self.core, &call.tenant.0.core), "the tenant belongs to another limiter");
        let core = &*self.core;
        let rules = &call.rules.compiled;
        let who = call.identity();
        let mut refusals = Refusals::default();
        let now = core.now();

        let mut server_slots = Places::default();
        for cap in &rules.server_caps {
            let slots = core.slots(cap.place, who.tool);
            if server_slots.contains(cap.place) {
                // Observed beside an enforced cap that gave this call its slot.
                let others = slots.load(Relaxed).saturating_sub(1);
                if others >= cap.allowed {
                    refusals.cap(cap, others, core, &who);
                }
                continue;
            }
            match take(slots, cap.allowed) {
                Ok(()) => server_slots.insert(cap.place),
                Err(taken) => refusals.cap(cap, taken, core, &who),
            }
        }

        let mut table = call.tenant.0.table.lock();
        let now = table.time(now);
        let mut slots = server_slots;
        for cap in &rules.tenant_caps {
            let taken = table.taken(slot_key(cap.place, &who));
            if taken < cap.allowed {
                slots.insert(cap.place);
            } else {
                refusals.cap(cap, taken, core, &who);
            }
        }
        let mut few = [Site::NOWHERE; FEW_RATES];
        let mut many;
        let sites = match rules.tenant_rates.len() {
            0..=FEW_RATES => &mut few[..],
            _ => {
                many = [Site::NOWHERE; Rules::MAX_RATES];
                &mut many[..]
            }
        };
        let nearest = ask(&mut table, &rules.tenant_rates, &who, now, sites, &mut refusals);

        // Also when the tenant's own limits refuse: the longest wait of all is the answer.
        let server = match &*rules.server_rates {
            [] => None,
            rates => {
                let ceiling = rules.ceiling.as_ref().filter(|_| core.options.fair_share);
                Some(Server::ask(core, rates, ceiling, &call.tenant.0.portion, &who, now, &mut refusals))
            }
        };

        if let Some(worst) = &refusals.worst {
            table.make_room(now);
            drop(server);
            drop(table);
            for place in server_slots.iter() {
                core.slots(place, who.tool).fetch_sub(1, Relaxed);
            }
            return Err(refusals.answer(worst, call.rules));
        }

        let mut standing = charge(&mut table, &rules.tenant_rates, sites, nearest, &who, now);
        if !rules.tenant_caps.is_empty() {
            for place in slots.iter().filter(|place| !place.is_server_wide()) {
                table.take(slot_key(place, &who));
            }
        }
        if let Some(server) = server {
            let portion = &call.tenant.0.portion;
            standing = server.charge(&rules.server_rates, portion, &who, nearest.left).or(standing);
        }
        table.make_room(now);
        drop(table);
        let permit = if slots.is_empty() { Permit::EMPTY } else { Permit::new(&call.tenant.0, who, slots, now) };
        Ok(Admission { permit, nearest: standing, would_throttle: refusals.observed })
    }
}

/// Up to how many rates the places where a call is charged take no more of the stack than is filled in no time.
const FEW_RATES: usize = 8;
/// The most server-wide rates.
const SERVER_RATES: usize = 2 * Rules::MAX_ORDINALS as usize;

/// The enforced rate with the least left.
#[derive(Clone, Copy)]
pub(super) struct Nearest {
    /// Its position among the rates asked, past the end if there is none.
    at: usize,
    /// What is in use after the call, as [`Check`](crate::cell::Check) counts it.
    after: u64,
    /// How many calls are left there.
    left: u64,
}

/// Asks each rate about the call, collects where it would be charged, and says which rate is nearest to refusing.
#[inline(always)]
pub(super) fn ask(
    table: &mut Table,
    rates: &[CompiledRate],
    who: &Identity,
    now: u64,
    sites: &mut [Site],
    refusals: &mut Refusals,
) -> Nearest {
    let mut nearest = Nearest { at: usize::MAX, after: 0, left: u64::MAX };
    for (at, (rate, place)) in rates.iter().zip(&mut *sites).enumerate() {
        let key = rate.key(who);
        let (site, check) = table.check(rate, key, now);
        if site == Site::STALE {
            return ask_again(table, rates, rate.place, who, now, sites, refusals);
        }
        if check.wait > 0 {
            refusals.rate(rate, table, key, now, check.wait);
            continue;
        }
        *place = site;
        let left = check.left(rate);
        if left < nearest.left && !rate.observe {
            nearest = Nearest { at, after: check.after, left };
        }
    }
    nearest
}

/// Deals the states of `place` out anew, which moves others too, and starts over. What refused before refuses again.
#[cold]
#[inline(never)]
fn ask_again(
    table: &mut Table,
    rates: &[CompiledRate],
    place: Place,
    who: &Identity,
    now: u64,
    sites: &mut [Site],
    refusals: &mut Refusals,
) -> Nearest {
    table.regroup(rates, place, who, now);
    ask(table, rates, who, now, sites, refusals)
}

/// Charges the call to all of `rates` and says how the nearest stands then.
#[inline(always)]
pub(super) fn charge(
    table: &mut Table,
    rates: &[CompiledRate],
    sites: &[Site],
    nearest: Nearest,
    who: &Identity,
    now: u64,
) -> Option<Standing> {
    let mut any_new = false;
    let mut reset = 0;
    for (at, (rate, site)) in rates.iter().zip(sites).enumerate() {
        let Some(place) = site.place() else {
            any_new |= *site != Site::NOWHERE;
            continue;
        };
        let first_back = table.charge_at(place, rate, now);
        if at == nearest.at {
            reset = first_back;
        }
    }
    // Adding moves what is there, so it comes last.
    if any_new {
        for (at, (rate, site)) in rates.iter().zip(sites).enumerate() {
            let key = match *site {
                Site::OWN => rate.key(who),
                Site::SHARED => rate.overflow_key(rate.key(who)),
                _ => continue,
            };
            let first_back = table.charge_new(key, rate, now);
            if at == nearest.at {
                reset = first_back;
            }
        }
    }
    let rate = rates.get(nearest.at)?;
    let Usage { used, reset } = match rate.kind {
        Kind::Bucket { stamp, .. } => Usage::of_backlog(nearest.after, stamp.interval()),
        // Counted in sixtieths, a call may count for up to a sixtieth longer than the window.
        Kind::Ring { window } | Kind::Spans { window } => Usage { used: nearest.after, reset: reset.min(window) },
    };
    Some(Standing {
        rule: RuleRef::Rate(rate.index),
        limit: rate.capacity,
        used,
        remaining: rate.capacity.saturating_sub(used),
        reset: Wait::exact(reset),
    })
}

/// The server-wide rates while they are decided. Few calls have any, so this stays out of the way of those that do not.
pub(super) struct Server<'a> {
    table: Locked<'a, Table>,
    now: u64,
    sites: [Site; SERVER_RATES],
    nearest: Nearest,
    verdict: Verdict,
}

impl<'a> Server<'a> {
    #[inline(never)]
    pub(super) fn ask(
        core: &'a Core,
        rates: &[CompiledRate],
        ceiling: Option<&Ceiling>,
        portion: &Lock<Portion>,
        who: &Identity,
        now: u64,
        refusals: &mut Refusals,
    ) -> Self {
        let mut table = core.server.lock();
        let now = table.time(now);
        let mut sites = [Site::NOWHERE; SERVER_RATES];
        // What the tenant's own limits refuse asks nothing of the server.
        let ceiling = ceiling.filter(|_| refusals.worst.is_none());
        let nearest = ask(&mut table, rates, who, now, &mut sites, refusals);
        let mut verdict = Verdict::Free;
        if let Some(ceiling) = ceiling {
            let rate = &rates[ceiling.at];
            let used = table.view(rate, rate.key(who), now).map_or(0, |cell| cell.usage(now).used);
            verdict = core.shares.lock().ask(ceiling, &mut portion.lock(), now, rate.cost, used);
            if let Verdict::Refused(wait) = verdict {
                refusals.share(rate, used, wait);
            }
        }
        Self { table, now, sites, nearest, verdict }
    }

    /// Charges the call to the rates. Says how the nearest of them stands if less than `left` is left there.
    #[inline(never)]
    pub(super) fn charge(
        mut self,
        rates: &[CompiledRate],
        portion: &Lock<Portion>,
        who: &Identity,
        left: u64,
    ) -> Option<Standing> {
        if self.verdict != Verdict::Free {
            let cost = rates.first().map_or(1, |rate| rate.cost);
            portion.lock().charge(self.verdict, self.now, cost);
        }
        let standing = charge(&mut self.table, rates, &self.sites, self.nearest, who, self.now);
        standing.filter(|_| self.nearest.left < left)
    }
}

/// The rules that refused so far.
#[derive(Default)]
pub(super) struct Refusals {
    enforced: RuleSet,
    observed: RuleSet,
    worst: Option<Worst>,
}

/// The refusal that will be the answer.
struct Worst {
    rule: RuleRef,
    reason: Reason,
    /// `None` when waiting does not help.
    wait: Option<Wait>,
    used: u64,
    /// What the rule allows this call to use.
    allowed: u64,
}

impl Refusals {
    #[cold]
    fn rate(&mut self, rate: &CompiledRate, table: &Table, key: u64, now: u64, wait: u64) {
        let (reason, wait) = match rate.is_possible() {
            true => (Reason::RateLimit, Some(Wait::exact(wait))),
            false => (Reason::CostAboveCapacity, None),
        };
        let used = table.view(rate, key, now).map_or(0, |cell| cell.usage(now).used);
        let worst = Worst { rule: RuleRef::Rate(rate.index), reason, wait, used, allowed: rate.capacity };
        self.add(rate.observe, worst);
    }

    /// A rate that has room, but for others. How long that is so depends on them.
    #[cold]
    pub(super) fn share(&mut self, rate: &CompiledRate, used: u64, wait: u64) {
        let wait = Some(Wait::estimated(wait));
        let rule = RuleRef::Rate(rate.index);
        self.add(false, Worst { rule, reason: Reason::RateLimit, wait, used, allowed: rate.capacity });
    }

    #[cold]
    fn cap(&mut self, cap: &CompiledCap, taken: u32, core: &Core, who: &Identity) {
        let wait = Some(core.concurrency_wait(who.tool));
        let (used, allowed) = (taken.into(), cap.allowed.into());
        self.add(
            cap.observe,
            Worst { rule: RuleRef::Cap(cap.index), reason: Reason::Concurrency, wait, used, allowed },
        );
    }

    fn add(&mut self, observe: bool, new: Worst) {
        if observe {
            self.observed = self.observed.with(new.rule);
            return;
        }
        self.enforced = self.enforced.with(new.rule);
        // No wait at all is the longest of all.
        let length = |worst: &Worst| worst.wait.map_or(u64::MAX, Wait::as_nanos);
        if self.worst.as_ref().is_none_or(|worst| length(&new) > length(worst)) {
            self.worst = Some(new);
        }
    }

    /// The refusal, if any enforced rule refused.
    pub(super) fn into_result(self, rules: &Rules) -> Result<(), Refusal> {
        self.worst.as_ref().map_or(Ok(()), |worst| Err(self.answer(worst, rules)))
    }

    #[cold]
    fn answer(&self, worst: &Worst, rules: &Rules) -> Refusal {
        let (scope, limit, _) = rules.rule(worst.rule);
        Refusal {
            rule: worst.rule,
            scope,
            reason: worst.reason,
            limit,
            used: worst.used,
            remaining: worst.allowed.saturating_sub(worst.used),
            wait: worst.wait,
            refused: self.enforced,
            would_throttle: self.observed,
        }
    }
}

/// Takes one of `allowed` slots, or says how many are taken.
fn take(slots: &AtomicU32, allowed: u32) -> Result<(), u32> {
    slots.fetch_update(Relaxed, Relaxed, |taken| (taken < allowed).then_some(taken + 1)).map(drop)
}

impl Limiter {
    /// How long a caller is asked to wait that somebody else refuses for running too many calls: an estimate, by how long
    /// calls of the tool took here.
    #[must_use]
    pub fn concurrency_wait(&self, tool: ToolId) -> Wait {
        self.core.concurrency_wait(tool.0)
    }
}

impl Core {
    /// How long a caller refused for concurrency is asked to wait: as long as the tool's calls took lately.
    pub(super) fn concurrency_wait(&self, tool: u32) -> Wait {
        let median = if tool > ToolId::OVERFLOW.0 { self.tools.get(ToolId(tool)).median_ns() } else { 0 };
        Wait::estimated(median.max(LEAST_CONCURRENCY_WAIT_NS))
    }

    /// How many slots of a server-wide place are taken.
    pub(super) fn taken(&self, place: Place, tool: u32) -> u32 {
        self.slots(place, tool).load(Relaxed)
    }
}
