//! The tools under the worst weather, called by a real MCP client.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use sluicegate::resilience::{Backoff, UpstreamOptions};
use sluicegate::{AuthMode, Running, Settings};

use super::*;

/// The service, a server of the tools, and a client.
struct World {
    github: Arc<GitHub>,
    server: Running,
    client: RunningService<RoleClient, ()>,
    _data: tempfile::TempDir,
}

/// The longest that a call may take: the upstream's `call_timeout`.
const CALL: Duration = Duration::from_secs(3);

/// The example's options in a hurry, so that the test need not wait for real minutes.
fn hurried() -> UpstreamOptions {
    let mut options = UpstreamOptions {
        attempt_timeout: Duration::from_millis(250),
        call_timeout: CALL,
        ..tools::options().expect("valid")
    };
    options.retry.backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(200), 5).expect("valid");
    options.breaker.open_for = Duration::from_millis(300);
    options
}

impl World {
    async fn start(weather: impl Into<Vec<Weather>>) -> Self {
        let github = Arc::new(GitHub::new(20, weather));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/issues", listener.local_addr().expect("an address"));
        tokio::spawn(Arc::clone(&github).serve(listener));

        let data = tempfile::tempdir().expect("a folder");
        let mut settings = Settings::defaults();
        (settings.auth, settings.bind, settings.data) =
            (AuthMode::None, ([127, 0, 0, 1], 0).into(), data.path().to_owned());
        let server = Server::new("github-like").tools(Issues::new(url, hurried()).expect("valid"));
        let server = server.start(&settings).await.expect("it starts");
        let client = ().serve(StreamableHttpClientTransport::from_uri(server.endpoint())).await.expect("it connects");
        Self { github, server, client, _data: data }
    }

    async fn stop(self) {
        self.client.cancel().await.expect("the client ends");
        self.server.stop().await;
    }

    /// Eight callers who each make so many calls, one after the other: how each ended, and how long it took.
    async fn calls(&self, each: usize) -> Vec<(CallToolResult, Duration)> {
        let callers = (0..8).map(|caller| {
            let peer = self.client.peer().clone();
            tokio::spawn(async move {
                let mut ended = Vec::new();
                for call in 0..each {
                    let params = if call % 2 == 0 {
                        let title = serde_json::json!({ "title": format!("issue {caller}/{call}") });
                        CallToolRequestParams::new("open_issue")
                            .with_arguments(title.as_object().cloned().expect("an object"))
                    } else {
                        CallToolRequestParams::new("list_issues")
                    };
                    let start = Instant::now();
                    let result = peer.call_tool(params).await.expect("every call ends in a result");
                    ended.push((result, start.elapsed()));
                }
                ended
            })
        });
        let mut ended = Vec::new();
        for caller in callers.collect::<Vec<_>>() {
            ended.extend(caller.await.expect("no panic"));
        }
        ended
    }
}

/// A failure that a model and a program can act on.
fn assert_actionable(result: &CallToolResult) {
    let text = &result.content[0].as_text().expect("a text").text;
    assert!(["Wait", "Try again", "Go on without it"].iter().any(|advice| text.contains(advice)), "{text}");
    let meta = result.meta.as_ref().expect("data").0.clone();
    let kind = meta["type"].as_str().expect("a type");
    let waits = meta["retry_after_seconds"].as_u64() >= Some(1);
    let complete = match kind {
        "rate_limited" => waits && meta["limit"].is_string(),
        "circuit_open" => waits,
        kind => ["upstream_failed", "upstream_timeout", "upstream_unreachable"].contains(&kind),
    };
    assert!(complete, "{meta:?}: {text}");
}

fn succeeded(ended: &[(CallToolResult, Duration)]) -> usize {
    ended.iter().filter(|(result, _)| result.is_error != Some(true)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_the_worst_weather_every_call_ends_in_time_and_says_what_to_do() {
    use Weather::{Cut, Down, Fine, Hanging, Reset, Throttled};
    let worst = [
        Fine, Cut, Reset, Fine, Hanging, Throttled, Fine, Fine, Down, Down, Down, Down, Down, Down, Fine, Fine, Reset,
        Cut, Hanging, Hanging, Fine, Throttled, Down, Fine,
    ];
    let world = World::start(worst).await;
    let ended = world.calls(8).await;
    for (result, took) in &ended {
        assert!(*took <= CALL + Duration::from_millis(500), "{took:?}");
        if result.is_error == Some(true) {
            assert_actionable(result);
        }
    }
    let (requests, issues) = (world.github.requests(), world.github.issues());
    assert!(succeeded(&ended) > 0 && succeeded(&ended) < ended.len(), "{} of {}", succeeded(&ended), ended.len());
    assert!(world.github.busiest_second() <= 20, "more than the service allows");
    assert!(requests <= ended.len() + 10 + ended.len() / 10, "{requests} requests for {} calls", ended.len());
    assert_eq!(issues.iter().collect::<HashSet<_>>().len(), issues.len(), "an issue was opened twice: {issues:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_fine_weather_every_call_succeeds_within_the_limit_of_the_service() {
    let world = World::start([Weather::Fine]).await;
    let ended = world.calls(6).await;
    assert_eq!(succeeded(&ended), 48);
    assert_eq!(world.github.requests(), 48, "the service refused none");
    assert!(world.github.busiest_second() <= 20);
    assert_eq!(world.github.issues().len(), 24);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_the_usual_weather_of_the_example_calls_succeed_although_requests_fail() {
    let world = World::start(WEATHER).await;
    let ended = world.calls(3).await;
    assert!(succeeded(&ended) >= 22, "{ended:?}");
    assert!(world.github.requests() > ended.len());
    world.stop().await;
}
