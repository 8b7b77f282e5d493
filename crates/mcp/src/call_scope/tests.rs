use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use tracing_subscriber::fmt::MakeWriter;

use super::*;
use crate::admitted::Ticket;
use crate::registry::Registry;
use crate::schema::InputSchema;

/// Records how often and how a call ended, and when nobody holds it any more.
#[derive(Default)]
struct Record {
    ends: Mutex<Vec<Outcome>>,
    released: AtomicBool,
}

struct Recorder(Arc<Record>);

impl Ticket for Recorder {
    fn ended(&self, outcome: Outcome) {
        assert!(!self.0.released.load(Ordering::SeqCst), "the ticket is held until the end is recorded");
        self.0.ends.lock().expect("no test panics here").push(outcome);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.0.released.store(true, Ordering::SeqCst);
    }
}

impl Record {
    fn ends(&self) -> Vec<Outcome> {
        self.ends.lock().expect("no test panics here").clone()
    }

    fn is_released(&self) -> bool {
        self.released.load(Ordering::SeqCst)
    }
}

type Returned = Result<CallToolResult, ToolError>;

fn registry<F>(run: F) -> Registry
where
    F: Fn(Call) -> BoxFuture<'static, Returned> + Send + Sync + 'static,
{
    Registry::new([Tool::new("tool", InputSchema::new().finish(), run)]).expect("one tool")
}

fn admitted(record: &Arc<Record>, request_id: &str) -> Admitted {
    let registry = registry(|_call| Box::pin(async { done() }));
    let (index, _) = registry.get("tool").expect("it is there");
    Admitted::new(index, Arc::new(Recorder(Arc::clone(record))), request_id).with_deadline(Duration::from_secs(30))
}

fn done() -> Returned {
    Ok(CallToolResult::success(vec![ContentBlock::text("done")]))
}

fn sent(result: &CallToolResult) -> (&str, Option<bool>) {
    (&result.content[0].as_text().expect("text").text, result.is_error)
}

/// Runs a tool under a deadline of 30 s that nobody cancels.
async fn run<F>(run: F) -> (Arc<Record>, CallToolResult)
where
    F: Fn(Call) -> BoxFuture<'static, Returned> + Send + Sync + 'static,
{
    run_as("req-1", run).await
}

async fn run_as<F>(request_id: &str, run: F) -> (Arc<Record>, CallToolResult)
where
    F: Fn(Call) -> BoxFuture<'static, Returned> + Send + Sync + 'static,
{
    let record = Arc::new(Record::default());
    let registry = registry(run);
    let (_, tool) = registry.get("tool").expect("it is there");
    let result = call_scope(tool, JsonObject::new(), admitted(&record, request_id), &CancellationToken::new()).await;
    (record, result)
}

#[tokio::test(start_paused = true)]
async fn a_result_passes_through_and_the_ticket_is_released_after_its_end() {
    let (record, result) = run(|_call| Box::pin(async { done() })).await;
    assert_eq!(sent(&result), ("done", Some(false)));
    assert_eq!((record.ends(), record.is_released()), (vec![Outcome::Ok], true));
}

