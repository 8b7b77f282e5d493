//! Looking at limits without touching them.

use super::{Call, Limiter};
use crate::{
    RuleRef, RuleReport, Wait,
    cell::Check,
    rules::{CompiledCap, CompiledRate, slot_key},
    table::Table,
};

impl Limiter {
    /// How every rule of the call stands now, in the order of the rules: rates, then caps.
    ///
    /// Nothing is charged, created or changed. Unlike [`Limiter::admit`] it allocates.
    #[must_use]
    pub fn inspect(&self, call: &Call<'_>) -> Vec<RuleReport> {
        let core = &*self.core;
        let rules = &call.rules.compiled;
        let who = call.identity();
        let now = core.now();
        let rate_report = |table: &Table, rates: &[CompiledRate], rate: &CompiledRate| {
            let rule = RuleRef::Rate(rate.index);
            let cell = table.foresee(rates, rate, &who, now);
            let check = cell.as_ref().map_or_else(|| Check::of_fresh(rate), |cell| cell.judge(rate, now));
            let refuses = check.wait > 0;
            let wait = (refuses && rate.is_possible()).then_some(Wait::exact(check.wait));
            let used = cell.map_or(0, |cell| cell.usage(now).used);
            report(call, rule, used, rate.capacity, refuses, wait)
        };
        let cap_report = |cap: &CompiledCap, taken: u32| {
            let refuses = taken >= cap.allowed;
            let wait = refuses.then(|| core.concurrency_wait(who.tool));
            report(call, RuleRef::Cap(cap.index), taken.into(), cap.allowed.into(), refuses, wait)
        };

        let mut reports = Vec::with_capacity(call.rules.rates().len() + call.rules.caps().len());
        {
            let table = call.tenant.0.table.lock();
            reports.extend(rules.tenant_rates.iter().map(|rate| rate_report(&table, &rules.tenant_rates, rate)));
            reports.extend(rules.tenant_caps.iter().map(|cap| cap_report(cap, table.taken(slot_key(cap.place, &who)))));
        }
        {
            let table = core.server.lock();
            reports.extend(rules.server_rates.iter().map(|rate| rate_report(&table, &rules.server_rates, rate)));
        }
        reports.extend(rules.server_caps.iter().map(|cap| cap_report(cap, core.taken(cap.place, who.tool))));
        reports.sort_by_key(|report| report.rule);
        reports
    }
}

fn report(call: &Call<'_>, rule: RuleRef, used: u64, allowed: u64, refuses: bool, wait: Option<Wait>) -> RuleReport {
    let (scope, limit, mode) = call.rules.rule(rule);
    RuleReport { rule, scope, limit, mode, used, remaining: allowed.saturating_sub(used), refuses, wait }
}
