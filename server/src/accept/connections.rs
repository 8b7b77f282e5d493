//! The connections that are open: who is busy, who has been silent for how long, and who has to go.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Version;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// All connections of a server.
#[derive(Clone)]
pub(crate) struct Connections {
    shared: Arc<Shared>,
    most: usize,
}

#[derive(Default)]
struct Shared {
    open: Mutex<HashMap<u64, Arc<Activity>>>,
    next: AtomicUsize,
    changed: Notify,
    /// Whether the server is about to end: what comes now is told so and does not keep it.
    ending: AtomicBool,
}

/// One connection, as long as it is open.
pub(crate) struct Connection {
    id: u64,
    activity: Arc<Activity>,
    shared: Arc<Shared>,
    superfluous: bool,
}

/// What a connection does.
struct Activity {
    state: Mutex<State>,
    close: CancellationToken,
}

struct State {
    /// Requests in work, their response bodies included.
    busy: usize,
    /// Those of them that came before the end was near.
    in_time: usize,
    /// What comes next, if nothing is in work.
    next: Next,
    /// Since when nothing has been in work, or since when the next head has been on its way.
    since: Instant,
}

/// What a connection is about to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Its first request, or the rest of a head that has begun: that takes little time.
    Head,
    /// Whatever it wants, whenever it wants.
    Anything,
    /// The same, and no head can be told from other frames (HTTP/2).
    Frames,
}

impl Connections {
    pub(crate) fn new(most: usize) -> Self {
        Self { shared: Arc::default(), most }
    }

    /// Adds a connection. Above the cap the one that has been silent for the longest is told to close; if all are busy,
    /// the new one is superfluous.
    pub(crate) fn add(&self) -> Arc<Connection> {
        let mut open = self.shared.open.lock();
        let superfluous = open.len() >= self.most && !close_longest_silent(&open);
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed) as u64;
        let state = State { busy: 0, in_time: 0, next: Next::Head, since: Instant::now() };
        let activity = Arc::new(Activity { state: Mutex::new(state), close: CancellationToken::new() });
        open.insert(id, Arc::clone(&activity));
        Arc::new(Connection { id, activity, shared: Arc::clone(&self.shared), superfluous })
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.shared.open.lock().len()
    }

    /// Tells every connection to close when it is not busy.
    pub(crate) fn close_all(&self) {
        self.shared.open.lock().values().for_each(|activity| activity.close.cancel());
    }

    /// Waits until no connection is open.
    pub(crate) async fn until_empty(&self) {
        loop {
            let changed = self.shared.changed.notified();
            if self.open() == 0 {
                return;
            }
            changed.await;
        }
    }

    /// Waits until the requests that are in work now have ended, and then for `grace`, in which whoever comes is still
    /// answered; not at all when none is in work. Those who go on asking meanwhile do not prolong it.
    pub(crate) async fn until_done(&self, grace: Duration) {
        self.shared.ending.store(true, Ordering::SeqCst);
        if self.in_time() == 0 {
            return;
        }
        while self.in_time() > 0 {
            tokio::time::sleep(grace / 10).await;
        }
        tokio::time::sleep(grace).await;
    }

    fn in_time(&self) -> usize {
        self.shared.open.lock().values().map(|activity| activity.state.lock().in_time).sum()
    }
}

/// Whether there was a silent one to tell.
fn close_longest_silent(open: &HashMap<u64, Arc<Activity>>) -> bool {
    let silent = open.values().filter(|activity| !activity.close.is_cancelled());
    let silent = silent.filter_map(|activity| {
        let state = activity.state.lock();
        (state.busy == 0).then_some((state.since, activity))
    });
    match silent.min_by_key(|(since, _)| *since) {
        Some((_, activity)) => {
            activity.close.cancel();
            true
        }
        None => false,
    }
}

impl Connection {
    /// The peer has sent something. Between requests of HTTP/1 that is the beginning of a head.
    pub(crate) fn heard(&self) {
        let mut state = self.activity.state.lock();
        if state.busy == 0 && state.next == Next::Anything {
            state.next = Next::Head;
            state.since = Instant::now();
        }
    }

    /// A request begins: its head is there.
    pub(crate) fn begin(&self, version: Version) -> Busy {
        let in_time = !self.shared.ending.load(Ordering::SeqCst);
        let mut state = self.activity.state.lock();
        state.busy += 1;
        state.in_time += usize::from(in_time);
        state.next = if version == Version::HTTP_2 { Next::Frames } else { Next::Anything };
        drop(state);
        Busy { activity: Arc::clone(&self.activity), in_time }
    }

    pub(crate) fn is_superfluous(&self) -> bool {
        self.superfluous
    }

    pub(crate) async fn told_to_close(&self) {
        self.activity.close.cancelled().await;
    }