#[tokio::test(start_paused = true)]
async fn failures_count_as_what_they_are_whichever_way_they_are_returned() {
    let (record, result) = run(|_call| Box::pin(async { Err("no such dataset".into()) })).await;
    assert_eq!((sent(&result), record.ends()), (("no such dataset", Some(true)), vec![Outcome::ToolError]));

    let (record, _) = run(|_call| Box::pin(async { Ok(CallToolResult::error(vec![])) })).await;
    assert_eq!(record.ends(), [Outcome::ToolError]);

    let (record, _) = run(|_call| Box::pin(async { Err(ToolError::invalid_input("no")) })).await;
    assert_eq!(record.ends(), [Outcome::InvalidInput]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_answered_whether_it_comes_before_during_or_after_the_work() {
    /// Panics when it is dropped.
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    let before = run(|_call| panic!("no future at all")).await;
    let during = run(|_call| Box::pin(async { panic!("half-way") })).await;
    let after = run(|_call| {
        let bomb = Bomb;
        Box::pin(async move {
            std::future::pending::<()>().await;
            drop(bomb);
            done()
        })
    });
    for (record, result) in [before, during, after.await] {
        let text = "the tool failed unexpectedly; its operator finds the reason under req-1";
        assert_eq!((sent(&result), record.ends()), ((text, Some(true)), vec![Outcome::Panicked]));
        assert!(record.is_released());
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_from_the_start_and_its_length_is_told() {
    let started = Instant::now();
    let (record, result) = run(|call| {
        Box::pin(async move {
            assert_eq!(call.context.remaining(), Some(Duration::from_secs(30)));
            std::future::pending().await
        })
    })
    .await;
    assert_eq!(started.elapsed(), Duration::from_secs(30));
    assert_eq!(sent(&result), ("the tool did not finish within 30 s and was stopped", Some(true)));
    assert_eq!((record.ends(), record.is_released()), (vec![Outcome::TimedOut], true));
}

#[tokio::test(start_paused = true)]
async fn work_that_is_done_at_the_deadline_is_not_thrown_away() {
    let (record, _) = run(|_call| {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(30)).await;
            done()
        })
    })
    .await;
    assert_eq!(record.ends(), [Outcome::Ok]);
}

#[tokio::test(start_paused = true)]
async fn spawned_work_is_told_to_stop_and_keeps_the_ticket_as_long_as_its_context() {
    let stopped = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stopped);
    let (record, _) = run(move |call| {
        let seen = Arc::clone(&seen);
        tokio::spawn(async move {
            call.context.cancelled().await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            seen.store(true, Ordering::SeqCst);
        });
        Box::pin(std::future::pending())
    })
    .await;
    assert_eq!((record.ends(), record.is_released()), (vec![Outcome::TimedOut], false));
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(stopped.load(Ordering::SeqCst));
    assert!(record.is_released());
}

#[tokio::test(start_paused = true)]
async fn an_orderly_return_leaves_spawned_work_alone() {
    let contexts = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&contexts);
    let (record, _) = run(move |call| {
        kept.lock().expect("no test panics here").push(call.context);
        Box::pin(async { done() })
    })
    .await;
    let context = contexts.lock().expect("no test panics here").pop().expect("one call");
    assert!(!context.cancellation().is_cancelled());
    assert!(!record.is_released());
    drop(context);
    assert!(record.is_released());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_cancelled_before_its_start_never_runs() {
    let record = Arc::new(Record::default());
    let registry = registry(|_call| panic!("this must not run"));
    let (_, tool) = registry.get("tool").expect("it is there");
    let cancellation = CancellationToken::new();
    cancellation.cancel();
    call_scope(tool, JsonObject::new(), admitted(&record, "req-1"), &cancellation).await;
    assert_eq!(record.ends(), [Outcome::Cancelled]);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_scope_half_way_is_a_cancellation_recorded_once() {
    let record = Arc::new(Record::default());
    let contexts = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&contexts);
    let registry = registry(move |call| {
        kept.lock().expect("no test panics here").push(call.context);
        Box::pin(std::future::pending())
    });
    let (_, tool) = registry.get("tool").expect("it is there");
    let cancellation = CancellationToken::new();
    let scope = call_scope(tool, JsonObject::new(), admitted(&record, "req-1"), &cancellation);
    tokio::time::timeout(Duration::from_secs(1), scope).await.expect_err("the tool never ends");
    assert_eq!(record.ends(), [Outcome::Cancelled]);
    let context = contexts.lock().expect("no test panics here").pop().expect("one call");
    assert!(context.cancellation().is_cancelled());
    assert!(!cancellation.is_cancelled(), "only this call is cancelled");
}

/// Log lines, collected.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no test panics here").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_caller_is_not_told_is_logged_under_the_reference() {
    let log = Log::default();
    // For the whole process: with a subscriber of one thread, tracing lets another thread that meets the line first
    // switch it off for all.
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).without_time().finish();
    tracing::subscriber::set_global_default(subscriber).expect("no other test sets one");

    run_as("req-log", |_call| Box::pin(async { panic!("index {} is out of bounds", 7) })).await;
    run_as("req-log", |_call| {
        let cause = io::Error::other("connection refused");
        Box::pin(async { Err(ToolError::new("the warehouse is down").with_source(cause)) })
    })
    .await;

    let log = String::from_utf8(log.0.lock().expect("no test panics here").clone()).expect("UTF-8");
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("req-log")).collect();
    assert!(lines[0].starts_with("ERROR") && lines[0].contains("index 7 is out of bounds"), "{log}");
    assert!(lines[1].starts_with(" WARN") && lines[1].contains("connection refused"), "{log}");
}
