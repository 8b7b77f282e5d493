//! The policy as a document: to keep in git, to review, and to bring into another server.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use sluicegate_control::{ImportReport, PolicyDocument, TenantRef};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::payload::{Payload, Query};
use super::problem::Problem;
use super::who::By;

pub(crate) fn router() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(export_policy)).routes(routes!(import_policy))
}

/// What is exported.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ExportQuery {
    /// Only this tenant, by slug or id; everything that the token sees when absent.
    tenant: Option<String>,
}

/// Export the policy
///
/// Plans, tenants, limits and switches; no API keys, people or usage.
#[utoipa::path(get, path = "/export", tag = "transfer", params(ExportQuery),
    responses((status = 200, description = "The document.", body = PolicyDocument)))]
async fn export_policy(
    State(api): State<Api>,
    By(actor): By,
    Query(query): Query<ExportQuery>,
) -> Result<Json<PolicyDocument>, Problem> {
    let tenant = query.tenant.as_deref().map(TenantRef::from);
    Ok(Json(api.control.transfer().export(&actor, tenant.as_ref()).await?))
}

/// How it is imported.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ImportQuery {
    /// Only say what would change.
    #[serde(default)]
    dry_run: bool,
}

/// Import a policy
///
/// Brings the policy to what the document says, all of it or nothing; what it does not name stays as it is. Importing it
/// again changes nothing.
#[utoipa::path(post, path = "/import", tag = "transfer", params(ImportQuery), request_body = PolicyDocument,
    responses((status = 200, description = "What was changed, or would be.", body = ImportReport)))]
async fn import_policy(
    State(api): State<Api>,
    By(actor): By,
    Query(ImportQuery { dry_run }): Query<ImportQuery>,
    Payload(document): Payload<PolicyDocument>,
) -> Result<Json<ImportReport>, Problem> {
    Ok(Json(api.control.transfer().import(&actor, &document, dry_run).await?))
}
