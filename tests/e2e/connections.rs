//! Connections: the silent, the slow and the many, and pages of other origins.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use sluicegate::control::{Control, KeyScopes};
use sluicegate_tests::process::resident;
use sluicegate_tests::server::mint;
use sluicegate_tests::{Client, Database, ServerProcess, TestServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn connect(server: &TestServer) -> TcpStream {
    TcpStream::connect(server.address()).await.expect("it connects")
}

/// How long until the server closes the connection.
async fn until_closed(mut stream: TcpStream) -> Duration {
    let start = Instant::now();
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "the connection is still open");
    start.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_sends_no_request_in_time_is_cut_whatever_they_send() {
    let server = TestServer::start_with(&Database::sqlite().await, |settings| {
        settings.header_timeout = "300ms".parse().expect("a time");
    })
    .await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice();
    let with_settings = [preface, &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    for opening in
        [b"".as_slice(), b"PRI * HT", b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow", preface, &with_settings]
    {
        let mut stream = connect(&server).await;
        stream.write_all(opening).await.expect("it is sent");
        let closed = until_closed(stream).await;
        assert!(closed < Duration::from_secs(8), "{closed:?} after {:?}", String::from_utf8_lossy(opening));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_may_be_silent_for_longer_than_a_head_may_take_but_not_within_one() {
    let server = TestServer::start_with(&Database::sqlite().await, |settings| {
        settings.header_timeout = "300ms".parse().expect("a time");
        settings.idle_timeout = "60s".parse().expect("a time");
    })
    .await;
    let mut stream = connect(&server).await;
    let mut answer = [0; 1024];
    for _ in 0..2 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").await.expect("it is sent");
        let length = stream.read(&mut answer).await.expect("an answer");
        assert!(answer[..length].starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer[..length]));
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow").await.expect("it is sent");
    let closed = until_closed(stream).await;
    assert!(closed < Duration::from_secs(8), "{closed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn above_the_cap_the_silent_make_room_for_those_who_ask() {
    let server = TestServer::start_with(&Database::sqlite().await, |settings| settings.max_connections = 4).await;
    let client = server.client("acme", "u-42").await;
    let mut silent = Vec::new();
    for _ in 0..12 {
        silent.push(connect(&server).await);
    }
    assert!(client.call("echo", json!({ "text": "x" })).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_never_comes_is_given_up_and_one_agent_cannot_hold_many() {
    let server = TestServer::start_with(&Database::sqlite().await, |settings| {
        settings.body_timeout = "400ms".parse().expect("a time");
        settings.agent_concurrency = 2;
    })
    .await;
    let client = server.client("acme", "u-42").await;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: 100\r\n\r\n{{",
        server.address(),
        client.key()
    );
    let mut answers = Vec::new();
    for _ in 0..3 {
        let mut stream = connect(&server).await;
        stream.write_all(head.as_bytes()).await.expect("it is sent");
        answers.push(tokio::spawn(async move {
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("an answer");
            answer
        }));
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    let mut statuses = Vec::new();
    for answer in answers {
        let answer = answer.await.expect("it runs");
        assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
        statuses.push(answer.split(' ').nth(1).expect("a status").to_owned());
    }
    assert_eq!(statuses, ["408", "408", "503"]);
    assert!(client.call("echo", json!({ "text": "x" })).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_allowed_origins_may_ask_first_and_read_what_refusals_say() {
    let server = TestServer::start_with(&Database::sqlite().await, |settings| {
        settings.allowed_origins = "https://app.example, https://other.example".to_owned();
    })
    .await;
    let client = server.client("acme", "u-42").await;
    let preflight = |origin: &'static str| {
        reqwest::Client::new()
            .request(reqwest::Method::OPTIONS, server.endpoint())
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization,content-type")
            .send()
    };
    let allowed = preflight("https://app.example").await.expect("an answer");
    assert_eq!(allowed.status(), 200);
    assert_eq!(allowed.headers()["access-control-allow-origin"], "https://app.example");
    let headers = allowed.headers()["access-control-allow-headers"].to_str().expect("a text").to_owned();
    assert!(headers.contains("authorization"), "{headers}");
    let foreign = preflight("https://evil.example").await.expect("an answer");
    assert!(!foreign.headers().contains_key("access-control-allow-origin"));
    let answer = client.with_header("Origin", "https://app.example").call("echo", json!({ "text": "x" })).await;
    assert!(answer.is_ok());
    assert!(answer.header("access-control-expose-headers").expect("a list").contains("retry-after"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_names_two_hosts_or_a_user_is_refused() {
    let server = TestServer::start(&Database::sqlite().await).await;
    for host in ["Host: 127.0.0.1\r\nHost: 127.0.0.1", "Host: 127.0.0.1:80@evil.example", "X: y"] {
        let mut stream = connect(&server).await;
        let request = format!("POST /mcp HTTP/1.1\r\n{host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 403"), "{host}: {answer}");
    }
}

/// How many connections are held open; `SLUICEGATE_TEST_CONNECTIONS=10000` holds more. Each takes a file descriptor here
/// and one in the server: see `ulimit -n`.
fn held() -> usize {
    std::env::var("SLUICEGATE_TEST_CONNECTIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

/// The most that an idle connection may take.
const MOST_PER_CONNECTION: u64 = 30 << 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_idle_and_hundreds_of_slow_connections_take_little_and_keep_nobody_out() {
    let (idle, slow) = (held(), held() / 20);
    let database = Database::sqlite().await;
    let most = (idle + slow + 100).to_string();
    let settings = [
        ("MAX_CONNECTIONS", &*most),
        ("IDLE_TIMEOUT", "10min"),
        ("HEADER_TIMEOUT", "10min"),
        ("LIMIT_AGENT", "1000000/min"),
        ("LIMIT_TENANT", "1000000/min"),
        ("LIMIT__ECHO", "1000000/min"),
    ];
    let testbed = Path::new(env!("CARGO_BIN_EXE_testbed"));
    let server = ServerProcess::start(testbed, &database, database.folder(), &settings).await;
    let control = Control::connect(&database.url(), Default::default()).await.expect("the database opens");
    let (key, _) = mint(&control, "acme", "u-42", KeyScopes::all()).await.expect("the key is made");
    let client = Client::new(server.endpoint(), key.clone());
    let call = || client.call("whoami", json!({}));
    while !call().await.is_ok() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let address = server.endpoint().replace("http://", "").replace("/mcp", "");
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}"#;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n"
    );
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    let before = resident(server.id());
    let mut held = Vec::new();
    let mut answer = [0; 4_096];
    for at in 0..idle {
        let mut stream = TcpStream::connect(&address).await.unwrap_or_else(|error| panic!("connection {at}: {error}"));
        stream.write_all(request.as_bytes()).await.expect("it is sent");
        let read = stream.read(&mut answer).await.expect("an answer");
        assert!(answer[..read].starts_with(b"HTTP/1.1 200"), "connection {at}");
        held.push(stream);
    }
    let each = resident(server.id()).saturating_sub(before) / idle as u64;
    println!("{idle} idle connections take {each} bytes each");
    for _ in 0..slow {
        let mut stream = TcpStream::connect(&address).await.expect("it connects");
        stream.write_all(head.as_bytes()).await.expect("half a request is sent");
        held.push(stream);
    }
    let mut latencies = Vec::new();
    for _ in 0..50 {
        let start = Instant::now();
        let new = Client::new(server.endpoint(), key.clone());
        assert!(new.call("whoami", json!({})).await.is_ok(), "a new connection is served");
        latencies.push(start.elapsed());
    }
    latencies.sort();
    println!("a call on a new connection beside them and {slow} slow ones: median {:?}", latencies[25]);
    assert!(latencies[25] < Duration::from_millis(250), "{latencies:?}");
    assert!(each < MOST_PER_CONNECTION, "an idle connection takes {each} bytes");
    drop(held);
    server.terminate().await;
}
