use std::time::Duration;

use sluicegate_control::{
    Actor, LimitEntry, LimitFilter, LimitKind, LimitKindName, LimitValue, NewLimit, PageRequest, Reach, Revision, Role,
    Target,
};
use sluicegate_limits::{Algorithm, Mode, Per, Quotas};

use crate::harness::{START, Store, kind, on_both};

async fn set(store: &Store, new: NewLimit) -> LimitEntry {
    store.control.limits().set(&store.root, &new).await.unwrap()
}

async fn list(store: &Store, filter: LimitFilter) -> Vec<LimitEntry> {
    let page = PageRequest::first(200);
    store.control.limits().list(&store.root, &filter, &page).await.unwrap().items
}

fn quotas(entry: &LimitEntry) -> String {
    match &entry.kind {
        LimitKind::Rate { quotas, .. } => quotas.to_string(),
        LimitKind::Concurrency { cap } => cap.to_string(),
    }
}

/// One target of each sort, on rows that exist.
async fn targets(store: &Store) -> Vec<Target> {
    let tenant = store.tenant("acme").await.id;
    let u42 = store.agent("acme", "u-42").await;
    let (agent, key) = (u42.id, store.key(&u42).await.key.id());
    let plan = store.control.plans().create(&store.root, "gold", "").await.unwrap().id;
    store.tools(&["export", "import"]).await;
    let tool = || "export".to_owned();
    vec![
        Target::Server,
        Target::Tenant { tenant },
        Target::Agent { tenant, agent },
        Target::Key { tenant, agent, key },
        Target::Tool { tool: tool() },
        Target::TenantTool { tenant, tool: tool() },
        Target::AgentTool { tenant, agent, tool: tool() },
        Target::Plan { plan },
        Target::PlanAgent { plan },
        Target::PlanTool { plan, tool: tool() },
    ]
}

