//! Every status that the document promises occurs, and no other does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use sluicegate::control::Role;
use sluicegate_tests::{Answer, Database, TestServer};
use sqlx::{Connection as _, SqliteConnection};

use super::roles::{ROUTES, fill, tenant};
use super::{Program, problem};

/// What is promised and not provoked here: method, path, status, why. `*` is every one.
const NOT_PROVOKED: &[(&str, &str, u16, &str)] = &[
    ("*", "*", 500, "it takes a mistake of ours; that a handler which panics is answered so has a test beside it"),
    ("post", "/limits/preview", 409, "it only reads, so that the first request is never in work for long"),
    ("post", "/limits/preview", 403, "every role may ask; a page of another site may not, in sessions.rs"),
    ("post", "/alert-rules/{rule}/test", 200, "it is answered by a receiver in webhooks.rs"),
    ("get", "/events/stream", 200, "it has no end; journeys.rs reads it"),
];

/// Statuses by operation.
type Statuses = BTreeSet<(String, String, u16)>;

fn documented(document: &Value) -> Statuses {
    let mut statuses = Statuses::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            for status in operation["responses"].as_object().expect("responses").keys() {
                statuses.insert((method.clone(), path.clone(), status.parse().expect("a status")));
            }
        }
    }
    statuses
}

/// Sends requests, and notes what comes back.
struct Recorder<'a> {
    server: &'a TestServer,
    document: &'a Value,
    seen: Statuses,
    number: usize,
}

/// One operation on things that were made for it.
struct Operation {
    method: &'static str,
    path: &'static str,
    target: String,
    body: Option<String>,
}

impl Recorder<'_> {
    /// The operation on new things of a new tenant, or of this one.
    async fn fresh(&mut self, (method, path, rest, body): Row, slug: Option<&str>) -> Operation {
        self.number += 1;
        let new = format!("s-{}", self.number);
        let id = match slug {
            None => tenant(self.server, &new).await,
            Some(slug) => {
                let found = self.server.control().tenants().get(&sluicegate_tests::server::actor(), &slug.into()).await;
                found.expect("a tenant").id
            }
        };
        let slug = slug.unwrap_or(&new);
        let target = fill(self.server, &format!("{path}{rest}"), slug, id, self.number).await;
        let body = fill(self.server, body, slug, id, self.number).await;
        Operation { method, path, target, body: (!body.is_empty()).then_some(body) }
    }

    async fn send(&mut self, by: &Program, operation: &Operation, headers: &[(&str, &str)]) -> Answer {
        let method = Method::from_bytes(operation.method.to_uppercase().as_bytes()).expect("a method");
        let answer = by.send(method, &operation.target, headers, operation.body.clone()).await;
        let status = answer.status.as_u16();
        self.seen.insert((operation.method.to_owned(), operation.path.to_owned(), status));
        answer
    }

    fn promises(&self, operation: &Operation, status: u16) -> bool {
        let responses = &self.document["paths"][operation.path][operation.method]["responses"];
        responses[status.to_string()].is_object()
    }
}

/// Method, path, rest of the path, body.
type Row = (&'static str, &'static str, &'static str, &'static str);

const BLINDLY: (&str, &str) = ("if-match", "*");

/// Whatever is named, there is none of it.
fn of_nobody((method, path, rest, body): Row) -> (String, String) {
    let _ = method;
    let nobody = |text: &str| {
        let id = |prefix: &str| format!("{prefix}_{}", "0".repeat(32));
        let ids = [("{tenant_id}", "ten"), ("{key}", "key"), ("{limit}", "lim"), ("{rule}", "rul"), ("{token}", "tok")];
        let text = ids.iter().fold(text.to_owned(), |text, (name, prefix)| text.replace(name, &id(prefix)));
        let names = ["{tenant}", "{slug}", "{agent}", "{plan}", "{user}", "{tool}"];
        names.iter().fold(text, |text, name| text.replace(name, "nobody")).replace("{new}", "somebody")
    };
    (nobody(&format!("{path}{rest}")), nobody(body))
}

