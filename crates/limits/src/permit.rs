//! The slots of a running call.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use crate::{
    Place, ToolId,
    limiter::Tenant,
    rules::{Identity, slot_key},
};

/// The concurrency slots that one admitted call holds, given back when it is dropped.
///
/// The permit belongs to the work, and to the response body, not to whoever waits for them: put it into an `Arc` and let
/// each keep a clone. It gives back exactly what was taken, whatever became of the policy meanwhile. A call without
/// concurrency caps gets an empty permit that costs nothing.
#[derive(Default)]
#[must_use = "dropping a permit gives its slots back"]
pub struct Permit(Option<Held>);

/// A set of places, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Places(u8);

struct Held {
    tenant: Arc<Tenant>,
    who: Identity,
    places: Places,
    since: u64,
}

impl Places {
    pub(crate) fn insert(&mut self, place: Place) {
        self.0 |= 1 << place as u8;
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn contains(self, place: Place) -> bool {
        self.0 >> place as u8 & 1 == 1
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Place> {
        Place::ALL.into_iter().filter(move |place| self.contains(*place))
    }
}

impl Permit {
    /// Of a call that holds no slot.
    pub(crate) const EMPTY: Self = Self(None);

    pub(crate) fn new(tenant: &Arc<Tenant>, who: Identity, places: Places, since: u64) -> Self {
        Self(Some(Held { tenant: Arc::clone(tenant), who, places, since }))
    }

    /// How many slots it holds, one for each cap of the call.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.0.as_ref().map_or(0, |held| held.places.0.count_ones())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let core = &self.tenant.core;
        if self.who.tool > ToolId::OVERFLOW.0 {
            core.tools.get(ToolId(self.who.tool)).record(core.now().saturating_sub(self.since));
        }
        for place in self.places.iter().filter(|place| place.is_server_wide()) {
            core.slots(place, self.who.tool).fetch_sub(1, Relaxed);
        }
        let mut tenant_places = self.places.iter().filter(|place| !place.is_server_wide()).peekable();
        if tenant_places.peek().is_some() {
            let mut table = self.tenant.table.lock();
            for place in tenant_places {
                table.give_back(slot_key(place, &self.who));
            }
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("slots", &self.slots()).finish()
    }
}
