use std::time::Duration;

use secrecy::ExposeSecret as _;
use sluicegate_control::{
    Actor, Agent, AlertKind, AttemptOutcome, Counts, DeliveryEvent, NewAlertRule, PageRequest, Reach, Role, Signals,
    UsageBatch, UsageRow,
};

use crate::harness::{START, Store, kind, on_both};

const MINUTE: i64 = 60_000;

fn rule(kind: AlertKind, threshold: i64, minutes: i64) -> NewAlertRule {
    let webhook = Some("https://example.com/hook".to_owned());
    NewAlertRule {
        name: "a rule".to_owned(),
        kind,
        tenant: None,
        tool: None,
        threshold,
        minutes,
        enabled: true,
        webhook,
    }
}

async fn called(store: &Store, seq: i64, agent: &Agent, at: i64, calls: i64, throttled: i64) {
    let mut counts = Counts::default();
    (counts.calls, counts.ok, counts.throttled) = (calls, calls - throttled, throttled);
    let (tenant, agent) = (Some(agent.tenant_id), Some(agent.id));
    let row = UsageRow { tenant, agent, tool: Some("export".to_owned()), at, counts };
    let batch = UsageBatch { writer: "w".to_owned(), seq, rows: vec![row], seen: Vec::new() };
    assert!(store.control.usage().record(&store.root, &batch).await.unwrap());
}

/// Evaluates, and tells what began (`true`) and what ended.
async fn evaluate(store: &Store, signals: &Signals) -> Vec<(String, bool)> {
    let changed = store.control.alerts().evaluate(&store.root, signals).await.unwrap();
    let mut told: Vec<_> = changed.into_iter().map(|alert| (alert.subject, alert.ended_at.is_none())).collect();
    told.sort();
    told
}

