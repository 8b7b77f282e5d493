//! The ceiling over all tenants where instances share it: each hands its part out fairly (docs/fair-share.md), and tells
//! the others how much is asked for at it, so that nothing of the ceiling is kept for an instance that few callers come to.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use sluicegate_limits::{Place, RateRule, RuleRef, Rules, TenantIdentity};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::link::{Link, LinkError};
use super::question::Names;
use super::shared::Shared;

/// How often instances tell each other.
const TELL_EVERY: Duration = Duration::from_millis(250);
/// For how long it holds what one has told.
const HOLDS_MS: u64 = 2_000;
/// Whoever asks for less, in calls a second, asks for nothing.
const NOTHING: f64 = 0.01;
const TELL: &str = include_str!("asking.lua");

/// Nobody: the states of the whole server belong to no caller.
const SERVER: Names<'static> = Names { tenant: TenantIdentity::Untenanted, agent: "", key: "", tool: "" };

/// The rates over all tenants, as the last call had them.
#[derive(Default)]
pub(super) struct Ceiling(ArcSwapOption<Rules>);

impl Ceiling {
    /// The rates over all tenants among the rules of a call, by themselves; `None` where nothing has to be shared.
    pub(super) fn of(rules: &Rules) -> Option<Arc<Rules>> {
        rules.ceiling()?;
        let rates: Vec<RateRule> = rules.rates().iter().filter(|rule| rule.place == Place::Server).copied().collect();
        Rules::new(rates, Vec::new(), 1, rules.priority(), false).ok().map(Arc::new)
    }

    /// Takes note of what a call comes under.
    pub(super) fn note(&self, rules: &Arc<Rules>) {
        if self.0.load().as_ref().is_none_or(|known| known.rates() != rules.rates()) {
            self.0.store(Some(Arc::clone(rules)));
        }
    }
}

/// Tells and hears until `shutdown` is cancelled.
pub(super) async fn work(shared: Arc<Shared>, shutdown: CancellationToken) {
    while timeout(TELL_EVERY, shutdown.cancelled()).await.is_err() {
        let asked = shared.limiter.asked_per_second().filter(|asked| *asked >= NOTHING);
        let (Some(asked), Some(rules), Some(link)) = (asked, shared.ceiling.0.load_full(), shared.link()) else {
            continue;
        };
        let heard = tokio::join!(shared.used(&link, &rules), shared.tell(&link, asked));
        match heard {
            (Ok(used), Ok(others)) => shared.limiter.hear_of_others(used, others),
            (used, others) => {
                used.err().into_iter().chain(others.err()).for_each(|error| shared.failed(&link, &error));
            }
        }
    }
}

impl Shared {
    /// How much of the ceiling is in use.
    async fn used(&self, link: &Link, rules: &Rules) -> Result<u64, LinkError> {
        let looks = self.look(link, rules, &SERVER).await?;
        let ceiling = rules.rates().iter().position(|rule| Some(rule) == rules.ceiling());
        let is_ceiling = |rule| matches!(rule, RuleRef::Rate(index) if Some(usize::from(index)) == ceiling);
        Ok(looks.iter().find(|look| is_ceiling(look.rule)).map_or(0, |look| look.used))
    }

    /// Tells what is asked for here, and hears what is at others: calls a second.
    async fn tell(&self, link: &Link, asked: f64) -> Result<Vec<f64>, LinkError> {
        let mut command = redis::cmd("EVAL");
        command.arg(TELL).arg(1).arg(self.key("asked")).arg(self.leases.instance()).arg(asked).arg(HOLDS_MS);
        let told: Vec<String> = redis::from_redis_value(link.send(&command).await?)
            .map_err(|error| LinkError::Strange(error.to_string()))?;
        Ok(told.iter().filter_map(|asked| asked.parse().ok()).filter(|asked: &f64| asked.is_finite()).collect())
    }
}
