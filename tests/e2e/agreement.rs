//! The same figures everywhere: what clients have counted, `/metrics`, the admin API, the database and the panel.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate::control::{Control, KeyScopes, NewToken, Role};
use sluicegate_tests::server::{actor, mint};
use sluicegate_tests::visitor::Visitor;
use sluicegate_tests::{Client, Database, Exposition, ServerProcess};
use sqlx::{AssertSqlSafe, Connection as _};

const CALLERS: [(&str, &str); 5] =
    [("acme", "a-1"), ("acme", "a-2"), ("globex", "a-1"), ("globex", "b-1"), ("initech", "c-1")];
const TOOLS: [&str; 4] = ["echo", "export", "settle", "whoami"];

/// How many calls are made; the first number that is asked for, when none is named, is enough to refuse plenty.
fn calls() -> usize {
    std::env::var("SLUICEGATE_TEST_CALLS").map_or(2_000, |calls| calls.parse().expect("a number of calls"))
}

/// What somebody counted of one tool that one agent called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    calls: i64,
    ok: i64,
    throttled: i64,
}

/// By tenant, agent and tool.
type Counts = BTreeMap<(String, String, String), Counted>;

async fn start(database: &Database, data: &Path) -> ServerProcess {
    // What refuses is what the tools declare: 5/min, 600/min, 1000/min and, for the one that declares nothing, 60/min.
    let unlimited = ["LIMIT_TENANT", "LIMIT_AGENT", "REQUESTS_PER_AGENT"].map(|name| (name, "100000000/min"));
    let settings = [&unlimited[..], &[("AGENT_CONCURRENCY", "100")]].concat();
    ServerProcess::start(Path::new(env!("CARGO_BIN_EXE_testbed")), database, data, &settings).await
}

async fn call(client: Client, tool: &'static str, times: usize) -> Counted {
    let mut counted = Counted::default();
    for number in 0..times {
        let arguments = match tool {
            "echo" => json!({ "text": "x" }),
            "export" => json!({ "dataset": "x" }),
            "settle" => json!({ "invoice": number.to_string() }),
            _ => json!({}),
        };
        let answer = client.call(tool, arguments).await;
        counted.calls += 1;
        match answer.status.as_u16() {
            200 if answer.is_ok() => counted.ok += 1,
            429 => counted.throttled += 1,
            _ => panic!("{tool}: {answer:?}"),
        }
    }
    counted
}

/// Every agent calls every tool so often, all at once.
async fn everybody_calls(clients: &[Client], times: usize, own: &mut Counts) {
    let work = clients.iter().zip(CALLERS).flat_map(|(client, (tenant, agent))| {
        TOOLS.map(|tool| {
            let calling = call(client.clone(), tool, times);
            async move { ((tenant.to_owned(), agent.to_owned(), tool.to_owned()), calling.await) }
        })
    });
    for (whose, counted) in futures::future::join_all(work).await {
        let sum = own.entry(whose).or_default();
        sum.calls += counted.calls;
        sum.ok += counted.ok;
        sum.throttled += counted.throttled;
    }
}

