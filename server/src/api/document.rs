//! The OpenAPI document: what the handlers say of themselves, and what holds for all of them.

use serde_json::{Value, json};
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;

use super::problem::{Fault, Rendered};

/// What is said of the API as a whole.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Sluicegate admin API",
        description = "Tenants, agents, API keys, plans, limits, usage and throttling of a Sluicegate server.\n\n\
            Every error is `application/problem+json` (RFC 9457). Lists come in pages: send the `next` of one page as the \
            `cursor` of the following. Things with a version have an `ETag`; changes and deletions of them need \
            `If-Match`. A `POST` with an `Idempotency-Key` is done once and answered again for 24 hours. Members and \
            parameters that are not known are refused. Times are epoch milliseconds, in UTC.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    servers((url = "/api/v1", description = "The server that has this document.")),
    tags(
        (name = "tenants", description = "Who shares the server."),
        (name = "agents", description = "Who calls, inside a tenant."),
        (name = "keys", description = "How agents prove who they are."),
        (name = "limits", description = "What whom may call how often, and how many at a time."),
        (name = "plans", description = "Named sets of limits that tenants share."),
        (name = "tools", description = "What is called, and whether it is served."),
        (name = "usage", description = "What was called, and who was refused what."),
        (name = "events", description = "Refusals and changes of state, one by one."),
        (name = "alerts", description = "What operators want to be told of."),
        (name = "audit", description = "Who changed what, when, from what to what."),
        (name = "transfer", description = "The policy as a document."),
        (name = "admins", description = "Who administers: people and programs."),
        (name = "about", description = "The server, and who asks."),
    ),
    components(schemas(Rendered<'static>, Fault)),
    security(("admin_token" = []), ("panel_session" = []))
)]
struct Whole;

/// The document that a router starts from.
pub(crate) fn base() -> OpenApi {
    Whole::openapi()
}

/// Adds what holds for all operations, and tidies up.
pub(crate) fn complete(document: &OpenApi) -> Value {
    let mut document = serde_json::to_value(document).unwrap_or_default();
    document["components"]["securitySchemes"] = json!({ "admin_token": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "sgadmin_…",
        "description": "An admin token, as `admin token` on the command line and `POST /tokens` make them.",
    }, "panel_session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "__Host-sluicegate",
        "description": "The session of somebody who has signed in to the panel. What changes something must come from a page of \
            this server, as `Sec-Fetch-Site` or `Origin` say; anything else is refused with 403.",
    }});
    for (status, about) in PROBLEMS {
        document["components"]["responses"][format!("Problem{status}")] = problem(about);
    }
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    for (path, item) in paths {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            describe(path, method, operation);
        }
    }
    plain(&mut document);
    document
}

/// What somebody does with a thing that may have been changed meanwhile, though it is no matter if it was.
const MOVES: &[&str] = &["suspend", "resume", "rotate", "rotate-secret", "revoke", "password"];

/// Answers that have a version.
const VERSIONED: &[&str] = &[
    "Tenant",
    "Agent",
    "Key",
    "ShownKey",
    "Limit",
    "Plan",
    "ToolSwitch",
    "AlertRule",
    "ShownAlertRule",
    "AdminUser",
    "AdminToken",
    "ShownToken",
];

const OPEN: &[&str] = &["/openapi.json"];

/// What not every role may read, or only whoever may read it of the whole server.
const FOR_SOME: &[&str] =
    &["/audit/verify", "/health", "/instances", "/tokens", "/tokens/{token}", "/users", "/users/{user}"];

/// Operations that name nothing which there might not be.
const NAMES_NOTHING: &[(&str, &str)] = &[
    ("get", "/alert-rules"),
    ("get", "/alerts"),
    ("get", "/alerts/open"),
    ("get", "/audit/verify"),
    ("get", "/health"),
    ("get", "/instances"),
    ("get", "/me"),
    ("get", "/plans"),
    ("get", "/runaways"),
    ("get", "/tenants"),
    ("get", "/tokens"),
    ("get", "/tools"),
    ("get", "/users"),
    ("get", "/version"),
    ("post", "/plans"),
];

/// Changes that may contradict what is there, and are no `POST`.
const MAY_CONTRADICT: &[(&str, &str)] =
    &[("delete", "/plans/{plan}"), ("patch", "/users/{user}"), ("delete", "/users/{user}")];

