//! Tools: their names, how many calls of each are running, and how long those took lately.

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use hashbrown::HashMap;

use crate::{ToolId, lock::Lock};

/// How many recent durations the median is taken of.
const SAMPLES: usize = 16;
const NS_PER_MS: u64 = 1_000_000;

#[derive(Debug)]
pub(crate) struct Tools {
    ids: Lock<HashMap<Box<str>, ToolId, foldhash::fast::RandomState>>,
    /// Found by id without a lock; filled as tools become known.
    tools: Box<[OnceLock<Box<Tool>>]>,
}

impl Tools {
    pub(crate) fn new(max: u32) -> Self {
        // The two ids that no name has take part.
        let tools = (0..max.saturating_add(2).min(1 << 24)).map(|_| OnceLock::new()).collect();
        Self { ids: Lock::default(), tools }
    }

    pub(crate) fn id(&self, name: &str) -> ToolId {
        let mut ids = self.ids.lock();
        if let Some(id) = ids.get(name) {
            return *id;
        }
        let next = ids.len() + 2;
        if next >= self.tools.len() {
            return ToolId::OVERFLOW;
        }
        let id = ToolId(u32::try_from(next).unwrap_or(ToolId::OVERFLOW.0));
        ids.insert(name.into(), id);
        id
    }

    pub(crate) fn get(&self, id: ToolId) -> &Tool {
        self.tools[id.0 as usize].get_or_init(Box::default)
    }

    /// The slots of server-wide caps that are taken, by tool.
    pub(crate) fn slots_taken(&self) -> impl Iterator<Item = u32> {
        self.tools.iter().filter_map(OnceLock::get).map(|tool| tool.slots.load(Relaxed))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Tool {
    /// Calls of all tenants that hold a slot of a server-wide cap of this tool.
    pub(crate) slots: AtomicU32,
    recorded: AtomicU32,
    /// The latest durations in milliseconds plus one; 0 where none was recorded yet.
    durations: [AtomicU32; SAMPLES],
}

impl Tool {
    /// Remembers how long a call took.
    pub(crate) fn record(&self, ns: u64) {
        let slot = self.recorded.fetch_add(1, Relaxed) as usize % SAMPLES;
        let ms = u32::try_from(ns / NS_PER_MS).unwrap_or(u32::MAX).saturating_add(1);
        self.durations[slot].store(ms, Relaxed);
    }

    /// The median of the latest durations in nanoseconds, 0 when there is none.
    pub(crate) fn median_ns(&self) -> u64 {
        let mut latest = self.durations.each_ref().map(|duration| duration.load(Relaxed));
        latest.sort_unstable();
        let known = &latest[latest.iter().take_while(|ms| **ms == 0).count()..];
        known.get(known.len() / 2).map_or(0, |ms| u64::from(ms - 1) * NS_PER_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_beyond_the_cap_share_one_id() {
        let tools = Tools::new(2);
        let (a, b) = (tools.id("a"), tools.id("b"));
        assert_ne!(a, b);
        assert_eq!(tools.id("a"), a);
        assert_eq!(tools.id("c"), ToolId::OVERFLOW);
    }

    #[test]
    fn the_median_is_of_the_latest_calls_only() {
        let tool = Tool::default();
        assert_eq!(tool.median_ns(), 0);
        tool.record(5 * NS_PER_MS);
        assert_eq!(tool.median_ns(), 5 * NS_PER_MS);
        for ms in 0..100 {
            tool.record(ms * NS_PER_MS);
        }
        assert_eq!(tool.median_ns(), 92 * NS_PER_MS);
    }
}
