//! A bare axum handler that reads the message and answers the same JSON: what HTTP and JSON alone cost.

use std::borrow::Cow;
use std::error::Error;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt as _;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::net::TcpListener;

use crate::process::say;

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    arguments: Arguments<'a>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Serialize)]
struct Answer<'a> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    result: Outcome<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome<'a> {
    content: [Text<'a>; 1],
    is_error: bool,
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

async fn echo(body: Bytes) -> Response {
    let Ok(message) = serde_json::from_slice::<Message<'_>>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let text = &message.params.arguments.text;
    let result = Outcome { content: [Text { r#type: "text", text }], is_error: false };
    let body = serde_json::to_vec(&Answer { jsonrpc: "2.0", id: message.id, result }).unwrap_or_default();
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}

/// Serves until the process is ended.
pub(crate) async fn serve() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    say(listener.local_addr()?, &[])?;
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, Router::new().route("/mcp", post(echo))).await?;
    Ok(())
}
