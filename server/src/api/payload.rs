//! What comes with a request: its body, its query, its path. Whatever cannot be read is told with the place where.

use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use bytes::Bytes;
use http::header;
use http::request::Parts;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::problem::{Kind, Problem};

/// The largest body: an import of a large policy has the most.
pub(crate) const MAX_BODY: usize = 4 * 1024 * 1024;

/// A JSON body. Members that the type does not know are refused.
pub(crate) struct Payload<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Payload<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if kind != "application/json" && !(kind.starts_with("application/") && kind.ends_with("+json")) {
            let detail = format!("The body must be sent as `Content-Type: application/json`, not {kind:?}.");
            return Err(Problem::at(Kind::MediaType, "Content-Type", detail));
        }
        let body = read(request).await?;
        let mut json = serde_json::Deserializer::from_slice(&body);
        let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let path = pointer(error.path());
            refused(&path, error.inner())
        })?;
        json.end().map_err(|error| refused("#", &error))?;
        refuse_nul(&body)?;
        Ok(Self(value))
    }
}

/// How much more than the largest body is read and thrown away, and for how long: whoever is still sending would
/// otherwise meet a closed connection instead of the answer.
const MAX_EXCESS: usize = 4 * MAX_BODY;
const EXCESS_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the body whole.
pub(crate) async fn read(request: Request) -> Result<Bytes, Problem> {
    let mut body = request.into_body();
    match Limited::new(&mut body, MAX_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let _ = tokio::time::timeout(EXCESS_TIMEOUT, discard(Limited::new(body, MAX_EXCESS))).await;
            Err(Problem::new(Kind::TooLarge, format!("The body must not be larger than {MAX_BODY} bytes.")))
        }
        Err(_) => Err(Problem::new(Kind::Malformed, "The body did not arrive whole.")),
    }
}

/// Reads without keeping anything, to the end or to the first error.
async fn discard(mut body: impl http_body::Body + Unpin) {
    while let Some(Ok(_)) = body.frame().await {}
}

fn refused(pointer: &str, error: &serde_json::Error) -> Problem {
    if error.is_syntax() || error.is_eof() {
        return Problem::at(Kind::Malformed, "#", format!("The body is not JSON: {error}."));
    }
    let text = error.to_string();
    // The place in the text is of no use beside the pointer.
    let text = text.rsplit_once(" at line ").map_or(&*text, |(text, _)| text);
    let pointer = match missing(text) {
        Some(name) => format!("{pointer}/{name}"),
        None => pointer.to_owned(),
    };
    Problem::at(Kind::Invalid, pointer, format!("{text}."))
}

fn missing(text: &str) -> Option<&str> {
    text.strip_prefix("missing field `")?.strip_suffix('`')
}

/// A JSON pointer (RFC 6901) as a URI fragment.
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut pointer = String::from("#");
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } => pointer.push_str(&format!("/{}", key.replace('~', "~0").replace('/', "~1"))),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    pointer
}

/// Postgres has no NUL in texts, and nobody needs one.
fn refuse_nul(body: &[u8]) -> Result<(), Problem> {
    const ESCAPED: &[u8] = br"\u0000";
    if !body.windows(ESCAPED.len()).any(|window| window == ESCAPED) {
        return Ok(());
    }
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    match nul(&value, "#") {
        Some(pointer) => Err(Problem::at(Kind::Invalid, pointer, "A text must not contain the character NUL.")),
        None => Ok(()),
    }
}

fn nul(value: &Value, at: &str) -> Option<String> {
    match value {
        Value::String(text) => text.contains('\0').then(|| at.to_owned()),
        Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| nul(item, &format!("{at}/{index}"))),
        Value::Object(members) => members.iter().find_map(|(name, item)| {
            if name.contains('\0') { Some(at.to_owned()) } else { nul(item, &format!("{at}/{name}")) }
        }),
        _ => None,
    }
}

/// The parameters of a query. Those that the type does not know are refused, and so are repeated ones.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let text = parts.uri.query().unwrap_or_default();
        if text.contains("%00") {
            return Err(Problem::at(Kind::Malformed, "?", "A parameter must not contain the character NUL."));
        }
        let pairs = serde_urlencoded::Deserializer::new(form_urlencoded::parse(text.as_bytes()));
        serde_path_to_error::deserialize(pairs).map(Self).map_err(|error| {
            let text = error.inner().to_string();
            let path = error.path().to_string();
            let name = missing(&text).unwrap_or(&path);
            Problem::at(Kind::Malformed, format!("?{name}"), format!("{text}."))
        })
    }
}

/// A request that has no parameters in its query.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// What stands in the path.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        if parts.uri.path().contains("%00") {
            return Err(Problem::new(Kind::NotFound, "Nothing has the character NUL in its name."));
        }
        let found = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        let axum::extract::Path(value) = found.map_err(|rejection: PathRejection| {
            // An id of another form is the id of nothing.
            Problem::new(Kind::NotFound, rejection.body_text())
        })?;
        Ok(Self(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_is_found_wherever_it_is_and_nothing_else_is_taken_for_one() {
        let refused = refuse_nul(br#"{"a":[{"b":"x\u0000"}]}"#).expect_err("there is one");
        assert!(format!("{refused:?}").contains("#/a/0/b"));
        assert!(refuse_nul(br#"{"a":"\\u0000"}"#).is_ok());
    }
}
