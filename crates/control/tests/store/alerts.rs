use std::time::Duration;

use secrecy::ExposeSecret;
use sluicegate_control::{
    Actor, Agent, AlertKind, Counts, NewAlertRule, PageRequest, Reach, Role, Signals, UsageBatch, UsageRow,
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
    let notices = store.control.alerts().evaluate(&store.root, signals).await.unwrap();
    let mut told: Vec<_> =
        notices.into_iter().map(|notice| (notice.alert.subject, notice.alert.ended_at.is_none())).collect();
    told.sort();
    told
}

on_both! {
    async fn an_alert_begins_once_and_ends_once(store: &Store) {
        store.tenant("acme").await;
        let agent = store.agent("acme", "u-42").await;
        let new = NewAlertRule { tenant: Some("acme".into()), ..rule(AlertKind::Throttling, 20, 2) };
        let minted = store.control.alerts().create_rule(&store.root, new).await.unwrap();
        let none = Signals::default();
        called(store, 1, &agent, START - MINUTE, 100, 50).await;
        assert_eq!(evaluate(store, &none).await, [], "one minute is not two");
        called(store, 2, &agent, START - 2 * MINUTE, 100, 20).await;
        let second = store.second().await;
        let (one, other) = tokio::join!(
            store.control.alerts().evaluate(&store.root, &none),
            second.alerts().evaluate(&store.root, &none),
        );
        let notices = [one.unwrap(), other.unwrap()].concat();
        assert_eq!(notices.len(), 1, "one of two servers notifies");
        assert_eq!(notices[0].alert.subject, "tenant acme");
        assert_eq!(notices[0].alert.value, 50);
        let secret = minted.secret.unwrap();
        assert_eq!(notices[0].secret.as_ref().unwrap().expose_secret(), secret.expose());
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
        assert!(audit.iter().all(|after| !after.contains("sgwhk_")), "the secret is not in the audit log");
    }
}
