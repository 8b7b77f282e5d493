//! What the script is asked about one sort of call: everything but the time, put together once.

use std::sync::Arc;

use redis::Cmd;
use rmp::encode;
use sluicegate_limits::{Algorithm, CapRule, Mode, Place, RateLimit, RateRule, Rules, StateKey, TenantIdentity};

use super::leases::LeaseId;

/// The script, in the order of its parts; the first says what it is told and answers.
pub(super) const SCRIPT: &str =
    concat!(include_str!("decide/usual.lua"), include_str!("decide/states.lua"), include_str!("decide/verdict.lua"));

/// Enough for a command without leases that have ended, so that it is put together without growing.
const USUAL_ARGUMENTS: usize = 16;
/// What a command holds besides keys, script, rules and leases.
const ROOM_FOR_NUMBERS: usize = 128;

/// Who calls what, by ids, as keys are made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names<'a> {
    /// The tenant.
    pub(crate) tenant: TenantIdentity<'a>,
    /// The agent.
    pub(crate) agent: &'a str,
    /// The API key; empty for calls without one, which no id of a key is.
    pub(crate) key: &'a str,
    /// The tool; empty for what is no call of a tool, which no name of a tool is.
    pub(crate) tool: &'a str,
}

/// How states are named and timed.
#[derive(Debug, Clone)]
pub(crate) struct Keyspace {
    /// What every key begins with.
    pub(crate) prefix: String,
    /// Whether keys of different tenants may lie on different servers, so that what is server-wide cannot be asked with
    /// them.
    pub(crate) is_divided: bool,
    /// Nanoseconds of a tick.
    pub(crate) tick: u64,
}

impl Keyspace {
    /// Keys with this prefix, of one server or of several, and states in microseconds.
    pub(crate) fn new(prefix: String, is_divided: bool) -> Self {
        Self { prefix, is_divided, tick: 1_000 }
    }

    /// The hash with all states of a tenant. What stands in braces says where it lies in a cluster. No two tenants' keys
    /// are equal, whatever they are called: each is what all keys begin with, the name, and what all of them end with.
    pub(super) fn tenant(&self, tenant: TenantIdentity<'_>) -> Vec<u8> {
        let name = match tenant {
            TenantIdentity::Named(name) => format!("{{t:{name}}}"),
            TenantIdentity::Untenanted => "{u}".to_owned(),
        };
        format!("{}:{name}:rates", self.prefix).into_bytes()
    }

    /// The hash with the states of the whole server.
    pub(super) fn server(&self) -> Vec<u8> {
        format!("{}:{{server}}:rates", self.prefix).into_bytes()
    }

    /// The sorted set with the leases of a cap; beside the hash of the tenant, or of the server.
    fn leases(&self, place: Place, names: &Names<'_>) -> Vec<u8> {
        let mut key = if place.is_server_wide() { self.server() } else { self.tenant(names.tenant) };
        key.extend_from_slice(b":leases:");
        key.extend(field(place, names));
        key
    }

    /// Whether a cap holds for all instances together. What one process takes on is its own affair.
    fn leases_out(&self, rule: &CapRule) -> bool {
        rule.mode == Mode::Enforce && rule.place != Place::Server && !(self.is_divided && rule.place.is_server_wide())
    }

    /// Whether the script is asked about a rate. One that the cost of a call does not fit in is decided without.
    pub(super) fn asks(&self, rule: &RateRule, cost: u32) -> bool {
        u64::from(cost) <= rule.limit.capacity() && !self.is_local(rule)
    }

    /// Whether a rate is decided by each instance for its share, as it cannot be asked with the rest.
    pub(super) fn is_local(&self, rule: &RateRule) -> bool {
        self.is_divided && rule.place.is_server_wide()
    }
}

/// The keys of a call and what the script is told of its rules.
#[derive(Debug)]
pub(crate) struct Question {
    cost: u32,
    keys: [Vec<u8>; 2],
    /// The keys of the caps' leases.
    pub(super) leases: Arc<[Vec<u8>]>,
    /// The rules as the script reads them.
    rules: Vec<u8>,
    /// The positions of those caps in the rules.
    pub(super) caps: Vec<u8>,
}

/// What the script shall do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose<'a> {
    /// Decide and charge; caps are charged with the lease of this id.
    Admit(&'a [u8]),
    /// Look only.
    Look,
}

