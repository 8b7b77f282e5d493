//! Errors, all in one form: `application/problem+json` (RFC 9457), rendered in one place.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, StatusCode, Version, header};
use http_body::Body as _;
use serde::Serialize;
use sluicegate_control::{ControlError, JsonText};
use utoipa::ToSchema;

use crate::gate::request_id::new_request_id;
use crate::refusal::http::X_REQUEST_ID;

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// The id of a request, as its answer, the log and the audit log have it.
#[derive(Clone)]
pub(crate) struct RequestId(pub(crate) Arc<str>);

macro_rules! kinds {
    ($($kind:ident, $status:ident, $word:literal, $title:literal;)+) => {
        /// What went wrong, in one word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($kind,)+
        }

        impl Kind {
            const ALL: &'static [Self] = &[$(Self::$kind),+];

            const fn parts(self) -> (StatusCode, &'static str, &'static str) {
                match self {
                    $(Self::$kind => (StatusCode::$status, concat!("urn:sluicegate:problem:", $word), $title),)+
                }
            }
        }
    };
}

kinds! {
    Malformed, BAD_REQUEST, "malformed-request", "The request cannot be read";
    Unauthorized, UNAUTHORIZED, "unauthorized", "Credentials are missing or wrong";
    Forbidden, FORBIDDEN, "forbidden", "The role does not allow this";
    Foreign, FORBIDDEN, "foreign-origin", "The request comes from a page of another site";
    NotFound, NOT_FOUND, "not-found", "There is no such thing";
    MethodNotAllowed, METHOD_NOT_ALLOWED, "method-not-allowed", "The resource has no such method";
    Conflict, CONFLICT, "conflict", "The request contradicts what is there";
    SecretShown, CONFLICT, "secret-already-shown", "The secret was shown once and is not kept";
    InWork, CONFLICT, "request-in-work", "The same request is still in work";
    Stale, PRECONDITION_FAILED, "stale", "It has been changed meanwhile";
    TooLarge, PAYLOAD_TOO_LARGE, "body-too-large", "The body is too large";
    MediaType, UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "The body is not JSON";
    Invalid, UNPROCESSABLE_ENTITY, "invalid", "The body has members that cannot be accepted";
    KeyReused, UNPROCESSABLE_ENTITY, "idempotency-key-reused", "The idempotency key belongs to another request";
    Unconditional, PRECONDITION_REQUIRED, "precondition-required", "The change must say what it replaces";
    Internal, INTERNAL_SERVER_ERROR, "internal", "The server failed";
    Unavailable, SERVICE_UNAVAILABLE, "unavailable", "The server cannot do this at present";
}

/// Why a request was not done.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    kind: Kind,
    detail: String,
    errors: Vec<Fault>,
    /// For changes of something that is not any more as the caller has seen it: what it saw, and how it is.
    versions: Option<(String, Option<JsonText>)>,
}

/// One thing that is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Fault {
    /// Where: a JSON pointer into the body (`#/target/tool`), or the name of a query parameter (`?limit`), a header
    /// field or a part of the path.
    pub(crate) pointer: String,
    /// What is wrong there, and what would be right.
    pub(crate) detail: String,
}

