//! The accept loop: connections, their timers and their number, and the drain at the end.
//!
//! `axum::serve` sets no timers, so a client that sends half a header line, or nothing at all, would hold a connection for
//! ever.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulConnection;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::io::InspectReader;
use tokio_util::sync::CancellationToken;

use crate::gate::authenticate::LastCaller;
use crate::settings::Settings;
use crate::site::Site;

mod connections;

use connections::{Connection, Connections};

/// Streams that one HTTP/2 connection may have open at once.
const MAX_STREAMS: u32 = 128;

/// How long to wait after a failed `accept`, such as when file descriptors have run out.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long whoever comes late is still answered when the last call has ended.
const GRACE: Duration = Duration::from_millis(250);

/// How long a connection that was told to close may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(5);

/// Accepts connections for a site.
pub(crate) struct Acceptor {
    builder: auto::Builder<TokioExecutor>,
    connections: Connections,
    timers: Timers,
    drain: Duration,
}

/// The connection that a request came on.
pub(crate) struct Via {
    pub(crate) peer: SocketAddr,
    /// Whether it is above the cap and all others are busy: its requests are answered that the server is full.
    pub(crate) is_superfluous: bool,
    /// Whom it was let in as before.
    pub(crate) last_caller: LastCaller,
}

/// How long a connection may take.
#[derive(Debug, Clone, Copy)]
struct Timers {
    /// For the head of a request, and until the first.
    head: Duration,
    /// Between requests.
    idle: Duration,
}

impl Acceptor {
    pub(crate) fn new(settings: &Settings) -> Self {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        // Heads have their time from `Connection::until_idle`. hyper's own timer would run between requests as well, where
        // a connection may be silent for longer, and costs each of them a timer and a second look at the socket.
        builder.http2().timer(TokioTimer::new()).max_concurrent_streams(MAX_STREAMS);
        let timers = Timers { head: settings.header_timeout.0, idle: settings.idle_timeout.0 };
        let connections = Connections::new(settings.max_connections);
        Self { builder, connections, timers, drain: settings.drain_timeout.0 }
    }

    /// Serves until `draining` is cancelled, then goes on answering while anybody is busy, for at most the drain's time.
    pub(crate) async fn serve(self, listener: TcpListener, site: Arc<Site>, draining: CancellationToken) {
        tokio::select! {
            () = draining.cancelled() => {}
            () = self.accept(&listener, &site) => {}
        }
        let cut = tokio::time::Instant::now() + self.drain;
        // Whoever comes now is answered that the server is going; a closed port would tell nobody why.
        tokio::select! {
            () = self.connections.until_done(GRACE) => {}
            () = self.accept(&listener, &site) => {}
            () = tokio::time::sleep_until(cut) => {}
        }
        drop(listener);
        self.connections.close_all();
        if tokio::time::timeout_at(cut, self.connections.until_empty()).await.is_err() {
            let left = self.connections.open();
            tracing::warn!(left, drain = ?self.drain, "connections were still busy at the end of the drain and are cut");
        }
    }

    /// Accepts connections, without an end.
    async fn accept(&self, listener: &TcpListener, site: &Arc<Site>) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => self.serve_connection(stream, peer, Arc::clone(site)),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn serve_connection(&self, stream: TcpStream, peer: SocketAddr, site: Arc<Site>) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "the connection is gone already");
        }
        let connection = self.connections.add();
        let (builder, timers) = (self.builder.clone(), self.timers);
        tokio::spawn(async move {
            let (requests, heard) = (Arc::clone(&connection), Arc::clone(&connection));
            let is_superfluous = connection.is_superfluous();
            let via = Arc::new(Via { peer, is_superfluous, last_caller: LastCaller::default() });
            let service = service_fn(move |request: hyper::Request<Incoming>| {
                let busy = requests.begin(request.version());
                let (site, via) = (Arc::clone(&site), Arc::clone(&via));
                async move { Ok::<_, Infallible>(site.answer(request, &via).await.map(|body| busy.until_end_of(body))) }
            });
            let stream = InspectReader::new(stream, move |_: &[u8]| heard.heard());
            let served = builder.serve_connection(TokioIo::new(stream), service);
            let served = std::pin::pin!(served);
            if let Err(error) = drive(served, &connection, timers).await {
                tracing::debug!(%error, %peer, "the connection ended with an error");
            }
        });
    }
}

/// Drives a connection to its end: its own, or when it has been silent for too long, or when it is told to close.
async fn drive<C>(mut served: std::pin::Pin<&mut C>, connection: &Connection, timers: Timers) -> Result<(), C::Error>
where
    C: GracefulConnection,
{
    let ends = async {
        tokio::select! {
            () = connection.until_idle(timers.head, timers.idle) => {}
            () = connection.told_to_close() => {}
        }
    };
    // In a set of its own it is looked at when it was woken, and not whenever the connection is: that is at every request.
    let mut ends = FuturesUnordered::from_iter([ends]);
    tokio::select! {
        biased;
        ended = served.as_mut() => return ended,
        _ = ends.next() => {}
    }
    served.as_mut().graceful_shutdown();
    tokio::select! {
        ended = served.as_mut() => ended,
        // Requests in work may end; a peer that is only silent does not hold us.
        () = connection.until_idle(GOODBYE, GOODBYE) => Ok(()),
    }
}
