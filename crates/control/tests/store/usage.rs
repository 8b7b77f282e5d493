use std::time::Duration;

use sluicegate_control::{
    Agent, Counts, Grain, MatrixQuery, PageRequest, Period, Retention, RunawayRule, UsageBatch, UsageRange, UsageRow,
    UsageScope,
};

use crate::harness::{START, Store, kind, on_both};

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;

fn refused(calls: i64, throttled: i64) -> Counts {
    let mut counts = Counts::default();
    (counts.calls, counts.ok, counts.throttled) = (calls, calls - throttled, throttled);
    (counts.by_tool, counts.by_rate, counts.ignored_waits) = (throttled, throttled, throttled / 2);
    counts
}

fn row(agent: &Agent, tool: &str, at: i64, counts: Counts) -> UsageRow {
    let (tenant, agent, tool) = (Some(agent.tenant_id), Some(agent.id), Some(tool.to_owned()));
    UsageRow { tenant, agent, tool, at, counts }
}

async fn record(store: &Store, writer: &str, seq: i64, rows: Vec<UsageRow>) -> bool {
    let batch = UsageBatch { writer: writer.to_owned(), seq, rows, seen: Vec::new() };
    store.control.usage().record(&store.root, &batch).await.unwrap()
}

async fn total(store: &Store, scope: &UsageScope, period: Period) -> Counts {
    let range = UsageRange::last(period, START);
    store.control.usage().totals(&store.root, scope, range).await.unwrap().current
}

fn of(tenant: &str) -> UsageScope {
    UsageScope { tenant: Some(tenant.into()), ..UsageScope::default() }
}

async fn agents(store: &Store) -> [Agent; 3] {
    store.tenant("acme").await;
    store.tenant("globex").await;
    [store.agent("acme", "a-1").await, store.agent("acme", "a-2").await, store.agent("globex", "a-1").await]
}

