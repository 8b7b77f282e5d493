use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::model::{ContentBlock, ToolAnnotations};
use serde_json::json;

use super::*;
use crate::ToolError;
use crate::admitted::{Outcome, Ticket};
use crate::call::Call;
use crate::call_scope::{run, scope};
use crate::registry::Registry;
use crate::schema::InputSchema;

const MINUTE: Duration = Duration::from_mins(1);

/// How the calls of a tool end, in turn; then all with success.
#[derive(Clone, Copy)]
enum Ends {
    Failed,
    Panicked,
    Never,
    Large,
}

/// A tool that counts its runs, and the memory of its results.
struct World {
    replays: Replays,
    registry: Registry,
    runs: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Noted(Mutex<Option<Outcome>>);

impl Ticket for Noted {
    fn ended(&self, outcome: Outcome) {
        *self.0.lock().expect("no panic") = Some(outcome);
    }
}

fn world(idempotent: bool, ends: &[Ends]) -> World {
    let runs = Arc::new(AtomicUsize::new(0));
    let (count, ends) = (Arc::clone(&runs), ends.to_vec());
    let tool = Tool::new("set", InputSchema::new().finish(), move |_| {
        let run = count.fetch_add(1, Ordering::SeqCst);
        let end = ends.get(run).copied();
        Box::pin(async move {
            // Long enough for others to come meanwhile.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let text = match end {
                None => format!("run {run}"),
                Some(Ends::Large) => "x".repeat(LARGEST_RESULT),
                Some(Ends::Failed) => return Err(ToolError::new("it failed")),
                Some(Ends::Panicked) => panic!("as the test wants it"),
                Some(Ends::Never) => std::future::pending().await,
            };
            Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
        })
    });
    let tool = if idempotent { tool.with_annotations(ToolAnnotations::new().idempotent(true)) } else { tool };
    World { replays: Replays::new(), registry: Registry::new([tool]).expect("one tool"), runs }
}

fn key(group: &str, member: &str, text: &str) -> IdempotencyKey {
    IdempotencyKey { owner: Owner { group: group.into(), member: member.into() }, text: text.into() }
}

/// What a caller sees: the text, whether it is a failure, and whether the result is from an earlier run.
type Seen = (String, bool, bool);

impl World {
    async fn call(&self, key: Option<IdempotencyKey>, arguments: serde_json::Value) -> (Seen, Option<Outcome>) {
        let (index, tool) = self.registry.get("set").expect("it is there");
        let noted = Arc::new(Noted::default());
        let ticket = Arc::clone(&noted) as Arc<dyn Ticket>;
        let mut admitted = Admitted::new(index, ticket, "req-1").with_deadline(Duration::from_secs(30));
        if let Some(key) = key {
            admitted = admitted.with_idempotency_key(Ok(key));
        }
        let arguments = arguments.as_object().cloned().expect("an object");
        let keyed = self.replays.keyed(tool, &admitted, Some(&arguments));
        let work = |context| once(keyed, || run(tool, Call::new(arguments, context)));
        let never = tokio_util::sync::CancellationToken::new();
        let Ok(CallToolResponse::Complete(result)) = scope("set", admitted, None, Some(&never), work).await else {
            panic!("every call has a result");
        };
        let text = result.content[0].as_text().expect("a text").text.clone();
        let replayed = result.meta.is_some_and(|meta| meta.0.get(REPLAYED) == Some(&true.into()));
        let outcome = *noted.0.lock().expect("no panic");
        ((text, result.is_error == Some(true), replayed), outcome)
    }

