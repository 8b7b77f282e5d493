//! Redis servers of tests: one that is there, whose keys tests tell apart by a prefix, and private ones to do harm to.

use std::process::Stdio;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands as _, Client};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::process::{free_port, signal};
use crate::stepped_clock::SteppedClock;

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

/// A Redis server of one test, which may be stopped, frozen and started again; it is killed when the test is over.
#[derive(Debug)]
pub struct PrivateRedis {
    port: u16,
    folder: TempDir,
    options: &'static [&'static str],
    clock: Option<SteppedClock>,
    child: Option<Child>,
}

impl PrivateRedis {
    /// Starts a server on a free port, which keeps nothing on disk.
    pub async fn start() -> Self {
        Self::start_with(free_port(), &[], None).await
    }

    /// The same with a clock that can be set.
    pub async fn start_on(clock: &SteppedClock) -> Self {
        Self::start_with(free_port(), &[], Some(clock.clone())).await
    }

    async fn start_with(port: u16, options: &'static [&'static str], clock: Option<SteppedClock>) -> Self {
        let mut server = Self { port, folder: tempfile::tempdir().expect("a folder"), options, clock, child: None };
        server.start_again().await;
        server
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Starts it again where it was, without what it knew.
    ///
    /// # Panics
    /// When it does not answer within ten seconds.
    pub async fn start_again(&mut self) {
        let port = self.port.to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]).args(self.options);
        command.arg("--dir").arg(self.folder.path()).stdout(Stdio::null()).kill_on_drop(true);
        if let Some(clock) = &self.clock {
            clock.give_to(&mut command);
        }
        self.child = Some(command.spawn().expect("redis-server is installed"));
        let answers = async {
            while self.try_connect().await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), answers).await.expect("the private Redis answers");
    }

    async fn try_connect(&self) -> redis::RedisResult<MultiplexedConnection> {
        Client::open(self.url())?.get_multiplexed_async_connection().await
    }

    /// Kills it; what it knew is gone.
    ///
    /// # Panics
    /// When it does not run.
    pub async fn stop(&mut self) {
        self.child.take().expect("it runs").kill().await.expect("it ends");
    }

    /// Sends it a signal, such as `STOP`.
    ///
    /// # Panics
    /// When it does not run.
    pub async fn signal(&self, name: &str) {
        signal(self.child.as_ref().and_then(Child::id).expect("it runs"), name).await;
    }

    /// What it says of the calls of a command: how many there were, and the microseconds of all.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn calls_of(&self, command: &str) -> (u64, u64) {
        let mut connection = self.try_connect().await.expect("it answers");
        let info: String = redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await.expect("figures");
        let start = format!("cmdstat_{command}:");
        let Some(line) = info.lines().find_map(|line| line.strip_prefix(&start)) else { return (0, 0) };
        let figure = |name: &str| {
            let part = line.split(',').find_map(|part| part.strip_prefix(name));
            part.and_then(|number| number.parse().ok()).expect("a figure")
        };
        (figure("calls="), figure("usec="))
    }

    /// Sends a command that answers nothing worth reading.
    ///
    /// # Panics
    /// When it fails.
    pub async fn tell(&self, command: &[&str]) {
        let mut connection = self.try_connect().await.expect("it answers");
        redis::cmd(command[0]).arg(&command[1..]).exec_async(&mut connection).await.expect("it is done");
    }
}

/// Three nodes of a Redis Cluster on loopback; they are killed when the test is over.
#[derive(Debug)]
pub struct PrivateCluster(Vec<PrivateRedis>);

impl PrivateCluster {
    /// Starts it.
    ///
    /// # Panics
    /// When the nodes do not find each other.
    pub async fn start() -> Self {
        let mut nodes = Vec::new();
        while nodes.len() < 3 {
            // Nodes talk to each other on the port 10 000 further up.
            let port = free_port();
            if port < 55_000 {
                nodes.push(PrivateRedis::start_with(port, &["--cluster-enabled", "yes"], None).await);
            }
        }
        let addresses = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port));
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create"]).args(addresses).arg("--cluster-yes").stdout(Stdio::null());
        assert!(create.status().await.expect("redis-cli is installed").success(), "the cluster is not made");
        let cluster = Self(nodes);
        for node in &cluster.0 {
            let mut connection = node.try_connect().await.expect("it answers");
            let is_up = async {
                loop {
                    let info: redis::RedisResult<String> =
                        redis::cmd("CLUSTER").arg("INFO").query_async(&mut connection).await;
                    if info.is_ok_and(|info| info.contains("cluster_state:ok")) {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), is_up).await.expect("the cluster is up");
        }
        cluster
    }

    /// Where its nodes listen, with commas between them.
    #[must_use]
    pub fn urls(&self) -> String {
        self.0.iter().map(PrivateRedis::url).collect::<Vec<_>>().join(",")
    }
}
