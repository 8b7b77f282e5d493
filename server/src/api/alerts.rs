//! Alerts, and the rules that they come from.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use sluicegate_control::{
    Alert, AlertKind, AlertRule, AlertRuleId, ControlError, MintedAlertRule, NewAlertRule, Revision, TenantRef,
    WebhookAnswer,
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
        .routes(routes!(list_alerts))
        .routes(routes!(list_open_alerts))
        .routes(routes!(list_alert_rules, create_alert_rule))
        .routes(routes!(get_alert_rule, replace_alert_rule, delete_alert_rule))
        .routes(routes!(rotate_alert_rule_secret))
        .routes(routes!(test_alert_rule))
}

/// Which page is listed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AlertsQuery {
    /// Where to go on: the `next` of the page before.
    cursor: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u16>,
}

/// List alerts
///
/// Newest first; those that have ended as well. A token of one tenant gets that tenant's.
#[utoipa::path(get, path = "/alerts", tag = "alerts", params(AlertsQuery),
    responses((status = 200, description = "One page.", body = Listing<Alert>)))]
async fn list_alerts(
    State(api): State<Api>,
    By(actor): By,
    Query(query): Query<AlertsQuery>,
) -> Result<Json<Listing<Alert>>, Problem> {
    let page = page(query.cursor.as_deref(), query.limit)?;
    Ok(Json(api.control.alerts().list(&actor, &page).await?.into()))
}

/// List the alerts that last
///
/// At most 200.
#[utoipa::path(get, path = "/alerts/open", tag = "alerts",
    responses((status = 200, description = "All of them.", body = Listing<Alert>)))]
async fn list_open_alerts(
    State(api): State<Api>,
    By(actor): By,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Json<Listing<Alert>>, Problem> {
    Ok(Listing::whole(api.control.alerts().open(&actor).await?))
}

/// List alert rules
///
/// Oldest first. A token of one tenant gets that tenant's.
#[utoipa::path(get, path = "/alert-rules", tag = "alerts", params(AlertsQuery),
    responses((status = 200, description = "One page.", body = Listing<AlertRule>)))]
async fn list_alert_rules(
    State(api): State<Api>,
    By(actor): By,
    Query(query): Query<AlertsQuery>,
) -> Result<Json<Listing<AlertRule>>, Problem> {
    let page = page(query.cursor.as_deref(), query.limit)?;
    Ok(Json(api.control.alerts().rules(&actor, &page).await?.into()))
}

/// A rule as somebody asks for it.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct AlertRuleForm {
    /// Its name for people.
    #[schema(min_length = 1, max_length = 256)]
    name: String,
    /// What it watches.
    kind: AlertKind,
    /// The tenant whose calls it watches, by slug or id; everybody's when absent.
    tenant: Option<String>,
    /// The tool whose calls it watches; for `throttling`.
    tool: Option<String>,
    /// From where on it alerts: percent for `throttling`, refusals per minute for `runaway`.
    #[schema(minimum = 1, maximum = 1_000_000)]
    threshold: i64,
    /// For how many minutes in a row.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 60)]
    minutes: i64,
    /// Whether it is looked at; it is when absent.
    #[serde(default = "yes")]
    enabled: bool,
    /// The URL that is told when an alert begins and ends, `http` or `https`. The calls are signed (see docs/API.md).
    webhook: Option<String>,
}

fn one() -> i64 {
    1
}

fn yes() -> bool {
    true
}

impl From<AlertRuleForm> for NewAlertRule {
    fn from(form: AlertRuleForm) -> Self {
        let AlertRuleForm { name, kind, tenant, tool, threshold, minutes, enabled, webhook } = form;
        let tenant = tenant.as_deref().map(TenantRef::from);
        Self { name, kind, tenant, tool, threshold, minutes, enabled, webhook }
    }
}

/// A rule that was just made or replaced.
#[derive(Serialize, ToSchema)]
struct ShownAlertRule {
    /// The rule.
    rule: AlertRule,
    /// The secret that calls of the webhook are signed with. Keep it now: it is not shown again. Null without a webhook, and
    /// when the rule kept the one it had.
    secret: Option<String>,
}

impl From<MintedAlertRule> for ShownAlertRule {
    fn from(MintedAlertRule { rule, secret }: MintedAlertRule) -> Self {
        Self { rule, secret: secret.map(|secret| secret.expose().to_owned()) }
    }
}

impl Revised for ShownAlertRule {
    fn revision(&self) -> Revision {
        self.rule.revision
    }
}

/// Create an alert rule
#[utoipa::path(post, path = "/alert-rules", tag = "alerts", request_body = AlertRuleForm,
    responses((status = 201, description = "It was made.", body = ShownAlertRule)))]
