//! The server, who asks it, and the document of this API.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::header;
use serde::Serialize;
use sluicegate_control::{AdminTokenId, Health, Instance, Role, TenantId, UserId};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::listing::Listing;
use super::payload::{Nothing, Query};
use super::problem::Problem;
use super::who::{By, With};
use super::{Api, DOCUMENT};

pub(crate) fn router() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(get_me))
        .routes(routes!(get_version))
        .routes(routes!(get_health))
        .routes(routes!(list_instances))
}

pub(crate) fn open_router() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(get_document))
}

/// Get the OpenAPI document
#[utoipa::path(get, path = "/openapi.json", tag = "about",
    responses((status = 200, description = "This document.", body = Object)))]
async fn get_document(Query(Nothing {}): Query<Nothing>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.as_str())
}

/// Who asks.
#[derive(Serialize, ToSchema)]
struct Me {
    /// How it is written in the audit log: `token:ci`, `user:alice`.
    actor: String,
    /// What may be done.
    role: Role,
    /// The tenant inside which that may be done; null for the whole server.
    tenant_id: Option<TenantId>,
    /// The admin token; null with a session of the panel.
    token_id: Option<AdminTokenId>,
    /// The account of the session; null with an admin token.
    user_id: Option<UserId>,
    /// When the token ends by itself, in epoch milliseconds.
    expires_at: Option<i64>,
}

/// Get who asks
#[utoipa::path(get, path = "/me", tag = "about", responses((status = 200, description = "Who asks.", body = Me)))]
async fn get_me(By(actor): By, with: With, Query(Nothing {}): Query<Nothing>) -> Json<Me> {
    let (role, tenant_id) = (actor.role(), actor.confined_to());
    let actor = actor.label().to_owned();
    let (token_id, user_id, expires_at) = match with {
        With::Token(token, _) => (Some(token.id), None, token.expires_at),
        With::Session(user, _) => (None, Some(user.id), None),
    };
    Json(Me { actor, role, tenant_id, token_id, user_id, expires_at })
}

/// Which program answers.
#[derive(Serialize, ToSchema)]
struct Version {
    /// Sluicegate's version.
    version: &'static str,
    /// The version of this API.
    api: &'static str,
    /// The database: `sqlite` or `postgres`.
    database: &'static str,
    /// The revision of the policy in force.
    policy_revision: i64,
}

/// Get the version
#[utoipa::path(get, path = "/version", tag = "about",
    responses((status = 200, description = "Which program answers.", body = Version)))]
async fn get_version(State(api): State<Api>, Query(Nothing {}): Query<Nothing>) -> Json<Version> {
    Json(Version {
        version: env!("CARGO_PKG_VERSION"),
        api: "v1",
        database: api.control.database(),
        policy_revision: api.live.revision().get(),
    })
}

/// Get how the server is
///
/// The one that answers; of the others see the instances. For tokens of the whole server.
#[utoipa::path(get, path = "/health", tag = "about",
    responses((status = 200, description = "How it is.", body = Health)))]
async fn get_health(
    State(api): State<Api>,
    By(actor): By,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Json<Health>, Problem> {
    // Who may list the servers may know how one is.
    api.control.instances().list(&actor).await?;
    Ok(Json(api.live.health()))
}

/// List the servers
///
/// Those that run on the database and have spoken within the last minute. For tokens of the whole server.
#[utoipa::path(get, path = "/instances", tag = "about",
    responses((status = 200, description = "All of them.", body = Listing<Instance>)))]
async fn list_instances(
    State(api): State<Api>,
    By(actor): By,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Json<Listing<Instance>>, Problem> {
    Ok(Listing::whole(api.control.instances().list(&actor).await?))
}
