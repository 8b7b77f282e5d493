use sluicegate_control::{
    LimitKindName, NewLimit, Overlap, PolicyDelta, Revision, Sighting, Status, Target, Tombstone,
};

use crate::harness::{START, Store, on_both};

async fn since(store: &Store, revision: Revision) -> PolicyDelta {
    store.control.policy().changes_since(revision).await.unwrap()
}

async fn now(store: &Store) -> Revision {
    store.control.policy().revision().await.unwrap()
}

on_both! {
    async fn the_whole_policy_has_only_the_agents_that_matter(store: &Store) {
        let acme = store.tenant("acme").await;
        let limited = store.agent("acme", "limited").await;
        let suspended = store.agent("acme", "suspended").await;
        store.agent("acme", "ordinary").await;
        let seen = [Sighting { tenant: acme.id, agent: "seen".to_owned(), at: START }];
        store.control.agents().record_sightings(&store.root, &seen).await.unwrap();
        let agents = store.control.agents();
        agents.suspend(&store.root, &acme.id.into(), &suspended.id.into()).await.unwrap();
        let target = Target::Agent { tenant: acme.id, agent: limited.id };
        store.control.limits().set(&store.root, &NewLimit::rate(target.clone(), "1/s")).await.unwrap();
        store.control.limits().set(&store.root, &NewLimit::concurrency(target, "1")).await.unwrap();
        store.control.plans().create(&store.root, "gold", "").await.unwrap();

        let all = store.control.policy().load_all().await.unwrap();
        assert!(all.complete);
        assert_eq!(all.revision, now(store).await);
        assert_eq!(all.tenants.iter().map(|t| t.slug.as_str()).collect::<Vec<_>>(), ["acme"]);
        let mut names: Vec<_> = all.agents.iter().map(|a| (a.name.as_str(), a.status)).collect();
        names.sort_unstable_by_key(|(name, _)| *name);
        assert_eq!(names, [("limited", Status::Active), ("suspended", Status::Suspended)]);
        assert_eq!(all.plans.len(), 1);
        assert_eq!(all.limits.len(), 2);
    }

    async fn a_delta_has_what_changed_and_nothing_else(store: &Store) {
        for slug in ["a", "b", "c"] {
            store.tenant(slug).await;
        }
        let before = now(store).await;
        assert!(since(store, before).await.tenants.is_empty());

        let b = store.control.tenants().suspend(&store.root, &"b".into()).await.unwrap();
        let delta = since(store, before).await;
        assert!(!delta.complete);
        assert_eq!(delta.revision.get(), before.get() + 1);
        assert_eq!(delta.tenants.len(), 1);
        assert_eq!((delta.tenants[0].id, delta.tenants[0].status), (b.id, Status::Suspended));
        assert!(delta.agents.is_empty() && delta.plans.is_empty() && delta.limits.is_empty());
        assert!(delta.credentials_changed.is_empty() && delta.deleted.is_empty());
        assert!(since(store, delta.revision).await.tenants.is_empty());
    }

    async fn an_agent_that_gets_a_limit_comes_with_it(store: &Store) {
        let acme = store.tenant("acme").await;
        let agent = store.agent("acme", "u-42").await;
        let before = now(store).await;
        let target = Target::AgentTool { tenant: acme.id, agent: agent.id, tool: "export".to_owned() };
        store.tools(&["export"]).await;
        let limit = store.control.limits().set(&store.root, &NewLimit::rate(target.clone(), "1/s")).await;
        let delta = since(store, before).await;
        assert_eq!(delta.agents.iter().map(|a| a.id).collect::<Vec<_>>(), [agent.id]);
        assert_eq!(delta.limits, [limit.unwrap()]);

        let before = now(store).await;
        store.control.limits().unset(&store.root, &target, LimitKindName::Rate).await.unwrap();
        let delta = since(store, before).await;
        assert!(matches!(delta.deleted.as_slice(), [Tombstone::Limit(_)]));
    }

    async fn a_resumed_agent_is_reported_although_it_no_longer_matters(store: &Store) {
        let acme = store.tenant("acme").await;
        let agent = store.agent("acme", "u-42").await;
        let agents = store.control.agents();
        agents.suspend(&store.root, &acme.id.into(), &agent.id.into()).await.unwrap();
        let before = now(store).await;
        agents.resume(&store.root, &acme.id.into(), &agent.id.into()).await.unwrap();
        let delta = since(store, before).await;
        assert_eq!(delta.agents.iter().map(|a| a.status).collect::<Vec<_>>(), [Status::Active]);
    }

    async fn every_key_whose_credential_is_stale_is_named(store: &Store) {
        store.tenant("acme").await;
        let agent = store.agent("acme", "u-42").await;
        let (revoked, rotated, same) =
            (store.key(&agent).await, store.key(&agent).await, store.key(&agent).await);
        let before = now(store).await;
        store.control.keys().revoke(&store.root, revoked.key.id()).await.unwrap();
        store.control.keys().rotate(&store.root, rotated.key.id(), Overlap::Day).await.unwrap();
        let changed = since(store, before).await.credentials_changed;
        assert!(changed.contains(&revoked.key.id()) && changed.contains(&rotated.key.id()));
        assert!(!changed.contains(&same.key.id()));
    }

    async fn a_reader_that_is_ahead_of_the_database_gets_everything(store: &Store) {
        store.tenant("acme").await;
        let ahead = now(store).await;
        store.sql("UPDATE control_state SET revision = 0").await.unwrap();
        let delta = since(store, ahead).await;
        assert!(delta.complete);
        assert_eq!((delta.revision, delta.tenants.len()), (Revision::START, 1));
    }

    async fn a_reader_that_follows_the_changes_of_many_writers_misses_none(store: &Store) {
        let second = store.second().await;
        let write = async |control: &sluicegate_control::Control, name: &str| {
            for n in 0..15 {
                control.tenants().create(&store.root, &format!("{name}-{n}"), "x").await.unwrap();
            }
        };
        let follow = async {
            let mut seen = std::collections::BTreeSet::new();
            let mut revision = Revision::START;
            while revision.get() < 30 {
                let delta = since(store, revision).await;
                seen.extend(delta.tenants.into_iter().map(|tenant| tenant.slug));
                revision = delta.revision;
                tokio::task::yield_now().await;
            }
            seen
        };
        let (seen, (), ()) = tokio::join!(follow, write(&store.control, "a"), write(&second, "b"));
        assert_eq!(seen.len(), 30);
    }
}