/// What a server shows, once it shows so many calls: one is counted after its answer has gone out.
async fn scrape(server: &ServerProcess, calls: i64) -> Exposition {
    for _ in 0..100 {
        let (_, text) = server.get("/metrics").await;
        let metrics = Exposition::read(&text).expect("Prometheus reads it");
        if metrics.sum("sluicegate_calls_total", &[]) >= calls as f64 {
            return metrics;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{calls} calls are never shown")
}

fn total(counts: &Counts, of: impl Fn(&Counted) -> i64) -> i64 {
    counts.values().map(of).sum()
}

/// What the servers have shown, together.
fn in_metrics(scraped: &[Exposition]) -> Counts {
    let count = |outcome: &[(&str, &str)], (tenant, agent): (&str, &str), tool: &str| -> i64 {
        let labels = [&[("tenant", tenant), ("agent", agent), ("tool", tool)], outcome].concat();
        scraped.iter().map(|metrics| metrics.sum("sluicegate_calls_total", &labels)).sum::<f64>() as i64
    };
    let of = |caller: (&str, &str), tool: &str| Counted {
        calls: count(&[], caller, tool),
        ok: count(&[("outcome", "ok")], caller, tool),
        throttled: count(&[("outcome", "throttled")], caller, tool),
    };
    let all = CALLERS.iter().flat_map(|caller| TOOLS.map(|tool| (*caller, tool)));
    all.map(|((tenant, agent), tool)| {
        ((tenant.to_owned(), agent.to_owned(), tool.to_owned()), of((tenant, agent), tool))
    })
    .collect()
}

/// Refusals and calls as `throttle_by_tool` tells them.
fn in_matrix(matrix: &Value) -> BTreeMap<(String, String, String), (i64, i64)> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let mut cells = BTreeMap::new();
    for row in matrix["rows"].as_array().expect("rows") {
        let (tenant, agent) = (text(&row["caller"]["tenant_slug"]), text(&row["caller"]["agent_name"]));
        for (column, cell) in
            matrix["tools"].as_array().expect("tools").iter().zip(row["cells"].as_array().expect("cells"))
        {
            if cell.is_object() {
                let figures = (cell["refusals"].as_i64().expect("a number"), cell["calls"].as_i64().expect("a number"));
                cells.insert((tenant.clone(), agent.clone(), text(&column["tool"])), figures);
            }
        }
    }
    cells
}

/// The rows of the database, behind everybody's back.
async fn in_database(database: &Database, table: &str) -> Counts {
    let sql = format!(
        "SELECT t.slug, a.name, u.tool, CAST(SUM(u.calls) AS BIGINT), CAST(SUM(u.ok) AS BIGINT),
                CAST(SUM(u.throttled) AS BIGINT)
         FROM {table} u JOIN tenants t ON t.id = u.tenant_id JOIN agents a ON a.id = u.agent_id
         GROUP BY t.slug, a.name, u.tool"
    );
    let url = database.url();
    let rows: Vec<(String, String, String, i64, i64, i64)> = if url.starts_with("sqlite") {
        let mut connection = sqlx::SqliteConnection::connect(&url).await.expect("the database opens");
        sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut connection).await.expect("rows")
    } else {
        let mut connection = sqlx::PgConnection::connect(&url).await.expect("the database opens");
        sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut connection).await.expect("rows")
    };
    let counted =
        |(tenant, agent, tool, calls, ok, throttled)| ((tenant, agent, tool), Counted { calls, ok, throttled });
    rows.into_iter().map(counted).collect()
}

/// The figure of each cell of the page's heat map: `title="4 of 9 calls refused">4<small>`.
fn on_page(page: &str) -> Vec<(i64, String)> {
    let cells = page.split("<a class=\"l").skip(1).filter(|cell| cell.contains("/admin/throttling/cell?"));
    let cell = |cell: &str| {
        let (_, after) = cell.split_once("title=\"")?;
        let (title, after) = after.split_once("\">")?;
        let (figure, _) = after.split_once("<small>")?;
        Some((figure.replace(',', "").parse().ok()?, title.replace(',', "")))
    };
    cells.map(|text| cell(text).unwrap_or_else(|| panic!("no figure in {text:.300}"))).collect()
}

