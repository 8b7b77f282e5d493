use std::time::Duration;

use sluicegate_control::{Control, Grain, ManualClock, Options, Period, TenantRef, UsageRange, UsageScope};
use sluicegate_limits::{RuleSet, Scope, Wait};
use sluicegate_mcp::Outcome;

use super::writer::Writer;
use super::*;
use crate::refusal::fields::Fields;
use crate::refusal::{Reason, Throttled};

const START: i64 = 1_767_225_600_000;

fn usage(most: usize, clock: &ManualClock) -> Usage {
    Usage::new(most, ["export", "search"].map(Arc::from).into_iter(), clock.clone().into())
}

fn throttled(wait_ms: u64) -> Refusal {
    Refusal::Throttled(Box::new(Throttled {
        reason: Reason::RateLimit,
        scope: Scope::Tool,
        tool: Some("export".into()),
        limit: "1 requests / 60s".into(),
        current_usage: 1,
        remaining: 0,
        wait: Some(Wait::exact(wait_ms * 1_000_000)),
        fields: Fields::default(),
        would_throttle: RuleSet::default(),
    }))
}

fn refuse(usage: &Usage, who: Who, tool: Option<&str>, refusal: &Refusal, request_id: &str) {
    usage.refused(&usage.series(who, tool), who, refusal, request_id);
}

/// A database with a tenant and two agents.
async fn control(clock: &ManualClock) -> (Control, [Who; 2]) {
    let mut options = Options::default();
    options.clock = clock.clone().into();
    let control = Control::connect("sqlite::memory:", options).await.expect("a database");
    control.migrate().await.expect("migrated");
    let root = sluicegate_control::Actor::cli("root");
    let tenant = control.tenants().create(&root, "acme", "Acme").await.expect("a tenant").id;
    let mut callers = Vec::new();
    for name in ["a", "b"] {
        let agent = control.agents().create(&root, &tenant.into(), name).await.expect("an agent").id;
        callers.push(Who { tenant: Some(tenant), agent: Some(agent), key: None });
    }
    (control, [callers[0], callers[1]])
}

async fn total(control: &Control, tool: &str) -> sluicegate_control::Counts {
    let scope = UsageScope { tenant: Some(TenantRef::from("acme")), agent: None, tool: Some(tool.to_owned()) };
    let range = UsageRange::last(Period::QuarterHour, START);
    let root = sluicegate_control::Actor::cli("root");
    control.usage().totals(&root, &scope, range).await.expect("totals").current
}

#[test]
fn what_is_counted_is_taken_once() {
    let clock = ManualClock::at(START);
    let usage = usage(10, &clock);
    let series = usage.series(Who::default(), Some("export"));
    series.served(Some(Outcome::Ok), Duration::from_micros(500), false, None);
    series.served(Some(Outcome::ToolError), Duration::from_millis(7), true, None);
    refuse(&usage, Who::default(), Some("export"), &throttled(1_000), "r-1");
    refuse(&usage, Who::default(), Some("export"), &Refusal::Suspended("agent"), "r-2");
    let counts = series.take().expect("something");
    assert_eq!((counts.calls, counts.ok, counts.errors, counts.throttled, counts.denied), (4, 1, 1, 1, 1));
    assert_eq!((counts.by_tool, counts.by_rate, counts.would_throttle, counts.latency_us), (1, 1, 1, 7_500));
    assert_eq!(counts.latency()[..4], [1, 0, 1, 0]);
    assert_eq!(series.take(), None);
}

#[test]
fn attempts_are_counted_from_the_first_refusal_to_the_call_that_got_through_or_as_the_caller_says() {
    let clock = ManualClock::at(START);
    let usage = usage(10, &clock);
    let series = usage.series(Who::default(), Some("export"));
    let serve_as = |told| series.served(Some(Outcome::Ok), Duration::ZERO, false, usage.admitted(&series, told));
    let serve = || serve_as(None);
    serve();
    refuse(&usage, Who::default(), Some("export"), &throttled(1_000), "r");
    clock.advance(Duration::from_secs(1));
    serve();
    for _ in 0..9 {
        refuse(&usage, Who::default(), Some("export"), &throttled(1_000), "r");
    }
    serve();
    serve_as(Some(3));
    let counts = series.take().expect("something");
    assert_eq!(counts.attempts(), [1, 1, 1, 0, 0, 1]);
    // The first of the nine came after a call that got through; the others did not wait.
    assert_eq!(counts.ignored_waits, 8);
}

#[test]
fn threads_that_count_at_once_lose_nothing_while_the_writer_takes() {
    let clock = ManualClock::at(START);
    let usage = usage(10, &clock);
    let (threads, calls) = (4, 20_000);
    let mut taken = sluicegate_control::Counts::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let series = usage.series(Who::default(), Some("export"));
                    for _ in 0..calls {
                        series.served(Some(Outcome::Ok), Duration::from_millis(3), false, None);
                    }
                })
            })
            .collect();
        let series = usage.series(Who::default(), Some("export"));
        while workers.iter().any(|worker| !worker.is_finished()) {
            if let Some(counts) = series.take() {
                taken.add(&counts);
            }
        }
        if let Some(counts) = series.take() {
            taken.add(&counts);
        }
    });
    let all = threads * calls;
    assert_eq!((taken.calls, taken.ok, taken.latency()[1], taken.attempts()[0]), (all, all, all, all));
}

