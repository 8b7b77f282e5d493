//! The short path against rmcp: the same requests, and the answers must be the same.

use std::cell::Cell;
use std::fmt;
use std::sync::LazyLock;

use http::Request;
use http_body_util::BodyExt as _;
use proptest::prelude::*;
use tokio::runtime::Runtime;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::engine::Engine;
use crate::passage::Owner;
use crate::{
    Envelope, HttpEndpoint, Json, Kind, Outcome, Params, Passage, Progress, Registry, RmcpHandler, ServerInfo, Ticket,
    ToolError, Visible, Visit,
};

mod corpus;
mod mutations;

/// How many random requests are compared; more by `SLUICEGATE_TEST_CASES`.
const CASES: u32 = 5_000;

/// One request as the gate would hand it over.
#[derive(Clone)]
pub(super) struct Sent {
    method: Method,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {}", self.method, self.headers, String::from_utf8_lossy(&self.body))
    }
}

/// What is compared of an answer.
#[derive(Debug, PartialEq)]
struct Seen {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    text: String,
    #[serde(default)]
    times: Option<u8>,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Sum {
    sum: f64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Numbers {
    numbers: Vec<f64>,
}

struct Nothing;

impl Ticket for Nothing {
    fn ended(&self, _outcome: Outcome) {}
}

/// Tools of every kind of result.
fn registry() -> Arc<Registry> {
    let echo =
        Tool::from_fn("echo", async |Params(asked): Params<Text>| asked.text.repeat(asked.times.unwrap_or(1).into()));
    let sum =
        Tool::from_fn("sum", async |Params(asked): Params<Numbers>| Json(Sum { sum: asked.numbers.iter().sum() }));
    let list = Tool::from_fn("list", async |Params(asked): Params<Numbers>| Json(asked.numbers));
    let fail = Tool::from_fn("fail", async |Params(asked): Params<Text>| {
        Err::<(), _>(ToolError::new(asked.text).with_meta("example.com/why", 7))
    });
    let panic = Tool::from_fn("panic", async |(): ()| -> String { panic!("as the test wants it") });
    let strict = Tool::from_fn("strict", async |Params(asked): Params<Text>| asked.text).validated();
    let talks = Tool::from_fn("talks", async |(Params(asked), progress): (Params<Text>, Progress)| {
        progress.report(1.0, 2.0).await;
        asked.text
    });
    Arc::new(Registry::new([echo, sum, list, fail, panic, strict, talks]).expect("the tools are sound"))
}

struct Bench {
    registry: Arc<Registry>,
    endpoint: HttpEndpoint,
    runtime: Runtime,
}

static BENCH: LazyLock<Bench> = LazyLock::new(|| {
    let registry = registry();
    let info = ServerInfo { name: "x".into(), version: "1".into(), instructions: None, tools_list_ttl_ms: 0 };
    let engine = Engine::new(Arc::clone(&registry), info, RmcpHandler::default(), None).expect("there is no key");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let endpoint = HttpEndpoint::new(&engine, None, CancellationToken::new());
    Bench { registry, endpoint, runtime }
});

impl Bench {
    fn passage(&self, envelope: &Envelope<'_>) -> Option<Passage> {
        let Kind::ToolCall(name) = &envelope.kind else { return None };
        Some(match self.registry.get(name) {
            Some((tool, _)) => Passage::Admitted(Admitted::new(tool, Arc::new(Nothing), "req-1")),
            None => Passage::NoSuchTool(Arc::from(&**name)),
        })
    }

    /// `None` if the request is left to rmcp.
    fn by_the_short_path(&self, sent: &Sent) -> Option<Seen> {
        let (parts, ()) = sent.request()?.into_parts();
        let envelope = Envelope::read(&sent.body);
        let Some(Passage::Admitted(admitted)) = self.passage(&envelope) else { return None };
        let call = self.endpoint.recognise(&parts, &envelope, admitted.tool())?;
        Some(self.runtime.block_on(async { seen(self.endpoint.run(call, admitted, HeaderMap::new()).await).await }))
    }

    fn by_rmcp(&self, sent: &Sent) -> Option<Seen> {
        let mut request = sent.request()?.map(|()| Full::from(sent.body.clone()));
        let owner = Owner { group: "g".into(), member: "m".into() };
        let visit = Visit { visible: Visible::new(|_| true), owner, request_id: "req-1".into(), ends: None };
        request.extensions_mut().insert(visit);
        if let Some(passage) = self.passage(&Envelope::read(&sent.body)) {
            request.extensions_mut().insert(passage);
        }
        Some(self.runtime.block_on(async { seen(self.endpoint.handle(request).await).await }))
    }

    /// Whether the short path took it; then the answers are the same.
    #[track_caller]
    fn compare(&self, sent: &Sent) -> bool {
        let Some(short) = self.by_the_short_path(sent) else { return false };
        let engine = self.by_rmcp(sent).expect("the request could be made before");
        assert_eq!(short, engine, "{sent:?}");
        true
    }
}

impl Sent {
    /// `None` for header values that no connection would let through.
    fn request(&self) -> Option<Request<()>> {
        let mut request = Request::builder().method(&self.method).uri("http://127.0.0.1/mcp");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        request.body(()).ok()
    }
}

async fn seen<B>(response: Response<B>) -> Seen
where
    B: http_body::Body<Data = Bytes>,
    B::Error: fmt::Debug,
{
    let (parts, body) = response.into_parts();
    let mut headers: Vec<_> = parts
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    headers.sort();
    let body = body.collect().await.expect("the body ends").to_bytes();
    Seen { status: parts.status.as_u16(), headers, body: String::from_utf8_lossy(&body).into_owned() }
}

#[test]
fn every_plain_call_takes_the_short_path_and_is_answered_as_rmcp_does() {
    for sent in corpus::plain() {
        assert!(BENCH.compare(&sent), "left to rmcp: {sent:?}");
    }
}

#[test]
fn a_call_that_breaks_a_rule_is_left_to_rmcp() {
    for (rule, sent) in corpus::broken() {
        assert!(BENCH.by_the_short_path(&sent).is_none(), "{rule}: {sent:?}");
    }
}

#[test]
fn a_call_that_only_looks_unusual_is_answered_as_rmcp_does() {
    let taken = corpus::unusual().iter().filter(|sent| BENCH.compare(sent)).count();
    assert!(taken > 0, "nothing unusual was recognised");
}

#[test]
fn random_requests_are_answered_as_rmcp_does_or_left_to_it() {
    let cases = std::env::var("SLUICEGATE_TEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    let taken = Cell::new(0_u32);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&mutations::mutated(), |sent| {
            taken.set(taken.get() + u32::from(BENCH.compare(&sent)));
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    let taken = taken.get();
    assert!(taken > cases / 10, "only {taken} of {cases} were recognised, so little was compared");
}
