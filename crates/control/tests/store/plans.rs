use sluicegate_control::{NewLimit, PageRequest, Target, Tombstone};

use crate::harness::{kind, on_both};

on_both! {
    async fn a_plan_is_found_by_its_id_and_by_its_name(store: &Store) {
        let plans = store.control.plans();
        let gold = plans.create(&store.root, "gold", "for the big ones").await.unwrap();
        assert_eq!(plans.get(&store.root, &gold.id.into()).await.unwrap(), gold);
        assert_eq!(plans.get(&store.root, &"gold".into()).await.unwrap(), gold);
        assert_eq!(kind(&plans.get(&store.root, &"silver".into()).await), "not found");
        assert_eq!(kind(&plans.create(&store.root, "gold", "").await), "conflict");
        assert_eq!(kind(&plans.create(&store.root, "Gold", "").await), "invalid");
    }

    async fn plans_are_listed_by_name(store: &Store) {
        for name in ["silver", "gold", "bronze"] {
            store.control.plans().create(&store.root, name, "").await.unwrap();
        }
        let first = store.control.plans().list(&store.root, &PageRequest::first(2)).await.unwrap();
        let names: Vec<_> = first.items.iter().map(|plan| plan.name.as_str()).collect();
        assert_eq!(names, ["bronze", "gold"]);
        let page = PageRequest { after: first.next, limit: 2 };
        let rest = store.control.plans().list(&store.root, &page).await.unwrap();
        assert_eq!(rest.items[0].name, "silver");
        assert!(rest.next.is_none());
    }

    async fn a_plan_in_use_cannot_be_deleted_and_says_by_whom(store: &Store) {
        store.control.plans().create(&store.root, "gold", "").await.unwrap();
        store.tenant("acme").await;
        let (acme, gold) = ("acme".into(), "gold".into());
        store.control.tenants().assign_plan(&store.root, &acme, Some(&gold)).await.unwrap();
        let error = store.control.plans().delete(&store.root, &gold).await.unwrap_err();
        assert!(error.to_string().contains("in use (by acme"), "{error}");
        store.control.tenants().assign_plan(&store.root, &acme, None).await.unwrap();
        store.control.plans().delete(&store.root, &gold).await.unwrap();
    }

    async fn a_deleted_plan_takes_its_limits_along(store: &Store) {
        let gold = store.control.plans().create(&store.root, "gold", "").await.unwrap();
        let new = NewLimit::rate(Target::PlanAgent { plan: gold.id }, "10/s");
        store.control.limits().set(&store.root, &new).await.unwrap();
        let before = store.control.policy().revision().await.unwrap();
        store.control.plans().delete(&store.root, &gold.id.into()).await.unwrap();
        let delta = store.control.policy().changes_since(before).await.unwrap();
        assert_eq!(delta.deleted, [Tombstone::Plan(gold.id)]);
        assert!(store.control.policy().load_all().await.unwrap().limits.is_empty());
    }
}