impl Question {
    /// The question about calls of these rules; `None` when there is nothing to ask.
    pub(crate) fn new(keyspace: &Keyspace, names: &Names<'_>, rules: &Rules) -> Option<Self> {
        let caps: Vec<_> = (0..).zip(rules.caps()).filter(|(_, rule)| keyspace.leases_out(rule)).collect();
        let mut asked: Vec<_> =
            rules.rates().iter().enumerate().filter(|(_, rule)| keyspace.asks(rule, rules.cost())).collect();
        if caps.is_empty() && asked.is_empty() {
            return None;
        }
        // The tenant's own come first, and those of one place stand together.
        asked.sort_by_key(|(index, rule)| {
            let first_of_place = rules.rates().iter().position(|other| other.place == rule.place);
            (rule.place.is_server_wide(), first_of_place, *index)
        });
        let tenant = keyspace.tenant(names.tenant);
        // Where keys are divided, all of a call have to lie together.
        let server = if keyspace.is_divided { tenant.clone() } else { keyspace.server() };
        let places: Vec<_> = asked.chunk_by(|(_, a), (_, b)| a.place == b.place).collect();
        let mut told = Told::default();
        told.list(2).list(caps.len());
        for (index, _) in &caps {
            told.list(2).number(*index).number(rules.slots(*index));
        }
        told.list(places.len());
        for rates in places {
            let place = rates[0].1.place;
            told.list(3).number(if place.is_server_wide() { 2_u8 } else { 1 }).bytes(&field(place, names));
            told.list(rates.len());
            for (index, rule) in rates {
                told.rate(*index, rule, keyspace.tick);
            }
        }
        Some(Self {
            cost: rules.cost(),
            keys: [tenant, server],
            leases: caps.iter().map(|(_, rule)| keyspace.leases(rule.place, names)).collect(),
            rules: told.0,
            caps: caps.iter().map(|(index, _)| *index).collect(),
        })
    }

    /// The command that asks it. Without a time the server's own counts; `script` is the script's hash or its text.
    /// `ended` are leases that have ended in these caps.
    pub(super) fn command(
        &self,
        verb: &str,
        script: &str,
        purpose: Purpose<'_>,
        ended: &[LeaseId],
        timing: Timing,
    ) -> Cmd {
        let keys: usize = self.keys.iter().chain(&*self.leases).map(Vec::len).sum();
        let bytes = script.len() + keys + self.rules.len() + size_of_val(ended) + ROOM_FOR_NUMBERS;
        let mut command = Cmd::with_capacity(USUAL_ARGUMENTS + ended.len(), bytes);
        command.arg(verb).arg(script).arg(self.keys.len() + self.leases.len());
        for key in self.keys.iter().chain(&*self.leases) {
            command.arg(key);
        }
        let (purpose, lease) = match purpose {
            Purpose::Admit(lease) => ("admit", lease),
            Purpose::Look => ("look", &b""[..]),
        };
        command.arg(purpose);
        timing.tell(&mut command);
        command.arg(self.cost).arg(lease).arg(timing.lease).arg(&self.rules);
        for id in ended {
            command.arg(&id[..]);
        }
        command
    }
}

/// What is told of time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    /// The time, if it is not the server's own.
    pub(super) now: Option<u64>,
    /// How long a lease lasts, in ticks.
    pub(super) lease: u64,
}

impl Timing {
    pub(super) fn tell(self, command: &mut Cmd) {
        match self.now {
            Some(now) => command.arg(now),
            None => command.arg(""),
        };
    }
}

/// The field with the states of a place. All ordinals lie in one, so that an edited list is dealt out in one place.
fn field(place: Place, names: &Names<'_>) -> Vec<u8> {
    let Names { tenant, agent, key, tool } = *names;
    StateKey::of(place, tenant, agent, key, tool).to_bytes(0)
}

/// MessagePack, as far as the script is told something in it. Writing into memory does not fail.
#[derive(Default)]
struct Told(Vec<u8>);

impl Told {
    fn list(&mut self, length: usize) -> &mut Self {
        let _ = encode::write_array_len(&mut self.0, length as u32);
        self
    }

    fn number(&mut self, number: impl Into<u64>) -> &mut Self {
        let _ = encode::write_uint(&mut self.0, number.into());
        self
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let _ = encode::write_str_len(&mut self.0, bytes.len() as u32);
        self.0.extend_from_slice(bytes);
        self
    }

    fn rate(&mut self, index: usize, rule: &RateRule, tick: u64) {
        let RateRule { ordinal, limit, mode, .. } = rule;
        let (kind, interval) = match limit.algorithm() {
            Algorithm::TokenBucket => (1_u8, interval(limit, tick)),
            Algorithm::SlidingWindow => (2, 0),
        };
        self.list(7).number(index as u64).number(*ordinal).number(kind).number(limit.capacity());
        self.number(ticks(limit, tick)).number(interval).number(*mode == Mode::Observe);
    }
}

/// The window in ticks. Windows are whole milliseconds, so nothing is rounded where a tick is a microsecond.
fn ticks(limit: &RateLimit, tick: u64) -> u64 {
    limit.quota().window_ns().div_ceil(tick)
}

/// Ticks for each call, rounded up: never more is granted than asked.
fn interval(limit: &RateLimit, tick: u64) -> u64 {
    ticks(limit, tick).div_ceil(limit.quota().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tenants_name_makes_the_key_of_another_or_of_the_server() {
        let keyspace = Keyspace { prefix: "sg".to_owned(), is_divided: false, tick: 1_000 };
        let names = ["", "u", "a", "a}:rates", "server", "{server}", "t:a", "a}", "}:{u"];
        let mut keys: Vec<_> = names.iter().map(|name| keyspace.tenant(TenantIdentity::Named(name))).collect();
        keys.extend([keyspace.tenant(TenantIdentity::Untenanted), keyspace.server()]);
        let all = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), all);
    }
}
