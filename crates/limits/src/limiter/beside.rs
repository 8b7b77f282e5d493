//! Rates that are decided elsewhere, and what is known of them here.
//!
//! Where several instances share their limits, a limiter follows along: it notes what its own instance has admitted, so
//! that its part of every limit is used as much as it is when it has to decide by itself.

use super::{
    Call, Limiter,
    admit::{Refusals, Server, ask, charge},
};
use crate::{Refusal, Rules, table::Site};

impl Limiter {
    /// Whether the rates of the call allow it now. Nothing is charged, and caps are not looked at.
    ///
    /// # Errors
    ///
    /// What [`Limiter::admit`] would refuse the call with for its rates.
    pub fn peek(&self, call: &Call<'_>) -> Result<(), Refusal> {
        let refusals = self.follow(call, false);
        refusals.into_result(call.rules)
    }

    /// Charges the call, which somebody else has admitted, to each of its rates that has room for it. Rates without room
    /// stay as full as they are, and caps are not touched.
    pub fn note(&self, call: &Call<'_>) {
        self.follow(call, true);
    }

    /// Asks each rate, and charges those that do not refuse if `charges` is set.
    fn follow(&self, call: &Call<'_>, charges: bool) -> Refusals {
        let core = &*self.core;
        let rules = &call.rules.compiled;
        let who = call.identity();
        let mut refusals = Refusals::default();
        let now = core.now();
        if !rules.tenant_rates.is_empty() {
            let mut table = call.tenant.0.table.lock();
            let now = table.time(now);
            // A rate that refuses gets no site, and what has none is not charged.
            let mut sites = [Site::NOWHERE; Rules::MAX_RATES];
            let nearest = ask(&mut table, &rules.tenant_rates, &who, now, &mut sites, &mut refusals);
            if charges {
                charge(&mut table, &rules.tenant_rates, &sites, nearest, &who, now);
            }
            table.make_room(now);
        }
        if !rules.server_rates.is_empty() {
            let portion = &call.tenant.0.portion;
            let server = Server::ask(core, &rules.server_rates, None, portion, &who, now, &mut refusals);
            if charges {
                server.charge(&rules.server_rates, portion, &who, u64::MAX);
            }
        }
        refusals
    }
}
