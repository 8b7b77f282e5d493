use sluicegate_control::{Actor, AuditFilter, AuditVerdict, JsonText, PageRequest};

use crate::harness::{START, Store, on_both};

async fn verdict(store: &Store) -> AuditVerdict {
    store.control.audit().verify(&store.root).await.unwrap()
}

async fn four_entries(store: &Store) {
    for slug in ["a", "b", "c", "d"] {
        store.tenant(slug).await;
    }
    assert_eq!(verdict(store).await, AuditVerdict::Intact { entries: 4 });
}

on_both! {
    async fn an_entry_says_who_did_what_to_what_and_from_where(store: &Store) {
        let acme = store.tenant("acme").await;
        let actor = Actor::cli("alice")
            .with_request(Some("192.0.2.7".to_owned()), Some("req-1".to_owned()));
        store.control.tenants().suspend(&actor, &"acme".into()).await.unwrap();
        let log = store.control.audit().list(&store.root, None, &PageRequest::default()).await.unwrap();
        let [suspended, created] = log.items.as_slice() else { panic!("two entries") };
        assert_eq!((created.seq, created.action.as_str(), created.before.as_ref()), (1, "tenant.create", None));
        assert_eq!((suspended.seq, suspended.action.as_str()), (2, "tenant.suspend"));
        assert_eq!((suspended.actor.as_str(), suspended.target.as_str()), ("cli:alice", "tenant acme"));
        assert_eq!((suspended.at, suspended.tenant_id), (START, Some(acme.id)));
        assert_eq!(suspended.address.as_deref(), Some("192.0.2.7"));
        assert_eq!(suspended.request_id.as_deref(), Some("req-1"));
        let text = |json: &Option<JsonText>| json.as_ref().unwrap().as_str().to_owned();
        assert!(text(&suspended.before).contains(r#""status":"active""#));
        assert!(text(&suspended.after).contains(r#""status":"suspended""#));
        assert_eq!(suspended.previous_hash, created.hash);
    }

    async fn entries_are_listed_newest_first_and_by_tenant(store: &Store) {
        four_entries(store).await;
        store.agent("b", "u-42").await;
        let seqs = async |tenant: Option<&str>| {
            let tenant = tenant.map(Into::into);
            let mut page = PageRequest::first(2);
            let mut seqs = Vec::new();
            loop {
                let read = store.control.audit().list(&store.root, tenant.as_ref(), &page).await.unwrap();
                seqs.extend(read.items.iter().map(|entry| entry.seq));
                page.after = read.next;
                if page.after.is_none() { return seqs }
            }
        };
        assert_eq!(seqs(None).await, [5, 4, 3, 2, 1]);
        assert_eq!(seqs(Some("b")).await, [5, 2]);
    }

    async fn an_actor_cannot_forge_lines_or_break_the_chain_by_its_name(store: &Store) {
        let actor = Actor::cli("eve\0\ncli:root").with_request(None, Some("\0".to_owned()));
        store.control.tenants().create(&actor, "acme", "x").await.unwrap();
        assert_eq!(verdict(store).await, AuditVerdict::Intact { entries: 1 });
        let log = store.control.audit().list(&store.root, None, &PageRequest::default()).await;
        assert_eq!(log.unwrap().items[0].actor, "cli:eve\u{fffd}\u{fffd}cli:root");
    }

    async fn an_altered_entry_is_found(store: &Store) {
        four_entries(store).await;
        store.sql("UPDATE audit_log SET actor = 'cli:nobody' WHERE seq = 2").await.unwrap();
        assert_eq!(verdict(store).await, AuditVerdict::Broken { seq: 2 });
    }

    async fn an_altered_entry_with_a_fitting_hash_is_found_at_the_next_one(store: &Store) {
        four_entries(store).await;
        store.sql("UPDATE audit_log SET hash = '00' WHERE seq = 4").await.unwrap();
        assert_eq!(verdict(store).await, AuditVerdict::Broken { seq: 4 });
        store.sql("UPDATE audit_log SET previous_hash = '00' WHERE seq = 3").await.unwrap();
        assert_eq!(verdict(store).await, AuditVerdict::Broken { seq: 3 });
    }

    async fn a_removed_entry_is_found(store: &Store) {
        four_entries(store).await;
        store.sql("DELETE FROM audit_log WHERE seq = 3").await.unwrap();
        assert_eq!(verdict(store).await, AuditVerdict::Broken { seq: 3 });
    }

    async fn a_cut_off_end_is_found(store: &Store) {
        four_entries(store).await;
        store.sql("DELETE FROM audit_log WHERE seq > 2").await.unwrap();
        assert_eq!(verdict(store).await, AuditVerdict::Broken { seq: 3 });
        store.sql("DELETE FROM audit_log").await.unwrap();
        assert_eq!(verdict(store).await, AuditVerdict::Broken { seq: 1 });
    }

    async fn an_added_entry_is_found(store: &Store) {
        four_entries(store).await;
        store.sql(
            "INSERT INTO audit_log (seq, id, at, actor, action, target, previous_hash, hash)
             SELECT 5, 'aud_0', at, actor, action, target, hash, hash FROM audit_log WHERE seq = 4",
        ).await.unwrap();
        store.sql("UPDATE audit_log SET id = 'aud_00000000000000000000000000000000' WHERE seq = 5").await.unwrap();
        assert_eq!(verdict(store).await, AuditVerdict::Broken { seq: 5 });
    }

    async fn many_writers_keep_one_chain(store: &Store) {
        let (second, third) = (store.second().await, store.second().await);
        let write = async |control: &sluicegate_control::Control, name: &str| {
            for n in 0..10 {
                let slug = format!("{name}-{n}");
                control.tenants().create(&store.root, &slug, "x").await.unwrap();
            }
        };
        tokio::join!(
            write(&store.control, "a"),
            write(&store.control, "b"),
            write(&second, "c"),
            write(&third, "d"),
        );
        assert_eq!(verdict(store).await, AuditVerdict::Intact { entries: 40 });
        assert_eq!(store.control.policy().revision().await.unwrap().get(), 40);
    }

    async fn a_search_finds_what_every_named_part_holds_for(store: &Store) {
        let alice = Actor::user("alice", sluicegate_control::Role::Owner, sluicegate_control::Reach::Global);
        let acme = store.tenant("acme").await.id;
        store.control.tenants().create(&alice, "globex-1", "x").await.unwrap();
        store.clock.advance(std::time::Duration::from_secs(1));
        store.control.tenants().rename(&alice, &"acme".into(), "Acme").await.unwrap();
        store.agent("acme", "u-42").await;
        let found = async |filter: AuditFilter| -> Vec<String> {
            let page = store.control.audit().search(&store.root, &filter, &PageRequest::default()).await.unwrap();
            page.items.into_iter().map(|entry| entry.action).collect()
        };
        let none = AuditFilter::default;
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(found(none()).await.len(), 4);
        assert_eq!(found(AuditFilter { actor: text("user:alice"), ..none() }).await, ["tenant.rename", "tenant.create"]);
        assert_eq!(found(AuditFilter { action: text("agent"), ..none() }).await, ["agent.create"]);
        assert_eq!(found(AuditFilter { action: text("tenant.create"), ..none() }).await.len(), 2);
        assert_eq!(found(AuditFilter { action: text("tenant.creat"), ..none() }).await.len(), 0);
        assert_eq!(found(AuditFilter { target: text("GLOBEX-"), ..none() }).await, ["tenant.create"]);
        assert_eq!(found(AuditFilter { target: text("%"), ..none() }).await.len(), 0);
        assert_eq!(found(AuditFilter { from: Some(START + 1), ..none() }).await, ["agent.create", "tenant.rename"]);
        assert_eq!(found(AuditFilter { to: Some(START + 1), tenant: Some(acme.into()), ..none() }).await, ["tenant.create"]);
    }

    async fn a_search_for_what_is_rare_looks_at_a_part_of_the_log_and_goes_on(store: &Store) {
        let acme = store.tenant("acme").await.id;
        store.sql(&format!(
            "INSERT INTO audit_log (seq, id, at, actor, action, target, tenant_id, before, after, previous_hash, hash)
             WITH RECURSIVE numbers(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers WHERE n < 45000)
             SELECT n, 'aud_' || n, {START}, 'user:olga', 'limit.set', 'limit', '{acme}', NULL, NULL, '', '' || n FROM numbers",
        )).await.unwrap();
        for tenant in [None, Some(acme.into())] {
            let filter = AuditFilter { action: Some("tenant.create".to_owned()), tenant, ..AuditFilter::default() };
            let (mut request, mut found, mut pages) = (PageRequest::default(), Vec::new(), 0);
            loop {
                let page = store.control.audit().search(&store.root, &filter, &request).await.unwrap();
                found.extend(page.items.into_iter().map(|entry| entry.seq));
                pages += 1;
                let Some(next) = page.next else { break };
                request.after = Some(next);
            }
            assert_eq!((found, pages), (vec![1], 3));
        }
    }
}
