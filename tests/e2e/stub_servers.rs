//! Our client helper against other servers over HTTP, in each shape that refusals have there.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Value, json};
use sluicegate::resilience::{
    Backoff, BudgetOptions, CallerOptions, GaveUp, LastAnswer, McpCallError, McpCaller, RefusalScope, RetryOptions,
};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// How a refused call is answered.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// 429 with Retry-After and a JSON-RPC error.
    Http,
    /// 429 with Retry-After and a text, as proxies answer.
    Proxy,
    /// 200 with a JSON-RPC error of this code.
    Jsonrpc(i32),
    /// 200 with the error that SEP-3304 proposes.
    Proposed,
    /// 200 with a result that is a failure.
    ToolResult,
    /// The connection closes without an answer.
    Reset,
}

/// A server of one tool that refuses as scripted, telling to wait for a second, and then serves.
#[derive(Clone)]
struct Stub {
    script: Arc<Mutex<VecDeque<Shape>>>,
    calls: Arc<Mutex<Vec<(Instant, Value)>>>,
    endpoint: String,
}

impl Stub {
    async fn start(script: impl IntoIterator<Item = Shape>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let script = Arc::new(Mutex::new(script.into_iter().collect()));
        let stub = Self { script, calls: Arc::default(), endpoint };
        let serving = stub.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let stub = serving.clone();
                tokio::spawn(async move { stub.serve(stream).await });
            }
        });
        stub
    }

    /// One request per connection.
    async fn serve(self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        while stream.read_line(&mut line).await? > 2 {
            let field = line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
            if let Some((_, value)) = field.filter(|(name, _)| name == "content-length") {
                length = value.parse().unwrap_or_default();
            }
            line.clear();
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        let Some((status, content_type, body)) = self.answer(&request) else { return Ok(()) };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).await?;
        stream.shutdown().await
    }

    /// Status, with fields after it; type of the body; the body. Nothing for a reset.
    fn answer(&self, request: &Value) -> Option<(&'static str, &'static str, String)> {
        const JSON: &str = "application/json";
        const REFUSED: &str = "429 Too Many Requests\r\nretry-after: 1";
        let rpc =
            |member: &str, value: Value| json!({ "jsonrpc": "2.0", "id": request["id"], member: value }).to_string();
        let data = json!({
            "reason": "rate_limit_exceeded", "scope": "tool", "tool": "pay", "limit": "10 requests / 60s",
            "current_usage": 10, "remaining": 0, "retry_after_seconds": 1, "retry_after_ms": 1000,
        });
        let error = |code: i32, data: &Value| {
            rpc("error", json!({ "code": code, "message": "Rate limit exceeded", "data": data }))
        };
        let text = |text: &str| json!([{ "type": "text", "text": text }]);
        match request["method"].as_str() {
            Some("initialize") => Some((
                "200 OK",
                JSON,
                rpc(
                    "result",
                    json!({
                        "protocolVersion": request["params"]["protocolVersion"],
                        "capabilities": { "tools": {} },
                        "serverInfo": { "name": "stub", "version": "1" },
                    }),
                ),
            )),
            Some("tools/list") => {
                let tool =
                    |name, hints| json!({ "name": name, "inputSchema": { "type": "object" }, "annotations": hints });
                let tools = json!([tool("pay", json!({})), tool("read", json!({ "readOnlyHint": true }))]);
                Some(("200 OK", JSON, rpc("result", json!({ "tools": tools }))))
            }
            Some("tools/call") => {
                self.calls.lock().expect("no panic").push((Instant::now(), request["params"]["_meta"].clone()));
                Some(match self.script.lock().expect("no panic").pop_front() {
                    None => ("200 OK", JSON, rpc("result", json!({ "content": text("done") }))),
                    Some(Shape::Http) => (REFUSED, JSON, error(-32029, &data)),
                    Some(Shape::Proxy) => (REFUSED, "text/plain", "slow down".to_owned()),
                    Some(Shape::Jsonrpc(code)) => ("200 OK", JSON, error(code, &data)),
                    Some(Shape::Proposed) => {
                        ("200 OK", JSON, error(-32023, &json!({ "retryAfterMs": 1000, "limit": 10 })))
                    }
                    Some(Shape::ToolResult) => (
                        "200 OK",
                        JSON,
                        rpc(
                            "result",
                            json!({
                                "content": text("busy"), "isError": true, "_meta": { "sluicegate/refusal": data },
                            }),
                        ),
                    ),
                    Some(Shape::Reset) => return None,
                })
            }
            Some(_) => Some(("202 Accepted", JSON, String::new())),
            // There is no stream to open and no session to end.
            None => Some(("405 Method Not Allowed", JSON, String::new())),
        }
    }

    async fn call(&self, tool: &'static str, retries: u32) -> Result<(), McpCallError> {
        let client =
            ().serve(StreamableHttpClientTransport::from_uri(self.endpoint.clone())).await.expect("it connects");
        let backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(100), retries).expect("valid");
        let retry = RetryOptions { backoff, budget: BudgetOptions::default(), ..RetryOptions::default() };
        let caller = McpCaller::new(client.peer().clone(), CallerOptions { retry, ..CallerOptions::default() });
        let called = caller.expect("valid").call(CallToolRequestParams::new(tool)).await;
        client.cancel().await.expect("the client ends");
        called.map(drop)
    }

    fn waits(&self) -> Vec<Duration> {
        self.calls.lock().expect("no panic").windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
    }

    fn attempts(&self) -> Vec<Value> {
        self.calls.lock().expect("no panic").iter().map(|(_, meta)| meta["sluicegate/attempt"].clone()).collect()
    }
}

