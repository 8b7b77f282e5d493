//! Who asks: a program with an admin token.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header;
use http::request::Parts;
use secrecy::SecretString;
use sluicegate_control::{Actor, AdminToken};

use super::Api;
use super::problem::{Kind, Problem, RequestId};

/// Who asks.
#[derive(Clone)]
pub(crate) struct By(pub(crate) Actor);

/// With which token.
#[derive(Clone)]
pub(crate) struct With {
    pub(crate) token: AdminToken,
    pub(crate) text: SecretString,
}

/// Finds out who asks, before anything else is looked at. What they may do is for the use cases to say.
pub(crate) async fn authenticate(
    State(api): State<Api>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let missing = || {
        let detail =
            "Send an admin token as `Authorization: Bearer sgadmin_…`; `admin token` on the command line makes one.";
        Problem::new(Kind::Unauthorized, detail)
    };
    let sent = request.headers().get(header::AUTHORIZATION).ok_or_else(missing)?;
    let (scheme, text) = sent.to_str().ok().and_then(|sent| sent.split_once(' ')).ok_or_else(missing)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(missing());
    }
    let found = api.control.admin_tokens().authenticate(text.trim()).await?;
    let token =
        found.ok_or_else(|| Problem::new(Kind::Unauthorized, "The admin token is wrong, expired or revoked."))?;
    let text = SecretString::from(text.trim());
    let extensions = request.extensions();
    let address = extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip().to_string());
    let request_id = extensions.get::<RequestId>().map(|RequestId(id)| id.to_string());
    let actor = token.actor().with_request(address, request_id);
    request.extensions_mut().insert(By(actor));
    request.extensions_mut().insert(With { token, text });
    Ok(next.run(request).await)
}

fn unknown() -> Problem {
    Problem::new(Kind::Unauthorized, "Credentials are missing.")
}

impl<S: Sync> FromRequestParts<S> for By {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(unknown)
    }
}

impl<S: Sync> FromRequestParts<S> for With {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(unknown)
    }
}
