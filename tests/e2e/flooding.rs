//! Strangers by the thousand: invented tools, agents that come once, keys that nobody made. Nothing grows without bound, and
//! others hardly notice.

use std::path::Path;
use std::time::{Duration, Instant};

use jsonwebtoken::Algorithm;
use serde_json::json;
use sluicegate::control::{ApiKey, Control, KeyId, KeyScopes, WallClock};
use sluicegate_tests::bulk::{self, Bulk};
use sluicegate_tests::issuer::{SECRET, claims_from, trusting};
use sluicegate_tests::process::resident;
use sluicegate_tests::server::{actor, mint};
use sluicegate_tests::{Client, Database, ServerProcess, SigningKey};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How many tools are invented and how many agents come; a tenth as many keys are.
/// `SLUICEGATE_TEST_FLOOD=100000` sends more.
fn flood() -> usize {
    std::env::var("SLUICEGATE_TEST_FLOOD").ok().and_then(|count| count.parse().ok()).unwrap_or(2_000)
}

/// By how much a server may grow under a flood, in bytes.
const MOST: u64 = 128 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invented_tools_agents_and_keys_do_not_grow_the_server_and_others_hardly_notice() {
    let database = Database::sqlite().await;
    let control = Control::connect(&database.url(), Default::default()).await.expect("the database opens");
    control.migrate().await.expect("its tables are made");
    let (hostile, _) = mint(&control, "acme", "u-42", KeyScopes::all()).await.expect("a key");
    let (good, _) = mint(&control, "globex", "u-42", KeyScopes::all()).await.expect("a key");
    let agents = agents_of_one_tenant(&database).await.expect("they are written");
    control.tenants().create(&actor(), "umbrella", "umbrella").await.expect("a tenant");
    let boundless = ["LIMIT_TENANT", "LIMIT_AGENT", "LIMIT_TOOL", "REQUESTS_PER_AGENT"].map(|name| (name, "1000000/s"));
    let key = SigningKey::new("one", Algorithm::HS256);
    let settings = [&boundless[..], &trusting(SECRET), &[("METRICS_SERIES", "4000")]].concat();
    let testbed = Path::new(env!("CARGO_BIN_EXE_testbed"));
    let process = ServerProcess::start(testbed, &database, database.folder(), &settings).await;
    let client = Client::new(process.endpoint(), good);
    let quiet = p95(&client, async { tokio::time::sleep(Duration::from_secs(3)).await }).await;
    let idle = resident(process.id());
    let address = process.endpoint().trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let tools = p95(&client, invented_tools(address.clone(), hostile)).await;
    let many = p95(&client, many_agents(address.clone(), agents)).await;
    let keys = p95(&client, unknown_keys(address.clone())).await;
    let subjects = p95(&client, invented_agents(address, key)).await;
    let grown = resident(process.id()).saturating_sub(idle);
    println!(
        "{} tools, {0} agents, {} keys, {0} tokens: grown by {} KiB; p95 of others {quiet:?} before, {tools:?}, {many:?}, \
         {keys:?} and {subjects:?} during",
        flood(),
        flood() / 10,
        grown >> 10
    );
    assert!(grown < MOST, "the server has grown by {} MiB", grown >> 20);
    let log = process.log().await;
    assert!(!log.contains("panicked"), "{log}");
    for during in [tools, many, keys, subjects] {
        // What other tests on this machine do shows in single milliseconds.
        assert!(during < (quiet * 3 / 2).max(Duration::from_millis(100)), "{quiet:?} before, {during:?} during");
    }
    let (_, metrics) = process.get("/metrics").await;
    let written = sluicegate_tests::server::agents(&control, "umbrella").await;
    assert!(written <= 10_000, "{written} agents of invented tokens were written");
    let series = metrics.lines().filter(|line| line.starts_with("sluicegate_calls_total")).count();
    assert!(series < 5_000, "{series} series of calls");
}

/// The keys of many agents of one tenant.
async fn agents_of_one_tenant(database: &Database) -> Result<Vec<String>, sqlx::Error> {
    let keys = bulk::keys(u32::try_from(flood()).expect("so many"));
    let mut rows = Bulk::open(database).await?;
    rows.run("BEGIN".to_owned()).await?;
    rows.insert_tenants(1).await?;
    rows.insert_agents((0..).zip(&keys).map(|(agent, _)| (agent, 0)), 0).await?;
    rows.insert_keys((0..).zip(&keys).map(|(agent, key)| (agent, 0, agent, bulk::hash_of(key)))).await?;
    rows.run("COMMIT".to_owned()).await?;
    Ok(keys)
}

/// The time within which 95 of 100 calls of `client` are answered while `hostile` goes on.
async fn p95(client: &Client, hostile: impl Future<Output = ()> + Send + 'static) -> Duration {
    let hostile = tokio::spawn(hostile);
    let mut latencies = Vec::new();
    while !hostile.is_finished() || latencies.len() < 20 {
        let start = Instant::now();
        assert!(client.call("whoami", json!({})).await.is_ok());
        latencies.push(start.elapsed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    hostile.await.expect("every one was answered");
    latencies.sort();
    latencies[latencies.len() * 95 / 100]
}

async fn invented_tools(address: String, key: String) {
    let mut connection = Connection::open(&address).await;
    for at in 0..flood() {
        let status = connection.call(&key, &format!("invented_{at}")).await;
        assert_eq!(status, 200, "an unknown tool is a JSON-RPC error");
    }
}

async fn many_agents(address: String, keys: Vec<String>) {
    let mut connection = Connection::open(&address).await;
    for key in keys {
        // There is room for so many agents of a tenant; those who come later share one bucket.
        assert!(matches!(connection.call(&key, "echo").await, 200 | 429));
    }
}

async fn unknown_keys(address: String) {
    let environment = "live".parse().expect("an environment");
    for at in 0..flood() / 10 {
        // Well-formed, so that the database is asked; the connection is closed after a refusal at the door.
        let id: KeyId = format!("key_{at:032x}").parse().expect("an id");
        let unknown = ApiKey::generate(&mut rand::rng(), id, &environment);
        let mut connection = Connection::open(&address).await;
        let status = connection.call(unknown.expose(), "echo").await;
        assert!(status == 401 || status == 429, "{status}: an address may fail only so often");
    }
}

/// Each token is good and names somebody else.
async fn invented_agents(address: String, key: SigningKey) {
    let mut connection = Connection::open(&address).await;
    for at in 0..flood() {
        let token = key.sign(&claims_from(WallClock::system().now_ms(), "umbrella", &format!("invented-{at}")));
        // As above: those who come later share one bucket.
        assert!(matches!(connection.call(&token, "echo").await, 200 | 429));
    }
}

/// Sends calls one after the other.
struct Connection {
    address: String,
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("it connects");
        stream.set_nodelay(true).expect("an option of TCP");
        Self { address: address.to_owned(), stream, buffer: Vec::new() }
    }

    /// Calls a tool and returns the status.
    async fn call(&mut self, key: &str, tool: &str) -> u16 {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"x"}}}}}}"#
        );
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await.expect("it is sent");
        self.buffer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.buffer).await.expect("it is read");
            assert!(read > 0, "every call is answered: {tool}");
            let text = String::from_utf8_lossy(&self.buffer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.expect("a length").parse().expect("a number");
            if body.len() >= length {
                return head.split(' ').nth(1).expect("a status").parse().expect("a number");
            }
        }
    }
}