async fn create_alert_rule(
    State(api): State<Api>,
    By(actor): By,
    Query(Nothing {}): Query<Nothing>,
    Payload(form): Payload<AlertRuleForm>,
) -> Result<Secretly<Created<ShownAlertRule>>, Problem> {
    let minted = api.control.alerts().create_rule(&actor, form.into()).await.map_err(of_the_body)?;
    let path = format!("/alert-rules/{}", minted.rule.id);
    Ok(Secretly(Created(minted.into(), path)))
}

/// Get an alert rule
#[utoipa::path(get, path = "/alert-rules/{rule}", tag = "alerts",
    params(("rule" = AlertRuleId, Path, description = "The rule's id.")),
    responses((status = 200, description = "The rule.", body = AlertRule)))]
async fn get_alert_rule(
    State(api): State<Api>,
    By(actor): By,
    Path(rule): Path<AlertRuleId>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Tagged<AlertRule>, Problem> {
    Ok(Tagged(api.control.alerts().rule(&actor, rule).await?))
}

/// Replace an alert rule
///
/// With another webhook it gets another secret. Needs `If-Match`.
#[utoipa::path(put, path = "/alert-rules/{rule}", tag = "alerts", request_body = AlertRuleForm,
    params(("rule" = AlertRuleId, Path, description = "The rule's id.")),
    responses((status = 200, description = "As it is now.", body = ShownAlertRule)))]
async fn replace_alert_rule(
    State(api): State<Api>,
    By(actor): By,
    Path(rule): Path<AlertRuleId>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
    Payload(form): Payload<AlertRuleForm>,
) -> Result<Tagged<ShownAlertRule>, Problem> {
    let alerts = api.control.alerts();
    let actor = if_match.require(actor.clone(), &alerts.rule(&actor, rule).await?)?;
    let replaced = alerts.replace_rule(&actor, rule, form.into()).await;
    replaced.map(|minted| Tagged(minted.into())).map_err(|error| if_match.failed(error))
}

/// Delete an alert rule
///
/// With its alerts. Needs `If-Match`.
#[utoipa::path(delete, path = "/alert-rules/{rule}", tag = "alerts",
    params(("rule" = AlertRuleId, Path, description = "The rule's id.")),
    responses((status = 204, description = "It is gone.")))]
async fn delete_alert_rule(
    State(api): State<Api>,
    By(actor): By,
    Path(rule): Path<AlertRuleId>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
) -> Result<StatusCode, Problem> {
    let alerts = api.control.alerts();
    let actor = if_match.require(actor.clone(), &alerts.rule(&actor, rule).await?)?;
    alerts.delete_rule(&actor, rule).await.map_err(|error| if_match.failed(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Give the webhook of an alert rule another secret
///
/// The answer is the only place where it is shown. What is sent from then on is signed with it.
#[utoipa::path(post, path = "/alert-rules/{rule}/rotate-secret", tag = "alerts",
    params(("rule" = AlertRuleId, Path, description = "The rule's id.")),
    responses((status = 200, description = "The rule with its new secret.", body = ShownAlertRule)))]
async fn rotate_alert_rule_secret(
    State(api): State<Api>,
    By(actor): By,
    Path(rule): Path<AlertRuleId>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
) -> Result<Secretly<Tagged<ShownAlertRule>>, Problem> {
    let alerts = api.control.alerts();
    let actor = if_match.check(actor.clone(), &alerts.rule(&actor, rule).await?)?;
    let rotated = alerts.rotate_secret(&actor, rule).await;
    rotated.map(|minted| Secretly(Tagged(minted.into()))).map_err(|error| if_match.failed(error))
}

/// Call the webhook of an alert rule
///
/// Once, with a message of the type `alert.test`, to see whether it answers. What came back is the answer.
#[utoipa::path(post, path = "/alert-rules/{rule}/test", tag = "alerts",
    params(("rule" = AlertRuleId, Path, description = "The rule's id.")),
    responses((status = 200, description = "What came back.", body = WebhookAnswer)))]
async fn test_alert_rule(
    State(api): State<Api>,
    By(actor): By,
    Path(rule): Path<AlertRuleId>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Json<WebhookAnswer>, Problem> {
    Ok(Json(api.live.test_webhook(&actor, rule).await?))
}

/// A tool that is misspelt in a body is no missing page.
fn of_the_body(error: ControlError) -> Problem {
    match error {
        ControlError::UnknownTool { .. } => Problem::invalid("tool", error.to_string()),
        error => error.into(),
    }
}
