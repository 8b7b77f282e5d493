//! How long calls take at a part of what a server can do, and while its operator changes limits.

use std::error::Error;
use std::io::Write as _;

use sluicegate_tests::Era;

use crate::Options;
use crate::load::{self, Calls, Load};
use crate::process::Contender;
use crate::rows::{Row, measure};

/// Of what each server does when it is asked for all it can.
const PART: f64 = 0.7;

/// Enough that calls come evenly, with timers that count in milliseconds.
const CONNECTIONS: usize = 64;

/// The bare servers and ours, each at the same part of its own most, and ours at that of bare rmcp as well.
pub(crate) async fn latency(options: &Options) -> Result<(), Box<dyn Error>> {
    let axum = Contender::start(&["serve-axum"]).await?;
    let rmcp = Contender::start(&["serve-rmcp"]).await?;
    let gated = Contender::start(&["serve-gated"]).await?;
    let mut rows = Vec::new();
    for era in [Era::Legacy, Era::Modern] {
        let revision = era.revision();
        let echo = |server: &Contender| Calls::echo(server, server.keys.get(..1).unwrap_or_default(), era);
        let mut most_of_rmcp = 0.0;
        for (name, server) in [("bare axum", &axum), ("bare rmcp", &rmcp), ("sluicegate", &gated)] {
            let all = Load::of(CONNECTIONS, options.length);
            // The first run warms up.
            load::run(server, &echo(server), all).await?;
            let most = load::run(server, &echo(server), all).await?.calls_per_second();
            let paced = |per_second: f64| Load { per_second: Some(per_second * PART), ..all };
            rows.push(Row::new(format!("{name}, {revision}"), server, echo(server), paced(most)));
            if name == "bare rmcp" {
                most_of_rmcp = most;
            }
            if name == "sluicegate" {
                let name = format!("{name} at the rate of bare rmcp, {revision}");
                rows.push(Row::new(name, server, echo(server), paced(most_of_rmcp)));
            }
        }
    }
    measure(&mut rows, options.rounds).await?;
    print(&rows, options)
}

/// Servers of few tenants and of many, with nothing changed and with an override changed twenty times a second.
pub(crate) async fn changes(options: &Options) -> Result<(), Box<dyn Error>> {
    let mut servers = Vec::new();
    for (tenants, every) in [("10", None), ("10", Some("50")), ("100000", None), ("100000", Some("50"))] {
        let arguments = ["serve-many", tenants].into_iter().chain(every);
        let name = format!("{tenants} tenants, {}", every.map_or("nothing changes", |_| "20 changes a second"));
        servers.push((name, Contender::start(&arguments.collect::<Vec<_>>()).await?));
    }
    let load = Load { per_second: Some(5_000.0), ..Load::of(CONNECTIONS, options.length) };
    // A thousand callers, so that what each of them has to look up after a change is among it.
    let row = |(name, server): &'_ (String, Contender)| {
        let keys = &server.keys[..server.keys.len().min(1_000)];
        (name.clone(), Calls::echo(server, keys, Era::Legacy))
    };
    let mut rows: Vec<_> = servers
        .iter()
        .map(|pair| {
            let (name, calls) = row(pair);
            Row::new(name, &pair.1, calls, load)
        })
        .collect();
    measure(&mut rows, options.rounds).await?;
    print(&rows, options)
}

fn print(rows: &[Row<'_>], options: &Options) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "| server | calls/s | p50 | p99 | p99.9 | slowest |\n|---|---|---|---|---|---|")?;
    for row in rows {
        let [p50, p99, p999, all] =
            [500, 990, 999, 1_000].map(|part| format!("{:.2} ms", row.median(|sample| sample.within(part))));
        writeln!(out, "| {} | {:.0} | {p50} | {p99} | {p999} | {all} |", row.name, row.calls_per_second())?;
    }
    options.say_how(&mut out)?;
    Ok(())
}