    async fn seen(&self, text: &str) -> Seen {
        self.call(Some(key("acme", "bot", text)), json!({ "x": 1 })).await.0
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

fn first(run: usize) -> Seen {
    (format!("run {run}"), false, false)
}

fn replayed(run: usize) -> Seen {
    (format!("run {run}"), false, true)
}

#[tokio::test(start_paused = true)]
async fn a_repeated_call_gets_the_result_of_the_first_and_says_so() {
    let world = world(true, &[]);
    assert_eq!(world.seen("k").await, first(0));
    assert_eq!(world.seen("k").await, replayed(0));
    assert_eq!(world.seen("another").await, first(1));
    assert_eq!(world.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn without_a_key_and_without_the_mark_every_call_runs() {
    let unkeyed = world(true, &[]);
    for _ in 0..2 {
        unkeyed.call(None, json!({})).await;
    }
    assert_eq!(unkeyed.runs(), 2);
    let unmarked = world(false, &[]);
    assert_eq!((unmarked.seen("k").await, unmarked.seen("k").await), (first(0), first(1)));
}

#[tokio::test(start_paused = true)]
async fn a_key_belongs_to_one_tenant_and_one_agent_of_it() {
    let world = world(true, &[]);
    for (run, owner) in [("acme", "bot"), ("globex", "bot"), ("acme", "other"), ("ac", "mebot")].into_iter().enumerate()
    {
        let seen = world.call(Some(key(owner.0, owner.1, "k")), json!({})).await.0;
        assert_eq!(seen, first(run), "{owner:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_belongs_to_the_arguments_that_it_came_with() {
    let world = world(true, &[]);
    let call = |arguments| world.call(Some(key("acme", "bot", "k")), arguments);
    assert_eq!(call(json!({ "a": 1, "b": [1, 2] })).await.0, first(0));
    assert_eq!(call(json!({ "b": [1, 2], "a": 1 })).await.0, replayed(0), "members have no order");
    for other in
        [json!({}), json!({ "a": 2, "b": [1, 2] }), json!({ "a": 1, "b": [2, 1] }), json!({ "a": "1", "b": [1, 2] })]
    {
        let ((text, failed, replayed), outcome) = call(other).await;
        assert!(failed && !replayed && text.contains("other arguments"), "{text}");
        assert_eq!(outcome, Some(Outcome::InvalidInput));
    }
    assert_eq!(world.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn duplicates_wait_for_the_first_and_get_its_result() {
    let world = world(true, &[]);
    let start = Instant::now();
    let (a, b, c) = tokio::join!(world.seen("k"), world.seen("k"), world.seen("k"));
    assert_eq!([a, b, c], [first(0), replayed(0), replayed(0)]);
    assert_eq!((world.runs(), start.elapsed().as_secs()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn others_wait_for_no_one_with_other_arguments() {
    let world = world(true, &[]);
    let other = async {
        tokio::task::yield_now().await;
        world.call(Some(key("acme", "bot", "k")), json!({ "x": 2 })).await.0
    };
    let (a, (text, failed, _)) = tokio::join!(world.seen("k"), other);
    assert!(a == first(0) && failed && text.contains("other arguments"));
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_a_panic_and_a_run_that_was_cut_off_the_next_call_runs() {
    for (end, failure) in [
        (Ends::Failed, "it failed"),
        (Ends::Panicked, "the tool failed unexpectedly"),
        (Ends::Never, "the tool did not finish within 30 s"),
    ] {
        let world = world(true, &[end]);
        let (text, failed, _) = world.seen("k").await;
        assert!(failed && text.starts_with(failure), "{text}");
        assert_eq!((world.seen("k").await, world.seen("k").await), (first(1), replayed(1)));
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_run_that_comes_to_nothing_runs_the_tool() {
    for end in [Ends::Failed, Ends::Panicked] {
        let world = world(true, &[end]);
        let (a, b, c) = tokio::join!(world.seen("k"), world.seen("k"), world.seen("k"));
        assert!(a.1, "the first fails");
        assert_eq!([b, c], [first(1), replayed(1)]);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_has_a_deadline_of_its_own() {
    let world = world(true, &[Ends::Never, Ends::Never]);
    let start = Instant::now();
    let late = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        world.seen("k").await
    };
    let (a, b) = tokio::join!(world.seen("k"), late);
    assert!(a.1 && b.1 && b.0.contains("30 s"), "{b:?}");
    assert_eq!(start.elapsed().as_secs(), 40);
}

#[tokio::test(start_paused = true)]
async fn a_result_is_kept_for_ten_minutes_from_its_run() {
    let world = world(true, &[]);
    assert_eq!(world.seen("k").await, first(0));
    tokio::time::advance(10 * MINUTE - Duration::from_secs(1)).await;
    assert_eq!(world.seen("k").await, replayed(0));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(world.seen("k").await, first(1));
    assert_eq!(world.seen("k").await, replayed(1));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_too_large_is_sent_and_not_kept() {
    let world = world(true, &[Ends::Large]);
    assert_eq!(world.seen("k").await.0.len(), LARGEST_RESULT);
    assert_eq!((world.seen("k").await, world.seen("k").await), (first(1), replayed(1)));
}

#[tokio::test(start_paused = true)]
async fn results_never_take_more_than_their_memory_and_the_oldest_go_first() {
    let replays = Replays::new();
    let index = ToolIndex::at(0).expect("a place");
    let text = "x".repeat(200 << 10);
    let keep = async |number: usize| {
        let key = Some(Keyed {
            replays: &replays,
            tool: index,
            key: Arc::new(key("a", "b", &number.to_string())),
            arguments: 0,
        });
        let work = async || Ok(CallToolResult::success(vec![ContentBlock::text(text.clone())]).into());
        let Ok(CallToolResponse::Complete(result)) = once(key.map(Ok), work).await else { panic!("it succeeds") };
        result.meta.is_some()
    };
    for number in 0..500 {
        assert!(!keep(number).await, "the first time");
        replays.runs.run_pending_tasks();
        assert!(replays.runs.weighted_size() <= MOST_BYTES, "{}", replays.runs.weighted_size());
    }
    assert!(keep(499).await && keep(400).await, "kept");
    assert!(!keep(0).await, "gone");
}
