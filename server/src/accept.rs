//! The accept loop: connections, their timers, and the drain at the end.
//!
//! `axum::serve` sets no timers, so a client that sends half a header line would hold a connection for ever.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// Streams that one HTTP/2 connection may have open at once.
const MAX_STREAMS: u32 = 128;

/// How long to wait after a failed `accept`, such as when file descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves `router` on `listener` until `shutdown` is cancelled; then lets open requests end for at most `drain`.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    header_timeout: Duration,
    drain: Duration,
    shutdown: CancellationToken,
) {
    let mut connection = auto::Builder::new(TokioExecutor::new());
    connection.http1().timer(TokioTimer::new()).header_read_timeout(header_timeout);
    connection.http2().timer(TokioTimer::new()).max_concurrent_streams(MAX_STREAMS);
    let open = GracefulShutdown::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => serve_connection(&connection, &open, &router, stream, peer),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let left = open.count();
    if tokio::time::timeout(drain, open.shutdown()).await.is_err() {
        tracing::warn!(connections = left, ?drain, "connections were still busy at the end of the drain and are cut");
    }
}

fn serve_connection(
    builder: &auto::Builder<TokioExecutor>,
    open: &GracefulShutdown,
    router: &Router,
    stream: TcpStream,
    peer: SocketAddr,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "the connection is gone already");
    }
    let router = router.clone();
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        tower::ServiceExt::oneshot(router.clone(), request)
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    let connection = open.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, %peer, "the connection ended with an error");
        }
    });
}
