use sluicegate_control::{Agent, Counts, NewLimit, Period, Target, UsageBatch, UsageRow};

use crate::harness::{START, Store, kind, on_both};

const MINUTE: i64 = 60_000;

/// Each agent calls `export` so often in each of the last minutes, and `search` once.
async fn called(store: &Store, calls: &[(&Agent, &[i64])]) {
    let mut rows = Vec::new();
    for (agent, minutes) in calls {
        for (ago, calls) in (0..).zip(*minutes) {
            for (tool, calls) in [("export", *calls), ("search", 1)] {
                let mut counts = Counts::default();
                (counts.calls, counts.ok) = (calls, calls);
                let (tenant, agent) = (Some(agent.tenant_id), Some(agent.id));
                rows.push(UsageRow { tenant, agent, tool: Some(tool.to_owned()), at: START - ago * MINUTE, counts });
            }
        }
    }
    let batch = UsageBatch { writer: "w".to_owned(), seq: 1, rows, seen: Vec::new() };
    store.control.usage().record(&store.root, &batch).await.unwrap();
}

on_both! {
    async fn a_preview_names_how_many_calls_and_whose_would_have_been_refused(store: &Store) {
        store.tools(&["export"]).await;
        store.tenant("acme").await;
        store.tenant("globex").await;
        let (one, two) = (store.agent("acme", "a-1").await, store.agent("acme", "a-2").await);
        let theirs = store.agent("globex", "a-1").await;
        // Newest first: three minutes, the oldest of which is the busiest.
        called(store, &[(&one, &[10, 30, 100]), (&two, &[10, 10, 10]), (&theirs, &[90, 90, 90])]).await;
        let preview = async |target: Target, rate: &str| {
            let new = NewLimit::rate(target, rate);
            store.control.limits().preview(&store.root, &new, Period::Day).await.unwrap()
        };
        let acme = one.tenant_id;
        // A window of a minute: each minute of the tenant beyond 50 (112, 42 and 22 calls).
        let of_tenant = preview(Target::Tenant { tenant: acme }, "50/min").await;
        assert_eq!((of_tenant.calls, of_tenant.would_refuse, of_tenant.complete), (176, 62, true));
        assert_eq!(of_tenant.agents[0].caller.agent_name.as_deref(), Some("a-1"));
        assert_eq!((of_tenant.agents_refused, of_tenant.agents[0].would_refuse), (2, 56));
        // A bucket for each agent on the tool: 20 at once and 20 more in the minute.
        let of_tool = preview(Target::TenantTool { tenant: acme, tool: "export".to_owned() }, "20/min").await;
        assert_eq!((of_tool.calls, of_tool.would_refuse, of_tool.agents_refused), (170, 70, 1));
        let of_agent = preview(Target::Agent { tenant: acme, agent: two.id }, "1000/min").await;
        assert_eq!((of_agent.calls, of_agent.would_refuse), (33, 0));
        let of_everybody = preview(Target::Tool { tool: "export".to_owned() }, "20/min").await;
        assert_eq!((of_everybody.calls, of_everybody.agents_refused), (440, 2));
        assert!((of_everybody.share() - of_everybody.would_refuse as f64 / 440.0).abs() < 1e-9);
    }

    async fn a_preview_of_a_plan_looks_at_each_tenant_on_it(store: &Store) {
        let plan = store.control.plans().create(&store.root, "gold", "").await.unwrap().id;
        let mut agents = Vec::new();
        for slug in ["acme", "globex", "initech"] {
            store.tenant(slug).await;
            agents.push(store.agent(slug, "a-1").await);
        }
        for slug in ["acme", "globex"] {
            store.control.tenants().assign_plan(&store.root, &slug.into(), Some(&plan.into())).await.unwrap();
        }
        called(store, &[(&agents[0], &[59]), (&agents[1], &[9]), (&agents[2], &[500])]).await;
        let new = NewLimit::rate(Target::Plan { plan }, "20/min");
        let preview = store.control.limits().preview(&store.root, &new, Period::Week).await.unwrap();
        assert_eq!((preview.calls, preview.would_refuse), (70, 40));
    }

    async fn a_preview_refuses_what_could_not_be_saved(store: &Store) {
        let acme = store.tenant("acme").await.id;
        let limits = store.control.limits();
        let of_tenant = |rate: &str| NewLimit::rate(Target::Tenant { tenant: acme }, rate);
        assert_eq!(kind(&limits.preview(&store.root, &of_tenant("10/fortnight"), Period::Day).await), "invalid");
        assert_eq!(kind(&limits.preview(&store.root, &of_tenant("10/min"), Period::Month).await), "invalid");
        let empty = limits.preview(&store.root, &of_tenant("10/min"), Period::Day).await.unwrap();
        assert_eq!((empty.calls, empty.would_refuse, empty.share()), (0, 0, 0.0));
    }
}
