//! A server of its own process: the testbed, or any binary with the same command line.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use crate::database::Database;
use crate::stepped_clock::SteppedClock;

/// A running server process; it is killed when the test is over.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    endpoint: String,
    metrics: Option<String>,
    log: Arc<Mutex<String>>,
}

impl ServerProcess {
    /// Starts `serve` on a free port, with these settings (`LOG`, `LIMIT_TENANT`, …).
    ///
    /// # Panics
    /// When it has not said within ten seconds where it listens.
    pub async fn start(program: &Path, database: &Database, data: &Path, settings: &[(&str, &str)]) -> Self {
        Self::start_with(program, database, data, &[], settings).await
    }

    /// The same with more arguments.
    ///
    /// # Panics
    /// When it has not said within ten seconds where it listens.
    pub async fn start_with(
        program: &Path,
        database: &Database,
        data: &Path,
        arguments: &[&str],
        settings: &[(&str, &str)],
    ) -> Self {
        Self::run(Command::new(program), database, data, arguments, settings).await
    }

    /// The same with a clock of the wall that can be set.
    ///
    /// # Panics
    /// When it has not said within ten seconds where it listens.
    pub async fn start_on(
        clock: &SteppedClock,
        program: &Path,
        database: &Database,
        data: &Path,
        settings: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(program);
        clock.give_to(&mut command);
        Self::run(command, database, data, &[], settings).await
    }

    async fn run(
        mut command: Command,
        database: &Database,
        data: &Path,
        arguments: &[&str],
        settings: &[(&str, &str)],
    ) -> Self {
        command.arg("--data").arg(data).args(["--database-url", &database.url(), "serve", "--bind", "127.0.0.1:0"]);
        command.args(arguments);
        // Where `.env` is looked for.
        command.current_dir(data).env("SLUICEGATE_LOG_FORMAT", "json");
        for (name, value) in settings {
            command.env(format!("SLUICEGATE_{name}"), value);
        }
        let mut child = command.stderr(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a log")).lines();
        let log = Arc::new(Mutex::new(String::new()));
        let serving = async {
            while let Ok(Some(line)) = lines.next_line().await {
                append(&log, &line).await;
                let line = serde_json::from_str::<Value>(&line).unwrap_or_default();
                let field = |name| line["fields"][name].as_str().map(str::to_owned);
                if let Some(endpoint) = field("endpoint") {
                    return (endpoint, field("metrics"));
                }
            }
            panic!("the server ended: {}", log.lock().await);
        };
        let serving = tokio::time::timeout(Duration::from_secs(10), serving).await;
        let (endpoint, metrics) = serving.expect("it says where it listens");
        let rest = Arc::clone(&log);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                append(&rest, &line).await;
            }
        });
        Self { child, endpoint, metrics, log }
    }

    /// Where MCP is served.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// What the server shows at a path that is not MCP's, with its status.
    pub async fn get(&self, path: &str) -> (u16, String) {
        crate::server::get(&self.endpoint.replace("/mcp", path)).await
    }

    /// The address of the metrics, if it is one of their own.
    #[must_use]
    pub fn metrics(&self) -> Option<&str> {
        self.metrics.as_deref()
    }

    /// The id of the process.
    ///
    /// # Panics
    /// When it has ended.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Sends the process a signal, such as `HUP`.
    ///
    /// # Panics
    /// When it has ended.
    pub async fn signal(&self, name: &str) {
        signal(self.id(), name).await;
    }

    /// Everything that was logged so far.
    pub async fn log(&self) -> String {
        self.log.lock().await.clone()
    }

    /// Tells the process to end, as a supervisor does, and waits for it.
    ///
    /// # Panics
    /// When it does not end within ten seconds, or not well.
    pub async fn terminate(self) {
        self.signal("TERM").await;
        self.ended().await;
    }

    /// Waits for the end of a process that was told to end.
    ///
    /// # Panics
    /// When it does not end within ten seconds, or not well.
    pub async fn ended(mut self) {
        let ended = tokio::time::timeout(Duration::from_secs(10), self.child.wait()).await.expect("it ends");
        assert!(ended.expect("it is waited for").success());
    }
}

async fn append(log: &Mutex<String>, line: &str) {
    let mut log = log.lock().await;
    log.push_str(line);
    log.push('\n');
}

/// Sends a process a signal, such as `STOP`.
///
/// # Panics
/// When it has ended.
pub async fn signal(pid: u32, name: &str) {
    let told = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().await.expect("kill runs");
    assert!(told.success());
}

/// A port of loopback that nobody listens on.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// The memory that a process has in use, in bytes.
///
/// # Panics
/// When it has ended.
#[must_use]
pub fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it says so");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}
