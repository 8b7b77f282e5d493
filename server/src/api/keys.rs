//! API keys of agents.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use sluicegate_control::{
    AgentRef, Environment, KeyId, KeyRecord, KeyScopes, KeyStatus, MintedKey, Revision, WallClock,
};
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
        .routes(routes!(list_keys))
        .routes(routes!(create_key))
        .routes(routes!(get_key))
        .routes(routes!(rotate_key))
        .routes(routes!(revoke_key))
}

/// An API key; not its text.
#[derive(Serialize, ToSchema)]
struct Key {
    /// Whether it opens anything now.
    status: KeyStatus,
    #[serde(flatten)]
    record: KeyRecord,
}

impl Key {
    fn of(record: KeyRecord, clock: &WallClock) -> Self {
        Self { status: record.status(clock.now_ms()), record }
    }
}

impl Revised for Key {
    fn revision(&self) -> Revision {
        self.record.revision
    }
}

/// An API key that was just made.
#[derive(Serialize, ToSchema)]
struct ShownKey {
    /// Its text. Keep it now: it is not shown again.
    #[schema(example = "sg_live_…")]
    key: String,
    /// What stays known of it.
    record: Key,
}

impl ShownKey {
    fn of(minted: MintedKey, clock: &WallClock) -> Secretly<Created<Self>> {
        let path = format!("/keys/{}", minted.record.id);
        let shown = Self { key: minted.key.expose().to_owned(), record: Key::of(minted.record, clock) };
        Secretly(Created(shown, path))
    }
}

impl Revised for ShownKey {
    fn revision(&self) -> Revision {
        self.record.revision()
    }
}

/// Which API keys are listed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct KeysQuery {
    /// Only those of this agent, by name or id.
    agent: Option<String>,
    /// Where to go on: the `next` of the page before.
    cursor: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u16>,
}

/// List the API keys of a tenant
///
/// Oldest first; revoked and expired ones too.
#[utoipa::path(get, path = "/tenants/{tenant}/keys", tag = "keys",
    params(("tenant" = String, Path, description = "The tenant's slug or id."), KeysQuery),
    responses((status = 200, description = "One page.", body = Listing<Key>)))]
async fn list_keys(
    State(api): State<Api>,
    By(actor): By,
    Path(tenant): Path<String>,
    Query(query): Query<KeysQuery>,
) -> Result<Json<Listing<Key>>, Problem> {
    let page = page(query.cursor.as_deref(), query.limit)?;
    let agent = query.agent.as_deref().map(AgentRef::from);
    let keys = api.control.keys().list(&actor, &tenant.as_str().into(), agent.as_ref(), &page).await?;
    Ok(Listing::of(keys, |record| Key::of(record, &api.clock)))
}

/// An API key to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewKey {
    /// What it is for.
    #[schema(min_length = 1, max_length = 256, example = "laptop")]
    name: String,
    /// The environment in its text.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "live")]
    environment: Option<String>,
    /// The tools it opens; all when absent.
    #[serde(default)]
    scopes: Option<KeyScopes>,
    /// When it ends by itself, in epoch milliseconds.
    expires_at: Option<i64>,
}

/// Create an API key
///
/// The answer is the only place where its text is shown.
#[utoipa::path(post, path = "/tenants/{tenant}/agents/{agent}/keys", tag = "keys", request_body = NewKey,
    params(
        ("tenant" = String, Path, description = "The tenant's slug or id."),
        ("agent" = String, Path, description = "The agent's name or id."),
    ),
    responses((status = 201, description = "It was made.", body = ShownKey)))]
async fn create_key(
    State(api): State<Api>,
    By(actor): By,
    Path((tenant, agent)): Path<(String, String)>,
    Query(Nothing {}): Query<Nothing>,
    Payload(new): Payload<NewKey>,
) -> Result<Secretly<Created<ShownKey>>, Problem> {
    let environment = match new.environment.as_deref() {
        None => Environment::default(),
        Some(text) => text.parse().map_err(|error| Problem::invalid("environment", format!("{error}")))?,
    };
    let new = sluicegate_control::NewKey {
        name: new.name,
        environment,
        scopes: new.scopes.unwrap_or_else(KeyScopes::all),
        expires_at: new.expires_at,
    };
    let minted = api.control.keys().create(&actor, &tenant.as_str().into(), &agent.as_str().into(), new).await?;
    Ok(ShownKey::of(minted, &api.clock))
}

/// Get an API key
#[utoipa::path(get, path = "/keys/{key}", tag = "keys", params(("key" = KeyId, Path, description = "The key's id.")),
    responses((status = 200, description = "What is known of it.", body = Key)))]
async fn get_key(
    State(api): State<Api>,
    By(actor): By,
    Path(key): Path<KeyId>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Tagged<Key>, Problem> {
    Ok(Tagged(Key::of(api.control.keys().get(&actor, key).await?, &api.clock)))
}

/// How a key is rotated.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Rotation {
    /// How long the old key goes on working beside the new one.
    #[schema(pattern = "^(0|1h|24h|7d)$", example = "24h")]
    overlap: String,
}

/// Rotate an API key
///
/// Makes a key with the same name, scopes and length of life, and ends the old one after the overlap. The answer is the
/// only place where the new text is shown.
#[utoipa::path(post, path = "/keys/{key}/rotate", tag = "keys", request_body = Rotation,
    params(("key" = KeyId, Path, description = "The key's id.")),
    responses((status = 201, description = "The new key.", body = ShownKey)))]
async fn rotate_key(
    State(api): State<Api>,
    By(actor): By,
    Path(key): Path<KeyId>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
    Payload(Rotation { overlap }): Payload<Rotation>,
) -> Result<Secretly<Created<ShownKey>>, Problem> {
    let (keys, overlap) = (api.control.keys(), overlap.parse()?);
    let actor = if_match.check(actor.clone(), &keys.get(&actor, key).await?)?;
    let minted = keys.rotate(&actor, key, overlap).await.map_err(|error| if_match.failed(error))?;
    Ok(ShownKey::of(minted, &api.clock))
}

/// Revoke an API key
///
/// It opens nothing from now on. Revoking a revoked key changes nothing.
#[utoipa::path(post, path = "/keys/{key}/revoke", tag = "keys",
    params(("key" = KeyId, Path, description = "The key's id.")),
    responses((status = 200, description = "As it is now.", body = Key)))]
async fn revoke_key(
    State(api): State<Api>,
    By(actor): By,
    Path(key): Path<KeyId>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
) -> Result<Tagged<Key>, Problem> {
    let keys = api.control.keys();
    let actor = if_match.check(actor.clone(), &keys.get(&actor, key).await?)?;
    let revoked = keys.revoke(&actor, key).await.map_err(|error| if_match.failed(error))?;
    Ok(Tagged(Key::of(revoked, &api.clock)))
}
