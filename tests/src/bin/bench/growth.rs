//! What a call costs when there are more tenants, more connections, or more to carry.

use std::error::Error;
use std::io::Write as _;

use sluicegate_tests::Era;

use crate::Options;
use crate::load::{Calls, Load};
use crate::process::Contender;
use crate::rows::{Row, measure};

const TENANTS: [&str; 3] = ["10", "1000", "100000"];

/// Servers of more and more tenants, each with a key and an override; everybody with a key calls in turn.
pub(crate) async fn tenants(options: &Options) -> Result<(), Box<dyn Error>> {
    let mut servers = Vec::new();
    for tenants in TENANTS {
        servers.push(Contender::start(&["serve-many", tenants]).await?);
    }
    let load = Load::of(options.connections, options.length);
    let row = |(tenants, server)| {
        let server: &Contender = server;
        Row::new(tenants, server, Calls::echo(server, &server.keys, Era::Legacy), load)
    };
    let mut rows: Vec<_> = TENANTS.into_iter().zip(&servers).map(row).collect();
    measure(&mut rows, options.rounds).await?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "| tenants | that call | calls/s | CPU per call | memory |\n|---|---|---|---|---|")?;
    for row in &rows {
        let (name, callers, mib) = (&row.name, row.server.keys.len(), row.server.resident()? >> 20);
        let (per_second, micros) = (row.calls_per_second(), row.cpu_micros());
        writeln!(out, "| {name} | {callers} | {per_second:.0} | {micros:.1} us | {mib} MiB |")?;
    }
    options.say_how(&mut out)?;
    Ok(())
}

/// More and more connections at once, to the bare servers and to ours.
pub(crate) async fn connections(options: &Options) -> Result<(), Box<dyn Error>> {
    let load = |connections| Load::of(connections, options.length);
    let variants = [1, 4, 16, 64].map(|connections| (connections.to_string(), "x".repeat(20), load(connections)));
    side_by_side("connections", &variants, options).await
}

/// More and more text in each call and its answer.
pub(crate) async fn sizes(options: &Options) -> Result<(), Box<dyn Error>> {
    let load = Load::of(options.connections, options.length);
    let variants = [("1 KB", 1 << 10), ("100 KB", 100 << 10), ("1 MB", 1 << 20)]
        .map(|(name, bytes)| (name.to_owned(), "x".repeat(bytes), load));
    side_by_side("text of", &variants, options).await
}

async fn side_by_side(
    what: &str,
    variants: &[(String, String, Load)],
    options: &Options,
) -> Result<(), Box<dyn Error>> {
    let axum = Contender::start(&["serve-axum"]).await?;
    let rmcp = Contender::start(&["serve-rmcp"]).await?;
    let gated = Contender::start(&["serve-gated"]).await?;
    let servers = [(&axum, &[][..]), (&rmcp, &[]), (&gated, &gated.keys[..1])];
    let mut rows = Vec::new();
    for (name, text, load) in variants {
        for (server, keys) in servers {
            rows.push(Row::new(name, server, Calls::echo_of(server, keys, Era::Legacy, text), *load));
        }
    }
    measure(&mut rows, options.rounds).await?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "| {what} | axum calls/s | rmcp | sluicegate | axum CPU per call | rmcp | sluicegate | of rmcp |\n|---|---|---|---|---|---|---|---|"
    )?;
    for three in rows.chunks(servers.len()) {
        let per_second: Vec<_> = three.iter().map(|row| format!("{:.0}", row.calls_per_second())).collect();
        let micros: Vec<_> = three.iter().map(|row| format!("{:.1} us", row.cpu_micros())).collect();
        let ratio = three[2].cpu_micros() / three[1].cpu_micros();
        writeln!(out, "| {} | {} | {} | {ratio:.2}x |", three[0].name, per_second.join(" | "), micros.join(" | "))?;
    }
    options.say_how(&mut out)?;
    Ok(())
}
