//! Admin tokens: how programs administer.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use sluicegate_control::{AdminToken, AdminTokenId, Revision, Role, TenantRef};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::listing::{Listing, page};
use super::payload::{Nothing, Path, Payload, Query};
use super::problem::Problem;
use super::replay::Secretly;
use super::versions::{Created, IfMatch, Revised, Tagged};
use super::who::By;

pub(crate) fn router() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list_tokens, create_token))
        .routes(routes!(get_token))
        .routes(routes!(revoke_token))
}

/// Which page is listed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct TokensQuery {
    /// Where to go on: the `next` of the page before.
    cursor: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u16>,
}

/// List admin tokens
///
/// Oldest first; revoked and expired ones too. For owners; a token of one tenant gets that tenant's.
#[utoipa::path(get, path = "/tokens", tag = "admins", params(TokensQuery),
    responses((status = 200, description = "One page.", body = Listing<AdminToken>)))]
async fn list_tokens(
    State(api): State<Api>,
    By(actor): By,
    Query(query): Query<TokensQuery>,
) -> Result<Json<Listing<AdminToken>>, Problem> {
    let page = page(query.cursor.as_deref(), query.limit)?;
    Ok(Json(api.control.admin_tokens().list(&actor, &page).await?.into()))
}

/// A token to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewToken {
    /// What it is for.
    #[schema(min_length = 1, max_length = 256, example = "ci")]
    name: String,
    /// What may be done with it.
    role: Role,
    /// The tenant inside which that may be done, by slug or id; the whole server when absent.
    tenant: Option<String>,
    /// When it ends by itself, in epoch milliseconds.
    expires_at: Option<i64>,
}

/// An admin token that was just made.
#[derive(Serialize, ToSchema)]
struct ShownToken {
    /// Its text. Keep it now: it is not shown again.
    #[schema(example = "sgadmin_…")]
    token: String,
    /// What stays known of it.
    record: AdminToken,
}

impl Revised for ShownToken {
    fn revision(&self) -> Revision {
        self.record.revision
    }
}

/// Create an admin token
///
/// The answer is the only place where its text is shown.
#[utoipa::path(post, path = "/tokens", tag = "admins", request_body = NewToken,
    responses((status = 201, description = "It was made.", body = ShownToken)))]
async fn create_token(
    State(api): State<Api>,
    By(actor): By,
    Query(Nothing {}): Query<Nothing>,
    Payload(new): Payload<NewToken>,
) -> Result<Secretly<Created<ShownToken>>, Problem> {
    let new = sluicegate_control::NewToken {
        name: new.name,
        role: new.role,
        tenant: new.tenant.as_deref().map(TenantRef::from),
        expires_at: new.expires_at,
    };
    let minted = api.control.admin_tokens().create(&actor, new).await?;
    let path = format!("/tokens/{}", minted.record.id);
    let shown = ShownToken { token: minted.token.expose().to_owned(), record: minted.record };
    Ok(Secretly(Created(shown, path)))
}

/// Get an admin token
#[utoipa::path(get, path = "/tokens/{token}", tag = "admins",
    params(("token" = AdminTokenId, Path, description = "The token's id.")),
    responses((status = 200, description = "What is known of it.", body = AdminToken)))]
async fn get_token(
    State(api): State<Api>,
    By(actor): By,
    Path(token): Path<AdminTokenId>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Tagged<AdminToken>, Problem> {
    Ok(Tagged(api.control.admin_tokens().get(&actor, token).await?))
}

/// Revoke an admin token
///
/// It opens nothing from now on. Revoking a revoked token changes nothing.
#[utoipa::path(post, path = "/tokens/{token}/revoke", tag = "admins",
    params(("token" = AdminTokenId, Path, description = "The token's id.")),
    responses((status = 200, description = "As it is now.", body = AdminToken)))]
async fn revoke_token(
    State(api): State<Api>,
    By(actor): By,
    Path(token): Path<AdminTokenId>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
) -> Result<Tagged<AdminToken>, Problem> {
    let tokens = api.control.admin_tokens();
    let actor = if_match.check(actor.clone(), &tokens.get(&actor, token).await?)?;
    tokens.revoke(&actor, token).await.map(Tagged).map_err(|error| if_match.failed(error))
}
