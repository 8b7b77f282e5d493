//! Somebody who changes the policy through the first server, and callers of the others who find out when it holds there.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use sluicegate::control::{NewToken, Role};
use sluicegate_tests::{Answer, Client, server};
use tokio::time::Instant;

use crate::fleet::Fleet;

/// One that lets the caller in however often it asks.
const OPEN: &str = "1000000/h";
/// One that refuses it, as it has asked before.
const SHUT: &str = "1/h";

/// The limit of one tool for one tenant, which is changed on the first server and asked for on the others.
pub(crate) struct Operator {
    http: reqwest::Client,
    api: String,
    token: String,
    limit: String,
    callers: Vec<Client>,
}

impl Operator {
    /// On a fleet whose other limits refuse nobody. The limit is open.
    pub(crate) async fn new(fleet: &Fleet) -> Self {
        let first = fleet.client(0, "acme", "operated").await;
        let new = NewToken { name: "operator".to_owned(), role: Role::Owner, tenant: None, expires_at: None };
        let token = fleet.control.admin_tokens().create(&server::actor(), new).await.expect("a token");
        let api = fleet.running().next().expect("it runs").endpoint().replace("/mcp", "/api/v1");
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let token = token.token.expose().to_owned();
        let others = fleet.endpoints().into_iter().skip(1);
        let callers = others.map(|endpoint| Client::new(endpoint, first.key().to_owned())).collect();
        let mut operator = Self { http, api, token, limit: String::new(), callers };
        let tenant = operator.send(Method::GET, "/tenants/acme", Value::Null).await.json()["id"].clone();
        let target = json!({ "scope": "tenant_tool", "tenant": tenant, "tool": "echo" });
        let made = operator.send(Method::POST, "/limits", json!({ "target": target, "rate": OPEN })).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let place = made.header("location").and_then(|path| path.strip_prefix("/api/v1"));
        place.expect("a path").clone_into(&mut operator.limit);
        operator.until_holds(true, Instant::now()).await;
        operator
    }

    /// Changes the limit, so that the caller is let in or refused, and says how long it took each of the other servers to
    /// do so, from when the change was sent.
    pub(crate) async fn change(&self, open: bool) -> Vec<Duration> {
        let start = Instant::now();
        let rate = json!({ "rate": if open { OPEN } else { SHUT } });
        let (changed, took) = tokio::join!(self.send(Method::PUT, &self.limit, rate), self.until_holds(open, start));
        assert_eq!(changed.status, 200, "{}", changed.text);
        took
    }

    /// Whether each of the other servers lets the caller in.
    pub(crate) async fn lets_in(&self) -> Vec<bool> {
        let mut all = Vec::new();
        for caller in &self.callers {
            all.push(is_let_in(caller).await);
        }
        all
    }

    async fn until_holds(&self, open: bool, start: Instant) -> Vec<Duration> {
        let each = self.callers.iter().map(async |caller| {
            while is_let_in(caller).await != open {
                assert!(start.elapsed() < Duration::from_secs(30), "the change is not enforced");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            start.elapsed()
        });
        futures::future::join_all(each).await
    }

    async fn send(&self, method: Method, path: &str, body: Value) -> Answer {
        let mut request = self.http.request(method, format!("{}{path}", self.api)).bearer_auth(&self.token);
        if !body.is_null() {
            // Whatever version there is.
            request = request.header("if-match", "*").header("content-type", "application/json").body(body.to_string());
        }
        let response = request.send().await.expect("it is answered");
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, text: response.text().await.expect("a text") }
    }
}

async fn is_let_in(caller: &Client) -> bool {
    let answer = caller.call("echo", json!({ "text": "x" })).await;
    match answer.status.as_u16() {
        200 => true,
        429 => false,
        status => panic!("{status}: {}", answer.text),
    }
}
