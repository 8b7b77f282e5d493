//! Compares Sluicegate with a bare server of the official SDK and with a bare HTTP handler: the same tool, the same load, in
//! turn, on loopback.
//!
//! `cargo run --release -p sluicegate-tests --bin bench`. The load generator shares the machine with the server, so the
//! server's CPU time per call is the figure that counts; calls per second stand beside it. Every answer's body is checked.
//! Limits are set so that nothing is ever refused, except in the row that measures refusals.
//!
//! `--redis redis://127.0.0.1:6379` adds rows of a server whose limits are shared through that Redis. Other tables:
//!
//! | `bench` | what it shows |
//! |---|---|
//! | `tenants` | the cost of a call when there are 10, 1 000 and 100 000 tenants |
//! | `connections` | the same with 1 to 64 connections |
//! | `sizes` | the same with 1 KB to 1 MB of text each way |
//! | `latency` | how long calls take at 70 % of what each server can do |
//! | `changes` | how long they take while limits are changed |

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use tokio::runtime::Builder;

mod bare_axum;
mod bare_rmcp;
mod compare;
mod gated;
mod growth;
mod latency;
mod load;
mod process;
mod rows;

const USAGE: &str = "usage: bench [tenants | connections | sizes | latency | changes] [--rounds N] [--seconds N] \
                     [--connections N] [--redis URL] [--json]";

/// How a table is made.
struct Options {
    rounds: usize,
    length: Duration,
    connections: usize,
    redis: Option<String>,
    json: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_server = arguments.first().is_some_and(|role| role.starts_with("serve-"));
    // The load comes from one thread, and so from one core at most.
    let mut runtime = if is_server { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    runtime.enable_all().build()?.block_on(run(&arguments))
}

async fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let options = |skip: usize| Options::parse(&arguments[skip..]).ok_or(USAGE);
    match arguments.first().map(String::as_str) {
        // The servers are processes of their own, so that their CPU time can be told from the load's.
        Some("serve-axum") => bare_axum::serve().await,
        Some("serve-rmcp") => bare_rmcp::serve().await,
        Some("serve-gated") => gated::serve(arguments.get(1).map(String::as_str)).await,
        Some("serve-many") => {
            let every = arguments.get(2).map(|ms| ms.parse().map(Duration::from_millis)).transpose()?;
            gated::serve_many(arguments.get(1).ok_or(USAGE)?.parse()?, every).await
        }
        Some("tenants") => growth::tenants(&options(1)?).await,
        Some("connections") => growth::connections(&options(1)?).await,
        Some("sizes") => growth::sizes(&options(1)?).await,
        Some("latency") => latency::latency(&options(1)?).await,
        Some("changes") => latency::changes(&options(1)?).await,
        _ => compare::compare(&options(0)?).await,
    }
}

impl Options {
    fn parse(arguments: &[String]) -> Option<Self> {
        let mut options = Self { rounds: 5, length: Duration::from_secs(3), connections: 16, redis: None, json: false };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--rounds" => options.rounds = arguments.next()?.parse().ok()?,
                "--seconds" => options.length = Duration::from_secs(arguments.next()?.parse().ok()?),
                "--connections" => options.connections = arguments.next()?.parse().ok()?,
                "--redis" => options.redis = Some(arguments.next()?.clone()),
                "--json" => options.json = true,
                _ => return None,
            }
        }
        Some(options)
    }

    /// Says below a table how it was made.
    fn say_how(&self, out: &mut impl Write) -> std::io::Result<()> {
        let (rounds, seconds, connections) = (self.rounds, self.length.as_secs(), self.connections);
        writeln!(
            out,
            "\nMedians of {rounds} interleaved rounds of {seconds} s, {connections} connections where nothing else is said."
        )
    }
}