    /// Waits until nothing has been in work for too long: `head` as long as a head is awaited, `idle` otherwise.
    ///
    /// Looks again only when that could be so at the earliest: a connection does not wake this for its requests, and so a
    /// head that has begun meanwhile is found in time.
    pub(crate) async fn until_idle(&self, head: Duration, idle: Duration) {
        loop {
            let now = Instant::now();
            let end = {
                let state = self.activity.state.lock();
                let patience = if state.next == Next::Head { head } else { idle };
                if state.busy == 0 { state.since + patience } else { now + patience }
            };
            if end <= now {
                return;
            }
            tokio::time::sleep_until(end.min(now + head)).await;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.open.lock().remove(&self.id);
        self.shared.changed.notify_waiters();
    }
}

/// A request in work.
pub(crate) struct Busy {
    activity: Arc<Activity>,
    in_time: bool,
}

impl Busy {
    /// Goes on until the response body has ended.
    pub(crate) fn until_end_of<B>(self, body: B) -> BusyBody<B> {
        BusyBody { body, busy: Some(self) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.activity.state.lock();
        state.busy -= 1;
        state.in_time -= usize::from(self.in_time);
        state.since = Instant::now();
    }
}

/// A response body that keeps its connection busy.
pub(crate) struct BusyBody<B> {
    body: B,
    busy: Option<Busy>,
}

impl<B: Body + Unpin> Body for BusyBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None)) {
            self.busy = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_never_asks_is_idle_after_the_first_time() {
        let connection = Connections::new(10).add();
        let start = Instant::now();
        connection.until_idle(Duration::from_secs(10), Duration::from_secs(75)).await;
        assert_eq!(start.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_connection_is_never_idle_and_a_quiet_one_is_later() {
        let connection = Connections::new(10).add();
        let busy = connection.begin(Version::HTTP_11);
        let idle = connection.until_idle(Duration::from_secs(1), Duration::from_secs(75));
        assert!(tokio::time::timeout(Duration::from_hours(1), idle).await.is_err());
        drop(busy);
        let start = Instant::now();
        connection.until_idle(Duration::from_secs(1), Duration::from_secs(75)).await;
        assert_eq!(start.elapsed().as_secs(), 75);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_has_begun_has_its_own_time_also_on_a_connection_that_was_silent() {
        let connection = Connections::new(10).add();
        drop(connection.begin(Version::HTTP_11));
        let start = Instant::now();
        let speak = async {
            tokio::time::sleep(Duration::from_secs(33)).await;
            connection.heard();
            tokio::time::sleep(Duration::from_secs(5)).await;
            // More of the same head.
            connection.heard();
        };
        let idle = connection.until_idle(Duration::from_secs(10), Duration::from_secs(75));
        tokio::join!(idle, speak);
        assert_eq!(start.elapsed().as_secs(), 43);
    }

    #[tokio::test(start_paused = true)]
    async fn frames_of_http2_begin_no_head() {
        let connection = Connections::new(10).add();
        drop(connection.begin(Version::HTTP_2));
        let start = Instant::now();
        connection.heard();
        connection.until_idle(Duration::from_secs(10), Duration::from_secs(75)).await;
        assert_eq!(start.elapsed().as_secs(), 75);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_head_has_its_time_from_the_connection_on() {
        let connection = Connections::new(10).add();
        let start = Instant::now();
        tokio::time::advance(Duration::from_secs(6)).await;
        connection.heard();
        connection.until_idle(Duration::from_secs(10), Duration::from_secs(75)).await;
        assert_eq!(start.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn above_the_cap_the_longest_silent_goes_and_the_new_one_stays() {
        let connections = Connections::new(2);
        let oldest = connections.add();
        tokio::time::advance(Duration::from_secs(1)).await;
        let second = connections.add();
        let third = connections.add();
        assert!(oldest.activity.close.is_cancelled() && !second.activity.close.is_cancelled());
        assert!(!third.is_superfluous());
    }

    #[tokio::test(start_paused = true)]
    async fn where_all_are_busy_a_new_connection_is_superfluous() {
        let connections = Connections::new(1);
        let first = connections.add();
        let _busy = first.begin(Version::HTTP_11);
        assert!(connections.add().is_superfluous());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_goes_on_asking_does_not_keep_a_server_that_ends() {
        let connections = Connections::new(10);
        let (running, hammering) = (connections.add(), connections.add());
        let call = running.begin(Version::HTTP_11);
        let grace = Duration::from_millis(250);
        let done = tokio::spawn({
            let connections = connections.clone();
            async move { connections.until_done(grace).await }
        });
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(!done.is_finished(), "a call is in work");
        drop(call);
        let ended = Instant::now();
        while !done.is_finished() {
            let refused = hammering.begin(Version::HTTP_11);
            tokio::time::sleep(Duration::from_millis(5)).await;
            drop(refused);
            assert!(ended.elapsed() < Duration::from_secs(1), "those who are refused keep it");
        }
        assert!(ended.elapsed() >= grace, "whoever comes late is still answered");
    }

    #[tokio::test(start_paused = true)]
    async fn connections_count_until_they_are_dropped() {
        let connections = Connections::new(10);
        let connection = connections.add();
        assert_eq!(connections.open(), 1);
        drop(connection);
        connections.until_empty().await;
    }
}
