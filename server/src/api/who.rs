//! Who asks: a program with an admin token, or somebody who has signed in to the panel.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderValue, header};
use secrecy::{ExposeSecret as _, SecretString};
use sluicegate_admin_ui::session;
use sluicegate_control::{Actor, AdminToken, AdminUser, ControlError};

use super::Api;
use super::problem::{Kind, Problem, RequestId};

/// Who asks.
#[derive(Clone)]
pub(crate) struct By(pub(crate) Actor);

/// What they have shown to be let in.
#[derive(Clone)]
pub(crate) enum With {
    /// An admin token, and its text.
    Token(AdminToken, SecretString),
    /// The session of an account, and the secret of its cookie.
    Session(AdminUser, SecretString),
}

impl With {
    fn actor(&self) -> Actor {
        match self {
            Self::Token(token, _) => token.actor(),
            Self::Session(user, _) => user.actor(),
        }
    }

    /// Whose requests they are: the id of the token or the account.
    pub(crate) fn owner(&self) -> String {
        match self {
            Self::Token(token, _) => token.id.to_string(),
            Self::Session(user, _) => user.id.to_string(),
        }
    }

    /// Whether it would still let somebody in. To look does not keep a session alive.
    pub(crate) async fn still_holds(&self, api: &Api) -> Result<bool, ControlError> {
        match self {
            Self::Token(_, text) => Ok(api.control.admin_tokens().authenticate(text.expose_secret()).await?.is_some()),
            Self::Session(_, secret) => session::still_holds(&api.control, secret).await,
        }
    }
}

/// Finds out who asks, before anything else is looked at. What they may do is for the use cases to say.
pub(crate) async fn authenticate(State(api): State<Api>, request: Request, next: Next) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let with = match parts.headers.get(header::AUTHORIZATION) {
        Some(sent) => by_token(&api, sent).await?,
        None => by_session(&api, &parts).await?,
    };
    let extensions = &mut parts.extensions;
    let address = extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip().to_string());
    let request_id = extensions.get::<RequestId>().map(|RequestId(id)| id.to_string());
    let actor = with.actor().with_request(address, request_id);
    extensions.insert(By(actor));
    extensions.insert(with);
    Ok(next.run(Request::from_parts(parts, body)).await)
}

async fn by_token(api: &Api, sent: &HeaderValue) -> Result<With, Problem> {
    let (scheme, text) = sent.to_str().ok().and_then(|sent| sent.split_once(' ')).ok_or_else(missing)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(missing());
    }
    let found = api.control.admin_tokens().authenticate(text.trim()).await?;
    let token =
        found.ok_or_else(|| Problem::new(Kind::Unauthorized, "The admin token is wrong, expired or revoked."))?;
    Ok(With::Token(token, text.trim().into()))
}

/// A browser sends its cookies whatever page has made it ask, so what changes something must come from a page of this server.
async fn by_session(api: &Api, request: &Parts) -> Result<With, Problem> {
    if !api.sessions {
        return Err(missing());
    }
    let found = session::signed_in(&api.control, &api.clock, &request.headers).await?;
    let (user, secret) = found.ok_or_else(missing)?;
    if !request.method.is_safe() && !session::comes_from_here(&request.headers, &request.uri) {
        let detail = "With a session of the panel, what changes something must come from a page of this server: \
                      `Sec-Fetch-Site` or `Origin` say that it does not. Programs use an admin token.";
        return Err(Problem::new(Kind::Foreign, detail));
    }
    Ok(With::Session(user, secret))
}

fn missing() -> Problem {
    let detail = "Send an admin token as `Authorization: Bearer sgadmin_…` (`admin token` on the command line makes one), \
                  or the cookie of a session of the panel.";
    Problem::new(Kind::Unauthorized, detail)
}

impl<S: Sync> FromRequestParts<S> for By {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(missing)
    }
}

impl<S: Sync> FromRequestParts<S> for With {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(missing)
    }
}
