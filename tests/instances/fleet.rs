//! Several server processes on one database and one Redis.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use sluicegate::control::{Control, KeyScopes, Options};
use sluicegate_tests::postgres::PrivatePostgres;
use sluicegate_tests::recorder::RECORD_TO;
use sluicegate_tests::redis::PrivateRedis;
use sluicegate_tests::{Client, Database, Exposition, ServerProcess, SteppedClock, server};
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

pub(crate) struct Fleet {
    pub(crate) servers: Vec<Option<ServerProcess>>,
    pub(crate) redis: PrivateRedis,
    pub(crate) control: Control,
    folder: TempDir,
    /// Held until everything that uses it has ended.
    _database: Database,
    /// If it is the fleet's own.
    postgres: Option<PrivatePostgres>,
    _alone: MutexGuard<'static, ()>,
}

/// What a fleet has for itself, beside its Redis.
#[derive(Default)]
pub(crate) struct Own<'a> {
    /// Whether it has a Postgres, which may be stopped.
    pub(crate) postgres: bool,
    /// A clock of the wall for Redis.
    pub(crate) redis_clock: Option<&'a SteppedClock>,
    /// One for the first server.
    pub(crate) server_clock: Option<&'a SteppedClock>,
}

/// Held by the one fleet there is at a time: what several do to a small machine would look like a fault of theirs.
static ALONE: Mutex<()> = Mutex::const_new(());

impl Fleet {
    /// Starts so many servers with these settings; `None` where there is no Postgres to start them on.
    pub(crate) async fn start(servers: usize, settings: &[(&str, &str)]) -> Option<Self> {
        Self::start_with(Own::default(), servers, settings).await
    }

    /// The same with more that is its own.
    pub(crate) async fn start_with(own: Own<'_>, servers: usize, settings: &[(&str, &str)]) -> Option<Self> {
        let alone = ALONE.lock().await;
        let shared = Database::postgres().await?;
        let postgres = if own.postgres { Some(PrivatePostgres::start().await) } else { None };
        let database = postgres.as_ref().map_or(shared, |postgres| Database::at(&postgres.url()));
        let redis = match own.redis_clock {
            Some(clock) => PrivateRedis::start_on(clock).await,
            None => PrivateRedis::start().await,
        };
        let folder = tempfile::tempdir().expect("a folder");
        let (url, record_to) = (redis.url(), folder.path().join("recorded").display().to_string());
        let mut all = vec![
            ("ENGINE", "redis"),
            ("REDIS_URL", &url),
            (name_of(RECORD_TO), &record_to),
            ("LOG", "warn,sluicegate=info"),
        ];
        all.extend(settings);
        let mut started = Vec::new();
        for number in 0..servers {
            let data = folder.path().join(number.to_string());
            std::fs::create_dir(&data).expect("a folder");
            let program = Path::new(env!("CARGO_BIN_EXE_testbed"));
            started.push(Some(match own.server_clock {
                Some(clock) if number == 0 => ServerProcess::start_on(clock, program, &database, &data, &all).await,
                _ => ServerProcess::start(program, &database, &data, &all).await,
            }));
        }
        let control = Control::connect(&database.url(), Options::default()).await.expect("the database is open");
        let fleet = Self { servers: started, redis, control, folder, _database: database, postgres, _alone: alone };
        fleet.wait_for_each_other(servers).await;
        Some(fleet)
    }

    /// Waits until every server knows of so many: they say so every five seconds.
    async fn wait_for_each_other(&self, servers: usize) {
        let actor = server::actor();
        while self.control.instances().list(&actor).await.expect("the instances").len() < servers {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_millis(5_500)).await;
    }

    /// The servers that run.
    pub(crate) fn running(&self) -> impl Iterator<Item = &ServerProcess> {
        self.servers.iter().flatten()
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.running().map(ServerProcess::endpoint).collect()
    }

    /// The Postgres that is the fleet's own.
    pub(crate) fn postgres(&mut self) -> &mut PrivatePostgres {
        self.postgres.as_mut().expect("it has one")
    }

    /// The file that the tool `record` writes to.
    pub(crate) fn recorded(&self) -> PathBuf {
        self.folder.path().join("recorded")
    }

    /// A new key of an agent.
    pub(crate) async fn key(&self, tenant: &str, agent: &str) -> String {
        server::mint(&self.control, tenant, agent, KeyScopes::all()).await.expect("a key").0
    }

    /// A client of one of the servers, with a new key.
    pub(crate) async fn client(&self, at: usize, tenant: &str, agent: &str) -> Client {
        let key = self.key(tenant, agent).await;
        Client::new(self.servers[at].as_ref().expect("it runs").endpoint(), key)
    }

    /// What a server shows at `/metrics`.
    pub(crate) async fn metrics(server: &ServerProcess) -> Exposition {
        let (status, text) = server.get("/metrics").await;
        assert_eq!(status, 200, "{text}");
        Exposition::read(&text).expect("metrics")
    }

    /// What a server says at `/readyz`.
    pub(crate) async fn readiness(server: &ServerProcess) -> Value {
        let (status, text) = server.get("/readyz").await;
        assert_eq!(status, 200, "calls are served: {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Waits until every server says at `/readyz` that it is so (`ready`, `degraded`); says how long that took.
    pub(crate) async fn until_status(&self, status: &str) -> Duration {
        let start = Instant::now();
        for server in self.running() {
            while Self::readiness(server).await["status"] != status {
                assert!(start.elapsed() < Duration::from_secs(30), "a server is not {status}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        start.elapsed()
    }

    /// Whether every server says that it is degraded, or that it is not.
    async fn are_degraded(&self, degraded: bool) -> bool {
        let mut all = true;
        for server in self.running() {
            all &= Self::metrics(server).await.sum("sluicegate_engine_degraded", &[]) == f64::from(u8::from(degraded));
        }
        all
    }

    /// Waits until every server is degraded, or none is; says how long that took.
    pub(crate) async fn until_degraded(&self, degraded: bool) -> Duration {
        let start = Instant::now();
        while !self.are_degraded(degraded).await {
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "the servers are not as they should be: degraded {degraded}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        start.elapsed()
    }
}

/// The name of a variable as `ServerProcess` takes it.
fn name_of(variable: &'static str) -> &'static str {
    variable.trim_start_matches("SLUICEGATE_")
}