#[tokio::test]
async fn agents_beyond_the_cap_are_counted_with_the_others_of_their_tenant() {
    let clock = ManualClock::at(START);
    let (_, [one, other]) = control(&clock).await;
    let usage = usage(1, &clock);
    assert_eq!(usage.series(one, Some("export")).key().agent, one.agent);
    let beyond = usage.series(other, Some("export"));
    assert_eq!((beyond.key().tenant, beyond.key().agent), (other.tenant, None));
    let far_beyond = usage.series(other, Some("search"));
    assert_eq!((far_beyond.key().tenant, far_beyond.key().tool.as_deref()), (None, Some("search")));
    assert_eq!(usage.series(one, Some("no such tool")).key().tool, None);
    assert_eq!(usage.series(one, Some("export")).key().agent, one.agent, "a known one stays apart");
}

#[tokio::test]
async fn a_flood_of_refusals_becomes_few_events_that_stand_for_all() {
    let clock = ManualClock::at(START);
    let usage = usage(10, &clock);
    for _ in 0..500 {
        refuse(&usage, Who::default(), Some("export"), &throttled(1_000), "r");
    }
    clock.advance(Duration::from_mins(1));
    refuse(&usage, Who::default(), Some("export"), &throttled(1_000), "r-last");
    let events = std::mem::take(&mut *usage.events.lock());
    assert_eq!(events.len(), 11);
    assert_eq!(events.iter().map(|event| event.count).sum::<i64>(), 501);
    assert_eq!((events[10].request_id.as_deref(), events[10].retry_after_ms), (Some("r-last"), Some(1_000)));
}

#[tokio::test]
async fn what_the_writer_takes_arrives_and_the_agent_was_seen() {
    let clock = ManualClock::at(START);
    let (control, [one, _]) = control(&clock).await;
    let usage = usage(10, &clock);
    let mut writer = Writer::new(control.clone());
    for _ in 0..3 {
        usage.series(one, Some("export")).served(Some(Outcome::Ok), Duration::ZERO, false, None);
        refuse(&usage, one, Some("export"), &throttled(1_000), "r");
        writer.write(&usage).await;
        assert!(writer.is_done());
    }
    let counts = total(&control, "export").await;
    assert_eq!((counts.calls, counts.ok, counts.throttled), (6, 3, 3));
    let root = sluicegate_control::Actor::cli("root");
    let agent = control.agents().get(&root, &"acme".into(), &"a".into()).await.expect("the agent");
    assert_eq!(agent.last_seen_at, Some(START));
    assert_eq!(usage.health().written_at, Some(START));
    let events = control.events().list(&root, &Default::default(), &Default::default()).await.expect("events");
    assert_eq!(events.items.len(), 3);
    assert_eq!(events.items[0].agent_name.as_deref(), Some("a"));
}

#[tokio::test]
async fn a_batch_that_the_database_refuses_is_written_later_in_its_minute() {
    let clock = ManualClock::at(START);
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("usage.db").display());
    let mut options = Options::default();
    options.clock = clock.clone().into();
    let control = Control::connect(&url, options).await.expect("a database");
    let usage = usage(10, &clock);
    let mut writer = Writer::new(control.clone());
    let serve = || usage.series(Who::default(), Some("export")).served(Some(Outcome::Ok), Duration::ZERO, false, None);
    serve();
    // There are no tables yet.
    writer.write(&usage).await;
    assert!(!writer.is_done());
    assert_eq!((usage.health().pending, usage.health().written_at), (1, None));
    clock.advance(Duration::from_mins(1));
    serve();
    writer.write(&usage).await;
    assert_eq!(usage.health().pending, 2);
    control.migrate().await.expect("migrated");
    writer.write(&usage).await;
    assert!(writer.is_done());
    let root = sluicegate_control::Actor::cli("root");
    let range = UsageRange::last(Period::QuarterHour, START + 60_000);
    let points = control.usage().series(&root, &UsageScope::default(), range).await.expect("a chart");
    let counted: Vec<_> = points.iter().filter(|point| point.counts.calls > 0).map(|point| point.at).collect();
    assert_eq!(counted, [Grain::Minute.bucket_of(START), Grain::Minute.bucket_of(START + 60_000)]);
}

#[tokio::test]
async fn a_series_that_nobody_uses_is_forgotten_and_one_that_is_held_is_not() {
    let clock = ManualClock::at(START);
    let (control, [one, other]) = control(&clock).await;
    let usage = usage(10, &clock);
    let held = usage.series(one, Some("export"));
    drop(usage.series(other, Some("export")));
    let mut writer = Writer::new(control);
    for _ in 0..=300 {
        writer.write(&usage).await;
    }
    assert_eq!(usage.health().series, 1);
    held.served(Some(Outcome::Ok), Duration::ZERO, false, None);
    assert!(Arc::ptr_eq(&held, &usage.series(one, Some("export"))));
}
