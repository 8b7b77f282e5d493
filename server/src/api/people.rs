//! People who administer.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Deserializer};
use sluicegate_control::{AdminUser, Role, TenantRef, UserRef};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::listing::{Listing, page};
use super::payload::{Nothing, Path, Payload, Query};
use super::problem::Problem;
use super::versions::{Created, IfMatch, Tagged};
use super::who::By;

pub(crate) fn router() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list_users, create_user))
        .routes(routes!(get_user, update_user, delete_user))
        .routes(routes!(suspend_user))
        .routes(routes!(resume_user))
        .routes(routes!(reset_password))
}

/// Which page is listed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct UsersQuery {
    /// Where to go on: the `next` of the page before.
    cursor: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u16>,
}

/// List admin users
///
/// By name. For owners; a token of one tenant gets that tenant's.
#[utoipa::path(get, path = "/users", tag = "admins", params(UsersQuery),
    responses((status = 200, description = "One page.", body = Listing<AdminUser>)))]
async fn list_users(
    State(api): State<Api>,
    By(actor): By,
    Query(query): Query<UsersQuery>,
) -> Result<Json<Listing<AdminUser>>, Problem> {
    let page = page(query.cursor.as_deref(), query.limit)?;
    Ok(Json(api.control.users().list(&actor, &page).await?.into()))
}

/// An account to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewUser {
    /// The name to sign in with; unique, never changes.
    #[schema(pattern = "^[a-z0-9._@-]{1,64}$", example = "alice")]
    name: String,
    /// The first password.
    #[schema(min_length = 12, format = Password)]
    password: String,
    /// What they may do.
    role: Role,
    /// The tenant inside which they may do it, by slug or id; the whole server when absent.
    tenant: Option<String>,
}

/// Create an admin user
#[utoipa::path(post, path = "/users", tag = "admins", request_body = NewUser,
    responses((status = 201, description = "It was made.", body = AdminUser)))]
async fn create_user(
    State(api): State<Api>,
    By(actor): By,
    Query(Nothing {}): Query<Nothing>,
    Payload(new): Payload<NewUser>,
) -> Result<Created<AdminUser>, Problem> {
    let new = sluicegate_control::NewUser {
        name: new.name,
        password: new.password.into(),
        role: new.role,
        tenant: new.tenant.as_deref().map(TenantRef::from),
    };
    let user = api.control.users().create(&actor, new).await?;
    let path = format!("/users/{}", user.name);
    Ok(Created(user, path))
}

/// Get an admin user
#[utoipa::path(get, path = "/users/{user}", tag = "admins",
    params(("user" = String, Path, description = "The name or the id.")),
    responses((status = 200, description = "The account.", body = AdminUser)))]
async fn get_user(
    State(api): State<Api>,
    By(actor): By,
    Path(user): Path<String>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Tagged<AdminUser>, Problem> {
    Ok(Tagged(api.control.users().get(&actor, &user.as_str().into()).await?))
}

/// What somebody may do from now on, and where.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ChangedUser {
    /// What they may do.
    role: Role,
    /// The tenant inside which they may do it, by slug or id; null for the whole server.
    #[serde(deserialize_with = "nullable")]
    #[schema(value_type = Option<String>, required = true)]
    tenant: Option<String>,
}

/// A member that may be null, but not left out: nobody is to get the whole server by leaving out a member.
fn nullable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(deserializer)
}

/// Change an admin user
///
/// Gives them another role, or another reach. Needs `If-Match`.
#[utoipa::path(patch, path = "/users/{user}", tag = "admins", request_body = ChangedUser,
    params(("user" = String, Path, description = "The name or the id.")),
    responses((status = 200, description = "As it is now.", body = AdminUser)))]
async fn update_user(
    State(api): State<Api>,
    By(actor): By,
    Path(user): Path<String>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
    Payload(ChangedUser { role, tenant }): Payload<ChangedUser>,
) -> Result<Tagged<AdminUser>, Problem> {
    let (users, user) = (api.control.users(), UserRef::from(&*user));
    let actor = if_match.require(actor.clone(), &users.get(&actor, &user).await?)?;
    let tenant = tenant.as_deref().map(TenantRef::from);
    let changed = users.set_role(&actor, &user, role, tenant.as_ref()).await;
    changed.map(Tagged).map_err(|error| if_match.failed(error))
}

/// Delete an admin user
///
/// For good, with their sessions. Needs `If-Match`.
#[utoipa::path(delete, path = "/users/{user}", tag = "admins",
    params(("user" = String, Path, description = "The name or the id.")),
    responses((status = 204, description = "It is gone.")))]
async fn delete_user(
    State(api): State<Api>,
    By(actor): By,
    Path(user): Path<String>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
) -> Result<StatusCode, Problem> {
    let (users, user) = (api.control.users(), UserRef::from(&*user));
    let actor = if_match.require(actor.clone(), &users.get(&actor, &user).await?)?;
    users.delete(&actor, &user).await.map_err(|error| if_match.failed(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Suspend an admin user
///
/// They cannot sign in any more, and their sessions end.
#[utoipa::path(post, path = "/users/{user}/suspend", tag = "admins",
    params(("user" = String, Path, description = "The name or the id.")),
    responses((status = 200, description = "As it is now.", body = AdminUser)))]
async fn suspend_user(
    State(api): State<Api>,
    By(actor): By,
    Path(user): Path<String>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
) -> Result<Tagged<AdminUser>, Problem> {
    let (users, user) = (api.control.users(), UserRef::from(&*user));
    let actor = if_match.check(actor.clone(), &users.get(&actor, &user).await?)?;
    users.suspend(&actor, &user).await.map(Tagged).map_err(|error| if_match.failed(error))
}

/// Resume an admin user
///
/// They can sign in again.
#[utoipa::path(post, path = "/users/{user}/resume", tag = "admins",
    params(("user" = String, Path, description = "The name or the id.")),
    responses((status = 200, description = "As it is now.", body = AdminUser)))]
async fn resume_user(
    State(api): State<Api>,
    By(actor): By,
    Path(user): Path<String>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
) -> Result<Tagged<AdminUser>, Problem> {
    let (users, user) = (api.control.users(), UserRef::from(&*user));
    let actor = if_match.check(actor.clone(), &users.get(&actor, &user).await?)?;
    users.resume(&actor, &user).await.map(Tagged).map_err(|error| if_match.failed(error))
}

/// A new password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewPassword {
    /// The password.
    #[schema(min_length = 12, format = Password)]
    password: String,
}

/// Reset the password of an admin user
///
/// Their sessions end.
#[utoipa::path(post, path = "/users/{user}/password", tag = "admins", request_body = NewPassword,
    params(("user" = String, Path, description = "The name or the id.")),
    responses((status = 200, description = "As it is now.", body = AdminUser)))]
async fn reset_password(
    State(api): State<Api>,
    By(actor): By,
    Path(user): Path<String>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
    Payload(NewPassword { password }): Payload<NewPassword>,
) -> Result<Tagged<AdminUser>, Problem> {
    let (users, user) = (api.control.users(), UserRef::from(&*user));
    let actor = if_match.check(actor.clone(), &users.get(&actor, &user).await?)?;
    let reset = users.reset_password(&actor, &user, &password.into()).await;
    reset.map(Tagged).map_err(|error| if_match.failed(error))
}