on_both! {
    async fn of_two_that_have_seen_the_same_the_second_is_told_of_the_first(store: &Store) {
        let tenant = store.tenant("acme").await.id;
        let limits = store.control.limits();
        let target = Target::Tenant { tenant };
        let new = |text: &str| NewLimit::rate(target.clone(), text);
        let first = limits.replace(&store.root, &new("10/min"), Revision::START).await.unwrap();
        let late = limits.replace(&store.root, &new("20/min"), Revision::START).await;
        assert_eq!(kind(&late), "conflict");
        let message = late.unwrap_err().to_string();
        assert!(message.contains("10/min") && message.contains("20/min") && message.contains("cli:root"), "{message}");
        let second = limits.replace(&store.root, &new("20/min"), first.revision).await.unwrap();
        assert_eq!(limits.of(&store.root, &target, LimitKindName::Rate).await.unwrap(), [second]);

        let stranger = Actor::user("anna", Role::Owner, Reach::Tenant(store.tenant("globex").await.id));
        assert_eq!(kind(&limits.of(&stranger, &target, LimitKindName::Rate).await), "not found");
        assert_eq!(kind(&limits.replace(&stranger, &new("1/min"), Revision::START).await), "not found");
    }

    async fn every_sort_of_target_reads_back_with_both_kinds(store: &Store) {
        let targets = targets(store).await;
        let mut written = Vec::new();
        for target in &targets {
            written.push(set(store, NewLimit::rate(target.clone(), "10/s, 1000/h")).await);
            written.push(set(store, NewLimit::concurrency(target.clone(), "3")).await);
        }
        for entry in &written {
            assert_eq!(&store.control.limits().get(&store.root, entry.id).await.unwrap(), entry);
        }
        let mut listed = list(store, LimitFilter::All).await;
        let order: Vec<_> = listed.iter().map(|e| (e.target.to_string(), e.kind.name().as_str())).collect();
        assert!(order.is_sorted());
        listed.sort_by_key(|entry| entry.id);
        written.sort_by_key(|entry| entry.id);
        assert_eq!(listed, written);
        assert_eq!(list(store, LimitFilter::Tenant("acme".into())).await.len(), 10);
        assert_eq!(list(store, LimitFilter::Plan("gold".into())).await.len(), 6);
    }

    async fn all_parts_of_a_rate_are_kept_and_the_text_is_canonical(store: &Store) {
        store.tools(&["export"]).await;
        let target = Target::Tool { tool: "export".to_owned() };
        let new = NewLimit {
            value: LimitValue::Rate {
                quotas: "10/sec,  1_000 / 60min".replace(" / ", "/"),
                burst: Some(20),
                algorithm: Some(Algorithm::TokenBucket),
                per: Some(Per::Tenant),
            },
            mode: Mode::Observe,
            note: "on trial".to_owned(),
            ..NewLimit::rate(target, "")
        };
        let id = set(store, new).await.id;
        let read = store.control.limits().get(&store.root, id).await.unwrap();
        let LimitKind::Rate { quotas, burst, algorithm, per } = &read.kind else { panic!("a rate") };
        assert_eq!(quotas, &"10/s, 1000/h".parse::<Quotas>().unwrap());
        assert_eq!((*burst, *algorithm, *per), (Some(20), Some(Algorithm::TokenBucket), Some(Per::Tenant)));
        assert_eq!((read.mode, read.note.as_str()), (Mode::Observe, "on trial"));
        assert_eq!(store.texts("SELECT quotas FROM limits").await, ["10/s, 1000/h"]);
    }

    async fn to_set_a_limit_again_replaces_it(store: &Store) {
        let tenant = store.tenant("acme").await.id;
        let target = Target::Tenant { tenant };
        let first = set(store, NewLimit::rate(target.clone(), "100/min")).await;
        let alice = Actor::cli("alice");
        let again = NewLimit::rate(target.clone(), "300/min");
        let second = store.control.limits().set(&alice, &again).await.unwrap();
        assert_eq!(second.id, first.id);
        assert_eq!((second.created_by.as_str(), second.updated_by.as_str()), ("cli:root", "cli:alice"));
        assert!(second.revision > first.revision);
        assert_eq!(list(store, LimitFilter::All).await, [second]);

        store.control.limits().unset(&store.root, &target, LimitKindName::Rate).await.unwrap();
        assert!(list(store, LimitFilter::All).await.is_empty());
        let again = store.control.limits().unset(&store.root, &target, LimitKindName::Rate).await;
        assert_eq!(kind(&again), "not found");
    }

    async fn an_observed_limit_stands_beside_the_enforced_one(store: &Store) {
        let tenant = store.tenant("acme").await.id;
        let target = Target::Tenant { tenant };
        let enforced = set(store, NewLimit::rate(target.clone(), "100/min")).await;
        let observe = |quotas| NewLimit { mode: Mode::Observe, ..NewLimit::rate(target.clone(), quotas) };
        let first = set(store, observe("50/min")).await;
        let second = set(store, observe("60/min")).await;
        assert_eq!(second.id, first.id);
        let mut listed = list(store, LimitFilter::All).await;
        listed.sort_by_key(|entry| entry.mode == Mode::Observe);
        assert_eq!(listed, [enforced.clone(), second]);
        let limits = store.control.limits();
        let one_by_one = PageRequest::first(1);
        let page = limits.list(&store.root, &LimitFilter::All, &one_by_one).await.unwrap();
        let rest = PageRequest { after: page.next.clone(), ..one_by_one };
        assert_eq!(limits.list(&store.root, &LimitFilter::All, &rest).await.unwrap().items.len(), 1);

        limits.unset_mode(&store.root, &target, LimitKindName::Rate, Mode::Observe).await.unwrap();
        assert_eq!(list(store, LimitFilter::All).await, [enforced]);
        limits.unset(&store.root, &target, LimitKindName::Rate).await.unwrap();
        assert!(list(store, LimitFilter::All).await.is_empty());
    }

    async fn a_bad_text_is_refused_with_the_message_of_the_limit_parser(store: &Store) {
        for text in ["", "0/s", "10/fortnight", "ten/s", "1.5/s", "10/s, oops"] {
            let error = store.control.limits().set(&store.root, &NewLimit::rate(Target::Server, text)).await;
            let parser = text.parse::<Quotas>().unwrap_err();
            assert_eq!(error.unwrap_err().to_string(), parser.to_string());
        }
        let zero = NewLimit::concurrency(Target::Server, "0");
        assert_eq!(kind(&store.control.limits().set(&store.root, &zero).await), "invalid");
        assert!(list(store, LimitFilter::All).await.is_empty());
    }

    async fn parts_that_do_not_go_together_are_refused(store: &Store) {
        store.tools(&["export"]).await;
        let refused = async |target: Target, burst, algorithm, per, word: &str| {
            let value = LimitValue::Rate { quotas: "10/s".to_owned(), burst, algorithm, per };
            let new = NewLimit { value, ..NewLimit::rate(target, "") };
            let error = store.control.limits().set(&store.root, &new).await.unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        };
        let tool = Target::Tool { tool: "export".to_owned() };
        refused(tool.clone(), Some(0), None, None, "burst of 0").await;
        refused(tool, Some(5), Some(Algorithm::SlidingWindow), None, "sliding_window").await;
        refused(Target::Server, Some(5), None, None, "sliding_window").await;
        refused(Target::Server, None, None, Some(Per::Server), "per is for limits on tools").await;
    }

    async fn a_limit_on_what_does_not_exist_names_it(store: &Store) {
        let targets = targets(store).await;
        let globex = store.tenant("globex").await;
        let theirs = store.agent("globex", "u-42").await;
        let (Target::Key { tenant, agent, key }, Target::Plan { plan }) = (&targets[3], &targets[7])
        else { panic!("the order of targets()") };
        let gold = store.control.plans();
        gold.delete(&store.root, &(*plan).into()).await.unwrap();
        for (target, what) in [
            (Target::Agent { tenant: *tenant, agent: theirs.id }, format!("agent \"{}\"", theirs.id)),
            (Target::Agent { tenant: globex.id, agent: *agent }, format!("agent \"{agent}\"")),
            (Target::Key { tenant: globex.id, agent: theirs.id, key: *key }, format!("API key \"{key}\"")),
            (Target::Plan { plan: *plan }, format!("plan \"{plan}\"")),
        ] {
            let error = store.control.limits().set(&store.root, &NewLimit::rate(target, "1/s")).await;
            assert_eq!(error.unwrap_err().to_string(), format!("there is no {what}"));
        }
    }

    async fn a_misspelt_tool_is_refused_with_the_names_that_look_like_it(store: &Store) {
        let limits = store.control.limits();
        let new = NewLimit::rate(Target::Tool { tool: "exprt".to_owned() }, "1/s");
        let error = limits.set(&store.root, &new).await.unwrap_err();
        assert_eq!(error.to_string(), r#"there is no tool "exprt"; no tool is registered yet"#);
        store.tools(&["export", "search", "import"]).await;
        let error = limits.set(&store.root, &new).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"there is no tool "exprt"; did you mean one of export, import, search?"#
        );
        let early = NewLimit { allow_unknown_tool: true, ..new };
        assert_eq!(kind(&limits.set(&store.root, &early).await), "ok");
        let never = NewLimit { target: Target::Tool { tool: "a b".to_owned() }, ..early };
        assert_eq!(kind(&limits.set(&store.root, &never).await), "invalid");
    }

    async fn a_temporary_limit_lies_over_the_lasting_one_until_it_ends(store: &Store) {
        let tenant = store.tenant("acme").await.id;
        let target = Target::Tenant { tenant };
        let lasting = set(store, NewLimit::rate(target.clone(), "100/min")).await;
        let raise = |text| NewLimit {
            expires_at: Some(START + 60_000),
            ..NewLimit::rate(target.clone(), text)
        };
        set(store, raise("500/min")).await;
        let raised = set(store, raise("900/min")).await;
        assert_ne!(raised.id, lasting.id);
        assert_eq!(list(store, LimitFilter::All).await, [lasting.clone(), raised.clone()]);
        assert!(raised.is_in_force(START + 59_999) && !raised.is_in_force(START + 60_000));

        store.clock.advance(Duration::from_secs(30));
        let last_word = set(store, NewLimit::rate(target.clone(), "50/min")).await;
        assert_eq!(last_word.id, lasting.id);
        assert_eq!(list(store, LimitFilter::All).await, [last_word]);

        store.clock.advance(Duration::from_secs(30));
        assert_eq!(kind(&store.control.limits().set(&store.root, &raise("1/s")).await), "invalid");
    }

    async fn to_unset_a_limit_ends_the_temporary_one_over_it_as_well(store: &Store) {
        set(store, NewLimit::rate(Target::Server, "100/min")).await;
        let raise = NewLimit { expires_at: Some(START + 1), ..NewLimit::rate(Target::Server, "9/s") };
        set(store, raise).await;
        set(store, NewLimit::concurrency(Target::Server, "8")).await;
        store.control.limits().unset(&store.root, &Target::Server, LimitKindName::Rate).await.unwrap();
        let left = list(store, LimitFilter::All).await;
        assert_eq!(left.iter().map(quotas).collect::<Vec<_>>(), ["8"]);
    }

    async fn limits_are_listed_a_page_at_a_time(store: &Store) {
        let targets = targets(store).await;
        for target in &targets {
            set(store, NewLimit::rate(target.clone(), "1/s")).await;
            set(store, NewLimit { expires_at: Some(START + 1), ..NewLimit::rate(target.clone(), "2/s") }).await;
        }
        for filter in [LimitFilter::All, LimitFilter::Tenant("acme".into()), LimitFilter::Plan("gold".into())] {
            let whole = list(store, filter.clone()).await;
            let mut page = PageRequest::first(3);
            let mut pieces = Vec::new();
            loop {
                let read = store.control.limits().list(&store.root, &filter, &page).await.unwrap();
                pieces.extend(read.items);
                page.after = read.next;
                if page.after.is_none() { break }
            }
            assert_eq!(pieces, whole);
        }
    }

    async fn the_limits_of_two_tenants_agents_of_one_name_are_apart(store: &Store) {
        store.tenant("acme").await;
        store.tenant("globex").await;
        for tenant in ["acme", "globex"] {
            let agent = store.agent(tenant, "u-42").await;
            let target = Target::Agent { tenant: agent.tenant_id, agent: agent.id };
            set(store, NewLimit::rate(target, if tenant == "acme" { "1/s" } else { "2/s" })).await;
        }
        let ours = list(store, LimitFilter::Tenant("acme".into())).await;
        assert_eq!(ours.iter().map(quotas).collect::<Vec<_>>(), ["1/s"]);
    }

    async fn a_temporary_limit_is_deleted_without_the_lasting_one_under_it(store: &Store) {
        let tenant = store.tenant("acme").await.id;
        let globex = store.tenant("globex").await.id;
        let target = Target::Tenant { tenant };
        let lasting = set(store, NewLimit::rate(target.clone(), "1/s")).await;
        let raised = NewLimit { expires_at: Some(START + 1_000), ..NewLimit::rate(target, "2/s") };
        let raised = set(store, raised).await;
        let limits = store.control.limits();
        let other = Actor::user("bob", Role::Owner, Reach::Tenant(globex));
        assert_eq!(kind(&limits.delete(&other, raised.id).await), "not found");
        limits.delete(&store.root, raised.id).await.unwrap();
        assert_eq!(limits.get(&store.root, lasting.id).await.unwrap(), lasting);
        assert_eq!(kind(&limits.get(&store.root, raised.id).await), "not found");
        assert_eq!(kind(&limits.delete(&store.root, raised.id).await), "not found");
    }

    async fn the_database_itself_refuses_a_target_whose_columns_do_not_fit(store: &Store) {
        let tenant = store.tenant("acme").await.id;
        let insert = async |scope: &str, tenant: &str, kind: &str, quotas: &str| {
            store.sql(&format!(
                "INSERT INTO limits (id, target, scope, tenant_id, kind, quotas, mode, temporary,
                     note, created_by, updated_by, updated_at, revision)
                 VALUES ('{scope}', '{scope}', '{scope}', {tenant}, '{kind}', {quotas}, 'enforce',
                     FALSE, '', '', '', 0, 0)"
            )).await
        };
        let acme = format!("'{tenant}'");
        insert("tenant", &acme, "rate", "'1/s'").await.unwrap();
        insert("server", &acme, "rate", "'1/s'").await.unwrap_err();
        insert("agent", &acme, "rate", "'1/s'").await.unwrap_err();
        insert("tenant_tool", &acme, "rate", "'1/s'").await.unwrap_err();
        insert("server", "NULL", "rate", "NULL").await.unwrap_err();
        insert("server", "NULL", "concurrency", "NULL").await.unwrap_err();
        insert("everything", "NULL", "rate", "'1/s'").await.unwrap_err();
    }
}

#[test]
fn two_targets_have_the_same_text_only_if_they_are_the_same() {
    let tool = |name: &str| Target::Tool { tool: name.to_owned() };
    assert_eq!(tool("a/b").to_string(), "tool/a/b");
    let texts = [Target::Server, tool("a"), tool("a/b"), tool("server")].map(|t| t.to_string());
    let distinct: std::collections::BTreeSet<_> = texts.iter().collect();
    assert_eq!(distinct.len(), texts.len());
}
