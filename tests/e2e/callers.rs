//! Our own client helper against our own server, in every style of a refusal.

use std::time::Duration;

use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientServiceExt as _, RoleClient};
use serde_json::json;
use sluicegate::RefusalStyle;
use sluicegate::resilience::{
    Backoff, BudgetOptions, CallerOptions, GaveUp, McpCaller, RefusalScope, RetryOptions, meta_key,
};
use sluicegate_tests::{Database, TestServer, on_both_databases};

async fn connect(server: &TestServer, era: ClientLifecycleMode) -> RunningService<RoleClient, ()> {
    let key = server.client("acme", "u-42").await.key().to_owned();
    let config = StreamableHttpClientTransportConfig::with_uri(server.endpoint()).auth_header(key);
    ().serve_with_lifecycle(StreamableHttpClientTransport::from_config(config), era).await.expect("it connects")
}

/// A caller that is in a hurry: the server's clock is the test's, but waits are real.
fn caller(client: &RunningService<RoleClient, ()>, retries: u32) -> McpCaller {
    let backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(5), retries).expect("valid");
    let budget = BudgetOptions { reserve: 1_000, ..BudgetOptions::default() };
    let retry = RetryOptions { backoff, budget, max_wait: Duration::from_millis(20), ..RetryOptions::default() };
    McpCaller::new(client.peer().clone(), CallerOptions { retry, ..CallerOptions::default() }).expect("valid")
}

fn export() -> CallToolRequestParams {
    let arguments = json!({ "dataset": "sales" }).as_object().cloned().unwrap_or_default();
    CallToolRequestParams::new("export").with_arguments(arguments)
}

on_both_databases! {
    async fn a_refused_call_is_understood_and_succeeds_when_the_limit_allows_it(database: Database) {
        let eras = [
            ClientLifecycleMode::Initialize,
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        ];
        for (style, scope) in [
            // rmcp keeps only the status and Retry-After.
            (RefusalStyle::Http, None),
            (RefusalStyle::Jsonrpc, Some(RefusalScope::Tool)),
            (RefusalStyle::ToolResult, Some(RefusalScope::Tool)),
        ] {
            let server = TestServer::start_with(&database, |settings| settings.refusal_style = style).await;
            for era in eras.clone() {
                // A full bucket for each.
                server.advance(Duration::from_mins(2));
                let (client, ran) = (connect(&server, era).await, server.ran.exports());
                let impatient = caller(&client, 0);
                for _ in 0..5 {
                    impatient.call(export()).await.expect("within the limit");
                }
                let error = impatient.call(export()).await.expect_err("the sixth is refused");
                let refusal = error.refusal().expect("a refusal");
                assert_eq!((error.gave_up(), error.may_have_run(), refusal.scope()), (GaveUp::Exhausted, false, scope), "{error:?}");
                let told = refusal.retry_after().expect("a wait");
                assert!(told > Duration::from_secs(11) && told <= Duration::from_secs(12), "{told:?} in {style:?}");

                let patient = caller(&client, 1_000);
                let (result, ()) = tokio::join!(patient.call(export()), async {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    server.advance(told);
                });
                assert_ne!(result.expect("after the wait it works").is_error, Some(true));
                assert_eq!(server.ran.exports() - ran, 6, "refused calls have not run");
                client.cancel().await.expect("the client ends");
            }
            server.stop().await;
        }
    }

    async fn an_idempotent_tool_runs_once_for_one_key_of_the_caller(database: Database) {
        let server = TestServer::start(&database).await;
        let client = connect(&server, ClientLifecycleMode::Initialize).await;
        let caller = caller(&client, 0);
        let settle = |key: Option<&str>| {
            let meta = key.map(|key| json!({ meta_key::IDEMPOTENCY_KEY: key }));
            let params = json!({ "name": "settle", "arguments": { "invoice": "7" }, "_meta": meta });
            serde_json::from_value::<CallToolRequestParams>(params).expect("a call")
        };
        for key in [Some("k"), Some("k"), None, None] {
            assert_ne!(caller.call(settle(key)).await.expect("a result").is_error, Some(true));
        }
        assert_eq!(server.ran.settled(), 3, "calls that name no key get one of their own");
        client.cancel().await.expect("the client ends");
        server.stop().await;
    }
}
