//! A caller of MCP servers that answer in each style that is in use.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Value, json};
use sluicegate_resilience::{
    BudgetOptions, CallerOptions, GaveUp, LastAnswer, McpCallError, McpCaller, McpRefusal, Random, RefusalScope,
    RetryOptions, ToolCallOptions,
};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// A server that answers tool calls by script: an `error` or a `result`, or not at all. Then with success.
#[derive(Clone, Default)]
struct Stub {
    script: Arc<Mutex<Vec<Value>>>,
    calls: Arc<Mutex<Vec<(Value, Instant)>>>,
    lists: Arc<Mutex<usize>>,
}

impl Stub {
    fn answers(script: impl IntoIterator<Item = Value>) -> Self {
        let mut script: Vec<_> = script.into_iter().collect();
        script.reverse();
        Self { script: Arc::new(Mutex::new(script)), ..Self::default() }
    }

    async fn serve(self, stream: DuplexStream) {
        let (reader, mut writer) = tokio::io::split(stream);
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let request: Value = serde_json::from_str(&line).expect("JSON");
            let body = match request["method"].as_str() {
                Some("initialize") => json!({ "result": {
                    "protocolVersion": request["params"]["protocolVersion"],
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "stub", "version": "1" },
                } }),
                Some("tools/list") => {
                    *self.lists.lock().expect("no panic") += 1;
                    let tool = |name, hints| json!({ "name": name, "inputSchema": { "type": "object" }, "annotations": hints });
                    json!({ "result": { "tools": [
                        tool("read", json!({ "readOnlyHint": true })),
                        tool("set", json!({ "idempotentHint": true })),
                        tool("pay", json!({})),
                    ] } })
                }
                Some("tools/call") => {
                    self.calls.lock().expect("no panic").push((request["params"].clone(), Instant::now()));
                    let success = || json!({ "result": { "content": [{ "type": "text", "text": "done" }] } });
                    self.script.lock().expect("no panic").pop().unwrap_or_else(success)
                }
                _ => continue,
            };
            if body.is_null() {
                continue;
            }
            let mut message = json!({ "jsonrpc": "2.0", "id": request["id"] });
            message.as_object_mut().expect("an object").extend(body.as_object().expect("an object").clone());
            if writer.write_all(format!("{message}\n").as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn count(&self) -> usize {
        self.calls.lock().expect("no panic").len()
    }

    fn meta(&self, key: &str) -> Vec<Value> {
        self.calls.lock().expect("no panic").iter().map(|(params, _)| params["_meta"][key].clone()).collect()
    }

    fn waits(&self) -> Vec<Duration> {
        self.calls.lock().expect("no panic").windows(2).map(|pair| pair[1].1 - pair[0].1).collect()
    }
}

async fn connect(stub: &Stub, options: CallerOptions) -> (McpCaller, RunningService<RoleClient, ()>) {
    let (client, server) = tokio::io::duplex(64 * 1024);
    tokio::spawn(stub.clone().serve(server));
    let client = ().serve(client).await.expect("it connects");
    let budget = BudgetOptions { reserve: 100, ..BudgetOptions::default() };
    let retry = RetryOptions { random: Random::seeded(9), budget, ..options.retry };
    (McpCaller::new(client.peer().clone(), CallerOptions { retry, ..options }).expect("valid"), client)
}

async fn call(stub: &Stub, tool: &'static str) -> Result<(), McpCallError> {
    let (caller, _client) = connect(stub, CallerOptions::default()).await;
    caller.call(CallToolRequestParams::new(tool)).await.map(drop)
}

fn error(code: i32, data: Value) -> Value {
    json!({ "error": { "code": code, "message": "Rate limit exceeded", "data": data } })
}

fn failed(meta: Value) -> Value {
    json!({ "result": { "content": [{ "type": "text", "text": "busy" }], "isError": true, "_meta": meta } })
}

#[tokio::test(start_paused = true)]
async fn whatever_the_style_of_a_refusal_its_wait_is_kept_and_the_call_succeeds() {
    let ours = json!({
        "reason": "rate_limit_exceeded", "scope": "tool", "tool": "pay", "limit": "10 requests / 60s", "current_usage": 10,
        "remaining": 0, "other_tools_may_work": true, "retry_after_seconds": 3, "retry_after_ms": 3000, "retryAfterMs": 3000,
    });
    for refusal in [
        error(-32029, ours.clone()),
        error(429, ours.clone()),
        error(-32023, json!({ "retryAfterMs": 3000, "limit": 10 })),
        error(-32029, json!({ "retry_after": 3 })),
        failed(json!({ "sluicegate/refusal": ours })),
    ] {
        let stub = Stub::answers([refusal.clone()]);
        call(&stub, "pay").await.expect("the second succeeds");
        let [wait] = stub.waits()[..] else { panic!("{refusal}") };
        assert!((3 * SECOND..=3 * SECOND + SECOND / 2 + SECOND / 1000).contains(&wait), "{wait:?} for {refusal}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_without_a_wait_is_answered_by_backoff() {
    for refusal in [error(-32029, Value::Null), error(503, json!({ "reason": "overloaded" }))] {
        let stub = Stub::answers([refusal]);
        call(&stub, "pay").await.expect("the second succeeds");
        assert!(stub.waits()[0] <= SECOND / 2 + SECOND / 1000);
    }
}

#[tokio::test(start_paused = true)]
async fn every_attempt_carries_its_number_and_all_the_same_key() {
    let stub = Stub::answers(vec![error(429, json!({ "retry_after_ms": 10 })); 3]);
    let (caller, _client) = connect(&stub, CallerOptions::default()).await;
    for _ in 0..2 {
        caller.call(CallToolRequestParams::new("pay")).await.expect("it succeeds in the end");
    }
    assert_eq!(stub.meta("sluicegate/attempt"), [1, 2, 3, 4, 1].map(Value::from));
    let keys = stub.meta("sluicegate/idempotencyKey");
    assert!(keys[0].is_string() && keys[..4].iter().all(|key| *key == keys[0]), "{keys:?}");
    assert_ne!(keys[4], keys[0]);
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_has_the_last_refusal_and_its_scope() {
    let refusal = |ms| error(-32029, json!({ "scope": "tool", "reason": "rate_limit_exceeded", "retry_after_ms": ms }));
    let stub = Stub::answers((1..=6).map(|attempt| refusal(attempt * 100)));
    let error = call(&stub, "pay").await.expect_err("it is refused for good");
    assert_eq!((stub.count(), error.attempts(), error.gave_up()), (6, 6, GaveUp::Exhausted));
    let refusal = error.refusal().expect("a refusal");
    assert_eq!((refusal.scope(), refusal.retry_after()), (Some(RefusalScope::Tool), Some(SECOND * 6 / 10)));
    assert!(refusal.other_tools_may_work() && !error.may_have_run());
    assert!(matches!(error.last(), LastAnswer::Error(_)));
    assert_eq!(error.to_string(), "Rate limit exceeded (retry after 1 s), given up after 6 attempts");
}

#[tokio::test(start_paused = true)]
async fn a_wait_beyond_the_deadline_is_not_begun() {
    let stub = Stub::answers([error(429, json!({ "retry_after_seconds": 30 }))]);
    let (caller, _client) = connect(&stub, CallerOptions::default()).await;
    let (start, deadline) = (Instant::now(), Some(Instant::now() + 10 * SECOND));
    let options = ToolCallOptions { deadline, ..ToolCallOptions::default() };
    let error = caller.call_with(CallToolRequestParams::new("pay"), options).await.expect_err("too long");
    assert_eq!((error.gave_up(), stub.count()), (GaveUp::Deadline, 1));
    assert!(start.elapsed() < SECOND);
    assert_eq!(error.refusal().and_then(McpRefusal::retry_after), Some(30 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_tool_whose_upstream_refused_is_repeated_only_if_it_is_idempotent() {
    let upstream = failed(
        json!({ "type": "rate_limited", "upstream": "github", "retry_after_seconds": 2, "limit": "10 requests / 1s" }),
    );
    for (tool, repeated) in [("read", true), ("set", true), ("pay", false), ("unknown", false)] {
        let stub = Stub::answers([upstream.clone()]);
        let called = call(&stub, tool).await;
        assert_eq!((called.is_ok(), stub.count()), (repeated, if repeated { 2 } else { 1 }), "{tool}");
        if let Err(error) = called {
            assert_eq!((error.gave_up(), error.may_have_run()), (GaveUp::MayHaveRun, true));
            assert_eq!(error.refusal().and_then(McpRefusal::limit), Some("10 requests / 1s"));
            assert!(matches!(error.last(), LastAnswer::Result(_)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_is_repeated_only_if_it_is_idempotent_or_said_to_be() {
    let options = || CallerOptions { attempt_timeout: Some(SECOND), ..CallerOptions::default() };
    for (tool, idempotent, repeated) in
        [("read", None, true), ("pay", None, false), ("pay", Some(true), true), ("read", Some(false), false)]
    {
        let stub = Stub::answers([Value::Null]);
        let (caller, _client) = connect(&stub, options()).await;
        let options = ToolCallOptions { idempotent, ..ToolCallOptions::default() };
        let called = caller.call_with(CallToolRequestParams::new(tool), options).await;
        assert_eq!(called.is_ok(), repeated, "{tool} {idempotent:?}");
        assert_eq!(
            *stub.lists.lock().expect("no panic"),
            usize::from(idempotent.is_none()),
            "asked only if it matters"
        );
        if let Err(error) = called {
            assert!(error.refusal().is_none() && error.may_have_run());
            assert_eq!(error.to_string(), "no answer came in time, given up after 1 attempts");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_tools_are_listed_once() {
    let stub = Stub::answers(vec![Value::Null; 4]);
    let (caller, _client) =
        connect(&stub, CallerOptions { attempt_timeout: Some(SECOND), ..CallerOptions::default() }).await;
    for tool in ["read", "pay", "pay", "set"] {
        let _ = caller.call(CallToolRequestParams::new(tool)).await;
    }
    assert_eq!(*stub.lists.lock().expect("no panic"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_ends_with_the_call() {
    let stub = Stub::answers(vec![Value::Null; 9]);
    let (caller, _client) = connect(&stub, CallerOptions::default()).await;
    let start = Instant::now();
    let error = caller.call(CallToolRequestParams::new("read")).await.expect_err("silence");
    assert_eq!((error.gave_up(), start.elapsed().as_secs(), stub.count()), (GaveUp::Deadline, 300, 1));
}

#[tokio::test(start_paused = true)]
async fn other_errors_and_a_tools_own_failures_are_not_repeated() {
    let stub = Stub::answers([error(-32602, json!({ "field": "amount" }))]);
    let final_error = call(&stub, "read").await.expect_err("an error");
    assert_eq!((final_error.gave_up(), stub.count()), (GaveUp::Final, 1));
    assert!(final_error.refusal().is_none());

    let stub = Stub::answers([failed(json!({}))]);
    call(&stub, "read").await.expect("a result that says what the tool could not do");
    assert_eq!(stub.count(), 1);

    let stub = Stub::answers([error(403, json!({ "reason": "suspended" }))]);
    assert!(call(&stub, "read").await.is_err());
    assert_eq!(stub.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn all_calls_together_keep_the_budget() {
    let stub = Stub::answers(vec![error(429, json!({ "retry_after_ms": 10 })); 1_000]);
    let (_, client) = connect(&stub, CallerOptions::default()).await;
    let caller = McpCaller::new(client.peer().clone(), CallerOptions::default()).expect("valid");
    for _ in 0..100 {
        caller.call(CallToolRequestParams::new("read")).await.expect_err("refused");
    }
    assert_eq!(stub.count(), 110);
}
