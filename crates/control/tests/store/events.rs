use std::time::Duration;

use sluicegate_control::{Actor, EventFilter, EventKind, NewEvent, PageRequest, Reach, Role};

use crate::harness::{START, kind, on_both};

fn event(at: i64, reason: &str) -> NewEvent {
    NewEvent {
        at,
        kind: EventKind::Throttled,
        tenant: None,
        agent: None,
        tool: Some("export".to_owned()),
        scope: Some("tool".to_owned()),
        reason: reason.to_owned(),
        detail: "10 requests / 60s".to_owned(),
        retry_after_ms: Some(500),
        request_id: Some(format!("req-{at}")),
        count: 1,
    }
}

on_both! {
    async fn events_are_listed_newest_first_and_tailed_oldest_first(store: &Store) {
        let events: Vec<_> = (0..5).map(|n| event(START + n, "rate_limit_exceeded")).collect();
        store.control.events().record(&store.root, &events).await.unwrap();
        let all = EventFilter::default();
        let page = store.control.events().list(&store.root, &all, &PageRequest::first(3)).await.unwrap();
        assert_eq!(page.items.iter().map(|event| event.at - START).collect::<Vec<_>>(), [4, 3, 2]);
        let rest = PageRequest { after: page.next, limit: 3 };
        let rest = store.control.events().list(&store.root, &all, &rest).await.unwrap();
        assert_eq!(rest.items.iter().map(|event| event.at - START).collect::<Vec<_>>(), [1, 0]);
        let seen = page.items[2].id;
        let newer = store.control.events().after(&store.root, &all, Some(seen), 10).await.unwrap();
        assert_eq!(newer.iter().map(|event| event.at - START).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(newer[0].request_id.as_deref(), Some(&*format!("req-{}", START + 3)));
    }

    async fn a_filter_holds_for_every_field_that_it_names(store: &Store) {
        store.tenant("acme").await;
        let agent = store.agent("acme", "u-42").await;
        let ours = NewEvent { tenant: Some(agent.tenant_id), agent: Some(agent.id), ..event(START, "suspended") };
        let denied = NewEvent { kind: EventKind::Denied, tool: None, ..ours.clone() };
        store.control.events().record(&store.root, &[event(START, "x"), ours, denied]).await.unwrap();
        let found = async |filter: EventFilter| {
            store.control.events().list(&store.root, &filter, &PageRequest::default()).await.unwrap().items.len()
        };
        let none = EventFilter::default;
        assert_eq!(found(none()).await, 3);
        assert_eq!(found(EventFilter { tool: Some("export".into()), ..none() }).await, 2);
        assert_eq!(found(EventFilter { kind: Some(EventKind::Denied), ..none() }).await, 1);
        assert_eq!(found(EventFilter { reason: Some("x".into()), ..none() }).await, 1);
        assert_eq!(found(EventFilter { request_id: Some("req-1".into()), ..none() }).await, 0);
        let acme = EventFilter { tenant: Some("acme".into()), ..none() };
        assert_eq!(found(acme.clone()).await, 2);
        assert_eq!(found(EventFilter { agent: Some("u-42".into()), tool: Some("export".into()), ..acme }).await, 1);
    }

    async fn a_confined_actor_sees_its_tenants_events_only(store: &Store) {
        let (acme, globex) = (store.tenant("acme").await.id, store.tenant("globex").await.id);
        let ours = NewEvent { tenant: Some(acme), ..event(START, "a") };
        let theirs = NewEvent { tenant: Some(globex), ..event(START, "b") };
        store.control.events().record(&store.root, &[ours, theirs, event(START, "c")]).await.unwrap();
        let alice = Actor::user("alice", Role::Viewer, Reach::Tenant(acme));
        let page = PageRequest::default();
        let found = store.control.events().list(&alice, &EventFilter::default(), &page).await.unwrap();
        assert_eq!(found.items.iter().map(|event| &*event.reason).collect::<Vec<_>>(), ["a"]);
        assert_eq!(found.items[0].tenant_slug.as_deref(), Some("acme"));
        let tail = store.control.events().after(&alice, &EventFilter::default(), None, 10).await.unwrap();
        assert_eq!(tail, found.items);
        let foreign = EventFilter { tenant: Some("globex".into()), ..EventFilter::default() };
        assert_eq!(kind(&store.control.events().list(&alice, &foreign, &page).await), "not found");
    }

    async fn events_are_kept_by_time_and_number(store: &Store) {
        let events: Vec<_> = (0..10).map(|n| event(START + n * 1_000, "x")).collect();
        store.control.events().record(&store.root, &events).await.unwrap();
        store.clock.advance(Duration::from_secs(10));
        assert_eq!(store.control.events().forget(&store.root, 8_000, 100).await.unwrap(), 2);
        assert_eq!(store.control.events().forget(&store.root, 60_000, 3).await.unwrap(), 5);
        let left = store.control.events().list(&store.root, &EventFilter::default(), &PageRequest::default()).await;
        assert_eq!(left.unwrap().items.iter().map(|event| event.at - START).collect::<Vec<_>>(), [9_000, 8_000, 7_000]);
    }
}
