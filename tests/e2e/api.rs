//! The admin API, over HTTP, on both databases.

mod conventions;
mod journeys;
mod roles;
mod sessions;
mod statuses;

use http::Method;
use serde_json::Value;
use sluicegate::control::{NewToken, Role, TenantRef};
use sluicegate_tests::server::actor;
use sluicegate_tests::{Answer, TestServer};

/// A program with an admin token.
struct Program {
    http: reqwest::Client,
    base: String,
    token: String,
}

impl Program {
    /// One that owns the server.
    async fn owner(server: &TestServer) -> Self {
        Self::with_role(server, Role::Owner, None).await
    }

    async fn with_role(server: &TestServer, role: Role, tenant: Option<&str>) -> Self {
        let new = NewToken { name: "ci".to_owned(), role, tenant: tenant.map(TenantRef::from), expires_at: None };
        let minted = server.control().admin_tokens().create(&actor(), new).await.expect("a token");
        Self::with_token(server, minted.token.expose())
    }

    fn with_token(server: &TestServer, token: &str) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { http, base: format!("http://{}/api/v1", server.address()), token: token.to_owned() }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], None).await
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, &[], Some(body.to_string())).await
    }

    async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Option<String>) -> Answer {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        if !self.token.is_empty() {
            request = request.bearer_auth(&self.token);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.expect("every request is answered");
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, text: response.text().await.expect("the body arrives whole") }
    }
}

/// Checks that an answer is a problem in the form of RFC 9457, and gives it.
#[track_caller]
fn problem(answer: &Answer, status: u16, word: &str) -> Value {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{answer:?}");
    assert_eq!(answer.header("cache-control"), Some("no-store"), "{answer:?}");
    let problem = answer.json();
    assert_eq!(problem["type"], format!("urn:sluicegate:problem:{word}"), "{problem}");
    assert_eq!(problem["status"], status, "{problem}");
    assert_eq!(problem["request_id"].as_str(), answer.header("x-request-id"), "{problem}");
    for member in ["title", "detail"] {
        assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
    }
    problem
}
