//! No statement walks through a table that grows.
//!
//! The statements are taken from the spans of a run of every use case, so that a new one
//! cannot be forgotten here.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Once;

use serde_json::Value;
use sluicegate_control::{
    Actor, JsonText, MatrixQuery, PageRequest, Period, Reach, Revision, Role, SessionState, Sighting, UsageRange,
    UsageScope,
};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row, SqliteConnection};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

use crate::harness::{START, Store, on_both};
use crate::permissions::{Fixture, fixture, use_cases};

/// Indexes of only the rows that are wanted: to walk through one is what it is for.
const PARTIAL: [&str; 2] = ["agents_suspended", "limits_with_agent"];

/// The result of a part of a statement, which is small: to walk through it is what it is for.
const PARTS: [&str; 3] = ["SCAN top", "SCAN c", "SCAN looked_at"];

thread_local! {
    /// The statements that this thread, and so its test, has run.
    static STATEMENTS: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

struct Recorder;

impl<S: tracing::Subscriber> Layer<S> for Recorder {
    fn on_new_span(&self, span: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        span.record(&mut Self);
    }
}

impl Visit for Recorder {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "db.query.text" {
            STATEMENTS.with_borrow_mut(|statements| statements.insert(value.to_owned()));
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// The statements of every use case that have a condition. The few others read a whole
/// table on purpose: the registry of tools, and the policy when a server starts.
async fn statements(store: &Store) -> Vec<String> {
    // For the whole program: a subscriber of one thread misses spans that another thread
    // has entered first.
    static RECORDING: Once = Once::new();
    RECORDING.call_once(|| {
        let recorder = tracing_subscriber::registry().with(Recorder);
        tracing::subscriber::set_global_default(recorder).unwrap();
    });
    store.tools(&["export"]).await;
    store.tools(&["export"]).await;
    for (number, use_case) in use_cases().into_iter().enumerate() {
        let f = fixture(store, number).await;
        (use_case.3)(&store.control, &store.root, &f).await.unwrap();
    }
    let f = fixture(store, 1000).await;
    store.control.credentials().find(f.key).await.unwrap().unwrap();
    store.control.credentials().subject("acme", "u-42").await.unwrap();
    store.control.keys().record_uses(&store.root, &[(f.key, START)]).await.unwrap();
    let seen = ["u-42", "new"].map(|name| Sighting { tenant: f.acme, agent: name.to_owned(), at: START });
    store.control.agents().record_sightings(&store.root, &seen).await.unwrap();
    let agent = "u-42".into();
    store.control.agents().get(&store.root, &f.acme.into(), &agent).await.unwrap();
    store.control.plans().get(&store.root, &"plan-1000".into()).await.unwrap();
    extra(store, &f).await;
    store.control.policy().changes_since(Revision::START).await.unwrap();
    store.control.policy().load_all().await.unwrap();
    let all = STATEMENTS.take();
    assert!(all.len() > 50, "the spans were recorded: {}", all.len());
    all.into_iter().filter(|sql| sql.contains("WHERE")).collect()
}

/// Statements of use cases that take no actor, and of every grain of usage.
async fn extra(store: &Store, f: &Fixture) {
    let (control, root) = (&store.control, &store.root);
    let secret = |text: &str| secrecy::SecretString::from(text.to_owned());
    let page = PageRequest::default();
    for period in Period::ALL {
        let range = UsageRange::last(period, START);
        let usage = control.usage();
        let tenant = UsageScope { tenant: Some(f.acme.into()), ..UsageScope::default() };
        let agent = UsageScope { agent: Some("u-42".into()), ..tenant.clone() };
        for scope in [UsageScope::default(), tenant, agent] {
            usage.totals(root, &scope, range).await.unwrap();
            usage.series(root, &scope, range).await.unwrap();
            usage.by_tool(root, &scope, range).await.unwrap();
        }
        for tool in [None, Some("export".to_owned())] {
            let query = MatrixQuery { tool, ..MatrixQuery::of(range) };
            usage.throttle_by_tool(root, &query, &page).await.unwrap();
            let query = MatrixQuery { tenant: Some(f.acme.into()), ..query };
            usage.throttle_by_tool(root, &query, &page).await.unwrap();
        }
    }
    let token = control.setup().offer(root).await.unwrap();
    if let Some(token) = token {
        control.setup().accepts(token.expose()).await.unwrap();
    }
    control.users().sign_in("nobody", &secret("no password"), None, None).await.unwrap();
    control.admin_tokens().authenticate("sgadmin_x").await.unwrap();
    let sessions = control.sessions();
    let state = SessionState {
        user: None,
        data: JsonText::empty_object(),
        address: None,
        user_agent: None,
        idle_ends_at: START,
        ends_at: START,
    };
    sessions.save("x", &state).await.unwrap();
    sessions.load("x").await.unwrap();
    sessions.delete("x").await.unwrap();
    sessions.forget_ended().await.unwrap();
    sessions.list(root, f.user).await.unwrap();
    sessions.revoke(root, f.session).await.unwrap();
    let confined = Actor::user("alice", Role::Owner, Reach::Tenant(f.acme));
    control.users().list(&confined, &page).await.unwrap();
    control.admin_tokens().list(&confined, &page).await.unwrap();
    control.alerts().rules(&confined, &page).await.unwrap();
    control.alerts().list(&confined, &page).await.unwrap();
    control.alerts().open(&confined).await.unwrap();
}

async fn sqlite_walks(store: &Store, sql: &str) -> Vec<String> {
    let mut connection = SqliteConnection::connect(&store.url).await.unwrap();
    let explain = format!("EXPLAIN QUERY PLAN {sql}");
    let steps = connection.fetch_all(AssertSqlSafe(explain)).await.unwrap();
    let details = steps.iter().map(|step| step.get::<String, _>("detail"));
    details
        .filter(|detail| {
            let is_part = PARTS.iter().any(|part| detail == part);
            let walks = detail.starts_with("SCAN") && !is_part && !PARTIAL.iter().any(|i| detail.contains(i));
            // What is summed up in the statement cannot come out of an index in its order.
            walks || (detail.contains("TEMP B-TREE FOR ORDER BY") && !sql.contains("GROUP BY"))
        })
        .collect()
}

async fn postgres_walks(store: &Store, sql: &str) -> Vec<String> {
    let mut connection = PgConnection::connect(&store.url).await.unwrap();
    // Small tables are always walked; what counts is whether there is another way.
    for way in ["seqscan", "hashjoin", "mergejoin"] {
        connection.execute(AssertSqlSafe(format!("SET enable_{way} = off"))).await.unwrap();
    }
    connection.execute("SET plan_cache_mode = force_generic_plan").await.unwrap();
    connection.execute(AssertSqlSafe(format!("PREPARE it AS {sql}"))).await.unwrap();
    let parameters = (1..=60).rev().find(|n| sql.contains(&format!("${n}"))).unwrap_or(0);
    let values = match parameters {
        0 => String::new(),
        n => format!("({})", vec!["NULL"; n].join(", ")),
    };
    let explain = format!("EXPLAIN (FORMAT JSON) EXECUTE it{values}");
    let plan: Value = connection.fetch_one(AssertSqlSafe(explain)).await.unwrap().get(0);
    let mut walks = Vec::new();
    collect_walks(&plan[0]["Plan"], &mut walks);
    walks
}

fn collect_walks(node: &Value, walks: &mut Vec<String>) {
    let text = |key: &str| node[key].as_str().unwrap_or_default();
    let walks_index = text("Node Type").contains("Index")
        && node.get("Index Cond").is_none()
        && !PARTIAL.contains(&text("Index Name"));
    let walks_table = text("Node Type") == "Seq Scan" && text("Relation Name") != "control_state";
    if walks_index || walks_table {
        let name = [text("Relation Name"), text("Index Name")].concat();
        walks.push(format!("{} {name}", text("Node Type")));
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        collect_walks(child, walks);
    }
}

on_both! {
    async fn every_statement_with_a_condition_finds_its_rows_by_an_index(store: &Store) {
        for sql in statements(store).await {
            let walks = if store.is_postgres() {
                postgres_walks(store, &sql).await
            } else {
                sqlite_walks(store, &sql).await
            };
            assert!(walks.is_empty(), "{sql}\n{walks:?}");
        }
    }
}
