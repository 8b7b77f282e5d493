//! Versions of things: `ETag` and `If-Match` (RFC 9110), so that nobody overwrites what they have not seen.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;
use sluicegate_control::{
    Actor, AdminToken, AdminUser, Agent, AlertRule, ControlError, JsonText, KeyRecord, Plan, Revision, Tenant,
    ToolSwitch,
};

use super::problem::{Kind, Problem};

/// What has a revision, which changes with it.
pub(crate) trait Revised: Serialize {
    fn revision(&self) -> Revision;
}

macro_rules! revised {
    ($($name:ty),+) => {
        $(impl Revised for $name {
            fn revision(&self) -> Revision {
                self.revision
            }
        })+
    };
}

revised!(Tenant, Agent, KeyRecord, Plan, AlertRule, AdminUser, AdminToken, ToolSwitch);

fn etag(revision: Revision) -> String {
    format!("\"{}\"", revision.get())
}

/// Something with its version.
pub(crate) struct Tagged<T>(pub(crate) T);

impl<T: Revised> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        let tag = HeaderValue::from_str(&etag(self.0.revision())).ok();
        let mut response = Json(self.0).into_response();
        response.headers_mut().extend(tag.map(|tag| (header::ETAG, tag)));
        response
    }
}

/// Something that was just made, with its version and its path.
pub(crate) struct Created<T>(pub(crate) T, pub(crate) String);

impl<T: Revised> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        let mut response = Tagged(self.0).into_response();
        *response.status_mut() = StatusCode::CREATED;
        let location = HeaderValue::from_str(&format!("/api/v1{}", self.1)).ok();
        response.headers_mut().extend(location.map(|location| (header::LOCATION, location)));
        response
    }
}

/// What the caller has seen of what it wants to change.
pub(crate) enum IfMatch {
    /// It does not say.
    Absent,
    /// Whatever it is, as long as there is something.
    Any,
    /// One of these versions.
    Tags(String),
}

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::of(&parts.headers)
    }
}

impl IfMatch {
    fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let mut fields = Vec::new();
        for field in headers.get_all(header::IF_MATCH) {
            let text = field.to_str().map_err(|_| malformed("it is not ASCII"))?.trim();
            fields.push(text);
        }
        if fields.is_empty() {
            return Ok(Self::Absent);
        }
        let text = fields.join(", ");
        if text == "*" {
            return Ok(Self::Any);
        }
        let is_tag = |tag: &str| {
            let tag = tag.strip_prefix("W/").unwrap_or(tag);
            tag.len() >= 2 && tag.starts_with('"') && tag.ends_with('"')
        };
        if !text.split(',').all(|tag| is_tag(tag.trim())) {
            return Err(malformed(&format!("`{text}` is neither `*` nor a list of entity tags in quotes")));
        }
        Ok(Self::Tags(text))
    }

    /// The actor, whose change is refused unless it is of this version; for changes that may be made blindly.
    pub(crate) fn check<T: Revised>(&self, actor: Actor, present: &T) -> Result<Actor, Problem> {
        let Self::Tags(tags) = self else { return Ok(actor) };
        let (revision, tag) = (present.revision(), etag(present.revision()));
        if tags.split(',').any(|wanted| wanted.trim() == tag) {
            // Whoever comes between this look and the change is found out there.
            return Ok(actor.expecting(revision));
        }
        let detail = format!(
            "It has version {tag} by now, not {tags}: look at `present`, and repeat with `If-Match: {tag}` what still applies."
        );
        let present = serde_json::to_value(present).ok().map(JsonText::from);
        Err(Problem::stale(detail, tags.clone(), present))
    }

    /// The same for changes that must say what they replace.
    pub(crate) fn require<T: Revised>(&self, actor: Actor, present: &T) -> Result<Actor, Problem> {
        if let Self::Absent = self {
            let tag = etag(present.revision());
            let detail = format!(
                "Send `If-Match` with the ETag of what you have seen (it is {tag} now), or `If-Match: *` to change it blindly."
            );
            return Err(Problem::at(Kind::Unconditional, "If-Match", detail));
        }
        self.check(actor, present)
    }

    /// What a change has failed with, with the version that it was made for.
    pub(crate) fn failed(&self, error: ControlError) -> Problem {
        match (self, error) {
            (Self::Tags(tags), error @ ControlError::Stale { .. }) => {
                let detail = error.to_string();
                let ControlError::Stale { present, .. } = error else { return error.into() };
                Problem::stale(detail, tags.clone(), present)
            }
            (_, error) => error.into(),
        }
    }
}

fn malformed(why: &str) -> Problem {
    Problem::at(Kind::Malformed, "If-Match", format!("The field If-Match cannot be read: {why}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &'static str) -> Result<IfMatch, Problem> {
        IfMatch::of(&HeaderMap::from_iter([(header::IF_MATCH, HeaderValue::from_static(text))]))
    }

    #[test]
    fn entity_tags_are_read_as_the_rfc_writes_them() {
        assert!(matches!(of("*"), Ok(IfMatch::Any)));
        assert!(matches!(of("\"5\", W/\"6\""), Ok(IfMatch::Tags(_))));
        assert!(of("5").is_err());
        assert!(of("\"5").is_err());
        assert!(matches!(IfMatch::of(&HeaderMap::new()), Ok(IfMatch::Absent)));
    }
}
