use std::time::Duration;

use sluicegate_control::{Origin, PageRequest, Sighting, SightingReport, Status, Tenant};

use crate::harness::{START, Store, kind, on_both};

fn sighting(tenant: &Tenant, agent: &str, at: i64) -> Sighting {
    Sighting { tenant: tenant.id, agent: agent.to_owned(), at }
}

async fn names(store: &Store, tenant: &str) -> Vec<String> {
    let page = PageRequest::first(200);
    let page = store.control.agents().list(&store.root, &tenant.into(), &page).await.unwrap();
    page.items.into_iter().map(|agent| agent.name).collect()
}

on_both! {
    async fn agents_of_the_same_name_in_two_tenants_are_two_agents(store: &Store) {
        store.tenant("acme").await;
        store.tenant("globex").await;
        let ours = store.agent("acme", "u-42").await;
        let theirs = store.agent("globex", "u-42").await;
        assert_ne!(ours.id, theirs.id);

        let agents = store.control.agents();
        agents.suspend(&store.root, &"acme".into(), &"u-42".into()).await.unwrap();
        let ours = agents.get(&store.root, &"acme".into(), &"u-42".into()).await.unwrap();
        let theirs = agents.get(&store.root, &"globex".into(), &"u-42".into()).await.unwrap();
        assert_eq!((ours.status, theirs.status), (Status::Suspended, Status::Active));

        let crossed = agents.get(&store.root, &"globex".into(), &ours.id.into()).await;
        assert_eq!(kind(&crossed), "not found");
        let resumed = agents.resume(&store.root, &"acme".into(), &ours.id.into()).await.unwrap();
        assert_eq!(resumed.status, Status::Active);
    }

    async fn an_agents_name_is_unique_and_well_formed(store: &Store) {
        let acme = store.tenant("acme").await;
        let create = async |name: &str| {
            kind(&store.control.agents().create(&store.root, &acme.id.into(), name).await)
        };
        assert_eq!(create("user@example.com|übung").await, "ok");
        assert_eq!(create("user@example.com|übung").await, "conflict");
        assert_eq!(create("").await, "invalid");
        assert_eq!(create("a\nb").await, "invalid");
        assert_eq!(create(&"a".repeat(257)).await, "invalid");
        assert_eq!(create("agt_0123456789abcdef0123456789abcdef").await, "invalid");
    }

    async fn agents_are_listed_by_name_in_the_same_order_on_both_databases(store: &Store) {
        store.tenant("acme").await;
        for name in ["b", "B", "a-b", "ab", "Ä", "_"] {
            store.agent("acme", name).await;
        }
        assert_eq!(names(store, "acme").await, ["B", "_", "a-b", "ab", "b", "Ä"]);
    }

    async fn a_seen_agent_comes_into_being_and_is_dated(store: &Store) {
        let acme = store.tenant("acme").await;
        let by_hand = store.agent("acme", "by-hand").await;
        assert_eq!((by_hand.origin, by_hand.last_seen_at), (Origin::Created, None));
        let revision = store.control.policy().revision().await.unwrap();

        let seen = [
            sighting(&acme, "new", START + 5),
            sighting(&acme, "by-hand", START + 9),
            sighting(&acme, "by-hand", START + 7),
        ];
        let report = store.control.agents().record_sightings(&store.root, &seen).await.unwrap();
        assert_eq!(report, SightingReport { known: 1, created: 1, ..SightingReport::default() });

        let late = [sighting(&acme, "by-hand", START + 1)];
        store.control.agents().record_sightings(&store.root, &late).await.unwrap();
        let get = async |name: &str| {
            store.control.agents().get(&store.root, &"acme".into(), &name.into()).await.unwrap()
        };
        let new = get("new").await;
        assert_eq!((new.origin, new.last_seen_at), (Origin::FirstSight, Some(START + 5)));
        assert_eq!(get("by-hand").await.last_seen_at, Some(START + 9));
        assert_eq!(
            store.control.policy().revision().await.unwrap(),
            revision,
            "to be seen is no change of the policy"
        );
    }

    async fn the_subject_of_a_token_is_found_by_names_and_has_an_id_once_it_was_seen(store: &Store) {
        let (acme, globex) = (store.tenant("acme").await, store.tenant("globex").await);
        let subject = async |tenant: &str, agent: &str| {
            store.control.credentials().subject(tenant, agent).await.unwrap()
        };
        let new = subject("acme", "alice").await.unwrap();
        assert_eq!((new.tenant_id, new.tenant_slug.as_str(), new.agent_id), (acme.id, "acme", None));
        store.control.agents().record_sightings(&store.root, &[sighting(&acme, "alice", START)]).await.unwrap();
        let row = store.control.agents().get(&store.root, &"acme".into(), &"alice".into()).await.unwrap();
        assert_eq!(subject("acme", "alice").await.unwrap().agent_id, Some(row.id));
        let theirs = subject("globex", "alice").await.unwrap();
        assert_eq!((theirs.tenant_id, theirs.agent_id), (globex.id, None));
        assert_eq!(subject("initech", "alice").await, None);
        assert_eq!(subject(&acme.id.to_string(), "alice").await, None, "tokens name tenants by slug");
    }

    async fn invented_names_cannot_fill_the_database(store: &Store) {
        let acme = store.tenant("acme").await;
        let globex = store.tenant("globex").await;
        store.agent("acme", "by-hand").await;
        let mut seen: Vec<_> =
            (0..20).map(|n| sighting(&acme, &format!("invented-{n:02}"), START)).collect();
        seen.push(sighting(&globex, "honest", START));
        seen.push(sighting(&globex, "bad\nname", START));
        let report = store.control.agents().record_sightings(&store.root, &seen).await.unwrap();
        assert_eq!(report, SightingReport { known: 0, created: 5, dropped: 17, full: vec![acme.id] });
        assert_eq!(names(store, "acme").await.len(), 5);
        assert_eq!(names(store, "globex").await, ["honest"]);
        store.agent("acme", "an operator may go on").await;
    }

    async fn two_instances_that_see_the_same_agents_stay_within_the_cap(store: &Store) {
        let acme = store.tenant("acme").await;
        let other = store.second().await;
        let ours: Vec<_> = (0..8).map(|n| sighting(&acme, &format!("a{n}"), START)).collect();
        let theirs: Vec<_> = (4..12).rev().map(|n| sighting(&acme, &format!("a{n}"), START)).collect();
        let (ours, theirs) = tokio::join!(
            store.control.agents().record_sightings(&store.root, &ours),
            other.agents().record_sightings(&store.root, &theirs),
        );
        ours.unwrap();
        theirs.unwrap();
        assert_eq!(names(store, "acme").await.len(), 5);
    }

    async fn the_sighting_of_an_agent_whose_tenant_is_gone_is_dropped(store: &Store) {
        let acme = store.tenant("acme").await;
        store.control.tenants().delete(&store.root, &acme.id.into()).await.unwrap();
        store.clock.advance(Duration::from_secs(1));
        let seen = [sighting(&acme, "late", START)];
        let report = store.control.agents().record_sightings(&store.root, &seen).await.unwrap();
        assert_eq!(report, SightingReport { known: 0, created: 0, dropped: 1, full: vec![acme.id] });
    }
}
