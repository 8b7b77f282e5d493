//! Tools that end badly: the call scope around a tool that the macros made.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use sluicegate::CallToolResult;
use sluicegate::prelude::*;
use sluicegate_mcp::{Admitted, Outcome, Registry, Ticket, call_scope};
use tokio_util::sync::CancellationToken;

use sluicegate_macros_tests::{object, text_of, tool};

#[derive(Default)]
struct Ends(Mutex<Vec<Outcome>>);

impl Ticket for Ends {
    fn ended(&self, outcome: Outcome) {
        self.0.lock().expect("no test panics here").push(outcome);
    }
}

/// Behaves as told.
#[tool]
async fn behave(how: String, ctx: CallContext) -> Result<String, ToolError> {
    match &*how {
        "panic" => panic!("secret"),
        "sleep" => tokio::time::sleep(Duration::from_secs(3600)).await,
        "wait" => ctx.cancelled().await,
        "fail" => return Err("told to fail".into()),
        _ => {}
    }
    Ok(format!("{:?}", ctx.remaining()))
}

/// Runs the tool in a scope; how it ended, and what is sent.
async fn run(how: &str, cancellation: &CancellationToken) -> (Vec<Outcome>, CallToolResult) {
    let registry = Registry::new([tool::<behave>()]).expect("one tool");
    let (index, behave) = registry.get("behave").expect("it is there");
    let ends = Arc::new(Ends::default());
    let admitted = Admitted::new(index, ends.clone(), "req-7").with_deadline(Duration::from_millis(1_500));
    let result = call_scope(behave, object(json!({ "how": how })), admitted, cancellation).await;
    assert_eq!(Arc::strong_count(&ends), 1, "the ticket is free when the call has ended");
    let outcomes = ends.0.lock().expect("no test panics here").clone();
    (outcomes, result)
}

#[tokio::test(start_paused = true)]
async fn every_end_is_recorded_once_and_answered_safely() {
    let unlimited = CancellationToken::new();
    let expected = [
        ("return", Outcome::Ok, "Some(1.5s)"),
        ("fail", Outcome::ToolError, "told to fail"),
        ("panic", Outcome::Panicked, "the tool failed unexpectedly; its operator finds the reason under req-7"),
        ("sleep", Outcome::TimedOut, "the tool did not finish within 1.5 s and was stopped"),
        ("wait", Outcome::TimedOut, "the tool did not finish within 1.5 s and was stopped"),
    ];
    for (how, outcome, text) in expected {
        let (outcomes, result) = run(how, &unlimited).await;
        assert_eq!((&*outcomes, text_of(&result).as_str()), (&[outcome][..], text), "{how}");
        assert_eq!(result.is_error, Some(outcome != Outcome::Ok), "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_stops_at_once() {
    let cancellation = CancellationToken::new();
    let started = tokio::time::Instant::now();
    let canceller = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        cancellation.cancel();
    };
    let ((outcomes, _), ()) = tokio::join!(run("sleep", &cancellation), canceller);
    assert_eq!(outcomes, [Outcome::Cancelled]);
    assert_eq!(started.elapsed(), Duration::from_millis(100));
}
