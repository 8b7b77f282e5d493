//! What an operator waits for on a large server: seeds a database, then asks for every page and list.
//!
//! `cargo run --release -p sluicegate-tests --bin scale` seeds a schema of its own in the Postgres database that
//! `SLUICEGATE_TEST_POSTGRES` names (1 000 tenants, 50 000 agents, 20 tools, 7 days, more than 10 million rows of usage by
//! the minute, for which its disk needs 20 GB) and drops it afterwards; with `--sqlite` a tenth of it in a file of its own.
//! With `--on URL` it works in a database of yours, which stays: the first run seeds it, every other only asks.
//! `--most N` makes fewer rows: N of the agent that is called most, in place of 200 000. `--rounds N` is how often each page is
//! asked for. It fails when a page or list is slower or larger than it may be.

use std::io::Write as _;
use std::time::Instant;

use sluicegate_tests::{Database, TestServer};

mod ask;
mod seed;

const USAGE: &str = "usage: scale [--sqlite | --on URL] [--part N] [--most N] [--rounds N]";

/// The most that a page or a list may take, as the median of its rounds, in milliseconds.
const MOST_MS: f64 = 50.0;
/// The most bytes that it may be sent in.
const MOST_BYTES: usize = 100 * 1024;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut sqlite, mut on, mut part, mut most, mut rounds) = (false, None, None, seed::MOST_ROWS, 9);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--sqlite" => sqlite = true,
            "--on" => on = Some(arguments.next().ok_or(USAGE)?),
            "--part" => part = Some(arguments.next().ok_or(USAGE)?.parse()?),
            "--most" => most = arguments.next().ok_or(USAGE)?.parse()?,
            "--rounds" => rounds = arguments.next().ok_or(USAGE)?.parse()?,
            _ => return Err(USAGE.into()),
        }
    }
    let database = match on {
        Some(url) => Database::at(&url),
        None if sqlite => Database::sqlite().await,
        None => Database::postgres().await.ok_or("SLUICEGATE_TEST_POSTGRES names no database")?,
    };
    // The schema comes from a server that has started once.
    TestServer::start(&database).await.stop().await;
    let began = Instant::now();
    let seeded = seed::seed(&database, part.unwrap_or(if sqlite { 10 } else { 1 }), most).await?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "seeded in {:.0} s: {} tenants, {} agents, {} tools, {} rows of usage by the minute\n",
        began.elapsed().as_secs_f64(),
        seeded.tenants,
        seeded.agents,
        seed::TOOLS,
        seeded.minutes
    )?;

    let server = TestServer::start(&database).await;
    writeln!(out, "| page or list | ms | KB |\n|---|---|---|")?;
    let mut over = 0;
    let tell = |ask::Measured { path, ms, bytes }: &ask::Measured| {
        let is_over = *ms > MOST_MS || *bytes > MOST_BYTES;
        over += usize::from(is_over);
        let mark = if is_over { " **over**" } else { "" };
        let _ = writeln!(out, "| `{path}`{mark} | {ms:.1} | {:.1} |", *bytes as f64 / 1024.0);
    };
    let answers = ask::everything(&server, &seeded, rounds, tell).await;
    server.stop().await;
    let slowest = answers.iter().map(|answer| answer.ms).fold(0.0, f64::max);
    let largest = answers.iter().map(|answer| answer.bytes).max().unwrap_or_default();
    writeln!(
        out,
        "\n{} pages and lists, the slowest {slowest:.1} ms, the largest {:.1} KB, {over} over {MOST_MS} ms or {} KB",
        answers.len(),
        largest as f64 / 1024.0,
        MOST_BYTES / 1024
    )?;
    if over > 0 { Err(format!("{over} are over").into()) } else { Ok(()) }
}
