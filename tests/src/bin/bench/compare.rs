//! Bare servers and Sluicegate, served and refused, in both eras of the protocol.

use std::error::Error;
use std::io::Write as _;

use sluicegate_tests::Era;

use crate::Options;
use crate::load::{Calls, Load};
use crate::process::Contender;
use crate::rows::{Row, measure};

pub(crate) async fn compare(options: &Options) -> Result<(), Box<dyn Error>> {
    let axum = Contender::start(&["serve-axum"]).await?;
    let rmcp = Contender::start(&["serve-rmcp"]).await?;
    let gated = Contender::start(&["serve-gated"]).await?;
    let shared = match &options.redis {
        Some(url) => Some(Contender::start(&["serve-gated", url]).await?),
        None => None,
    };
    let load = Load::of(options.connections, options.length);
    let mut rows = Vec::new();
    for era in [Era::Legacy, Era::Modern] {
        let name = |name: &str| format!("{name}, {}", era.revision());
        rows.push(Row::new(name("bare axum"), &axum, Calls::echo(&axum, &[], era), load));
        rows.push(Row::new(name("bare rmcp"), &rmcp, Calls::echo(&rmcp, &[], era), load));
        for (server, what) in [(Some(&gated), "sluicegate"), (shared.as_ref(), "sluicegate, Redis")] {
            let Some(server) = server else { continue };
            rows.push(Row::new(name(what), server, Calls::echo(server, &server.keys[..1], era), load));
            let limited = Calls::limited(server, &server.keys[1], era);
            rows.push(Row::new(name(&format!("{what}, refusing")), server, limited, load));
        }
    }
    measure(&mut rows, options.rounds).await?;
    print(&rows, options)?;
    Ok(())
}

fn print(rows: &[Row<'_>], options: &Options) -> std::io::Result<()> {
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
    options.say_how(&mut out)
}
