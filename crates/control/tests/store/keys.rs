use std::time::Duration;

use sluicegate_control::{ApiKey, KeyId, KeyRecord, KeyScopes, KeyStatus, NewKey, Overlap, PageRequest, Status};

use crate::harness::{START, Store, kind, on_both};

const HOUR: i64 = 3_600_000;

/// The latest end that anything can have: that of the year 9999.
const LAST_END: i64 = 253_402_300_799_000;

async fn read(store: &Store, key: KeyId) -> KeyRecord {
    store.control.keys().get(&store.root, key).await.unwrap()
}

on_both! {
    async fn a_presented_key_is_found_with_everything_authentication_needs(store: &Store) {
        let acme = store.tenant("acme").await;
        let agent = store.agent("acme", "u-42").await;
        let new = NewKey {
            environment: "test".parse().unwrap(),
            scopes: KeyScopes::new(vec!["reports_*".parse().unwrap()]).unwrap(),
            expires_at: Some(START + HOUR),
            ..NewKey::named("laptop")
        };
        let minted =
            store.control.keys().create(&store.root, &"acme".into(), &"u-42".into(), new).await;
        let minted = minted.unwrap();
        assert!(minted.key.expose().starts_with("sg_test_"));

        let presented = ApiKey::parse(minted.key.expose()).unwrap();
        let found = store.control.credentials().find(presented.id()).await.unwrap().unwrap();
        assert!(found.secret_hash.verify(&presented));
        assert_eq!((found.agent_id, found.agent_name.as_str()), (agent.id, "u-42"));
        assert_eq!((found.tenant_id, found.tenant_slug.as_str()), (acme.id, "acme"));
        assert_eq!((found.agent_status, found.tenant_status), (Status::Active, Status::Active));
        assert!(found.scopes.allow("reports_write") && !found.scopes.allow("export"));
        assert_eq!(found.key_status(START + HOUR - 1), KeyStatus::Active);
        assert_eq!(found.key_status(START + HOUR), KeyStatus::Expired);

        store.control.tenants().suspend(&store.root, &"acme".into()).await.unwrap();
        let found = store.control.credentials().find(presented.id()).await.unwrap().unwrap();
        assert_eq!(found.tenant_status, Status::Suspended);
    }

    async fn a_key_carries_the_grants_it_was_given(store: &Store) {
        store.tenant("acme").await;
        store.agent("acme", "u-42").await;
        let grants = vec!["reports:write".to_owned(), "reports:read".to_owned()];
        let scopes = KeyScopes::all().with_grants(grants.clone()).unwrap();
        let new = NewKey { scopes: scopes.clone(), ..NewKey::named("ci") };
        let minted = store.control.keys().create(&store.root, &"acme".into(), &"u-42".into(), new).await;
        let found = store.control.credentials().find(minted.unwrap().key.id()).await.unwrap().unwrap();
        assert_eq!(found.scopes, scopes);
        assert_eq!(found.scopes.to_string(), "* reports:write reports:read");
        assert!(found.scopes.carry(&grants[..1]) && found.scopes.carry(&[]));
        assert!(!found.scopes.carry(&["reports:delete".to_owned()]));
    }

    async fn another_key_does_not_verify_against_the_hash(store: &Store) {
        store.tenant("acme").await;
        let agent = store.agent("acme", "u-42").await;
        let (one, other) = (store.key(&agent).await, store.key(&agent).await);
        let found = store.control.credentials().find(one.key.id()).await.unwrap().unwrap();
        assert!(!found.secret_hash.verify(&ApiKey::parse(other.key.expose()).unwrap()));
    }

    async fn the_secret_is_nowhere_in_the_database(store: &Store) {
        store.tenant("acme").await;
        let agent = store.agent("acme", "u-42").await;
        let minted = store.key(&agent).await;
        let rotated =
            store.control.keys().rotate(&store.root, minted.key.id(), Overlap::Hour).await.unwrap();
        let mut stored = store.texts("SELECT secret_hash FROM api_keys").await;
        let hashes = stored.clone();
        stored.extend(store.texts("SELECT COALESCE(before, '') || COALESCE(after, '') FROM audit_log").await);
        for key in [&minted.key, &rotated.key] {
            let secret = key.expose().split('_').nth(3).unwrap();
            assert!(stored.iter().all(|text| !text.contains(secret)));
        }
        let log = store.texts("SELECT COALESCE(after, '') FROM audit_log").await;
        assert!(log.iter().all(|entry| hashes.iter().all(|hash| !entry.contains(hash))));
        assert!(!format!("{minted:?}").contains(minted.key.expose()));
    }

    async fn a_rotated_key_goes_on_working_for_the_overlap(store: &Store) {
        store.tenant("acme").await;
        let agent = store.agent("acme", "u-42").await;
        for (overlap, lasts) in [("0", 0), ("1h", 1), ("24h", 24), ("7d", 7 * 24)] {
            let old = store.key(&agent).await.record;
            let overlap: Overlap = overlap.parse().unwrap();
            let new = store.control.keys().rotate(&store.root, old.id, overlap).await.unwrap().record;
            assert_eq!(new.rotated_from, Some(old.id));
            assert_eq!((&new.name, &new.scopes), (&old.name, &old.scopes));
            let old = read(store, old.id).await;
            let end = START + lasts * HOUR;
            assert_ne!(old.status(end), KeyStatus::Active);
            if lasts > 0 {
                assert_eq!(old.status(end - 1), KeyStatus::Active);
            }
        }
        assert!("2h".parse::<Overlap>().is_err());
    }

    async fn rotation_keeps_the_length_of_life_and_never_prolongs_the_old_key(store: &Store) {
        store.tenant("acme").await;
        store.agent("acme", "u-42").await;
        let new = NewKey { expires_at: Some(START + 2 * HOUR), ..NewKey::named("short") };
        let keys = store.control.keys();
        let old = keys.create(&store.root, &"acme".into(), &"u-42".into(), new).await.unwrap().record;
        store.clock.advance(Duration::from_hours(1));
        let new = keys.rotate(&store.root, old.id, Overlap::Week).await.unwrap().record;
        assert_eq!(new.expires_at, Some(START + 3 * HOUR));
        assert_eq!(read(store, old.id).await.expires_at, Some(START + 2 * HOUR));

        let too_far = NewKey { expires_at: Some(LAST_END + 1), ..NewKey::named("too far") };
        let refused = keys.create(&store.root, &"acme".into(), &"u-42".into(), too_far).await.unwrap_err();
        assert!(refused.to_string().contains("before the year 10000"), "{refused}");
        let endless = NewKey { expires_at: Some(LAST_END), ..NewKey::named("endless") };
        let endless = keys.create(&store.root, &"acme".into(), &"u-42".into(), endless).await;
        let endless = endless.unwrap().record.id;
        store.clock.advance(Duration::from_hours(5));
        let endless = keys.rotate(&store.root, endless, Overlap::None).await.unwrap().record;
        assert_eq!(endless.status(LAST_END), KeyStatus::Active);
        let ended = keys.rotate(&store.root, new.id, Overlap::None).await;
        assert_eq!(kind(&ended), "conflict");
    }

    async fn revoked_and_expired_keys_stay_listed(store: &Store) {
        store.tenant("acme").await;
        let agent = store.agent("acme", "u-42").await;
        let other = store.agent("acme", "other").await;
        let keys = store.control.keys();
        let (revoked, active) = (store.key(&agent).await.record, store.key(&other).await.record);
        let once = keys.revoke(&store.root, revoked.id).await.unwrap();
        store.clock.advance(Duration::from_secs(1));
        assert_eq!(keys.revoke(&store.root, revoked.id).await.unwrap(), once, "again is no change");

        let page = PageRequest::default();
        let all = keys.list(&store.root, &"acme".into(), None, &page).await.unwrap().items;
        let mut statuses: Vec<_> = all.iter().map(|key| key.status(START)).collect();
        statuses.sort_by_key(|status| *status as u8);
        assert_eq!(statuses, [KeyStatus::Active, KeyStatus::Revoked]);
        let of_agent = keys.list(&store.root, &"acme".into(), Some(&"other".into()), &page).await;
        assert_eq!(of_agent.unwrap().items, [active]);
    }

    async fn the_last_use_is_the_latest_of_all_batches(store: &Store) {
        store.tenant("acme").await;
        let agent = store.agent("acme", "u-42").await;
        let key = store.key(&agent).await.key.id();
        let keys = store.control.keys();
        let revision = store.control.policy().revision().await.unwrap();
        keys.record_uses(&store.root, &[(key, START + 3), (key, START + 8)]).await.unwrap();
        keys.record_uses(&store.root, &[(key, START + 5)]).await.unwrap();
        assert_eq!(read(store, key).await.last_used_at, Some(START + 8));
        assert_eq!(store.control.policy().revision().await.unwrap(), revision);
    }

    async fn a_key_that_makes_no_sense_is_refused(store: &Store) {
        store.tenant("acme").await;
        store.agent("acme", "u-42").await;
        let create = async |new: NewKey| {
            let keys = store.control.keys();
            kind(&keys.create(&store.root, &"acme".into(), &"u-42".into(), new).await)
        };
        assert_eq!(create(NewKey::named("")).await, "invalid");
        let expired = NewKey { expires_at: Some(START), ..NewKey::named("x") };
        assert_eq!(create(expired).await, "invalid");
        assert_eq!(kind(&KeyScopes::new(Vec::new())), "invalid");
        assert_eq!(kind(&KeyScopes::all().with_grants(vec!["two words".to_owned()])), "invalid");
        assert_eq!(kind(&KeyScopes::all().with_grants(vec![String::new()])), "invalid");
        let (acme, nobody) = ("acme".into(), "nobody".into());
        let new = NewKey::named("x");
        let refused = store.control.keys().create(&store.root, &acme, &nobody, new).await;
        assert_eq!(kind(&refused), "not found");
    }

    async fn ten_thousand_keys_of_one_tenant_are_listed_page_by_page(store: &Store) {
        store.tenant("acme").await;
        let agent = store.agent("acme", "u-42").await;
        let own = store.key(&agent).await;
        let last_32 = if store.is_postgres() { "right(repeat('0', 32) || n, 32)" } else { "printf('%032d', n)" };
        let many = format!(
            "INSERT INTO api_keys (id, tenant_id, agent_id, name, environment, secret_hash, scopes, created_at, created_by,
                 revision)
             WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10000)
             SELECT 'key_' || {last_32}, k.tenant_id, k.agent_id, 'key ' || n,
                 k.environment, k.secret_hash, k.scopes, k.created_at, k.created_by, k.revision
             FROM n CROSS JOIN api_keys k WHERE k.id = '{}'",
            own.record.id
        );
        store.sql(&many).await.unwrap();
        let (mut page, mut seen, mut pages) = (PageRequest::first(PageRequest::MAX), std::collections::BTreeSet::new(), 0);
        loop {
            let found = store.control.keys().list(&store.root, &"acme".into(), None, &page).await.unwrap();
            pages += 1;
            seen.extend(found.items.iter().map(|key| key.id));
            let Some(next) = found.next else { break };
            page = PageRequest { after: Some(next), limit: PageRequest::MAX };
        }
        assert_eq!((seen.len(), pages), (10_001, 51));
        let credential = store.control.credentials().find(own.record.id).await.unwrap().unwrap();
        assert!(credential.secret_hash.verify(&ApiKey::parse(own.key.expose()).unwrap()));
        store.control.tenants().delete(&store.root, &"acme".into()).await.unwrap();
        assert_eq!(store.texts("SELECT CAST(COUNT(*) AS TEXT) FROM api_keys").await, ["0"]);
    }
}
