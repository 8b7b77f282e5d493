//! How clients find out where tokens come from: the metadata of a protected resource (RFC 9728), as the MCP authorization
//! specification asks for.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Json, Response};
use axum::routing::get;
use http::uri::Authority;
use http::{HeaderValue, header};
use serde::Serialize;

use super::rules::TokenRules;
use crate::gate::edge;
use crate::settings::Settings;
use crate::site::MCP_PATH;

/// Where the metadata is, before the path of the resource.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// What is said of this server where tokens are accepted.
#[derive(Debug)]
pub(crate) struct Resource {
    /// The address that clients use, without the path; `None`: the one that they have used.
    public_url: Option<String>,
    issuer: String,
    name: String,
    scopes: Vec<String>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    resource: String,
    authorization_servers: [&'a str; 1],
    bearer_methods_supported: [&'static str; 1],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    scopes_supported: &'a [String],
    resource_name: &'a str,
}

impl Resource {
    /// `asked` are the scopes that tools ask for.
    pub(crate) fn new(
        settings: &Settings,
        rules: &TokenRules,
        name: &str,
        asked: impl Iterator<Item = String>,
    ) -> Self {
        let mapped = rules.scope_tools.iter().flatten().map(|entry| entry.scope.clone());
        let mut scopes: Vec<_> = asked.chain(mapped).collect();
        scopes.sort();
        scopes.dedup();
        Self { public_url: settings.public_url(), issuer: rules.issuer.clone(), name: name.to_owned(), scopes }
    }

    /// The address of this server, for a request that addressed `host`.
    fn base(&self, host: Option<&str>) -> String {
        // It goes into a quoted text.
        let host = host.filter(|host| host.parse::<Authority>().is_ok());
        match (&self.public_url, host) {
            (Some(url), _) => url.clone(),
            (None, Some(host)) if edge::names_loopback(host) => format!("http://{host}"),
            (None, host) => format!("https://{}", host.unwrap_or("localhost")),
        }
    }

    /// The `WWW-Authenticate` field of a refusal (RFC 6750, section 3; RFC 9728, section 5.1). `error` is the word for it;
    /// whoever has presented nothing gets none. `scope` is what a token would need.
    pub(crate) fn challenge(&self, host: Option<&str>, error: Option<&str>, scope: Option<&str>) -> HeaderValue {
        let mut text = format!("Bearer resource_metadata=\"{}{WELL_KNOWN}{MCP_PATH}\"", self.base(host));
        for (name, value) in [("error", error), ("scope", scope)] {
            if let Some(value) = value {
                text.push_str(&format!(", {name}=\"{value}\""));
            }
        }
        HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("Bearer"))
    }
}

/// The routes of the metadata: at the path of MCP, and at the root for clients that look there.
pub(crate) fn router(resource: Arc<Resource>) -> Router {
    let at_path = format!("{WELL_KNOWN}{MCP_PATH}");
    Router::new().route(&at_path, get(show)).route(WELL_KNOWN, get(show)).with_state(resource)
}

async fn show(State(resource): State<Arc<Resource>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let metadata = Metadata {
        resource: format!("{}{MCP_PATH}", resource.base(edge::host_of(&parts))),
        authorization_servers: [&resource.issuer],
        bearer_methods_supported: ["header"],
        scopes_supported: &resource.scopes,
        resource_name: &resource.name,
    };
    // Clients in browsers read it from pages of their own.
    ([(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*")], Json(metadata)).into_response()
}
