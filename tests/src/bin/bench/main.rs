//! Compares Sluicegate with a bare server of the official SDK and with a bare HTTP handler: the same tool, the same load, in
//! turn, on loopback.
//!
//! `cargo run --release -p sluicegate-tests --bin bench`. The load generator shares the machine with the server, so the
//! server's CPU time per call is the figure that counts; calls per second stand beside it. Every answer's body is checked.
//! Limits are set so that nothing is ever refused, except in the row that measures refusals.
//!
//! `--redis redis://127.0.0.1:6379` adds rows of a server whose limits are shared through that Redis.

use std::io::Write as _;
use std::time::Duration;

mod bare_axum;
mod bare_rmcp;
mod gated;
mod load;
mod process;

use process::Contender;
use sluicegate_tests::Era;

const USAGE: &str = "usage: bench [--rounds N] [--seconds N] [--connections N] [--redis URL] [--json]";

/// How the comparison is run.
struct Options {
    rounds: usize,
    seconds: u64,
    connections: usize,
    redis: Option<String>,
    json: bool,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        // The servers are processes of their own, so that their CPU time can be told from the load's.
        Some("serve-axum") => return bare_axum::serve().await,
        Some("serve-rmcp") => return bare_rmcp::serve().await,
        Some("serve-gated") => return gated::serve(None).await,
        Some("serve-shared") => return gated::serve(arguments.get(1).map(String::as_str)).await,
        _ => {}
    }
    let options = Options::parse(&arguments).ok_or(USAGE)?;
    compare(&options).await
}

impl Options {
    fn parse(arguments: &[String]) -> Option<Self> {
        let mut options = Self { rounds: 5, seconds: 3, connections: 16, redis: None, json: false };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--rounds" => options.rounds = arguments.next()?.parse().ok()?,
                "--seconds" => options.seconds = arguments.next()?.parse().ok()?,
                "--connections" => options.connections = arguments.next()?.parse().ok()?,
                "--redis" => options.redis = Some(arguments.next()?.clone()),
                "--json" => options.json = true,
                _ => return None,
            }
        }
        Some(options)
    }
}

/// One row of the table: a server and what it is asked.
struct Row {
    name: String,
    server: usize,
    request: load::Request,
    samples: Vec<load::Sample>,
}

async fn compare(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let axum = Contender::start(&["serve-axum"]).await?;
    let rmcp = Contender::start(&["serve-rmcp"]).await?;
    let gated = Contender::start(&["serve-gated"]).await?;
    let shared = match &options.redis {
        Some(url) => Some(Contender::start(&["serve-shared", url]).await?),
        None => None,
    };
    let (served, refused) = (gated.keys[0].as_str(), gated.keys[1].as_str());
    let mut rows = Vec::new();
    for era in [Era::Legacy, Era::Modern] {
        rows.push(Row::new("bare axum", era, 0, load::Request::echo(&axum, None, era)));
        rows.push(Row::new("bare rmcp", era, 1, load::Request::echo(&rmcp, None, era)));
        rows.push(Row::new("sluicegate", era, 2, load::Request::echo(&gated, Some(served), era)));
        rows.push(Row::new("sluicegate, refusing", era, 2, load::Request::limited(&gated, refused, era)));
        if let Some(shared) = &shared {
            let echo = load::Request::echo(shared, Some(&shared.keys[0]), era);
            rows.push(Row::new("sluicegate, Redis", era, 3, echo));
            let limited = load::Request::limited(shared, &shared.keys[1], era);
            rows.push(Row::new("sluicegate, Redis, refusing", era, 3, limited));
        }
    }
    let servers: Vec<_> = [&axum, &rmcp, &gated].into_iter().chain(&shared).collect();
    for row in &rows {
        load::run(servers[row.server], &row.request, options.connections, Duration::from_secs(1)).await?;
    }
    for round in 1..=options.rounds {
        for row in &mut rows {
            let length = Duration::from_secs(options.seconds);
            row.samples.push(load::run(servers[row.server], &row.request, options.connections, length).await?);
        }
        writeln!(std::io::stderr(), "round {round} of {}", options.rounds)?;
    }
    print(&rows, options)?;
    Ok(())
}

impl Row {
    fn new(name: &str, era: Era, server: usize, request: load::Request) -> Self {
        Self { name: format!("{name}, {}", era.revision()), server, request, samples: Vec::new() }
    }

    fn median(&self, figure: impl Fn(&load::Sample) -> f64) -> f64 {
        let mut figures: Vec<_> = self.samples.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    }

    fn calls_per_second(&self) -> f64 {
        self.median(load::Sample::calls_per_second)
    }

    fn cpu_micros(&self) -> f64 {
        self.median(load::Sample::cpu_micros_per_call)
    }
}

fn print(rows: &[Row], options: &Options) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    // Each era is compared with the bare servers of its own.
    let ratios = |at: usize| {
        let (row, era) = (&rows[at], at - at % (rows.len() / 2));
        let (axum, rmcp) = (&rows[era], &rows[era + 1]);
        [
            row.calls_per_second() / rmcp.calls_per_second(),
            row.cpu_micros() / rmcp.cpu_micros(),
            row.cpu_micros() / axum.cpu_micros(),
        ]
    };
    if options.json {
        let rows: Vec<_> = rows
            .iter()
            .enumerate()
            .map(|(at, row)| {
                let [calls, cpu, cpu_of_axum] = ratios(at);
                serde_json::json!({ "row": row.name, "calls_per_second": row.calls_per_second(),
                    "cpu_micros_per_call": row.cpu_micros(), "calls_of_rmcp": calls, "cpu_of_rmcp": cpu,
                    "cpu_of_axum": cpu_of_axum })
            })
            .collect();
        return writeln!(out, "{}", serde_json::Value::from(rows));
    }
    writeln!(out, "| server | calls/s | of rmcp | CPU per call | of rmcp | of axum |\n|---|---|---|---|---|---|")?;
    for (at, row) in rows.iter().enumerate() {
        let ([calls, cpu, cpu_of_axum], name) = (ratios(at), &row.name);
        let (per_second, micros) = (row.calls_per_second(), row.cpu_micros());
        writeln!(out, "| {name} | {per_second:.0} | {calls:.2}x | {micros:.1} us | {cpu:.2}x | {cpu_of_axum:.2}x |")?;
    }
    writeln!(
        out,
        "\nMedians of {} interleaved rounds of {} s, {} connections.",
        options.rounds, options.seconds, options.connections
    )
}