const SHAPES: [Shape; 7] = [
    Shape::Http,
    Shape::Proxy,
    Shape::Jsonrpc(-32029),
    Shape::Jsonrpc(429),
    Shape::Jsonrpc(-32000),
    Shape::Proposed,
    Shape::ToolResult,
];

#[tokio::test]
async fn in_every_shape_the_told_wait_is_kept_and_then_the_call_succeeds() {
    let calls = SHAPES.map(|shape| async move {
        let stub = Stub::start([shape, shape]).await;
        stub.call("pay", 2).await.unwrap_or_else(|error| panic!("{shape:?}: {error:?}"));
        assert_eq!(stub.attempts(), [1, 2, 3], "{shape:?}");
        for wait in stub.waits() {
            // No less than told; what it may be more is jitter, and this machine.
            assert!(wait >= Duration::from_secs(1) && wait < Duration::from_secs(5), "{wait:?} for {shape:?}");
        }
    });
    futures::future::join_all(calls).await;
}

#[tokio::test]
async fn whoever_gives_up_has_the_last_refusal() {
    let calls = SHAPES.map(|shape| async move {
        let stub = Stub::start([shape; 5]).await;
        let error = stub.call("pay", 1).await.expect_err("it is refused for good");
        assert_eq!(
            (error.gave_up(), error.attempts(), error.may_have_run()),
            (GaveUp::Exhausted, 2, false),
            "{error:?}"
        );
        let refusal = error.refusal().expect("a refusal");
        assert_eq!(refusal.retry_after(), Some(Duration::from_secs(1)), "{shape:?}");
        // rmcp keeps nothing of the body of a 429.
        let tells_scope = !matches!(shape, Shape::Http | Shape::Proxy | Shape::Proposed);
        assert_eq!(refusal.scope(), tells_scope.then_some(RefusalScope::Tool), "{shape:?}");
        assert_eq!(matches!(error.last(), LastAnswer::Result(_)), shape == Shape::ToolResult);
    });
    futures::future::join_all(calls).await;
}

#[tokio::test]
async fn after_a_reset_only_a_call_that_does_no_harm_is_repeated() {
    let read = Stub::start([Shape::Reset]).await;
    read.call("read", 2).await.expect("the second succeeds");
    assert_eq!(read.attempts(), [1, 2]);
    let pay = Stub::start([Shape::Reset]).await;
    let error = pay.call("pay", 2).await.expect_err("it may have been paid");
    assert_eq!((error.gave_up(), error.may_have_run()), (GaveUp::MayHaveRun, true));
    assert_eq!(pay.attempts(), [1]);
}