fn describe(path: &str, method: &str, operation: &mut Value) {
    let open = OPEN.contains(&path);
    let has_body = operation.get("requestBody").is_some();
    let mut statuses = vec![400];
    if open {
        operation["security"] = json!([]);
    } else {
        statuses.extend([401, 500, 503]);
        if method != "get" || FOR_SOME.contains(&path) {
            statuses.push(403);
        }
        if !NAMES_NOTHING.contains(&(method, path)) {
            statuses.push(404);
        }
    }
    if has_body {
        statuses.extend([413, 415, 422]);
    }
    if method == "post" {
        statuses.extend([409, 413, 422]);
        parameter(operation, "Idempotency-Key", false, IDEMPOTENCY_KEY, "^[ -~]{1,255}$");
    } else if MAY_CONTRADICT.contains(&(method, path)) {
        statuses.push(409);
    }
    let replaces = matches!(method, "put" | "patch" | "delete");
    let moves = path.rsplit_once('/').is_some_and(|(_, action)| MOVES.contains(&action));
    if replaces || moves {
        statuses.push(412);
        parameter(operation, "If-Match", replaces, IF_MATCH, ENTITY_TAGS);
    }
    if replaces {
        statuses.push(428);
    }
    for (status, response) in operation["responses"].as_object_mut().into_iter().flatten() {
        let schema = response["content"]["application/json"]["schema"]["$ref"].as_str().unwrap_or_default();
        if VERSIONED.iter().any(|name| schema.strip_prefix("#/components/schemas/") == Some(*name)) {
            response["headers"]["ETag"] = header("Its version, for `If-Match`.");
        }
        if status == "201" {
            response["headers"]["Location"] = header("Its path.");
        }
    }
    let responses = &mut operation["responses"];
    for status in statuses {
        responses[status.to_string()] = json!({ "$ref": format!("#/components/responses/Problem{status}") });
    }
}

const IF_MATCH: &str = "The `ETag` of what is changed, as it was seen: the change is refused with 412 when it is another by \
    now. `*` changes it blindly.";
/// `*`, or a list of entity tags.
const ENTITY_TAGS: &str = r#"^(\*|(W/)?"[^",]*"(, ?(W/)?"[^",]*")*)$"#;
const IDEMPOTENCY_KEY: &str = "A text of 1 to 255 printable characters of the caller's choice. The same request with the \
    same key is answered again and not done again.";

fn header(about: &str) -> Value {
    json!({ "description": about, "schema": { "type": "string" } })
}

fn parameter(operation: &mut Value, name: &str, required: bool, about: &str, pattern: &str) {
    let schema = json!({ "type": "string", "pattern": pattern });
    let parameter =
        json!({ "name": name, "in": "header", "required": required, "description": about, "schema": schema });
    match operation.get_mut("parameters").and_then(Value::as_array_mut) {
        Some(parameters) => parameters.push(parameter),
        None => operation["parameters"] = json!([parameter]),
    }
}

/// What goes wrong, by status.
const PROBLEMS: &[(u16, &str)] = &[
    (400, "The query or a header field cannot be read, or the body is not JSON."),
    (401, "The admin token is missing, wrong, expired or revoked, and there is no session of the panel."),
    (403, "The role does not allow this, or a page of another site has used a session of the panel."),
    (404, "There is no such thing, or it belongs to another tenant than the token."),
    (409, "It contradicts what is there; or the same request is in work, or its answer had a secret."),
    (412, "It is another by now than `If-Match` says. Both versions are in the answer."),
    (413, "The body is too large."),
    (415, "The body is not `application/json`."),
    (422, "A member cannot be accepted, or the idempotency key belongs to another request."),
    (428, "`If-Match` is missing."),
    (500, "The server failed."),
    (503, "The database cannot be reached."),
];

fn problem(about: &str) -> Value {
    json!({
        "description": about,
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    })
}

/// Takes the links to Rust items out of descriptions: `` [`Tool`](crate::Tool) `` becomes `` `Tool` ``.
fn plain(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if name == "description" => *text = without_links(text),
                    member => plain(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

fn without_links(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, link)) = rest.split_once("[`") {
        plain.push_str(before);
        let Some((name, after)) = link.split_once("`]") else {
            plain.push_str("[`");
            rest = link;
            continue;
        };
        plain.push_str(&format!("`{name}`"));
        rest = match after.strip_prefix('(').and_then(|target| target.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_in_docs_is_the_one_that_is_served() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        let served = serde_json::to_string_pretty(&super::super::document()).expect("JSON");
        assert!(
            kept.trim_end() == served,
            "docs/openapi.json is stale; look at what has changed and run: cargo run -- openapi > docs/openapi.json"
        );
    }

    #[test]
    fn links_to_items_become_words() {
        assert_eq!(
            without_links("see [`Tool`](crate::Tool) and [`Status`], [not this]"),
            "see `Tool` and `Status`, [not this]"
        );
    }
}
