//! Alerts that are told over HTTP: signed, tried again, and never to addresses of the server's own network.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate::Settings;
use sluicegate::control::{Alert, AlertKind, AlertRuleId, MintedAlertRule, NewAlertRule, PageRequest, Role, Signals};
use sluicegate_tests::receiver::{Receiver, Reply};
use sluicegate_tests::server::{START_MS, actor};
use sluicegate_tests::visitor::Visitor;
use sluicegate_tests::{Database, TestServer, on_both_databases};

/// Longer than a message waits before its second attempt.
const WAIT: Duration = Duration::from_secs(6);

async fn rule(server: &TestServer, url: &str) -> MintedAlertRule {
    let new = NewAlertRule {
        name: "engine in trouble".to_owned(),
        kind: AlertKind::EngineDegraded,
        tenant: None,
        tool: None,
        threshold: 1,
        minutes: 1,
        enabled: true,
        webhook: Some(url.to_owned()),
    };
    server.control().alerts().create_rule(&actor(), new).await.expect("a rule")
}

/// What a server would say of itself that is in trouble, or well again.
async fn say(server: &TestServer, degraded: bool) {
    let signals = Signals { instance: "one".to_owned(), engine_degraded: degraded, open_breakers: Vec::new() };
    let changed = server.control().alerts().evaluate(&actor(), &signals).await.expect("it is evaluated");
    assert_eq!(changed.len(), 1);
}

async fn alert(server: &TestServer) -> Alert {
    let page = server.control().alerts().list(&actor(), &PageRequest::default()).await.expect("alerts");
    page.items.into_iter().next().expect("an alert")
}

