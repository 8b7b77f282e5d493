//! Postgres servers of one test, to do harm to. What tests usually work on is in [`database`](crate::database).

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Error};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::process::{free_port, signal};

/// What a server is started with. Its data are thrown away, so nothing has to reach the disk.
const OPTIONS: [&str; 5] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
];

/// The processes of the server that wait for notices.
const LISTENERS: &str = "SELECT pid FROM pg_stat_activity WHERE query ILIKE 'LISTEN %' AND state = 'idle'";

/// A Postgres server of one test, which may be stopped and started again; it is killed when the test is over.
#[derive(Debug)]
pub struct PrivatePostgres {
    port: u16,
    folder: TempDir,
    programs: PathBuf,
    child: Option<Child>,
}

impl PrivatePostgres {
    /// Starts a server on a free port, with an empty database.
    ///
    /// # Panics
    /// When Postgres is not installed.
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // The user `postgres` has to get there.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("the folder is ours");
        let mut server = Self { port: free_port(), folder, programs: programs(), child: None };
        fs::create_dir(server.data()).expect("a folder");
        if let Some((user, group)) = other_user() {
            chown(server.data(), Some(user), Some(group)).expect("we are root");
        }
        let mut create = server.command("initdb");
        create.args(["--username", "postgres", "--auth", "trust", "--no-sync"]).stdout(Stdio::null());
        assert!(create.status().await.expect("initdb runs").success(), "the data are not made");
        server.start_again().await;
        server
    }

    /// The address that settings take.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Starts it again where it was, with what it knew.
    ///
    /// # Panics
    /// When it does not answer within twenty seconds.
    pub async fn start_again(&mut self) {
        let mut command = self.command("postgres");
        command.args(["-p", &self.port.to_string()]).args(OPTIONS.iter().flat_map(|option| ["-c", option]));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("it starts"));
        let answers = async {
            while self.connect().await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), answers).await.expect("the private Postgres answers");
    }

    /// Ends it as an operator does: connections are cut, and what is committed is kept.
    ///
    /// # Panics
    /// When it does not run, or does not end.
    pub async fn stop(&mut self) {
        let mut child = self.child.take().expect("it runs");
        signal(child.id().expect("it runs"), "INT").await;
        let ended = tokio::time::timeout(Duration::from_secs(20), child.wait()).await;
        ended.expect("it ends within twenty seconds").expect("it is waited for");
    }

    /// The processes of the server that wait for notices on behalf of its clients.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn listeners(&self) -> Vec<u32> {
        let mut connection = self.connect().await.expect("it answers");
        let found: Vec<i32> = sqlx::query_scalar(LISTENERS).fetch_all(&mut connection).await.expect("a list");
        found.into_iter().filter_map(|pid| u32::try_from(pid).ok()).collect()
    }

    async fn connect(&self) -> Result<PgConnection, Error> {
        PgConnection::connect(&self.url()).await
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// One of the server's programs for its data. None of them runs as root.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.arg("-D").arg(self.data()).current_dir(self.folder.path()).kill_on_drop(true);
        if let Some((user, group)) = other_user() {
            command.uid(user).gid(group);
        }
        command
    }
}

impl Drop for PrivatePostgres {
    /// Killed outright, its processes would leave shared memory behind.
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        let Some(pid) = child.id() else { return };
        let _ = std::process::Command::new("kill").args(["-QUIT", &pid.to_string()]).status();
        for _ in 0..200 {
            if child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Where the newest version's programs are: Debian's folders, or else the path.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let version = |folder: &Path| folder.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|folder| folder.path()).max_by_key(|folder| version(folder));
    newest.map(|folder| folder.join("bin")).unwrap_or_default()
}

/// For root: the user and the group that Postgres runs as.
fn other_user() -> Option<(u32, u32)> {
    if fs::metadata("/proc/self").expect("this process").uid() != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("the users");
    let line = users.lines().find_map(|line| line.strip_prefix("postgres:")).expect("a user postgres");
    let mut fields = line.split(':').skip(1).map(|field| field.parse().expect("a number"));
    Some((fields.next()?, fields.next()?))
}
