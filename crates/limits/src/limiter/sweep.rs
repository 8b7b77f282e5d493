//! Dropping state that no call can tell from none, in small steps.

use std::sync::Arc;

use super::{Limiter, Tenant, Tenants};
use crate::table::SWEEP_STEP;

impl Limiter {
    /// One small step of cleaning up; returns how many keys it dropped.
    ///
    /// A step looks at no more than 64 keys of one tenant and 64 of its names, so it holds a lock for microseconds. It
    /// drops only what is indistinguishable from fresh state, and forgets tenants that nobody has a handle of and under
    /// which nothing counts. Tables in use clean themselves as keys are added, so memory is bounded without it; calling it
    /// regularly, say every few milliseconds, also gives back what idle tenants left behind.
    ///
    /// ```
    /// # use sluicegate_limits::{Limiter, LimiterOptions};
    /// let limiter = Limiter::new(quanta::Clock::new(), LimiterOptions::default());
    /// assert_eq!(limiter.sweep(), 0);
    /// ```
    pub fn sweep(&self) -> usize {
        let now = self.core.now();
        let in_server = {
            let mut table = self.core.server.lock();
            let now = table.time(now);
            table.sweep(SWEEP_STEP / 8, now).0
        };
        let Some(tenant) = self.tenants.lock().at_cursor() else { return in_server };
        let (dropped, at_end) = {
            let mut table = tenant.table.lock();
            let now = table.time(now);
            let (dropped, at_end) = table.sweep(SWEEP_STEP, now);
            table.forget_names(self.core.names_horizon(now));
            (dropped, at_end)
        };
        if at_end {
            self.tenants.lock().move_on(&tenant);
        }
        in_server + dropped
    }
}

impl Tenants {
    /// The tenant whose turn it is.
    fn at_cursor(&mut self) -> Option<Arc<Tenant>> {
        let places = self.tenants.num_buckets();
        let turn = |cursor: usize| (0..places.min(SWEEP_STEP)).map(move |step| (cursor + step) % places);
        let (at, tenant) =
            turn(self.cursor).find_map(|at| self.tenants.get_bucket(at).map(|tenant| (at, Arc::clone(tenant)))).unzip();
        self.cursor = at.unwrap_or(self.cursor + SWEEP_STEP);
        tenant
    }

    /// Gives the next tenant its turn. This one is forgotten if it is idle and held by nobody but this table, from which
    /// alone new handles come, and the sweep.
    fn move_on(&mut self, tenant: &Arc<Tenant>) {
        if let Ok(entry) = self.tenants.get_bucket_entry(self.cursor)
            && Arc::ptr_eq(entry.get(), tenant)
            && Arc::strong_count(tenant) == 2
            && tenant.table.lock().is_idle()
        {
            entry.remove();
        }
        self.cursor += 1;
    }
}