/// Waits until what became of the last message is as wanted.
async fn settled(server: &TestServer, holds: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..500 {
        let told = json!(alert(server).await)["last_delivery"].clone();
        if holds(&told) {
            return told;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it does not hold: {:?}", alert(server).await)
}

fn private(settings: &mut Settings) {
    settings.webhook_private_addresses = true;
    settings.webhook_timeout = "300ms".parse().expect("a length of time");
}

async fn tested(server: &TestServer, rule: AlertRuleId) -> Value {
    json!(server.live().test_webhook(&actor(), rule).await.expect("it is tested"))
}

on_both_databases! {
    async fn the_begin_and_the_end_of_an_alert_are_told_with_a_signature(database: Database) {
        let receiver = Receiver::start(&[]).await;
        let server = TestServer::start_with(&database, private).await;
        let minted = rule(&server, &receiver.url()).await;
        let secret = minted.secret.expect("it has a webhook");
        say(&server, true).await;
        let began = receiver.wait_for(1).await[0].clone();
        assert!(began.is_signed_with(secret.expose()) && !began.is_signed_with("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
        assert_eq!(began.header("webhook-timestamp"), (START_MS / 1_000).to_string());
        assert_eq!(began.header("content-type"), "application/json");
        let body = began.json();
        assert_eq!((&body["type"], &body["timestamp"]), (&json!("alert.began"), &json!("2027-01-15T08:00:00Z")));
        assert_eq!(body["data"]["rule_name"], "engine in trouble");
        assert_eq!((&body["data"]["began_at"], &body["data"]["ended_at"]), (&json!(START_MS), &Value::Null));
        let told = settled(&server, |told| told["delivered_at"].is_number()).await;
        assert_eq!(told["id"], began.header("webhook-id"));
        assert_eq!((&told["status"], &told["attempts"], &told["error"]), (&json!(204), &json!(1), &Value::Null));

        server.advance(Duration::from_secs(60));
        say(&server, false).await;
        let ended = receiver.wait_for(2).await[1].clone();
        assert!(ended.is_signed_with(secret.expose()));
        assert_ne!(ended.header("webhook-id"), began.header("webhook-id"));
        let body = ended.json();
        assert_eq!((&body["type"], &body["data"]["ended_at"]), (&json!("alert.ended"), &json!(START_MS + 60_000)));
        settled(&server, |told| told["event"] == "alert.ended" && told["delivered_at"].is_number()).await;
        let metrics = server.metrics().await;
        assert_eq!(metrics.sum("sluicegate_webhook_attempts_total", &[("result", "delivered")]), 2.0);
    }

    async fn what_fails_is_tried_again_with_the_same_id(database: Database) {
        let replies = [Reply::Status(500), Reply::Redirect, Reply::Silence];
        let receiver = Receiver::start(&replies).await;
        let server = TestServer::start_with(&database, private).await;
        let secret = rule(&server, &receiver.url()).await.secret.expect("it has a webhook");
        say(&server, true).await;
        for (attempt, status, error) in [
            (1, json!(500), "the webhook answered 500 Internal Server Error"),
            (2, json!(302), "the webhook answered 302 Found; redirects are not followed"),
            (3, Value::Null, "no answer came within 300ms"),
        ] {
            let told = settled(&server, |told| told["attempts"] == attempt && told["error"].is_string() && told["error"] == error).await;
            assert_eq!(told["status"], status, "{told}");
            assert!(told["next_attempt_at"].as_i64().is_some_and(|at| at <= server.wall_ms() + 20_000), "{told}");
            server.advance(WAIT * 4);
        }
        let told = settled(&server, |told| told["delivered_at"].is_number()).await;
        assert_eq!((&told["attempts"], &told["status"]), (&json!(4), &json!(204)));
        let received = receiver.received().await;
        assert_eq!(received.len(), 4);
        let first = &received[0];
        for again in &received {
            assert_eq!((&*again.path, &again.body), ("/hook", &first.body));
            assert_eq!(again.header("webhook-id"), first.header("webhook-id"));
            assert!(again.is_signed_with(secret.expose()));
        }
        assert!(received[3].header("webhook-timestamp") > first.header("webhook-timestamp"), "each attempt has its time");
        let metrics = server.metrics().await;
        assert_eq!(metrics.sum("sluicegate_webhook_attempts_total", &[("result", "failed")]), 3.0);
    }

    async fn what_was_not_delivered_is_delivered_by_whoever_comes_next(database: Database) {
        let receiver = Receiver::start(&[Reply::Status(503)]).await;
        let server = TestServer::start_with(&database, private).await;
        rule(&server, &receiver.url()).await;
        say(&server, true).await;
        settled(&server, |told| told["status"] == 503).await;
        server.stop().await;
        let (next, other) = (
            TestServer::start_with(&database, private).await,
            TestServer::start_with(&database, private).await,
        );
        next.advance(WAIT);
        other.advance(WAIT);
        settled(&next, |told| told["delivered_at"].is_number()).await;
        // Both have looked more than once by then.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        assert_eq!(receiver.received().await.len(), 2, "one of the two servers has sent it");
    }

    async fn a_message_is_given_up_in_the_end(database: Database) {
        let receiver = Receiver::start(&[Reply::Status(410); 8]).await;
        let server = TestServer::start_with(&database, private).await;
        rule(&server, &receiver.url()).await;
        say(&server, true).await;
        for attempt in 1..=8 {
            settled(&server, |told| told["attempts"] == attempt && told["status"] == 410 && told["error"].is_string()
                && (attempt == 8 || told["next_attempt_at"].as_i64().is_some_and(|at| at < server.wall_ms() + 660_000))).await;
            receiver.wait_for(attempt).await;
            server.advance(Duration::from_secs(660));
        }
        let told = settled(&server, |told| told["next_attempt_at"].is_null()).await;
        assert_eq!((&told["attempts"], &told["delivered_at"]), (&json!(8), &Value::Null));
        let metrics = server.metrics().await;
        let attempts = |result| metrics.sum("sluicegate_webhook_attempts_total", &[("result", result)]);
        assert_eq!((attempts("failed"), attempts("given_up")), (7.0, 1.0));
    }

    async fn an_address_of_this_network_is_not_called_unless_that_is_allowed(database: Database) {
        let receiver = Receiver::start(&[]).await;
        let server = TestServer::start(&database).await;
        let port = receiver.url().split(':').nth(2).expect("a port").to_owned();
        for url in [
            receiver.url(),
            receiver.named_url(),
            format!("http://[::ffff:127.0.0.1]:{port}"),
            format!("http://2130706433:{port}"),
            format!("http://0x7f.1:{port}"),
            format!("http://0:{port}"),
            "http://169.254.169.254/latest/meta-data/".to_owned(),
        ] {
            let rule = rule(&server, &url).await.rule.id;
            let answer = tested(&server, rule).await;
            assert_eq!((&answer["delivered"], &answer["status"]), (&json!(false), &Value::Null), "{url}: {answer}");
            let error = answer["error"].as_str().expect("an error");
            assert!(error.contains("is not a public address; set webhook_private_addresses"), "{url}: {error}");
            server.control().alerts().delete_rule(&actor(), rule).await.expect("it is deleted");
        }
        rule(&server, &receiver.named_url()).await;
        say(&server, true).await;
        let told = settled(&server, |told| told["error"].is_string()).await;
        assert!(told["next_attempt_at"].is_number(), "{told}");
        assert!(receiver.received().await.is_empty(), "nothing has come through");
        server.stop().await;

        let server = TestServer::start_with(&database, private).await;
        let rule = rule(&server, &receiver.named_url()).await;
        let answer = tested(&server, rule.rule.id).await;
        assert_eq!((&answer["delivered"], &answer["status"]), (&json!(true), &json!(204)), "{answer}");
        let received = receiver.received().await;
        let tested = received.iter().find(|received| received.json()["type"] == "alert.test").expect("the test");
        assert!(tested.is_signed_with(rule.secret.expect("it has a webhook").expose()));
        assert_eq!(tested.json()["data"]["name"], "engine in trouble");
    }

    async fn after_a_rotation_the_new_secret_signs(database: Database) {
        let receiver = Receiver::start(&[]).await;
        let server = TestServer::start_with(&database, private).await;
        let old = rule(&server, &receiver.url()).await;
        let new = server.control().alerts().rotate_secret(&actor(), old.rule.id).await.expect("another secret");
        let (old, new) = (old.secret.expect("one"), new.secret.expect("another"));
        assert_ne!(old.expose(), new.expose());
        say(&server, true).await;
        let told = receiver.wait_for(1).await[0].clone();
        assert!(told.is_signed_with(new.expose()) && !told.is_signed_with(old.expose()));
    }

    async fn the_panel_shows_an_alert_and_its_end_and_what_became_of_the_webhook(database: Database) {
        let receiver = Receiver::start(&[Reply::Status(500)]).await;
        let server = TestServer::start_with(&database, private).await;
        let id = rule(&server, &receiver.url()).await.rule.id;
        let visitor = Visitor::sign_in(server.control(), &format!("http://{}", server.address()), "olga", Role::Owner, None).await;
        say(&server, true).await;
        settled(&server, |told| told["status"] == 500).await;
        let page = visitor.get("/admin/alerts").await.text;
        assert!(page.contains(">open</span>") && page.contains("engine on one"), "{page}");
        assert!(page.contains("failed 1 times, is tried again") && page.contains("the webhook answered 500"), "{page}");
        assert!(visitor.get("/admin").await.text.contains("engine on one"), "the overview shows it");
        server.advance(WAIT);
        settled(&server, |told| told["delivered_at"].is_number()).await;
        say(&server, false).await;
        settled(&server, |told| told["event"] == "alert.ended" && told["delivered_at"].is_number()).await;
        let page = visitor.get("/admin/alerts").await.text;
        assert!(!page.contains(">open</span>") && page.contains(">over</span>") && page.contains(">told</span>"), "{page}");
        assert!(!visitor.get("/admin").await.text.contains("engine on one"), "the overview does not show it any more");

        let sent = visitor.post(&format!("/admin/alerts/{id}/test"), &[]).await;
        assert_eq!(sent.header("location"), Some("/admin/alerts"), "{sent:?}");
        let page = visitor.get("/admin/alerts").await.text;
        assert!(page.contains("The webhook answered 204 after"), "{page}");
        let rotated = visitor.post(&format!("/admin/alerts/{id}/rotate"), &[]).await;
        assert!(rotated.status == 200 && rotated.text.contains("value=\"whsec_"), "{rotated:?}");
        assert!(!visitor.get("/admin/alerts").await.text.contains("whsec_"), "it is shown once");
    }
}
