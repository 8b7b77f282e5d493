//! The limits that tools declare.

use sluicegate::__private::Declared;
use sluicegate::prelude::*;

use sluicegate_macros_tests::tool;

#[tool(
    rate_limit = ["10/s", "1_000/60min"],
    burst = 20,
    algorithm = "token_bucket",
    per = "tenant",
    cost = 5,
    concurrency = 4,
    timeout = "1500ms",
    priority = "low",
    on_outage = "closed",
    scopes = ["reports:write", "reports:read"],
)]
async fn everything() {}

#[tool]
async fn bare() {}

fn declared(tool: &sluicegate::Tool) -> Declared {
    tool.extensions().get::<Declared>().copied().expect("the macros declare")
}

#[test]
fn declared_limits_travel_with_the_tool_in_their_canonical_form() {
    let declared = declared(&tool::<everything>());
    assert_eq!(declared.rates, ["10/s", "1000/h"]);
    assert_eq!((declared.burst, declared.cost, declared.concurrency), (Some(20), 5, Some(4)));
    assert_eq!((declared.algorithm, declared.per), (Some("token_bucket"), Some("tenant")));
    assert_eq!((declared.timeout_ms, declared.priority), (Some(1_500), Some("low")));
    assert_eq!(declared.on_outage, Some("closed"));
    assert_eq!(declared.scopes, ["reports:write", "reports:read"]);
}

/// Look something up.
#[tool(read_only = true, open_world = false, icons = ["https://example.com/a.svg", "data:image/png;base64,AAAA"])]
async fn hinted() {}

#[test]
fn hints_and_icons_are_told_to_clients_as_far_as_they_are_written() {
    let hinted = tool::<hinted>();
    let hints = hinted.annotations().expect("hints");
    assert_eq!((hints.read_only_hint, hints.open_world_hint), (Some(true), Some(false)));
    assert_eq!((hints.destructive_hint, hints.idempotent_hint), (None, None));
    let icons: Vec<_> = hinted.icons().iter().map(|icon| &*icon.src).collect();
    assert_eq!(icons, ["https://example.com/a.svg", "data:image/png;base64,AAAA"]);
    let bare = tool::<bare>();
    assert!(bare.annotations().is_none() && bare.icons().is_empty());
}

#[test]
fn a_bare_tool_declares_nothing_and_tells_clients_nothing_of_limits() {
    let bare = tool::<bare>();
    let declared = declared(&bare);
    assert_eq!((declared.rates.len(), declared.cost, declared.timeout_ms), (0, 1, None));
    assert_eq!((declared.burst, declared.algorithm, declared.per, declared.concurrency), (None, None, None, None));
    assert_eq!((declared.priority, declared.on_outage, declared.scopes.len()), (None, None, 0));
}
