//! Calls that were repeated: an idempotent tool runs once for a key, and the attempts of all tools are counted.

use std::time::Duration;

use serde_json::json;
use sluicegate::control::Target;
use sluicegate_tests::{Answer, Client, Database, Era, Exposition, TestServer, on_both_databases};

/// One tool on the short path, one that talks to its caller.
const TOOLS: [&str; 2] = ["settle", "settle_aloud"];

async fn settle(client: &Client, era: Era, tool: &str, invoice: &str, key: &str) -> Answer {
    let client = if era == Era::Modern { client.modern("tools/call", tool) } else { client.clone() };
    let meta = json!({ "_meta": { "sluicegate/idempotencyKey": key } });
    client.send(Client::call_body(era, tool, json!({ "invoice": invoice }), meta)).await
}

async fn settle_plainly(client: &Client, invoice: &str, key: &str) -> Answer {
    settle(client, Era::Legacy, "settle", invoice, key).await
}

fn is_replayed(answer: &Answer) -> bool {
    answer.json()["result"]["_meta"]["sluicegate/replayed"] == true
}

on_both_databases! {
    async fn a_repeated_call_gets_the_first_result_whatever_way_it_comes(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        for tool in TOOLS {
            let before = server.ran.settled();
            let first = settle(&client, Era::Legacy, tool, "7", "k").await;
            assert!(!is_replayed(&first));
            for era in [Era::Legacy, Era::Modern, Era::Legacy] {
                let again = settle(&client, era, tool, "7", "k").await;
                assert_eq!(again.ok_text(), first.ok_text());
                assert!(is_replayed(&again), "{again:?}");
            }
            assert_eq!(server.ran.settled(), before + 1);
        }
        assert!(settle(&client, Era::Legacy, "export", "7", "k").await.text.contains("dataset"), "other tools just run");
    }

    async fn nobody_gets_the_result_of_another_tenant_or_of_another_agent(database: Database) {
        let server = TestServer::start(&database).await;
        let acme = server.client("acme", "u-42").await;
        settle_plainly(&acme, "7", "k").await;
        for (tenant, agent) in [("globex", "u-42"), ("acme", "u-43")] {
            let other = server.client(tenant, agent).await;
            let answer = settle_plainly(&other, "7", "k").await;
            assert!(!is_replayed(&answer), "{tenant} {agent} got what acme's u-42 had");
            assert!(is_replayed(&settle_plainly(&other, "7", "k").await), "it has its own");
        }
        assert_eq!(server.ran.settled(), 3);
        let second_key = server.client("acme", "u-42").await;
        assert!(is_replayed(&settle_plainly(&second_key, "7", "k").await), "an agent is one with all its API keys");
    }

    async fn a_key_that_protects_nothing_is_refused_instead_of_ignored(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        for key in [json!(""), json!("k".repeat(256)), json!(5), json!([]), json!({ "k": 1 })] {
            for tool in TOOLS {
                let meta = json!({ "_meta": { "sluicegate/idempotencyKey": key } });
                let answer = client.send(Client::call_body(Era::Legacy, tool, json!({ "invoice": "7" }), meta)).await;
                assert!(answer.error_text().contains("a text of 1 to 255 bytes"), "{key}: {answer:?}");
            }
        }
        assert_eq!(server.ran.settled(), 0);
        assert!(settle_plainly(&client, "7", &"k".repeat(255)).await.is_ok());
    }

    async fn a_key_with_other_arguments_is_an_error_that_says_so(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        settle_plainly(&client, "7", "k").await;
        for tool in ["settle", "settle"] {
            let text = settle(&client, Era::Modern, tool, "8", "k").await.error_text();
            assert!(text.contains("idempotency key belongs to a call with other arguments"), "{text}");
        }
        assert!(is_replayed(&settle_plainly(&client, "7", "k").await));
        assert!(!is_replayed(&settle(&client, Era::Legacy, "settle_aloud", "8", "k").await), "another tool, another key");
    }

    async fn duplicates_that_come_at_once_are_one_run(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let eras = [Era::Legacy, Era::Modern].into_iter().cycle();
        let calls = eras.take(8).map(|era| settle(&client, era, "settle", "7", "k"));
        let answers = futures::future::join_all(calls).await;
        assert!(answers.iter().all(|answer| answer.ok_text() == "7 by run 1"), "{answers:?}");
        assert_eq!(answers.iter().filter(|answer| is_replayed(answer)).count(), 7);
    }

    async fn a_replay_is_charged_like_any_call(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        server.set_rate(Target::Tool { tool: "settle".to_owned() }, "3/min").await;
        for _ in 0..3 {
            assert!(settle_plainly(&client, "7", "k").await.is_ok());
        }
        assert_eq!(settle_plainly(&client, "7", "k").await.status, 429);
        assert_eq!(server.ran.settled(), 1);
    }

    async fn the_attempts_until_a_call_gets_through_are_counted_from_refusals_or_as_the_caller_says(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let export = async |era: Era, attempt: Option<u32>| {
            let client = if era == Era::Modern { client.modern("tools/call", "export") } else { client.clone() };
            let meta = attempt.map_or(json!({}), |attempt| json!({ "_meta": { "sluicegate/attempt": attempt } }));
            client.send(Client::call_body(era, "export", json!({ "dataset": "x" }), meta)).await.status.as_u16()
        };
        let statuses = async |calls: usize| {
            let mut statuses = Vec::new();
            for _ in 0..calls {
                statuses.push(export(Era::Legacy, None).await);
            }
            statuses
        };
        assert_eq!(statuses(8).await, [200, 200, 200, 200, 200, 429, 429, 429]);
        server.advance(Duration::from_secs(12));
        assert_eq!(statuses(2).await, [200, 429], "the first is the fourth attempt");
        // Long after the wait that was told: whoever comes now asks for something else.
        server.advance(Duration::from_mins(11));
        assert_eq!(statuses(1).await, [200]);
        for era in [Era::Legacy, Era::Modern] {
            assert_eq!(export(era, Some(7)).await, 200);
        }
        let counted = |metrics: &Exposition| metrics.sum("sluicegate_retry_attempts_count", &[]);
        let metrics = server.metrics_until(|metrics| counted(metrics) >= 3.0).await;
        let at_most = |bound| metrics.sum("sluicegate_retry_attempts_bucket", &[("le", bound)]);
        assert_eq!(["1", "3", "5", "8"].map(at_most), [0.0, 0.0, 1.0, 3.0]);
        assert_eq!((counted(&metrics), metrics.sum("sluicegate_retry_attempts_sum", &[])), (3.0, 18.0));
    }
}