/// Everything that can be provoked of one operation without knowing what it is about.
async fn provoke(recorder: &mut Recorder<'_>, row: Row, owner: &Program, viewers: &[Program], database: &Database) {
    let nobody = Program::with_token(recorder.server, "");
    let operation = recorder.fresh(row, None).await;
    recorder.send(owner, &operation, &[BLINDLY]).await;
    recorder.send(&nobody, &operation, &[BLINDLY]).await;
    let separator = if operation.target.contains('?') { '&' } else { '?' };
    let unknown =
        Operation { target: format!("{}{separator}nonsense=1", operation.target), ..recorder.fresh(row, None).await };
    recorder.send(owner, &unknown, &[BLINDLY]).await;
    for viewer in viewers {
        let own = recorder.fresh(row, Some("acme")).await;
        recorder.send(viewer, &own, &[BLINDLY]).await;
    }
    let (target, body) = of_nobody(row);
    let body = (!body.is_empty()).then_some(body);
    let elsewhere = Operation { target, body, ..recorder.fresh(row, None).await };
    recorder.send(owner, &elsewhere, &[BLINDLY]).await;
    if recorder.promises(&operation, 412) {
        let operation = recorder.fresh(row, None).await;
        let answer = recorder.send(owner, &operation, &[("if-match", "\"0\"")]).await;
        let told = problem(&answer, 412, "stale");
        assert_eq!(told["expected"], "\"0\"", "{told}");
        assert!(told["present"]["revision"].is_number(), "{told}");
    }
    if recorder.promises(&operation, 428) {
        let operation = recorder.fresh(row, None).await;
        recorder.send(owner, &operation, &[]).await;
    }
    if recorder.promises(&operation, 413) {
        let mut operation = recorder.fresh(row, None).await;
        operation.body = Some(format!("\"{}\"", "x".repeat(5_000_000)));
        recorder.send(owner, &operation, &[BLINDLY, ("idempotency-key", "large")]).await;
    }
    if recorder.promises(&operation, 415) {
        let mut operation = recorder.fresh(row, None).await;
        operation.body = None;
        recorder.send(owner, &operation, &[BLINDLY, ("content-type", "text/plain")]).await;
    }
    if recorder.promises(&operation, 422) {
        let mut operation = recorder.fresh(row, None).await;
        let used = format!("used-{}", recorder.number);
        if operation.body.is_none() {
            let key = [BLINDLY, ("idempotency-key", &*used)];
            recorder.send(owner, &operation, &key).await;
            operation.target += if operation.target.contains('?') { "&x=1" } else { "?x=1" };
        } else {
            operation.body = Some(r#"{"nonsense":1}"#.to_owned());
        }
        recorder.send(owner, &operation, &[BLINDLY, ("idempotency-key", &*used)]).await;
    }
    if operation.method == "post" && recorder.promises(&operation, 409) {
        in_work(recorder, row, owner, database).await;
    }
}

/// Sends a request twice while nobody can write, so that the first is in work when the second comes.
async fn in_work(recorder: &mut Recorder<'_>, row: Row, owner: &Program, database: &Database) {
    let operation = recorder.fresh(row, None).await;
    let mut writer = SqliteConnection::connect(&database.url()).await.expect("the database opens");
    sqlx::query("BEGIN IMMEDIATE").execute(&mut writer).await.expect("nobody writes");
    let twice = format!("twice-{}", recorder.number);
    let headers = [BLINDLY, ("idempotency-key", &*twice)];
    let method = Method::from_bytes(operation.method.to_uppercase().as_bytes()).expect("a method");
    let first = owner.send(method, &operation.target, &headers, operation.body.clone());
    let second = async {
        for _ in 0..50 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let answer =
                tokio::time::timeout(Duration::from_millis(200), recorder.send(owner, &operation, &headers)).await;
            if answer.is_ok_and(|answer| answer.status == 409) {
                break;
            }
        }
        sqlx::query("ROLLBACK").execute(&mut writer).await.expect("it ends");
    };
    tokio::join!(first, second);
}