on_both! {
    async fn an_alert_begins_once_and_ends_once(store: &Store) {
        store.tenant("acme").await;
        let agent = store.agent("acme", "u-42").await;
        let new = NewAlertRule { tenant: Some("acme".into()), ..rule(AlertKind::Throttling, 20, 2) };
        store.control.alerts().create_rule(&store.root, new).await.unwrap();
        let none = Signals::default();
        called(store, 1, &agent, START - MINUTE, 100, 50).await;
        assert_eq!(evaluate(store, &none).await, [], "one minute is not two");
        called(store, 2, &agent, START - 2 * MINUTE, 100, 20).await;
        let second = store.second().await;
        let (one, other) = tokio::join!(
            store.control.alerts().evaluate(&store.root, &none),
            second.alerts().evaluate(&store.root, &none),
        );
        let begun = [one.unwrap(), other.unwrap()].concat();
        assert_eq!(begun.len(), 1, "one of two servers begins it");
        assert_eq!((&*begun[0].subject, begun[0].value), ("tenant acme", 50));
        assert_eq!(evaluate(store, &none).await, [], "it lasts");
        let open = store.control.alerts().open(&store.root).await.unwrap();
        assert_eq!(open.len(), 1);
        store.clock.advance(Duration::from_mins(1));
        assert_eq!(evaluate(store, &none).await, [("tenant acme".to_owned(), false)]);
        assert_eq!(evaluate(store, &none).await, []);
        assert!(store.control.alerts().open(&store.root).await.unwrap().is_empty());
        let history = store.control.alerts().list(&store.root, &PageRequest::default()).await.unwrap().items;
        assert_eq!(history[0].ended_at, Some(START + MINUTE));
        store.clock.advance(Duration::from_mins(1));
        assert_eq!(store.control.alerts().forget(&store.root, 1).await.unwrap(), 1);
    }

    async fn a_runaway_agent_is_named(store: &Store) {
        store.tenant("acme").await;
        let agent = store.agent("acme", "u-42").await;
        store.control.alerts().create_rule(&store.root, rule(AlertKind::Runaway, 100, 1)).await.unwrap();
        called(store, 1, &agent, START, 500, 120).await;
        assert_eq!(evaluate(store, &Signals::default()).await, [("agent acme/u-42".to_owned(), true)]);
        let open = store.control.alerts().open(&store.root).await.unwrap();
        assert_eq!((open[0].agent_id, open[0].value), (Some(agent.id), 120));
        called(store, 2, &agent, START, 500, 500).await;
        assert_eq!(evaluate(store, &Signals::default()).await, []);
        assert_eq!(store.control.alerts().open(&store.root).await.unwrap()[0].value, 620, "it got worse");
        let acme = Actor::user("alice", Role::Viewer, Reach::Tenant(agent.tenant_id));
        assert_eq!(store.control.alerts().open(&acme).await.unwrap().len(), 1);
        store.tenant("globex").await;
        let globex = store.control.tenants().get(&store.root, &"globex".into()).await.unwrap().id;
        let stranger = Actor::user("bob", Role::Owner, Reach::Tenant(globex));
        assert!(store.control.alerts().open(&stranger).await.unwrap().is_empty());
        assert!(store.control.alerts().list(&stranger, &PageRequest::default()).await.unwrap().items.is_empty());
    }

    async fn what_a_server_says_of_itself_is_not_ended_by_another(store: &Store) {
        store.control.alerts().create_rule(&store.root, rule(AlertKind::EngineDegraded, 1, 1)).await.unwrap();
        store.control.alerts().create_rule(&store.root, rule(AlertKind::BreakerOpen, 1, 1)).await.unwrap();
        let sick = Signals { instance: "a".to_owned(), engine_degraded: true, open_breakers: vec!["github".to_owned()] };
        let well = |instance: &str| Signals { instance: instance.to_owned(), ..Signals::default() };
        let both = |begins| [("breaker github on a".to_owned(), begins), ("engine on a".to_owned(), begins)];
        assert_eq!(evaluate(store, &sick).await, both(true));
        assert_eq!(evaluate(store, &well("b")).await, []);
        assert_eq!(evaluate(store, &sick).await, []);
        assert_eq!(evaluate(store, &well("a")).await, both(false));
    }

    async fn a_rule_that_is_switched_off_ends_its_alerts(store: &Store) {
        let alerts = store.control.alerts();
        let minted = alerts.create_rule(&store.root, rule(AlertKind::EngineDegraded, 1, 1)).await.unwrap();
        let sick = Signals { instance: "a".to_owned(), engine_degraded: true, open_breakers: Vec::new() };
        assert_eq!(evaluate(store, &sick).await.len(), 1);
        let off = NewAlertRule { enabled: false, ..rule(AlertKind::EngineDegraded, 1, 1) };
        let kept = alerts.replace_rule(&store.root, minted.rule.id, off.clone()).await.unwrap();
        assert!(kept.secret.is_none(), "the webhook is the same, and so is its secret");
        let elsewhere = Signals { instance: "b".to_owned(), ..Signals::default() };
        assert_eq!(evaluate(store, &elsewhere).await, [("engine on a".to_owned(), false)]);
        let moved = NewAlertRule { webhook: Some("https://example.org/".to_owned()), ..off };
        assert!(alerts.replace_rule(&store.root, minted.rule.id, moved).await.unwrap().secret.is_some());
    }

    async fn one_of_two_servers_gets_a_message_and_another_when_the_first_is_silent(store: &Store) {
        let (alerts, second) = (store.control.alerts(), store.second().await);
        let minted = alerts.create_rule(&store.root, rule(AlertKind::EngineDegraded, 1, 1)).await.unwrap();
        let sick = Signals { instance: "a".to_owned(), engine_degraded: true, open_breakers: Vec::new() };
        assert_eq!(evaluate(store, &sick).await.len(), 1);
        let claim = async |control: &sluicegate_control::Control| {
            control.alerts().claim_deliveries(&store.root, 30_000, 8).await.unwrap()
        };
        let (one, other) = tokio::join!(claim(&store.control), claim(&second));
        let claimed = [one, other].concat();
        assert_eq!(claimed.len(), 1, "one of two servers sends it");
        let first = &claimed[0];
        assert_eq!((first.attempt, first.message.event, &*first.message.url), (1, DeliveryEvent::Began, "https://example.com/hook"));
        assert_eq!(first.message.secret.expose_secret(), minted.secret.unwrap().expose());
        assert!(claim(&second).await.is_empty(), "it is claimed");

        store.clock.advance(Duration::from_secs(30));
        let again = claim(&second).await.remove(0);
        assert_eq!((again.message.id, &again.message.body, again.attempt), (first.message.id, &first.message.body, 2));
        let late = alerts.settle_delivery(&store.root, first, Some(204), &AttemptOutcome::Delivered).await.unwrap();
        assert!(!late, "the first one's claim is over");
        let later = AttemptOutcome::TryAgain { wait_ms: 5_000, error: "busy".to_owned() };
        assert!(second.alerts().settle_delivery(&store.root, &again, Some(503), &later).await.unwrap());
        let last = async || alerts.open(&store.root).await.unwrap().remove(0).last_delivery.unwrap();
        let noted = last().await;
        assert_eq!((noted.attempts, noted.status, noted.error.as_deref()), (2, Some(503), Some("busy")));
        assert_eq!(noted.next_attempt_at, Some(START + 35_000));

        // Without a webhook there is nobody to tell.
        let quiet = NewAlertRule { webhook: None, ..rule(AlertKind::EngineDegraded, 1, 1) };
        alerts.replace_rule(&store.root, minted.rule.id, quiet).await.unwrap();
        store.clock.advance(Duration::from_secs(5));
        assert!(claim(&store.control).await.is_empty());
        let noted = last().await;
        assert!(noted.is_given_up() && noted.error.as_deref() == Some("the rule has no webhook"), "{noted:?}");
        assert_eq!(kind(&alerts.rotate_secret(&store.root, minted.rule.id).await), "conflict");
        assert_eq!(kind(&alerts.test_message(&store.root, minted.rule.id).await), "conflict");
        assert_eq!(store.texts("SELECT action FROM audit_log ORDER BY seq DESC LIMIT 1").await, ["alert_rule.replace"]);
    }

    async fn a_rule_that_makes_no_sense_is_refused(store: &Store) {
        store.tools(&["export"]).await;
        store.tenant("acme").await;
        let of_tenant = |kind| NewAlertRule { tenant: Some("acme".into()), ..rule(kind, 10, 5) };
        let of_tool = |kind| NewAlertRule { tool: Some("export".to_owned()), ..rule(kind, 10, 5) };
        let calling = |url: &str| NewAlertRule { webhook: Some(url.to_owned()), ..rule(AlertKind::Runaway, 10, 5) };
        for (new, expected) in [
            (rule(AlertKind::Throttling, 0, 5), "invalid"),
            (rule(AlertKind::Throttling, 101, 5), "invalid"),
            (rule(AlertKind::Throttling, 10, 0), "invalid"),
            (rule(AlertKind::Throttling, 10, 61), "invalid"),
            (of_tenant(AlertKind::EngineDegraded), "invalid"),
            (of_tool(AlertKind::Runaway), "invalid"),
            (of_tool(AlertKind::Throttling), "ok"),
            (of_tenant(AlertKind::Runaway), "ok"),
            (calling("ftp://example.com"), "invalid"),
            (calling("https://"), "invalid"),
            (calling("https://user:secret@example.com/"), "invalid"),
            (calling("http://example.com/hook"), "ok"),
        ] {
            let outcome = store.control.alerts().create_rule(&store.root, new.clone()).await;
            assert_eq!(kind(&outcome), expected, "{new:?}");
        }
        let audit = store.texts("SELECT COALESCE(after, '') FROM audit_log").await;
        assert!(audit.iter().all(|after| !after.contains("whsec_")), "the secret is not in the audit log");
    }
}
