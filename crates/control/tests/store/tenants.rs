use sluicegate_control::{
    Actor, ControlError, JsonText, PageRequest, Reach, RefusalStyle, Role, Status, TenantFilter, TenantOrder,
    TenantSettings, TenantUpdate, Tombstone,
};

use crate::harness::{START, kind, on_both};

on_both! {
    async fn a_tenant_is_found_by_its_id_and_by_its_slug(store: &Store) {
        let acme = store.tenant("acme").await;
        let tenants = store.control.tenants();
        assert_eq!(tenants.get(&store.root, &acme.id.into()).await.unwrap(), acme);
        assert_eq!(tenants.get(&store.root, &"acme".into()).await.unwrap(), acme);
        assert_eq!(tenants.get(&store.root, &acme.id.to_string().as_str().into()).await.unwrap(), acme);
        assert_eq!((acme.status, acme.created_at), (Status::Active, START));
    }

    async fn several_things_about_a_tenant_change_at_once_or_not_at_all(store: &Store) {
        let tenants = store.control.tenants();
        let missing = TenantUpdate { plan: Some(Some("gold".into())), ..TenantUpdate::default() };
        let refused = tenants.create_with(&store.root, "acme", "Acme", missing.clone()).await;
        assert_eq!(kind(&refused), "not found");
        assert_eq!(kind(&tenants.get(&store.root, &"acme".into()).await), "not found", "not even the tenant was made");
        let plan = store.control.plans().create(&store.root, "gold", "").await.unwrap();
        let metadata: JsonText = r#"{"customer":7}"#.parse().unwrap();
        let rest = TenantUpdate { metadata: Some(metadata.clone()), ..missing };
        let acme = tenants.create_with(&store.root, "acme", "Acme", rest).await.unwrap();
        assert_eq!((acme.plan_id, &acme.metadata), (Some(plan.id), &metadata));
        let half = TenantUpdate { name: Some("Other".to_owned()), metadata: Some("[]".parse().unwrap()), ..TenantUpdate::default() };
        assert_eq!(kind(&tenants.update(&store.root, &"acme".into(), half).await), "invalid");
        assert_eq!(tenants.get(&store.root, &"acme".into()).await.unwrap(), acme);
        let both = TenantUpdate { name: Some("Other".to_owned()), plan: Some(None), ..TenantUpdate::default() };
        let after = tenants.update(&store.root, &"acme".into(), both).await.unwrap();
        assert_eq!((&*after.name, after.plan_id, &after.metadata), ("Other", None, &metadata));
        let confined = Actor::user("bob", Role::Owner, Reach::Tenant(acme.id));
        let plan = TenantUpdate { plan: Some(None), ..TenantUpdate::default() };
        assert_eq!(kind(&tenants.update(&confined, &"acme".into(), plan).await), "forbidden");
    }

    async fn an_unknown_tenant_is_not_found_by_the_name_that_was_asked_for(store: &Store) {
        let error = store.control.tenants().get(&store.root, &"acm".into()).await.unwrap_err();
        assert_eq!(error.to_string(), r#"there is no tenant "acm""#);
    }

    async fn a_name_with_nul_is_not_found_and_no_fault_of_the_database(store: &Store) {
        store.tenant("acme").await;
        let tenants = store.control.tenants();
        assert_eq!(kind(&tenants.get(&store.root, &"ac\0me".into()).await), "not found");
        let agents = store.control.agents();
        let nul = agents.get(&store.root, &"acme".into(), &"\0".into()).await;
        assert_eq!(kind(&nul), "not found");
        let filter = TenantFilter { search: Some("\0".to_owned()), ..TenantFilter::default() };
        let found = tenants.list(&store.root, &filter, &PageRequest::default()).await.unwrap();
        assert!(found.items.is_empty());
    }

    async fn settings_that_make_no_sense_are_refused(store: &Store) {
        store.tenant("acme").await;
        let set = async |settings| {
            kind(&store.control.tenants().set_settings(&store.root, &"acme".into(), settings).await)
        };
        let default = TenantSettings::default;
        assert_eq!(set(TenantSettings { max_body_bytes: Some(0), ..default() }).await, "invalid");
        let patterns = |n| Some(vec![sluicegate_control::ToolGlob::any(); n]);
        assert_eq!(set(TenantSettings { weight: Some(0), ..default() }).await, "invalid");
        assert_eq!(set(TenantSettings { weight: Some(1_001), ..default() }).await, "invalid");
        assert_eq!(set(TenantSettings { weight: Some(1_000), ..default() }).await, "ok");
        assert_eq!(set(TenantSettings { allowed_tools: patterns(64), ..default() }).await, "ok");
        assert_eq!(set(TenantSettings { allowed_tools: patterns(65), ..default() }).await, "invalid");
    }

    async fn a_weight_takes_from_others_so_whoever_is_confined_to_a_tenant_cannot_change_it(store: &Store) {
        let acme = store.tenant("acme").await.id;
        let alice = Actor::user("alice", Role::Owner, Reach::Tenant(acme));
        let set = async |actor, weight, max_body_bytes| {
            let settings = TenantSettings { weight, max_body_bytes, ..TenantSettings::default() };
            kind(&store.control.tenants().set_settings(actor, &"acme".into(), settings).await)
        };
        assert_eq!(set(&alice, Some(2), None).await, "forbidden");
        assert_eq!(set(&store.root, Some(2), None).await, "ok");
        assert_eq!(set(&alice, Some(2), Some(1_000)).await, "ok", "the rest is its own");
        assert_eq!(set(&alice, None, Some(1_000)).await, "forbidden");
    }

    async fn a_slug_is_unique_and_well_formed(store: &Store) {
        store.tenant("acme").await;
        let tenants = store.control.tenants();
        let taken = tenants.create(&store.root, "acme", "Other").await;
        assert_eq!(kind(&taken), "conflict");
        for slug in ["", "Acme", "a_b", "a b", "übung", "a/b", &"a".repeat(64)] {
            let refused = tenants.create(&store.root, slug, "Other").await;
            assert_eq!(kind(&refused), "invalid", "{slug:?}");
        }
        tenants.create(&store.root, &"a".repeat(63), "Other").await.unwrap();
        assert_eq!(kind(&tenants.create(&store.root, "b", "two\nlines").await), "invalid");
    }

    async fn every_edit_is_kept_and_carries_a_newer_revision(store: &Store) {
        let created = store.tenant("acme").await;
        let tenants = store.control.tenants();
        let acme = "acme".into();
        let gold = store.control.plans().create(&store.root, "gold", "").await.unwrap();
        store.clock.advance(std::time::Duration::from_secs(60));

        tenants.rename(&store.root, &acme, "Acme Inc.").await.unwrap();
        tenants.suspend(&store.root, &acme).await.unwrap();
        tenants.assign_plan(&store.root, &acme, Some(&"gold".into())).await.unwrap();
        let settings = TenantSettings {
            refusal_style: Some(RefusalStyle::ToolResult),
            max_body_bytes: Some(1 << 20),
            allowed_tools: Some(vec!["reports_*".parse().unwrap()]),
            weight: Some(2),
        };
        tenants.set_settings(&store.root, &acme, settings.clone()).await.unwrap();
        let metadata = serde_json::json!({ "customer": 7 }).into();
        let last = tenants.set_metadata(&store.root, &acme, metadata).await.unwrap();

        let read = tenants.get(&store.root, &acme).await.unwrap();
        assert_eq!(read, last);
        assert_eq!((read.name.as_str(), read.status), ("Acme Inc.", Status::Suspended));
        assert_eq!((read.plan_id, read.plan_name.as_deref()), (Some(gold.id), Some("gold")));
        assert_eq!(read.settings, settings);
        assert_eq!(read.metadata.as_str(), r#"{"customer":7}"#);
        assert_eq!(read.updated_at, START + 60_000);
        assert!(read.revision > created.revision);

        let resumed = tenants.resume(&store.root, &acme).await.unwrap();
        assert_eq!(resumed.status, Status::Active);
        let without = tenants.assign_plan(&store.root, &acme, None).await.unwrap();
        assert_eq!((without.plan_id, without.plan_name), (None, None));
    }

    async fn an_edit_that_changes_nothing_leaves_no_trace(store: &Store) {
        store.tenant("acme").await;
        let before = store.control.policy().revision().await.unwrap();
        store.control.tenants().resume(&store.root, &"acme".into()).await.unwrap();
        store.control.tenants().rename(&store.root, &"acme".into(), "acme").await.unwrap();
        assert_eq!(store.control.policy().revision().await.unwrap(), before);
        let log = store.control.audit().list(&store.root, None, &PageRequest::default()).await;
        assert_eq!(log.unwrap().items.len(), 1);
    }

    async fn a_refused_change_leaves_no_trace(store: &Store) {
        store.tenant("acme").await;
        let before = store.control.policy().revision().await.unwrap();
        store.control.tenants().create(&store.root, "acme", "x").await.unwrap_err();
        let no_plan = Some(&"nope".into());
        let refused = store.control.tenants().assign_plan(&store.root, &"acme".into(), no_plan).await;
        assert!(matches!(refused, Err(ControlError::NotFound { what: "plan", .. })));
        assert_eq!(store.control.policy().revision().await.unwrap(), before);
    }

    async fn metadata_is_an_object_of_at_most_1024_bytes(store: &Store) {
        store.tenant("acme").await;
        let set = async |text: String| {
            let metadata = text.parse().unwrap();
            kind(&store.control.tenants().set_metadata(&store.root, &"acme".into(), metadata).await)
        };
        assert_eq!(set(format!("{{\"k\":\"{}\"}}", "x".repeat(1024 - 8))).await, "ok");
        assert_eq!(set(format!("{{\"k\":\"{}\"}}", "x".repeat(1024 - 7))).await, "invalid");
        assert_eq!(set("[1]".to_owned()).await, "invalid");
    }

    async fn tenants_are_listed_by_slug_a_page_at_a_time(store: &Store) {
        for slug in ["b", "a-1", "c", "a", "a0", "0"] {
            store.tenant(slug).await;
        }
        let mut page = PageRequest::first(2);
        let mut slugs = Vec::new();
        let mut sizes = Vec::new();
        loop {
            let all = TenantFilter::default();
            let read = store.control.tenants().list(&store.root, &all, &page).await.unwrap();
            sizes.push(read.items.len());
            slugs.extend(read.items.into_iter().map(|tenant| tenant.slug));
            let Some(next) = read.next else { break };
            page.after = Some(next.to_string().parse().unwrap());
        }
        assert_eq!(slugs, ["0", "a", "a-1", "a0", "b", "c"]);
        assert_eq!(sizes, [2, 2, 2]);
    }

    async fn tenants_are_listed_with_the_newest_first_a_page_at_a_time(store: &Store) {
        for slug in ["b", "c", "a"] {
            store.tenant(slug).await;
            store.clock.advance(std::time::Duration::from_millis(1));
        }
        let newest = TenantFilter { order: TenantOrder::Newest, ..TenantFilter::default() };
        let tenants = store.control.tenants();
        let first = tenants.list(&store.root, &newest, &PageRequest::first(2)).await.unwrap();
        let rest = PageRequest { after: first.next, limit: 2 };
        let rest = tenants.list(&store.root, &newest, &rest).await.unwrap();
        let slugs: Vec<_> = first.items.iter().chain(&rest.items).map(|tenant| tenant.slug.as_str()).collect();
        assert_eq!(slugs, ["a", "c", "b"]);
        assert!(rest.next.is_none());
    }

    async fn the_tenants_on_a_plan_are_listed_to_whoever_may_see_them(store: &Store) {
        let plan = store.control.plans().create(&store.root, "pro", "").await.unwrap().id;
        for slug in ["b", "a", "c"] {
            store.tenant(slug).await;
        }
        let tenants = store.control.tenants();
        for slug in ["b", "a"] {
            tenants.assign_plan(&store.root, &slug.into(), Some(&"pro".into())).await.unwrap();
        }
        let on_plan = async |actor: &Actor| {
            let found = tenants.on_plan(actor, plan, &PageRequest::default()).await.unwrap();
            found.items.into_iter().map(|tenant| tenant.slug).collect::<Vec<_>>()
        };
        assert_eq!(on_plan(&store.root).await, ["a", "b"]);
        let b = tenants.get(&store.root, &"b".into()).await.unwrap().id;
        let confined = Actor::user("bob", Role::Viewer, Reach::Tenant(b));
        assert_eq!(on_plan(&confined).await, ["b"]);
    }

    async fn a_list_can_be_narrowed_by_status_and_by_text(store: &Store) {
        for (slug, name) in [("acme", "Acme 100%"), ("globex", "Globex_Corp"), ("initech", "INITECH Übung")] {
            store.control.tenants().create(&store.root, slug, name).await.unwrap();
        }
        store.control.tenants().suspend(&store.root, &"globex".into()).await.unwrap();
        let list = async |status: Option<Status>, search: Option<&str>| {
            let filter = TenantFilter { status, search: search.map(str::to_owned), ..TenantFilter::default() };
            let page = PageRequest::default();
            let read = store.control.tenants().list(&store.root, &filter, &page).await;
            read.unwrap().items.into_iter().map(|t| t.slug).collect::<Vec<_>>()
        };
        assert_eq!(list(None, None).await, ["acme", "globex", "initech"]);
        assert_eq!(list(Some(Status::Suspended), None).await, ["globex"]);
        assert_eq!(list(None, Some("iniTECH")).await, ["initech"]);
        assert_eq!(list(None, Some("h ÜB")).await, ["initech"]);
        assert_eq!(list(None, Some("h üb")).await, Vec::<String>::new());
        assert_eq!(list(None, Some("%")).await, ["acme"]);
        assert_eq!(list(None, Some("_c")).await, ["globex"]);
        assert_eq!(list(None, Some(r"\")).await, Vec::<String>::new());
        assert_eq!(list(Some(Status::Active), Some("e")).await, ["acme", "initech"]);
    }

    async fn a_deleted_tenant_takes_everything_in_it_along_and_nothing_else(store: &Store) {
        let acme = store.tenant("acme").await;
        store.tenant("globex").await;
        let own = store.agent("acme", "u-42").await;
        let other = store.agent("globex", "u-42").await;
        let (own_key, other_key) = (store.key(&own).await, store.key(&other).await);
        for agent in [&own, &other] {
            let target = sluicegate_control::Target::Agent { tenant: agent.tenant_id, agent: agent.id };
            let new = sluicegate_control::NewLimit::rate(target, "1/s");
            store.control.limits().set(&store.root, &new).await.unwrap();
        }
        let overlap = sluicegate_control::Overlap::Day;
        store.control.keys().rotate(&store.root, own_key.key.id(), overlap).await.unwrap();
        let before = store.control.policy().revision().await.unwrap();
        store.control.tenants().delete(&store.root, &"acme".into()).await.unwrap();

        let gone = store.control.tenants().get(&store.root, &acme.id.into()).await;
        assert_eq!(kind(&gone), "not found");
        assert!(store.control.credentials().find(own_key.key.id()).await.unwrap().is_none());
        assert!(store.control.credentials().find(other_key.key.id()).await.unwrap().is_some());
        let policy = store.control.policy().load_all().await.unwrap();
        assert_eq!(policy.limits.len(), 1);
        assert_eq!(policy.limits[0].target.tenant(), Some(other.tenant_id));
        let delta = store.control.policy().changes_since(before).await.unwrap();
        assert_eq!(delta.deleted, [Tombstone::Tenant(acme.id)]);
        store.tenant("acme").await;
    }

    async fn of_two_operators_that_save_at_once_the_second_is_told_what_the_first_has_saved(store: &Store) {
        let seen = store.tenant("acme").await.revision;
        let (alice, bob) = (store.root.clone().expecting(seen), store.root.clone().expecting(seen));
        let tenants = store.control.tenants();
        tenants.rename(&alice, &"acme".into(), "Alice's").await.unwrap();
        let stale = tenants.rename(&bob, &"acme".into(), "Bob's").await;
        assert_eq!(kind(&stale), "stale");
        let Err(ControlError::Stale { target, present }) = stale else { unreachable!() };
        assert_eq!(target, "tenant acme");
        assert!(present.unwrap().as_str().contains("Alice's"));
        assert_eq!(kind(&tenants.delete(&bob, &"acme".into()).await), "stale");
        let now = tenants.get(&store.root, &"acme".into()).await.unwrap();
        assert_eq!(now.name, "Alice's");
        tenants.delete(&store.root.clone().expecting(now.revision), &"acme".into()).await.unwrap();
    }

    async fn a_limit_is_saved_over_the_one_that_was_seen_and_no_other(store: &Store) {
        let acme = store.tenant("acme").await.id;
        let target = sluicegate_control::Target::Tenant { tenant: acme };
        let new = |rate: &str| sluicegate_control::NewLimit::rate(target.clone(), rate);
        let limits = store.control.limits();
        let seen = limits.set(&store.root, &new("1/s")).await.unwrap().revision;
        let raise = sluicegate_control::NewLimit { expires_at: Some(START + 60_000), ..new("9/s") };
        limits.set(&store.root, &raise).await.unwrap();
        let alice = store.root.clone().expecting(seen);
        limits.set(&alice, &new("2/s")).await.unwrap();
        assert_eq!(kind(&limits.set(&alice, &new("3/s")).await), "stale");
        assert_eq!(kind(&limits.unset(&alice, &target, sluicegate_control::LimitKindName::Rate).await), "stale");
    }
}
