//! A server under load, as a process whose CPU time can be read.

use std::error::Error;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// Clock ticks per second in /proc; Linux has had 100 on every platform for decades.
const TICKS_PER_SECOND: u64 = 100;

/// A running server.
pub(crate) struct Contender {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) keys: Vec<String>,
}

impl Contender {
    /// Starts this program again as a server and waits until it has said where it listens, and with which keys.
    pub(crate) async fn start(role: &[&str]) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.args(role).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let mut said = Vec::new();
        loop {
            match lines.next_line().await?.ok_or("the server ended")? {
                line if line.is_empty() => break,
                line => said.push(line),
            }
        }
        let address = said.remove(0).parse()?;
        Ok(Self { child, address, keys: said })
    }

    /// User and system time that the process has used so far.
    pub(crate) fn cpu_time(&self) -> Result<Duration, Box<dyn Error>> {
        let pid = self.child.id().ok_or("the server ended")?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The second field is the command in parentheses and may hold anything.
        let (_, fields) = stat.rsplit_once(')').ok_or("unreadable /proc")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let (user, system): (u64, u64) = (fields[11].parse()?, fields[12].parse()?);
        Ok(Duration::from_millis((user + system) * 1_000 / TICKS_PER_SECOND))
    }

    /// The memory that the process has in use, in bytes.
    pub(crate) fn resident(&self) -> Result<u64, Box<dyn Error>> {
        Ok(sluicegate_tests::process::resident(self.child.id().ok_or("the server ended")?))
    }
}

/// Says on the standard output where a server listens and which keys open it.
pub(crate) fn say(address: SocketAddr, keys: &[String]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{address}")?;
    for key in keys {
        writeln!(out, "{key}")?;
    }
    writeln!(out)
}
