//! What the server itself has written down of a rehearsal: its events, and whom it calls a runaway.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use sluicegate_control::{EventFilter, EventKind, PageRequest, RunawayRule, TenantRef};

use super::super::Desk;
use super::cast::Cast;

/// How long it takes at most until everything is written down. A server does it every second.
const PATIENCE: Duration = Duration::from_secs(4);
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The server's own view.
#[derive(Debug, Default, Serialize)]
pub(super) struct Record {
    /// The agents whose refusals are among its events, and how many refusals these stand for.
    pub(super) throttled: BTreeMap<String, i64>,
    /// The agents that it calls runaways, where a minute of the rehearsal had enough of them for that.
    pub(super) runaways: Vec<String>,
}

impl Record {
    /// Reads it once it names the runaway.
    pub(super) async fn read(desk: &Desk, cast: &Cast) -> anyhow::Result<Self> {
        let started = tokio::time::Instant::now();
        loop {
            let record = Self::look(desk, cast).await?;
            if record.throttled.contains_key(&cast.runaway.name) || started.elapsed() >= PATIENCE {
                return Ok(record);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn look(desk: &Desk, cast: &Cast) -> anyhow::Result<Self> {
        let mut record = Self::default();
        let name = |tenant: Option<String>, agent: Option<String>| {
            format!("{}/{}", tenant.unwrap_or_default(), agent.unwrap_or_default())
        };
        for tenant in cast.tenants() {
            let (tenant, kind) = (Some(TenantRef::Id(*tenant)), Some(EventKind::Throttled));
            let filter = EventFilter { tenant, kind, ..EventFilter::default() };
            let page = PageRequest::first(PageRequest::MAX);
            for event in desk.control.events().list(&desk.actor, &filter, &page).await?.items {
                *record.throttled.entry(name(event.tenant_slug, event.agent_name)).or_default() += event.count;
            }
        }
        let runaways = desk.control.usage().runaways(&desk.actor, RunawayRule::default()).await?;
        let ours = runaways
            .into_iter()
            .filter(|runaway| runaway.caller.tenant.is_some_and(|tenant| cast.tenants().contains(&tenant)));
        record.runaways = ours.map(|found| name(found.caller.tenant_slug, found.caller.agent_name)).collect();
        Ok(record)
    }
}
