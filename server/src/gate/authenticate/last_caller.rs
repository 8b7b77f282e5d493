//! Whom a connection was let in as last: nearly all of them send the same credentials with every request.

use std::sync::Arc;

use constant_time_eq::constant_time_eq;
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};

use super::principal::Principal;

/// Whom a connection was let in as, and what it showed for it. That is in the connection's buffers anyway, and goes with it.
#[derive(Default)]
pub(crate) struct LastCaller(Mutex<Option<LetIn>>);

struct LetIn {
    shown: SecretString,
    principal: Arc<Principal>,
}

impl LastCaller {
    /// Who shows this, if it was shown before and whom it stood for passes as `still_good`.
    pub(super) fn find(&self, shown: &str, still_good: impl FnOnce(&Principal) -> bool) -> Option<Arc<Principal>> {
        let mut last = self.0.lock();
        let LetIn { shown: known, principal } = last.as_ref()?;
        let is_same = constant_time_eq(known.expose_secret().as_bytes(), shown.as_bytes());
        if !still_good(principal) {
            // Room for whoever is let in next.
            *last = None;
            return None;
        }
        is_same.then(|| Arc::clone(principal))
    }

    /// Somebody was let in. Where many share a connection, as behind a proxy, the first is remembered.
    pub(super) fn remember(&self, shown: &str, principal: &Arc<Principal>) {
        let mut last = self.0.lock();
        if last.is_none() {
            *last = Some(LetIn { shown: shown.into(), principal: Arc::clone(principal) });
        }
    }
}