/// An error (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Rendered<'a> {
    /// What went wrong, for programs.
    r#type: &'static str,
    /// The same for people. Always the same for one type.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What happened, to which value, and what to do.
    detail: &'a str,
    /// What in the request is wrong, as far as it can be told.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Vec<Fault>, required = false)]
    errors: &'a [Fault],
    /// The id of the request, which the log and the audit log have as well.
    request_id: &'a str,
    /// For 412: the version that the request was made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<&'a str>,
    /// For 412: how it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    present: Option<&'a JsonText>,
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), errors: Vec::new(), versions: None }
    }

    /// Something is wrong at one place of the request.
    pub(crate) fn at(kind: Kind, pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        let (pointer, detail) = (pointer.into(), detail.into());
        Self { errors: vec![Fault { pointer, detail: detail.clone() }], ..Self::new(kind, detail) }
    }

    /// A member of the body cannot be accepted.
    pub(crate) fn invalid(member: &str, detail: impl Into<String>) -> Self {
        Self::at(Kind::Invalid, format!("#/{member}"), detail)
    }

    /// What was to be changed is another by now.
    pub(crate) fn stale(detail: impl Into<String>, expected: String, present: Option<JsonText>) -> Self {
        Self { versions: Some((expected, present)), ..Self::new(Kind::Stale, detail) }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.kind.parts().0
    }

    /// What a status says that no handler has explained.
    fn of_status(status: StatusCode) -> Self {
        let kind = Kind::ALL.iter().copied().find(|kind| kind.parts().0 == status).unwrap_or(Kind::Internal);
        let detail = match kind {
            Kind::NotFound => "There is nothing under this path: see /api/v1/openapi.json for what there is.",
            Kind::MethodNotAllowed => "The field Allow lists the methods of this path.",
            _ => kind.parts().2,
        };
        Self::new(kind, detail)
    }

    fn render(&self, request_id: &str) -> Vec<u8> {
        let (status, r#type, title) = self.kind.parts();
        let rendered = Rendered {
            r#type,
            title,
            status: status.as_u16(),
            detail: &self.detail,
            errors: &self.errors,
            request_id,
            expected: self.versions.as_ref().map(|(expected, _)| &**expected),
            present: self.versions.as_ref().and_then(|(_, present)| present.as_ref()),
        };
        serde_json::to_vec(&rendered).unwrap_or_default()
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        let detail = error.to_string();
        match error {
            ControlError::NotFound { .. } | ControlError::UnknownTool { .. } => Self::new(Kind::NotFound, detail),
            ControlError::Invalid { field, .. } => Self::invalid(field, detail),
            ControlError::Conflict(_) => Self::new(Kind::Conflict, detail),
            ControlError::Forbidden { .. } => Self::new(Kind::Forbidden, detail),
            ControlError::Stale { present, .. } => Self::stale(detail, String::new(), present),
            ControlError::Database(_) => {
                tracing::error!(error = error.inside(), "the admin API could not use the database");
                Self::new(Kind::Unavailable, detail)
            }
            _ => {
                tracing::error!(error = error.inside(), "the admin API failed");
                Self::new(Kind::Internal, "The server failed; its log has the cause under the id of this request.")
            }
        }
    }
}

impl IntoResponse for Problem {
    /// Without a body: [`render`] writes it, who knows the request.
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        match self.kind {
            Kind::Unauthorized => {
                let challenge = HeaderValue::from_static("Bearer realm=\"sluicegate admin\"");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            }
            Kind::Unavailable | Kind::InWork => {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// What is found before the body is read.
const NOT_READ: [StatusCode; 5] = [
    StatusCode::UNAUTHORIZED,
    StatusCode::NOT_FOUND,
    StatusCode::METHOD_NOT_ALLOWED,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
];

/// Gives every request an id, and every error its body: those of handlers, of extractors, and of the router itself.
pub(crate) async fn render(mut request: Request, next: Next) -> Response {
    let id = new_request_id();
    request.extensions_mut().insert(RequestId(Arc::clone(&id)));
    let method = request.method().clone();
    let sends_body = request.version() <= Version::HTTP_11 && !request.body().is_end_stream();
    let mut response = next.run(request).await;
    let status = response.status();
    if sends_body && NOT_READ.contains(&status) {
        // What was not read stands between this answer and the next request, so the connection ends; say so.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if status.is_client_error() || status.is_server_error() {
        let problem = response.extensions_mut().remove::<Problem>();
        let problem = problem.unwrap_or_else(|| Problem::of_status(status));
        response = with_body(response, problem, &method, &id);
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(X_REQUEST_ID, id);
    }
    response
}

fn with_body(response: Response, mut problem: Problem, method: &Method, id: &str) -> Response {
    // Use cases name a field; without a body it came from the query.
    if problem.kind == Kind::Invalid && matches!(*method, Method::GET | Method::HEAD | Method::DELETE) {
        problem.kind = Kind::Malformed;
        for error in &mut problem.errors {
            if let Some(name) = error.pointer.strip_prefix("#/") {
                error.pointer = format!("?{name}");
            }
        }
    }
    let (mut parts, _) = response.into_parts();
    parts.status = problem.status();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
    let body = if *method == Method::HEAD { Body::empty() } else { Body::from(problem.render(id)) };
    Response::from_parts(parts, body)
}
