//! Those who have not proved who they are: how often an address may try, and how much the server does for it meanwhile.
//!
//! Good credentials are never refused because of this. They are looked at first, whatever their address has done before; only a
//! failure takes one of its tries. An address without tries left gets 429 for its failures, and what it sends that is not
//! known yet waits its turn with the others of its sort, so that guessing cannot occupy the database.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::RateLimiter;
use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::DashMapStateStore;
use moka::sync::Cache;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::refusal::Refusal;
use crate::settings::{Settings, SettingsError};

/// Addresses that are counted apart. While there are more, all are counted as one.
const MOST_ADDRESSES: usize = 20_000;
/// How often addresses that have all their tries are looked for, at most.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// How long an address without tries waits its turn after its last failure.
const EXHAUSTED_FOR: Duration = Duration::from_secs(10);
/// Unknown credentials of addresses without tries that are looked up at once.
const SLOW_LANE: usize = 4;

/// Who fails, by address.
pub(crate) struct Strangers {
    /// `None`: nobody is limited.
    failures: Option<RateLimiter<Origin, DashMapStateStore<Origin>, LimiterClock, NoOpMiddleware<Nanos>>>,
    clock: LimiterClock,
    most_addresses: usize,
    /// When addresses were last swept, in nanoseconds of the clock.
    swept: AtomicU64,
    /// Addresses that had no tries left lately.
    exhausted: Cache<Origin, ()>,
    slow_lane: Semaphore,
}

/// What counts as one place to come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Origin {
    V4(Ipv4Addr),
    /// The first 64 bits: whoever has one address has all of them (RFC 6177).
    V6(u64),
    /// While there are too many to be counted apart.
    Anywhere,
}

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => Self::V6(Self::network(address)),
        }
    }
}

impl Origin {
    fn network(address: Ipv6Addr) -> u64 {
        (address.to_bits() >> 64) as u64
    }
}

/// The clock of the limiter, as governor reads it.
#[derive(Debug, Clone)]
struct LimiterClock {
    clock: quanta::Clock,
    start: quanta::Instant,
}

impl LimiterClock {
    fn elapsed(&self) -> Duration {
        self.clock.now().duration_since(self.start)
    }
}

impl Clock for LimiterClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.elapsed().into()
    }
}

impl Strangers {
    /// # Errors
    /// When the setting is no quota.
    pub(crate) fn new(settings: &Settings, clock: quanta::Clock) -> Result<Self, SettingsError> {
        let clock = LimiterClock { start: clock.now(), clock };
        let quota = settings.failures_per_address()?;
        let failures = quota.map(|quota| RateLimiter::new(quota, DashMapStateStore::default(), clock.clone()));
        Ok(Self {
            failures,
            clock,
            most_addresses: MOST_ADDRESSES,
            swept: AtomicU64::new(0),
            exhausted: Cache::builder().max_capacity(MOST_ADDRESSES as u64).time_to_live(EXHAUSTED_FOR).build(),
            slow_lane: Semaphore::new(SLOW_LANE),
        })
    }

    /// Counts a failure of an address: what it is told, if it has no tries left.
    pub(crate) fn failed(&self, address: Option<IpAddr>) -> Result<(), Refusal> {
        let (Some(failures), Some(address)) = (&self.failures, address) else { return Ok(()) };
        self.sweep();
        let origin = if failures.len() < self.most_addresses { address.into() } else { Origin::Anywhere };
        failures.check_key(&origin).map_err(|until| {
            self.exhausted.insert(address.into(), ());
            let wait = until.wait_time_from(self.clock.now());
            Refusal::TooManyFailures { seconds: wait.as_secs() + u64::from(wait.subsec_nanos() > 0) }
        })
    }