/// What needs a story of its own.
async fn stories(recorder: &mut Recorder<'_>, owner: &Program) {
    let operator = Program::with_role(recorder.server, Role::Operator, Some("acme")).await;
    let import = json!({ "version": 1, "tenants": [{ "slug": "golden", "name": "G" }] }).to_string();
    let operation = Operation { method: "post", path: "/import", target: "/import".to_owned(), body: Some(import) };
    recorder.send(&operator, &operation, &[]).await;
    let planned = json!({ "slug": "planned", "name": "P", "plan": "nobody" }).to_string();
    let operation = Operation { method: "post", path: "/tenants", target: "/tenants".to_owned(), body: Some(planned) };
    recorder.send(owner, &operation, &[]).await;
    owner.post("/plans", json!({ "name": "gold" })).await;
    owner.post("/tenants", json!({ "slug": "golden", "name": "G", "plan": "gold" })).await;
    owner.post("/users", json!({ "name": "olga", "password": "correct horse battery", "role": "owner" })).await;
    for (method, path, target, body) in [
        ("delete", "/plans/{plan}", "/plans/gold", None),
        ("patch", "/users/{user}", "/users/olga", Some(r#"{"role":"viewer","tenant":null}"#)),
        ("delete", "/users/{user}", "/users/olga", None),
    ] {
        let operation = Operation { method, path, target: target.to_owned(), body: body.map(str::to_owned) };
        recorder.send(owner, &operation, &[BLINDLY]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_status_of_the_document_occurs_and_no_other() {
    let database = Database::sqlite().await;
    let server = TestServer::start(&database).await;
    tenant(&server, "acme").await;
    let owner = Program::owner(&server).await;
    let viewers = [
        Program::with_role(&server, Role::Viewer, None).await,
        Program::with_role(&server, Role::Viewer, Some("acme")).await,
    ];
    let document = owner.get("/openapi.json").await.json();
    let mut recorder = Recorder { server: &server, document: &document, seen: Statuses::new(), number: 0 };
    let open = [("get", "/openapi.json", "", ""), ("get", "/events/stream", "?tenant={slug}", "")];
    for row in ROUTES.iter().map(|(method, path, rest, body, ..)| (*method, *path, *rest, *body)) {
        provoke(&mut recorder, row, &owner, &viewers, &database).await;
    }
    stories(&mut recorder, &owner).await;
    for (method, path, rest, _) in open {
        let nobody = Program::with_token(&server, "");
        let operation = |target: String| Operation { method, path, target, body: None };
        if path == "/openapi.json" {
            recorder.send(&nobody, &operation(path.to_owned()), &[]).await;
        } else {
            recorder.send(&nobody, &operation(path.to_owned()), &[]).await;
            recorder.send(&owner, &operation(format!("{path}{}", rest.replace("{slug}", "nobody"))), &[]).await;
        }
        recorder.send(&owner, &operation(format!("{path}?nonsense=1")), &[]).await;
    }

    // Without its database a server can do nothing but say so.
    let away = TestServer::start(&database).await;
    let cut_off = Program { base: format!("http://{}/api/v1", away.address()), ..Program::owner(&away).await };
    away.control().close().await;
    let all: BTreeSet<_> = documented(&document).into_iter().map(|(method, path, _)| (method, path)).collect();
    for (method, path) in all.iter().filter(|(_, path)| path != "/openapi.json") {
        let verb = Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
        let answer = cut_off.send(verb, &path.replace(['{', '}'], ""), &[], None).await;
        problem(&answer, 503, "unavailable");
        assert_eq!(answer.header("retry-after"), Some("1"));
        recorder.seen.insert((method.clone(), path.clone(), 503));
    }

    let documented = documented(&document);
    let mut missing = BTreeMap::new();
    for (method, path, status) in documented.difference(&recorder.seen) {
        let is_known = NOT_PROVOKED
            .iter()
            .any(|(by, of, known, _)| (*by == "*" || by == method) && (*of == "*" || of == path) && known == status);
        if !is_known {
            missing.entry(*status).or_insert_with(Vec::new).push(format!("{method} {path}"));
        }
    }
    let unknown: Vec<_> = recorder.seen.difference(&documented).collect();
    assert!(unknown.is_empty(), "these occur and are not documented: {unknown:#?}");
    assert!(missing.is_empty(), "these are documented and do not occur: {missing:#?}");
}
