//! Headers and body of a call: the short path answers as rmcp does, or leaves the request to it.
//!
//! The input is lines of headers, `name: value`, an empty line, and the body.
#![no_main]

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use libfuzzer_sys::fuzz_target;
use sluicegate_mcp::{
    Admitted, Engine, Envelope, HttpEndpoint, Json, Kind, Outcome, Owner, Params, Passage, Registry, RmcpHandler,
    ServerInfo, Ticket, Tool, Visible, Visit,
};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    text: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Numbers {
    numbers: Vec<f64>,
}

struct Nothing;

impl Ticket for Nothing {
    fn ended(&self, _outcome: Outcome) {}
}

struct House {
    registry: Arc<Registry>,
    endpoint: HttpEndpoint,
    runtime: Runtime,
}

static HOUSE: LazyLock<House> = LazyLock::new(|| {
    let echo = Tool::from_fn("echo", async |Params(asked): Params<Text>| asked.text);
    let list = Tool::from_fn("list", async |Params(asked): Params<Numbers>| Json(asked.numbers));
    let strict = Tool::from_fn("strict", async |Params(asked): Params<Text>| asked.text).validated();
    let registry = Arc::new(Registry::new([echo, list, strict]).expect("the tools are sound"));
    let info = ServerInfo { name: "x".into(), version: "1".into(), instructions: None, tools_list_ttl_ms: 0 };
    let engine = Engine::new(Arc::clone(&registry), info, RmcpHandler::default(), None).expect("there is no key");
    let endpoint = HttpEndpoint::new(&engine, None, CancellationToken::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    House { registry, endpoint, runtime }
});

fuzz_target!(|input: &[u8]| {
    let Some(at) = input.windows(2).position(|window| window == b"\n\n") else { return };
    let (head, body) = (&input[..at], Bytes::copy_from_slice(&input[at + 2..]));
    let envelope = Envelope::read(&body);
    let Kind::ToolCall(name) = &envelope.kind else { return };
    let Some((tool, _)) = HOUSE.registry.get(name) else { return };
    let admitted = || Admitted::new(tool, Arc::new(Nothing), "req-1");
    let mut builder = Request::post("http://127.0.0.1/mcp");
    for line in head.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        builder = builder.header(&line[..colon], line[colon + 1..].trim_ascii());
    }
    let Ok(request) = builder.body(Full::new(body.clone())) else { return };
    let (mut parts, whole) = request.into_parts();
    let Some(call) = HOUSE.endpoint.recognise(&parts, &envelope, tool) else { return };
    let owner = Owner { group: "g".into(), member: "m".into() };
    parts.extensions.insert(Visit { visible: Visible::new(|_| true), owner, request_id: "req-1".into(), ends: None });
    parts.extensions.insert(Passage::Admitted(admitted()));
    let (short, engine) = HOUSE.runtime.block_on(async {
        let short = seen(HOUSE.endpoint.run(call, admitted(), HeaderMap::new()).await).await;
        (short, seen(HOUSE.endpoint.handle(Request::from_parts(parts, whole)).await).await)
    });
    assert_eq!(short, engine);
});

async fn seen<B>(response: Response<B>) -> (u16, Vec<(String, Vec<u8>)>, Bytes)
where
    B: http_body_util::BodyExt<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    let (parts, body) = response.into_parts();
    let mut headers: Vec<_> =
        parts.headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    headers.sort();
    (parts.status.as_u16(), headers, body.collect().await.expect("the body ends").to_bytes())
}
