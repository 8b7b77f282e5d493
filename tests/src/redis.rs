//! Redis servers of tests: one that is there, whose keys tests tell apart by a prefix, and private ones to do harm to.

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands as _, Client};

/// The variable with the address of a Redis server whose keys may be written.
const SERVER: &str = "SLUICEGATE_TEST_REDIS";

/// The Redis server of the tests.
#[must_use]
pub fn url() -> String {
    std::env::var(SERVER).unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned())
}

/// A connection to a server.
///
/// # Panics
/// When it does not answer.
pub async fn connect(url: &str) -> MultiplexedConnection {
    let client = Client::open(url).expect("an address");
    let connection = client.get_multiplexed_async_connection().await;
    connection.unwrap_or_else(|error| panic!("no Redis answers at {url} ({SERVER} names another one): {error}"))
}

/// Deletes all keys that begin with `prefix`.
///
/// # Panics
/// When the server does not answer.
pub async fn forget(url: &str, prefix: &str) {
    let mut connection = connect(url).await;
    let mut found = connection.scan_match::<_, Vec<u8>>(format!("{prefix}:*")).await.expect("keys");
    let mut keys = Vec::new();
    while let Some(key) = found.next_item().await {
        keys.push(key.expect("a key"));
    }
    drop(found);
    if !keys.is_empty() {
        let _: usize = connection.del(keys).await.expect("they are deleted");
    }
}
