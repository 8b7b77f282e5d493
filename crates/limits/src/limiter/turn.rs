//! Fair shares of a ceiling that is decided elsewhere.
//!
//! Where several instances share their limits, whoever decides about a call does not know what everybody asks for. Each
//! limiter knows it of the calls that come to it, is told what comes to others, and says before a call is decided whether it
//! is within its tenant's share.

use super::{Call, Limiter, admit::Refusals};
use crate::{
    Refusal,
    fair::{Ceiling, Verdict},
};

/// A call that may be decided: within its tenant's share as things stand.
#[derive(Debug, Clone, Copy)]
#[must_use = "what becomes of the call decides when its tenant has the next turn"]
pub struct Turn(Option<Verdict>);

impl Turn {
    /// Of a call that takes from no ceiling that is shared.
    pub const FREE: Self = Self(None);
}

/// What became of a call that had its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnOutcome {
    /// It was admitted.
    Admitted,
    /// The ceiling has refused it, and nothing else. That was half a turn: were it none, whoever calls most would be there
    /// first whenever there is room again; were it a whole one, less would be asked of the ceiling than it has.
    RefusedByCeiling,
    /// Another limit has refused it: it asks for nothing of the ceiling.
    RefusedByOthers,
}

impl Limiter {
    /// Whether a call whose rates somebody else decides is within its tenant's share of the server's ceiling. It counts as
    /// asked for.
    ///
    /// # Errors
    ///
    /// What a limiter that decides the ceiling itself would refuse the call with.
    pub fn ask_turn(&self, call: &Call<'_>) -> Result<Turn, Refusal> {
        let (core, rules) = (&*self.core, &call.rules.compiled);
        let Some(ceiling) = self.ceiling(call) else { return Ok(Turn::FREE) };
        let rate = &rules.server_rates[ceiling.at];
        let now = core.now();
        let (verdict, used) = {
            let mut shares = core.shares.lock();
            shares.ask_beside(&ceiling, &mut call.tenant.0.portion.lock(), now, rate.cost)
        };
        if let Verdict::Refused(wait) = verdict {
            let mut refusals = Refusals::default();
            refusals.share(rate, used, wait);
            refusals.into_result(call.rules)?;
        }
        Ok(Turn(Some(verdict)))
    }

    /// Takes note of what became of the call.
    pub fn end_turn(&self, call: &Call<'_>, turn: Turn, outcome: TurnOutcome) {
        let Turn(Some(verdict)) = turn else { return };
        let cost = call.rules.cost().into();
        let mut shares = self.core.shares.lock();
        let mut portion = call.tenant.0.portion.lock();
        match outcome {
            TurnOutcome::Admitted => {
                shares.admitted(cost);
                portion.charge(verdict, self.core.now(), cost);
            }
            TurnOutcome::RefusedByCeiling => portion.charge(verdict.halved(), self.core.now(), cost),
            TurnOutcome::RefusedByOthers => shares.take_back(&mut portion, cost),
        }
    }

    /// What callers here have asked for lately of a ceiling that is decided elsewhere, in calls a second. `None` when nobody
    /// has asked for any.
    #[must_use]
    pub fn asked_per_second(&self) -> Option<f64> {
        self.core.shares.lock().asked_per_second(self.core.now())
    }

    /// Takes note of how much of that ceiling is in use, and of what is asked for by each of those who share it.
    pub fn hear_of_others(&self, used: u64, asked_per_second: Vec<f64>) {
        self.core.shares.lock().hear_of_others(used, asked_per_second);
    }

    fn ceiling(&self, call: &Call<'_>) -> Option<Ceiling> {
        let ceiling = call.rules.compiled.ceiling.as_ref().filter(|_| self.core.options.fair_share);
        ceiling.map(Ceiling::decided_elsewhere)
    }
}
