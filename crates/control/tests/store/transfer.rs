use std::time::Duration;

use sluicegate_control::{NewLimit, PageRequest, PlanRef, PolicyDocument, Target};

use crate::harness::{START, Store, kind, on_both};

/// A tenant on a plan, with an agent, limits of every sort and a tool that is off.
async fn policy(store: &Store) {
    store.tools(&["export", "search"]).await;
    let acme = store.tenant("acme").await.id;
    let agent = store.agent("acme", "u-42").await.id;
    store.agent("acme", "nobody-special").await;
    let (control, root) = (&store.control, &store.root);
    let plan = control.plans().create(root, "gold", "the big ones").await.unwrap().id;
    control.tenants().assign_plan(root, &"acme".into(), Some(&PlanRef::from("gold"))).await.unwrap();
    let tool = || "export".to_owned();
    for (target, rate) in [
        (Target::Server, "1000/s"),
        (Target::Tool { tool: tool() }, "10/s, 100/min"),
        (Target::Plan { plan }, "50/s"),
        (Target::PlanAgent { plan }, "5/s"),
        (Target::PlanTool { plan, tool: tool() }, "4/s"),
        (Target::Tenant { tenant: acme }, "40/s"),
        (Target::TenantTool { tenant: acme, tool: tool() }, "3/s"),
        (Target::Agent { tenant: acme, agent }, "2/s"),
        (Target::AgentTool { tenant: acme, agent, tool: tool() }, "1/s"),
    ] {
        control.limits().set(root, &NewLimit::rate(target, rate)).await.unwrap();
    }
    let raise =
        NewLimit { expires_at: Some(START + 60_000), ..NewLimit::rate(Target::Tenant { tenant: acme }, "80/s") };
    control.limits().set(root, &raise).await.unwrap();
    control.limits().set(root, &NewLimit::concurrency(Target::Server, "100")).await.unwrap();
    control.tools().disable(root, "search", Some(&"acme".into())).await.unwrap();
    control.tools().disable(root, "search", None).await.unwrap();
    control.tenants().set_metadata(root, &"acme".into(), r#"{"customer": 7}"#.parse().unwrap()).await.unwrap();
}

async fn export(store: &Store) -> PolicyDocument {
    store.control.transfer().export(&store.root, None).await.unwrap()
}

on_both! {
    async fn what_was_exported_changes_nothing_when_it_comes_back(store: &Store) {
        policy(store).await;
        let document = export(store).await;
        assert_eq!(document.tenants[0].agents.len(), 1, "an agent that is like any other is not part of the policy");
        let text = serde_json::to_string(&document).unwrap();
        let read: PolicyDocument = serde_json::from_str(&text).unwrap();
        assert_eq!(read, document);
        let revision = store.control.policy().revision().await.unwrap();
        let report = store.control.transfer().import(&store.root, &read, false).await.unwrap();
        assert_eq!((report.steps, report.applied), (vec![], true));
        assert_eq!(store.control.policy().revision().await.unwrap(), revision);
    }

    async fn a_policy_can_be_brought_into_an_empty_server(store: &Store) {
        policy(store).await;
        let document = export(store).await;
        let control = &store.control;
        control.tenants().delete(&store.root, &"acme".into()).await.unwrap();
        control.plans().delete(&store.root, &"gold".into()).await.unwrap();
        let everything: PolicyDocument =
            serde_json::from_str(r#"{ "version": 1, "limits": [], "disabled_tools": [] }"#).unwrap();
        control.transfer().import(&store.root, &everything, false).await.unwrap();
        assert_eq!(export(store).await.limits, Some(vec![]));

        let dry = control.transfer().import(&store.root, &document, true).await.unwrap();
        assert!(!dry.applied && dry.steps.len() > 10);
        assert_eq!(export(store).await.limits, Some(vec![]), "a dry run changes nothing");
        let report = control.transfer().import(&store.root, &document, false).await.unwrap();
        let steps = |report: &sluicegate_control::ImportReport| -> Vec<_> {
            report.steps.iter().map(|step| (step.action.clone(), step.before.is_some())).collect()
        };
        assert_eq!(steps(&report), steps(&dry), "and it tells what is done then");
        assert_eq!(export(store).await, document);
        let log = control.audit().list(&store.root, None, &PageRequest::first(200)).await.unwrap();
        assert_eq!(log.items[0].action, report.steps.last().unwrap().action);
    }

    async fn what_is_not_named_stays_and_what_is_not_listed_goes(store: &Store) {
        policy(store).await;
        let document: PolicyDocument = serde_json::from_str(
            r#"{ "version": 1, "tenants": [{ "slug": "acme", "name": "acme", "limits": [{ "rate": "7/s" }] }] }"#,
        ).unwrap();
        let report = store.control.transfer().import(&store.root, &document, false).await.unwrap();
        let steps: Vec<_> = report.steps.iter().map(|step| (&*step.action, step.target.split('/').next().unwrap())).collect();
        assert_eq!(steps.len(), 3, "{steps:?}");
        let after = export(store).await;
        let limits = after.tenants[0].limits.as_ref().unwrap();
        assert_eq!(limits.iter().map(|limit| limit.rate.as_deref()).collect::<Vec<_>>(), [Some("7/s")]);
        assert_eq!(after.tenants[0].agents[0].limits.as_ref().unwrap().len(), 2);
        assert_eq!(after.plans[0].limits.as_ref().unwrap().len(), 3);
        assert_eq!(after.tenants[0].plan.as_deref(), Some("gold"));
    }

    async fn an_import_that_cannot_be_done_does_nothing(store: &Store) {
        policy(store).await;
        let before = export(store).await;
        for text in [
            r#"{ "version": 2 }"#,
            r#"{ "version": 1, "plans": [{ "name": "silver" }], "limits": [{ "rate": "10/fortnight" }] }"#,
            r#"{ "version": 1, "plans": [{ "name": "silver" }], "tenants": [{ "slug": "acme", "name": "" }] }"#,
            r#"{ "version": 1, "plans": [{ "name": "silver" }], "limits": [{ "rate": "1/s" }, { "rate": "2/s" }] }"#,
            r#"{ "version": 1, "plans": [{ "name": "silver" }], "limits": [{}] }"#,
            r#"{ "version": 1, "plans": [{ "name": "silver", "limits": [{ "rate": "1/s", "mode": "maybe" }] }] }"#,
        ] {
            let document: PolicyDocument = serde_json::from_str(text).unwrap();
            for dry_run in [true, false] {
                let outcome = store.control.transfer().import(&store.root, &document, dry_run).await;
                assert_eq!(kind(&outcome), "invalid", "{text}");
            }
        }
        let unknown = r#"{ "version": 1, "tenants": [{ "slug": "acme", "name": "a", "plan": "platinum" }] }"#;
        let outcome = store.control.transfer().import(&store.root, &serde_json::from_str(unknown).unwrap(), false).await;
        assert_eq!(kind(&outcome), "not found");
        assert_eq!(export(store).await, before);
        assert!(serde_json::from_str::<PolicyDocument>(r#"{ "version": 1, "tenant": [] }"#).is_err());
    }

    async fn a_temporary_limit_that_has_ended_is_neither_missed_nor_brought_back(store: &Store) {
        policy(store).await;
        let document = export(store).await;
        store.clock.advance(Duration::from_mins(2));
        let report = store.control.transfer().import(&store.root, &document, false).await.unwrap();
        assert_eq!(report.steps, vec![]);
    }
}