on_both! {
    async fn what_several_processes_count_is_added_up_at_every_grain(store: &Store) {
        let [ours, _, theirs] = agents(store).await;
        for writer in ["one", "two"] {
            let rows = vec![row(&ours, "export", START, refused(10, 4)), row(&theirs, "export", START, refused(3, 0))];
            assert!(record(store, writer, 1, rows).await);
        }
        for period in Period::ALL {
            let everybody = total(store, &UsageScope::default(), period).await;
            assert_eq!((everybody.calls, everybody.throttled, everybody.by_tool), (26, 8, 8), "{period}");
            assert_eq!(total(store, &of("acme"), period).await.calls, 20, "{period}");
            let agent = UsageScope { agent: Some("a-1".into()), ..of("globex") };
            assert_eq!(total(store, &agent, period).await.calls, 6, "{period}");
            let tool = UsageScope { tool: Some("import".to_owned()), ..of("acme") };
            assert_eq!(total(store, &tool, period).await.calls, 0, "{period}");
        }
    }

    async fn a_batch_that_is_sent_again_after_a_lost_answer_counts_once(store: &Store) {
        let [agent, ..] = agents(store).await;
        let rows = || vec![row(&agent, "export", START, refused(1, 0))];
        assert!(record(store, "one", 1, rows()).await);
        assert!(!record(store, "one", 1, rows()).await);
        assert!(record(store, "one", 2, rows()).await);
        assert_eq!(total(store, &of("acme"), Period::Hour).await.calls, 2);
    }

    async fn processes_that_write_at_once_lose_nothing(store: &Store) {
        let agents = agents(store).await;
        let second = store.second().await;
        for seq in 1..=4 {
            let batch = |writer: &str| UsageBatch {
                writer: writer.to_owned(),
                seq,
                // In another order each, so that they would wait for each other's rows.
                rows: (0..150).map(|n: usize| {
                    let n = if writer == "one" { n } else { 149 - n };
                    row(&agents[n % 3], &format!("tool-{n}"), START, refused(1, 0))
                }).collect(),
                seen: agents.iter().map(|agent| (agent.tenant_id, agent.id, START + seq)).collect(),
            };
            let (one, two) = (batch("one"), batch("two"));
            let (a, b) = tokio::join!(
                store.control.usage().record(&store.root, &one),
                second.usage().record(&store.root, &two),
            );
            assert!(a.unwrap() && b.unwrap());
        }
        assert_eq!(total(store, &UsageScope::default(), Period::QuarterHour).await.calls, 1_200);
        let seen = store.control.agents().get(&store.root, &"acme".into(), &"a-1".into()).await.unwrap();
        assert_eq!(seen.last_seen_at, Some(START + 4));
    }

    async fn a_total_stands_beside_that_of_the_range_before(store: &Store) {
        let [agent, ..] = agents(store).await;
        let rows = vec![
            row(&agent, "export", START, refused(5, 1)),
            row(&agent, "export", START - 60 * MINUTE, refused(7, 7)),
            UsageRow { tool: None, ..row(&agent, "", START, refused(2, 0)) },
        ];
        record(store, "one", 1, rows).await;
        for scope in [UsageScope::default(), of("acme"), UsageScope { agent: Some("a-1".into()), ..of("acme") }] {
            let range = UsageRange::last(Period::Hour, START);
            let totals = store.control.usage().totals(&store.root, &scope, range).await.unwrap();
            assert_eq!((totals.current.calls, totals.previous.calls, totals.other_requests.calls), (5, 7, 2));
        }
    }

    async fn a_chart_has_every_bucket_of_its_range(store: &Store) {
        let [agent, ..] = agents(store).await;
        let rows = vec![
            row(&agent, "export", START, refused(5, 1)),
            row(&agent, "export", START - 2 * MINUTE + 1, refused(7, 7)),
        ];
        record(store, "one", 1, rows).await;
        let range = UsageRange::last(Period::QuarterHour, START);
        let tool = Some("export".to_owned());
        let scope = UsageScope { agent: Some("a-1".into()), tool, ..of("acme") };
        let points = store.control.usage().series(&store.root, &scope, range).await.unwrap();
        assert_eq!(points.len(), 15);
        assert_eq!(points[14].at, Grain::Minute.bucket_of(START));
        let throttled: Vec<_> = points.iter().map(|point| point.counts.throttled).collect();
        assert_eq!(throttled, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 1]);
        let everybody = store.control.usage().series(&store.root, &UsageScope::default(), range).await.unwrap();
        assert_eq!(everybody, points);
    }

    async fn the_matrix_has_the_most_refused_agents_and_tools_first(store: &Store) {
        let [first, second, third] = agents(store).await;
        let rows = vec![
            row(&first, "export", START, refused(10, 4)),
            row(&first, "search", START, refused(10, 0)),
            row(&second, "export", START, refused(10, 1)),
            row(&second, "import", START, refused(10, 8)),
            row(&third, "export", START, refused(9, 2)),
        ];
        record(store, "one", 1, rows).await;
        let query = MatrixQuery::of(UsageRange::last(Period::Hour, START));
        let usage = store.control.usage();
        let matrix = usage.throttle_by_tool(&store.root, &query, &PageRequest::default()).await.unwrap();
        let tools: Vec<_> = matrix.tools.iter().map(|column| (column.tool.as_deref().unwrap(), column.total.refusals)).collect();
        assert_eq!(tools, [("import", 8), ("export", 7)]);
        assert_eq!((matrix.total.refusals, matrix.total.calls), (15, 49));
        let rows: Vec<_> = matrix.rows.iter().map(|row| {
            let cells: Vec<_> = row.cells.iter().map(|cell| cell.map(|cell| (cell.refusals, cell.calls))).collect();
            (row.caller.tenant_slug.as_deref().unwrap(), row.caller.agent_name.as_deref().unwrap(), cells, row.total.calls)
        }).collect();
        assert_eq!(rows, [
            ("acme", "a-2", vec![Some((8, 10)), Some((1, 10))], 20),
            ("acme", "a-1", vec![None, Some((4, 10))], 20),
            ("globex", "a-1", vec![None, Some((2, 9))], 9),
        ]);
        assert!(matrix.next.is_none());

        let of_globex = MatrixQuery { tenant: Some("globex".into()), ..query.clone() };
        let matrix = usage.throttle_by_tool(&store.root, &of_globex, &PageRequest::default()).await.unwrap();
        assert_eq!((matrix.rows.len(), matrix.total.calls), (1, 9));
        let of_import = MatrixQuery { tool: Some("import".to_owned()), ..query };
        let matrix = usage.throttle_by_tool(&store.root, &of_import, &PageRequest::default()).await.unwrap();
        assert_eq!((matrix.rows.len(), matrix.total.refusals, matrix.total.calls), (1, 8, 10));
    }

    async fn the_pages_of_a_matrix_hold_each_agent_once(store: &Store) {
        store.tenant("acme").await;
        let mut rows = Vec::new();
        for (name, refusals) in [("a", 3), ("b", 5), ("c", 3), ("d", 3), ("e", 1)] {
            let agent = store.agent("acme", name).await;
            rows.push(row(&agent, "export", START, refused(10, refusals)));
        }
        record(store, "one", 1, rows).await;
        let query = MatrixQuery { columns: 0, ..MatrixQuery::of(UsageRange::last(Period::Month, START)) };
        let (mut page, mut seen) = (PageRequest::first(2), Vec::new());
        loop {
            let matrix = store.control.usage().throttle_by_tool(&store.root, &query, &page).await.unwrap();
            assert_eq!((matrix.more_tools, matrix.total.refusals), (1, 15));
            seen.extend(matrix.rows.iter().map(|row| (row.caller.agent_name.clone().unwrap(), row.total.refusals)));
            let Some(next) = matrix.next else { break };
            page.after = Some(next.to_string().parse().unwrap());
        }
        assert_eq!(seen.iter().map(|(_, refusals)| *refusals).collect::<Vec<_>>(), [5, 3, 3, 3, 1]);
        seen.sort();
        let expected = [("a", 3), ("b", 5), ("c", 3), ("d", 3), ("e", 1)];
        assert_eq!(seen, expected.map(|(name, refusals)| (name.to_owned(), refusals)));
    }

    async fn a_confined_actor_sees_nothing_of_the_other_tenant(store: &Store) {
        let [ours, _, theirs] = agents(store).await;
        record(store, "one", 1, vec![
            row(&ours, "export", START, refused(10, 4)),
            row(&theirs, "secret-tool", START, refused(1_000, 900)),
        ]).await;
        let alice = sluicegate_control::Actor::user(
            "alice",
            sluicegate_control::Role::Owner,
            sluicegate_control::Reach::Tenant(ours.tenant_id),
        );
        let range = UsageRange::last(Period::Hour, START);
        let usage = store.control.usage();
        let everybody = UsageScope::default();
        assert_eq!(usage.totals(&alice, &everybody, range).await.unwrap().current.calls, 10);
        let points = usage.series(&alice, &everybody, range).await.unwrap();
        assert_eq!(points.iter().map(|point| point.counts.calls).sum::<i64>(), 10);
        let tools = usage.by_tool(&alice, &everybody, range).await.unwrap();
        assert_eq!(tools.iter().map(|tool| tool.tool.as_deref()).collect::<Vec<_>>(), [Some("export")]);
        let query = MatrixQuery::of(range);
        let matrix = usage.throttle_by_tool(&alice, &query, &PageRequest::default()).await.unwrap();
        assert_eq!((matrix.rows.len(), matrix.tools.len(), matrix.total.calls), (1, 1, 10));
        let foreign = MatrixQuery { tenant: Some("globex".into()), ..query };
        assert_eq!(kind(&usage.throttle_by_tool(&alice, &foreign, &PageRequest::default()).await), "not found");
        let both = [ours.tenant_id, theirs.tenant_id];
        assert_eq!(usage.of_tenants(&alice, &both, range).await.unwrap().len(), 1);
        let agents = usage.of_agents(&alice, &"acme".into(), &[ours.id, theirs.id], range).await.unwrap();
        assert_eq!((agents[&ours.id].calls, agents[&theirs.id].calls), (10, 0));
        let rule = RunawayRule { refusals_per_minute: 1, ignored_waits_per_minute: 1 };
        let runaways = usage.runaways(&alice, rule).await.unwrap();
        assert!(runaways.iter().all(|found| found.caller.tenant == Some(ours.tenant_id)));
        assert_eq!(runaways.len(), 1);
        assert_eq!(usage.runaways(&store.root, rule).await.unwrap()[0].refusals, 900);
    }

    async fn a_runaway_is_one_for_as_long_as_it_goes_on(store: &Store) {
        let [agent, other, _] = agents(store).await;
        record(store, "one", 1, vec![
            row(&agent, "export", START, refused(400, 150)),
            row(&agent, "search", START, refused(400, 160)),
            row(&other, "export", START, refused(400, 190)),
        ]).await;
        let runaways = store.control.usage().runaways(&store.root, RunawayRule::default()).await.unwrap();
        assert_eq!(runaways.len(), 1);
        assert_eq!((runaways[0].refusals, runaways[0].caller.agent), (310, Some(agent.id)));
        store.clock.advance(Duration::from_mins(3));
        assert!(store.control.usage().runaways(&store.root, RunawayRule::default()).await.unwrap().is_empty());
    }

    async fn what_is_too_old_is_forgotten_at_its_grain(store: &Store) {
        let [agent, ..] = agents(store).await;
        record(store, "one", 1, vec![
            row(&agent, "export", START, refused(1, 1)),
            row(&agent, "export", START - 3 * DAY, refused(1, 1)),
        ]).await;
        let keep = Retention { minutes_ms: DAY, hours_ms: 10 * DAY, days_ms: 20 * DAY };
        // Of the agent, its tenant and everybody, and what the agent was refused.
        assert_eq!(store.control.usage().forget(&store.root, keep).await.unwrap(), 4);
        assert_eq!(total(store, &of("acme"), Period::Week).await.calls, 2);
        assert_eq!(store.texts("SELECT CAST(COUNT(*) AS TEXT) FROM usage_minute").await, ["1"]);
    }

    async fn usage_of_a_deleted_tenant_stays_in_the_totals(store: &Store) {
        let [agent, ..] = agents(store).await;
        record(store, "one", 1, vec![row(&agent, "export", START, refused(5, 2))]).await;
        store.control.tenants().delete(&store.root, &"acme".into()).await.unwrap();
        record(store, "one", 2, vec![row(&agent, "export", START, refused(5, 2))]).await;
        assert_eq!(total(store, &UsageScope::default(), Period::Hour).await.calls, 10);
        let query = MatrixQuery::of(UsageRange::last(Period::Hour, START));
        let matrix = store.control.usage().throttle_by_tool(&store.root, &query, &PageRequest::default()).await.unwrap();
        assert_eq!((matrix.rows[0].caller.agent, matrix.rows[0].caller.agent_name.as_deref()), (Some(agent.id), None));
        // One that takes its slug begins with nothing.
        store.tenant("acme").await;
        assert_eq!(total(store, &of("acme"), Period::Hour).await.calls, 0);
    }
}
