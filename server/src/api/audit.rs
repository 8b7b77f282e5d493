//! The audit log.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use sluicegate_control::{AuditEntry, AuditFilter, AuditVerdict, TenantRef};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::listing::{Listing, page};
use super::payload::{Nothing, Query};
use super::problem::Problem;
use super::who::By;

pub(crate) fn router() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list_audit_entries)).routes(routes!(verify_audit_log))
}

/// Which entries are listed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AuditQuery {
    /// Only those of this tenant, by slug or id.
    tenant: Option<String>,
    /// Only those of this actor, as it is written: `user:alice`.
    actor: Option<String>,
    /// Only those with this action, `limit.set`, or with one of this sort, `limit`.
    action: Option<String>,
    /// Only those whose target contains this text, ignoring the case of ASCII letters.
    target: Option<String>,
    /// Only those from this moment on, in epoch milliseconds.
    from: Option<i64>,
    /// Only those before this moment, in epoch milliseconds.
    to: Option<i64>,
    /// Where to go on: the `next` of the page before.
    cursor: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u16>,
}

/// List the audit log
///
/// Newest first. A token of one tenant gets that tenant's. With a filter a page looks at 20 000 entries: it may have few, or
/// none, and yet a next one.
#[utoipa::path(get, path = "/audit", tag = "audit", params(AuditQuery),
    responses((status = 200, description = "One page.", body = Listing<AuditEntry>)))]
async fn list_audit_entries(
    State(api): State<Api>,
    By(actor): By,
    Query(query): Query<AuditQuery>,
) -> Result<Json<Listing<AuditEntry>>, Problem> {
    let page = page(query.cursor.as_deref(), query.limit)?;
    let filter = AuditFilter {
        tenant: query.tenant.as_deref().map(TenantRef::from),
        actor: query.actor,
        action: query.action,
        target: query.target,
        from: query.from,
        to: query.to,
    };
    Ok(Json(api.control.audit().search(&actor, &filter, &page).await?.into()))
}

/// What the verification has found.
#[derive(Serialize, ToSchema)]
struct Verdict {
    /// Whether all entries are as they were written, and none is missing.
    intact: bool,
    /// How many there are, if it is.
    entries: Option<i64>,
    /// The first entry that is altered, missing or out of place, if it is not.
    broken_at: Option<i64>,
}

/// Verify the audit log
///
/// Computes every hash again. For tokens of the whole server: the chain runs through all tenants.
#[utoipa::path(get, path = "/audit/verify", tag = "audit",
    responses((status = 200, description = "What was found.", body = Verdict)))]
async fn verify_audit_log(
    State(api): State<Api>,
    By(actor): By,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Json<Verdict>, Problem> {
    Ok(Json(match api.control.audit().verify(&actor).await? {
        AuditVerdict::Intact { entries } => Verdict { intact: true, entries: Some(entries), broken_at: None },
        AuditVerdict::Broken { seq } => Verdict { intact: false, entries: None, broken_at: Some(seq) },
    }))
}
