use std::time::Duration;

use sluicegate_control::{Instance, Revision};

use crate::harness::{START, on_both};

fn instance(id: &str) -> Instance {
    Instance {
        id: id.to_owned(),
        address: "127.0.0.1:8080".to_owned(),
        version: "1.2.3".to_owned(),
        revision: Revision::START,
        draining: false,
        started_at: START,
        seen_at: 0,
    }
}

on_both! {
    async fn a_server_is_listed_until_it_leaves_or_is_silent_for_a_minute(store: &Store) {
        let instances = store.control.instances();
        instances.beat(&store.root, &instance("one")).await.unwrap();
        store.clock.advance(Duration::from_secs(1));
        instances.beat(&store.root, &instance("other")).await.unwrap();
        instances.beat(&store.root, &Instance { draining: true, ..instance("other") }).await.unwrap();
        let found = instances.list(&store.root).await.unwrap();
        let shown: Vec<_> = found.iter().map(|found| (&*found.id, found.draining, found.seen_at - START)).collect();
        assert_eq!(shown, [("other", true, 1_000), ("one", false, 0)]);
        instances.leave(&store.root, "other").await.unwrap();
        assert_eq!(instances.list(&store.root).await.unwrap().len(), 1);
        store.clock.advance(Duration::from_mins(1));
        assert!(instances.list(&store.root).await.unwrap().is_empty());
    }
}
