//! How often somebody may try to sign in.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

/// Tries for one account, whoever tries.
const PER_ACCOUNT: NonZeroU32 = NonZeroU32::new(10).expect("is not 0");

/// Tries from one address, whatever the account.
const PER_ADDRESS: NonZeroU32 = NonZeroU32::new(30).expect("is not 0");

/// How long one try takes to come back.
const ONE_BACK_AFTER: Duration = Duration::from_secs(30);

/// Above so many accounts or addresses, those that have all their tries are forgotten.
const MANY: usize = 10_000;

/// Limits what can be guessed. In memory: the password hash is dear as well, and several instances multiply the numbers
/// by no more than how many they are.
pub(crate) struct Attempts {
    accounts: DefaultKeyedRateLimiter<String>,
    addresses: DefaultKeyedRateLimiter<String>,
    clock: DefaultClock,
}

impl Attempts {
    pub(crate) fn new() -> Self {
        let quota = |burst| Quota::with_period(ONE_BACK_AFTER).expect("is not 0").allow_burst(burst);
        Self {
            accounts: RateLimiter::keyed(quota(PER_ACCOUNT)),
            addresses: RateLimiter::keyed(quota(PER_ADDRESS)),
            clock: DefaultClock::default(),
        }
    }

    /// Takes one try; when there is none left, says how many seconds to wait.
    pub(crate) fn take(&self, account: &str, address: Option<&str>) -> Result<(), u64> {
        for limiter in [&self.accounts, &self.addresses] {
            if limiter.len() > MANY {
                limiter.retain_recent();
            }
        }
        let wait = |limiter: &DefaultKeyedRateLimiter<String>, key: String| {
            limiter.check_key(&key).map_err(|until| until.wait_time_from(self.clock.now()).as_secs() + 1)
        };
        if let Some(address) = address {
            wait(&self.addresses, address.to_owned())?;
        }
        // Long names have no account; their beginning is enough to count them by.
        wait(&self.accounts, account.to_lowercase().chars().take(64).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_ten_tries_from_wherever_they_come() {
        let attempts = Attempts::new();
        for number in 0..10 {
            attempts.take("Alice", Some(&format!("10.0.0.{number}"))).expect("a try");
        }
        assert!((1..=30).contains(&attempts.take("alice", Some("10.0.1.1")).expect_err("none left")));
        attempts.take("bob", Some("10.0.1.1")).expect("others can sign in");
    }

    #[test]
    fn an_address_has_thirty_tries_whatever_the_account() {
        let attempts = Attempts::new();
        for number in 0..30 {
            attempts.take(&format!("user{number}"), Some("10.0.0.1")).expect("a try");
        }
        assert!(attempts.take("alice", Some("10.0.0.1")).is_err());
        attempts.take("alice", Some("10.0.0.2")).expect("the account itself is untouched");
    }
}
