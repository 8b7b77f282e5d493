use std::collections::BTreeSet;

use super::*;

/// Metrics that are counted for the process, and those that the toolkit documents.
const OF_THE_PROCESS: &[&str] = &["sluicegate_circuit_open_total", "sluicegate_circuit_state"];

fn names_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
    let names = words.filter(|word| word.starts_with("sluicegate_"));
    names.map(|name| name.trim_end_matches("_bucket").to_owned()).collect()
}

fn file(path: &str) -> String {
    let path = format!("{}/../docs/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_guide_tells_of_every_metric_and_the_dashboard_and_alerts_of_no_other() {
    let known: BTreeSet<_> = HELP.iter().map(|(name, ..)| *name).chain(OF_THE_PROCESS.iter().copied()).collect();
    let documented = names_in(&file("operations.md"));
    for name in &known {
        assert!(documented.contains(*name), "{name} is not in docs/operations.md");
    }
    for path in ["operations.md", "grafana/dashboard.json", "grafana/alerts.yml"] {
        for name in names_in(&file(path)) {
            assert!(known.contains(&*name), "docs/{path} tells of {name}, which there is not");
        }
    }
    serde_json::from_str::<serde_json::Value>(&file("grafana/dashboard.json")).expect("JSON");
}

#[test]
fn what_the_process_counts_is_shown_too() {
    process::collect();
    ::metrics::counter!("sluicegate_circuit_open_total", "upstream" => "billing").increment(2);
    let shown = process::render();
    assert!(shown.contains("# TYPE sluicegate_circuit_open_total counter"), "{shown}");
    assert!(shown.contains("sluicegate_circuit_open_total{upstream=\"billing\"} 2"), "{shown}");
}
