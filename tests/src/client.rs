//! A bare HTTP client that shows every byte of an answer; real MCP clients have tests of their own.

use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

/// Sends JSON-RPC requests with one API key.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    endpoint: String,
    key: String,
    headers: Vec<(String, String)>,
}

/// The two ways to speak MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// Before 2026-07-28.
    Legacy,
    /// 2026-07-28.
    Modern,
}

impl Era {
    /// The revision that its clients name.
    #[must_use]
    pub const fn revision(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }
}

/// Adds the members of one object to another, objects in it as well.
fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

/// An answer, whole.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body as text.
    pub text: String,
}

impl Client {
    /// A client of an endpoint with a key.
    #[must_use]
    pub fn new(endpoint: String, key: String) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { http, endpoint, key, headers: Vec::new() }
    }

    /// The same client with one more header field in every request.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same client with another key.
    #[must_use]
    pub fn with_key(mut self, key: &str) -> Self {
        key.clone_into(&mut self.key);
        self
    }

    /// The text of the key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Calls a tool with id 1 and no protocol version, as the oldest clients do.
    pub async fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.call_as(json!(1), tool, arguments).await
    }

    /// Calls a tool with any id.
    pub async fn call_as(&self, id: Value, tool: &str, arguments: Value) -> Answer {
        self.request(id, "tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// Calls a tool as 2026-07-28 asks: with its headers and `_meta`.
    pub async fn call_modern(&self, tool: &str, arguments: Value) -> Answer {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let client = self
            .clone()
            .with_header("MCP-Protocol-Version", "2026-07-28")
            .with_header("Mcp-Method", "tools/call")
            .with_header("Mcp-Name", tool);
        client.request(json!(1), "tools/call", json!({ "name": tool, "arguments": arguments, "_meta": meta })).await
    }

    /// A client that speaks 2026-07-28, whose requests of one method name what they are about.
    #[must_use]
    pub fn modern(&self, method: &str, name: &str) -> Self {
        self.clone()
            .with_header("MCP-Protocol-Version", "2026-07-28")
            .with_header("Mcp-Method", method)
            .with_header("Mcp-Name", name)
    }

    /// The body of a `tools/call`, in the older manner or as 2026-07-28 asks, with more members in `params`.
    #[must_use]
    pub fn call_body(era: Era, tool: &str, arguments: Value, more: Value) -> String {
        let mut params = json!({ "name": tool, "arguments": arguments });
        if era == Era::Modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
            });
        }
        merge(&mut params, more);
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
    }

    /// Sends one JSON-RPC request.
    pub async fn request(&self, id: Value, method: &str, params: Value) -> Answer {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(message.to_string()).await
    }

    /// Posts any body.
    ///
    /// # Panics
    /// When no answer comes: no request may end like that.
    pub async fn send(&self, body: impl Into<reqwest::Body>) -> Answer {
        let response = self.post(body).send().await.expect("every request is answered");
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, text: response.text().await.expect("the body arrives whole") }
    }

    /// Sends a request without a body, as `GET` and `DELETE` are.
    ///
    /// # Panics
    /// When no answer comes.
    pub async fn send_as(&self, method: http::Method) -> Answer {
        let response = self.bare(method).send().await.expect("every request is answered");
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, text: response.text().await.expect("the body arrives whole") }
    }

    /// Opens the stream of a session.
    ///
    /// # Panics
    /// When there is none.
    pub async fn open_stream(&self) -> reqwest::Response {
        let response = self.bare(http::Method::GET).send().await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
        response
    }

    fn bare(&self, method: http::Method) -> reqwest::RequestBuilder {
        let request = self.http.request(method, &self.endpoint).header("accept", "text/event-stream");
        self.headers.iter().fold(request.bearer_auth(&self.key), |request, (name, value)| request.header(name, value))
    }

    /// A request that is not sent yet.
    pub fn post(&self, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
        let mut request = self
            .http
            .post(&self.endpoint)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .bearer_auth(&self.key)
            .body(body);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request
    }
}

impl Answer {
    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// The text of a tool's result that succeeded.
    ///
    /// # Panics
    /// When it did not.
    #[must_use]
    pub fn ok_text(&self) -> String {
        let json = self.json();
        assert_eq!(json["result"]["isError"], false, "{self:?}");
        json["result"]["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    /// The text of a tool's result that failed.
    ///
    /// # Panics
    /// When it succeeded, or when it was no result.
    #[must_use]
    pub fn error_text(&self) -> String {
        let json = self.json();
        assert_eq!(json["result"]["isError"], true, "{self:?}");
        json["result"]["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    /// The JSON-RPC error.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn error(&self) -> Value {
        let error = self.json()["error"].clone();
        assert!(error.is_object(), "{self:?}");
        error
    }

    /// A header field as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Whether a tool ran and succeeded.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.status == StatusCode::OK && self.json()["result"]["isError"] == false
    }
}