async fn figures_agree(database: &Database, mut servers: Vec<ServerProcess>) {
    let control = Control::connect(&database.url(), Default::default()).await.expect("the database opens");
    let mut keys = Vec::new();
    for (tenant, agent) in CALLERS {
        keys.push(mint(&control, tenant, agent, KeyScopes::all()).await.expect("a key").0);
    }
    let clients = |server: &ServerProcess| -> Vec<_> {
        keys.iter().map(|key| Client::new(server.endpoint(), key.clone())).collect()
    };
    let times = calls().div_ceil(CALLERS.len() * TOOLS.len() * (servers.len() + 1));
    let (mut own, mut scraped) = (Counts::new(), Vec::new());
    if servers.len() > 1 {
        let mut on_first = Counts::new();
        let (first, second) = (clients(&servers[0]), clients(&servers[1]));
        let mut on_second = Counts::new();
        tokio::join!(everybody_calls(&first, times, &mut on_first), everybody_calls(&second, times, &mut on_second));
        let first = servers.remove(0);
        scraped.push(scrape(&first, total(&on_first, |counted| counted.calls)).await);
        // It ends while the other goes on.
        let going_on = everybody_calls(&second, times, &mut on_second);
        tokio::join!(first.terminate(), going_on);
        own = on_first;
        for (whose, counted) in on_second {
            let sum = own.entry(whose).or_default();
            sum.calls += counted.calls;
            sum.ok += counted.ok;
            sum.throttled += counted.throttled;
        }
    } else {
        everybody_calls(&clients(&servers[0]), times * 2, &mut own).await;
    }
    let server = servers.remove(0);
    let already = scraped.iter().map(|metrics| metrics.sum("sluicegate_calls_total", &[])).sum::<f64>() as i64;
    let all = total(&own, |counted| counted.calls);
    let refused = total(&own, |counted| counted.throttled);
    assert!(all >= i64::try_from(calls()).expect("a number") && refused > 0, "{own:?}");
    scraped.push(scrape(&server, all - already).await);
    assert_eq!(in_metrics(&scraped), own, "/metrics");
    let throttled: f64 = scraped.iter().map(|metrics| metrics.sum("sluicegate_throttled_total", &[])).sum();
    assert_eq!(throttled as i64, refused, "/metrics");

    let new = NewToken { name: "ci".to_owned(), role: Role::Viewer, tenant: None, expires_at: None };
    let token = control.admin_tokens().create(&actor(), new).await.expect("a token").token.expose().to_owned();
    let base = server.endpoint().replace("/mcp", "");
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let ask = async |path: &str| -> Value {
        let answer = http.get(format!("{base}/api/v1{path}")).bearer_auth(&token).send().await.expect("an answer");
        answer.json().await.expect("JSON")
    };
    let mut matrix = Value::Null;
    for _ in 0..100 {
        matrix = ask("/throttle_by_tool?range=1h").await;
        if matrix["total"]["calls"] == all {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(matrix["total"], json!({ "calls": all, "refusals": refused }), "/api/v1/throttle_by_tool");
    // A tool of which nothing was refused has no column; its calls are in the usage by tool.
    let of_tool = |tool: &str, of: fn(&Counted) -> i64| -> i64 {
        own.iter().filter(|((.., called), _)| called == tool).map(|(_, counted)| of(counted)).sum()
    };
    let refused_one = |tool: &str| of_tool(tool, |counted| counted.throttled) > 0;
    let expected: BTreeMap<_, _> = own
        .iter()
        .filter(|((.., tool), _)| refused_one(tool))
        .map(|(whose, counted)| (whose.clone(), (counted.throttled, counted.calls)))
        .collect();
    assert_eq!(in_matrix(&matrix), expected, "/api/v1/throttle_by_tool");
    let usage = ask("/usage?range=1h").await;
    let figures = ["calls", "ok", "throttled"].map(|figure| usage["current"][figure].as_i64());
    assert_eq!(figures, [Some(all), Some(all - refused), Some(refused)], "/api/v1/usage");

    let by_tool = ask("/usage/by-tool?range=1h").await;
    for tool in TOOLS {
        let items = by_tool["items"].as_array().expect("items");
        let found = items.iter().find(|item| item["tool"] == tool).unwrap_or_else(|| panic!("no {tool} in {by_tool}"));
        let figures = (found["calls"].as_i64(), found["throttled"].as_i64());
        let counted = (of_tool(tool, |counted| counted.calls), of_tool(tool, |counted| counted.throttled));
        assert_eq!(figures, (Some(counted.0), Some(counted.1)), "/api/v1/usage/by-tool: {found}");
    }

    for table in ["usage_minute", "usage_hour", "usage_day"] {
        assert_eq!(in_database(database, table).await, own, "{table}");
    }

    let visitor = Visitor::sign_in(&control, &base, "olga", Role::Viewer, None).await;
    let page = visitor.get("/admin/throttling?range=1h").await;
    assert_eq!(page.status, 200, "{page:?}");
    let mut shown: Vec<_> = on_page(&page.text).into_iter().map(|(figure, _)| figure).collect();
    let mut wanted: Vec<_> = own.values().map(|counted| counted.throttled).filter(|throttled| *throttled > 0).collect();
    shown.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(shown, wanted, "/admin/throttling");
    for (_, title) in on_page(&page.text) {
        let told = own.values().any(|counted| {
            title.contains(&counted.throttled.to_string()) && title.contains(&counted.calls.to_string())
        });
        assert!(told, "/admin/throttling says {title:?}");
    }
    let csv = visitor.get("/admin/throttling.csv?range=1h").await.text;
    for ((tenant, agent, tool), counted) in own.iter().filter(|((.., tool), _)| refused_one(tool)) {
        let line = format!("{tenant},{agent},{tool},{},{}", counted.throttled, counted.calls);
        assert!(csv.lines().any(|found| found == line), "{line} is not in\n{csv}");
    }
    server.terminate().await;
    assert_eq!(in_database(database, "usage_minute").await, own, "after the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_and_everybody_who_asks_tell_what_the_clients_have_counted() {
    let Some(database) = Database::postgres().await else { return };
    let other = tempfile::tempdir().expect("a folder");
    let servers = vec![start(&database, database.folder()).await, start(&database, other.path()).await];
    figures_agree(&database, servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_on_sqlite_and_everybody_who_asks_tell_what_the_clients_have_counted() {
    let database = Database::sqlite().await;
    let servers = vec![start(&database, database.folder()).await];
    figures_agree(&database, servers).await;
}
