//! Slots of caps that all instances share: a lease for each call, which its instance renews for as long as the call runs.
//!
//! No call waits for a lease to be given back. The next call of the same cap takes along what has ended, so that a slot is
//! free here and in Redis at the same time; the rest is given back by a worker. What a killed process held is over once
//! nobody renews it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::shared::Shared;

/// How long a lease lasts that nobody renews.
pub(super) const LASTS: Duration = Duration::from_secs(10);
const RENEW_EVERY: Duration = Duration::from_secs(3);
const RENEW: &str = include_str!("renew.lua");

/// A lease as Redis knows it: the instance, and a number of the instance's own.
pub(super) type LeaseId = [u8; 16];

/// The sorted sets in which a lease counts.
type Keys = Arc<[Vec<u8>]>;

/// The leases that this process holds.
pub(super) struct Leases {
    instance: u64,
    last: AtomicU64,
    book: Arc<Book>,
}

#[derive(Default)]
struct Book {
    held: Mutex<HashMap<LeaseId, Keys>>,
    /// What Redis has to be told, by key.
    ended: Mutex<HashMap<Vec<u8>, Vec<LeaseId>>>,
    /// Wakes the worker.
    news: Notify,
}

/// The slots that a call holds among all instances; given back when it is dropped.
pub(crate) struct Lease {
    id: LeaseId,
    keys: Keys,
    book: Arc<Book>,
    /// Whether Redis may know it.
    is_known: bool,
}

impl Leases {
    pub(super) fn new(instance: u64) -> Self {
        Self { instance, last: AtomicU64::new(0), book: Arc::default() }
    }

    /// The number of this instance.
    pub(super) fn instance(&self) -> u64 {
        self.instance
    }

    /// A lease that counts in the caps of these keys once Redis has said so; `None` where there are none.
    pub(super) fn open(&self, keys: &Keys) -> Option<Lease> {
        if keys.is_empty() {
            return None;
        }
        let mut id = LeaseId::default();
        id[..8].copy_from_slice(&self.instance.to_be_bytes());
        id[8..].copy_from_slice(&self.last.fetch_add(1, Relaxed).to_be_bytes());
        Some(Lease { id, keys: Arc::clone(keys), book: Arc::clone(&self.book), is_known: true })
    }

    /// Takes the leases out of the book that have ended in these caps, for whoever tells Redis.
    pub(super) fn take_ended(&self, keys: &Keys) -> Vec<LeaseId> {
        if keys.is_empty() {
            return Vec::new();
        }
        let mut ended = self.book.ended.lock();
        if ended.is_empty() {
            return Vec::new();
        }
        keys.iter().filter_map(|key| ended.remove(key)).flatten().collect()
    }
}

impl Lease {
    pub(super) fn id(&self) -> &[u8] {
        &self.id
    }

    /// Renews it from now on, as Redis has given it.
    pub(super) fn was_given(&self) {
        self.book.held.lock().insert(self.id, Arc::clone(&self.keys));
    }

    /// Ends a lease that Redis has not given.
    pub(super) fn was_refused(mut self) {
        self.is_known = false;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_known {
            return;
        }
        self.book.held.lock().remove(&self.id);
        let mut ended = self.book.ended.lock();
        for key in &*self.keys {
            match ended.get_mut(key) {
                Some(ids) => ids.push(self.id),
                None => _ = ended.insert(key.clone(), vec![self.id]),
            }
        }
        drop(ended);
        self.book.news.notify_one();
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("caps", &self.keys.len()).finish_non_exhaustive()
    }
}

/// Gives leases back and renews those that are held, until `shutdown` is cancelled; then gives back the rest.
pub(super) async fn work(shared: Arc<Shared>, shutdown: CancellationToken) {
    let mut renewal = tokio::time::interval(RENEW_EVERY);
    loop {
        tokio::select! {
            () = shared.leases.book.news.notified() => shared.give_back().await,
            _ = renewal.tick() => shared.renew_leases().await,
            () = shutdown.cancelled() => break,
        }
    }
    shared.give_back().await;
}

impl Shared {
    /// While Redis is away nothing is told: leases come to their end by themselves.
    async fn give_back(&self) {
        let ended = std::mem::take(&mut *self.leases.book.ended.lock());
        let Some(link) = self.link() else { return };
        let told = ended.iter().map(|(key, ids)| {
            let mut command = redis::cmd("ZREM");
            command.arg(key);
            ids.iter().for_each(|id| _ = command.arg(&id[..]));
            let link = &link;
            async move { link.send(&command).await }
        });
        self.look_at(&link, join_all(told).await);
    }

    async fn renew_leases(&self) {
        let Some(link) = self.link() else { return };
        let mut held: HashMap<Vec<u8>, Vec<LeaseId>> = HashMap::new();
        for (id, keys) in &*self.leases.book.held.lock() {
            for key in &**keys {
                held.entry(key.clone()).or_default().push(*id);
            }
        }
        let timing = self.timing();
        let told = held.iter().map(|(key, ids)| {
            let mut command = redis::cmd("EVAL");
            command.arg(RENEW).arg(1).arg(key).arg(timing.lease);
            timing.tell(&mut command);
            ids.iter().for_each(|id| _ = command.arg(&id[..]));
            let link = &link;
            async move { link.send(&command).await }
        });
        self.look_at(&link, join_all(told).await);
    }
}