    /// A turn for looking up what an address has sent and nobody knows; at once, unless the address has no tries left.
    pub(crate) async fn turn(&self, address: Option<IpAddr>) -> Option<SemaphorePermit<'_>> {
        if self.exhausted.contains_key(&Origin::from(address?)) { self.slow_lane.acquire().await.ok() } else { None }
    }

    /// Forgets addresses that have all their tries.
    fn sweep(&self) {
        let Some(failures) = &self.failures else { return };
        if failures.len() < self.most_addresses / 2 {
            return;
        }
        let now = u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let swept = self.swept.load(Ordering::Relaxed);
        let due = now.saturating_sub(swept) >= SWEEP_EVERY.as_nanos() as u64;
        if due && self.swept.compare_exchange(swept, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            failures.retain_recent();
            failures.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn strangers(setting: &str) -> (Strangers, Arc<quanta::Mock>) {
        let mut settings = Settings::defaults();
        setting.clone_into(&mut settings.failed_logins_per_address);
        let (clock, mock) = quanta::Clock::mock();
        mock.increment(Duration::from_hours(1));
        (Strangers::new(&settings, clock).expect("a quota"), mock)
    }

    fn tries(strangers: &Strangers, address: &str) -> usize {
        let address = address.parse().expect("an address");
        (0..1_000).take_while(|_| strangers.failed(Some(address)).is_ok()).count()
    }

    fn wait(strangers: &Strangers, address: &str) -> Option<u64> {
        strangers.failed(Some(address.parse().expect("an address"))).err()?.retry_after_seconds()
    }

    #[test]
    fn an_address_has_as_many_failures_as_the_setting_says_and_gets_them_back() {
        let (strangers, clock) = strangers("60/min");
        assert_eq!(tries(&strangers, "192.0.2.1"), 60);
        assert_eq!(wait(&strangers, "192.0.2.1"), Some(1));
        assert_eq!(tries(&strangers, "192.0.2.2"), 60, "another address has its own");
        clock.increment(Duration::from_secs(1));
        assert_eq!(tries(&strangers, "192.0.2.1"), 1);
        clock.increment(Duration::from_mins(1));
        assert_eq!(tries(&strangers, "::ffff:192.0.2.1"), 60, "written as IPv6 it is the same");
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let (strangers, _clock) = strangers("10/min");
        assert_eq!(tries(&strangers, "2001:db8:0:1::1"), 10);
        assert_eq!(tries(&strangers, "2001:db8:0:1:ffff::2"), 0);
        assert_eq!(wait(&strangers, "2001:db8:0:1:ffff::2"), Some(6));
        assert_eq!(tries(&strangers, "2001:db8:0:2::1"), 10);
    }

    #[test]
    fn without_a_setting_and_without_an_address_nobody_is_limited() {
        let (boundless, _clock) = strangers("");
        assert_eq!(tries(&boundless, "192.0.2.1"), 1_000);
        let (bounded, _clock) = strangers("1/h");
        assert!((0..9).all(|_| bounded.failed(None).is_ok()), "on stdio there is no address");
    }

    #[test]
    fn invented_addresses_fill_nothing_and_are_counted_as_one_when_there_are_too_many() {
        let (mut strangers, clock) = strangers("10/min");
        strangers.most_addresses = 100;
        let address = |at: u32| Some(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + at)));
        let refused = (0..10_000).filter(|at| strangers.failed(address(*at)).is_err()).count();
        let kept = strangers.failures.as_ref().expect("a limit").len();
        assert!(kept <= 101, "{kept} are kept");
        assert!(refused >= 9_000, "{refused} were refused");
        clock.increment(Duration::from_mins(2));
        assert!(strangers.failed(address(1)).is_ok());
        assert_eq!(tries(&strangers, "10.0.0.2"), 10, "afterwards each is counted apart again");
    }

    #[tokio::test]
    async fn only_addresses_without_tries_wait_their_turn() {
        let (strangers, _clock) = strangers("1/min");
        let address = |text: &str| Some(text.parse::<IpAddr>().expect("an address"));
        assert!(strangers.turn(address("192.0.2.1")).await.is_none());
        assert_eq!(tries(&strangers, "192.0.2.1"), 1);
        let mut turns = Vec::new();
        for _ in 0..SLOW_LANE {
            turns.push(strangers.turn(address("192.0.2.1")).await.expect("a turn"));
        }
        let waits = strangers.turn(address("192.0.2.1"));
        assert!(tokio::time::timeout(Duration::from_millis(1), waits).await.is_err(), "all turns are taken");
        assert!(strangers.turn(address("192.0.2.2")).await.is_none(), "others do not wait");
        turns.pop();
        assert!(strangers.turn(address("192.0.2.1")).await.is_some());
    }
}
