//! Alerts: what there is to tell, and the rules that say when.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use sluicegate_control::{
    Alert, AlertKind, AlertRule, AlertRuleId, Delivery, NewAlertRule, PageRequest, ShownOnce, Tenant, TenantId,
    TenantRef, Tool,
};

use crate::Shared;
use crate::fault::Fault;
use crate::form::{Errors, Posted};
use crate::page::Page;
use crate::pages::agents::After;
use crate::pages::{next_link, page_request, tenants_to_choose};
use crate::visit::{Visitor, show, show_again};

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct RuleFields {
    name: String,
    kind: String,
    tenant: String,
    tool: String,
    threshold: String,
    minutes: String,
    webhook: String,
}

#[derive(Template)]
#[template(path = "alerts/page.html")]
struct Alerts {
    p: Page,
    alerts: Vec<Alert>,
    next: Option<String>,
    rules: Vec<AlertRule>,
    tenants: Vec<Tenant>,
    names: BTreeMap<TenantId, String>,
    tools: Vec<Tool>,
    errors: Errors,
    fields: RuleFields,
    /// The secret of a webhook that was just set: the only time it is shown.
    secret: Option<ShownOnce>,
}

impl Alerts {
    async fn of(panel: &Shared, visitor: &Visitor, after: Option<&str>) -> Result<Self, Fault> {
        let actor = &visitor.actor;
        let all = PageRequest::first(PageRequest::MAX);
        let found = panel.control.alerts().list(actor, &page_request(after)?).await?;
        let rules = panel.control.alerts().rules(actor, &all).await?.items;
        let tenants = tenants_to_choose(panel, visitor, None).await?;
        let names = tenants.iter().map(|tenant| (tenant.id, tenant.name.clone())).collect();
        let tools = panel.control.tools().list(actor, &all).await?.items;
        let fields = RuleFields { threshold: "10".to_owned(), minutes: "5".to_owned(), ..RuleFields::default() };
        Ok(Self {
            p: visitor.page("alerts"),
            alerts: found.items,
            next: next_link("/admin/alerts", &[], found.next.as_ref()),
            rules,
            tenants,
            names,
            tools,
            errors: Errors::default(),
            fields,
            secret: None,
        })
    }

    fn kinds(&self) -> Vec<AlertKind> {
        let about_calls = |kind: &AlertKind| matches!(kind, AlertKind::Throttling | AlertKind::Runaway);
        AlertKind::ALL.into_iter().filter(|kind| self.p.is_global() || about_calls(kind)).collect()
    }

    fn is_kind(&self, kind: &AlertKind) -> bool {
        self.fields.kind == kind.as_str()
    }

    /// What became of the last call of a webhook: the tone of its badge, and what to say.
    fn told(&self, delivery: &Delivery) -> (&'static str, String) {
        if delivery.delivered_at.is_some() {
            ("ok", self.p.t("alerts.delivered").to_owned())
        } else if delivery.is_given_up() {
            ("bad", self.p.f1("alerts.given_up", delivery.attempts))
        } else if delivery.attempts == 0 {
            ("", self.p.t("alerts.to_deliver").to_owned())
        } else {
            ("warn", self.p.f1("alerts.trying", delivery.attempts))
        }
    }

    /// What a rule watches, in a sentence.
    fn sentence(&self, rule: &AlertRule) -> String {
        let what = match rule.kind {
            AlertKind::Throttling => self.p.f2("rule.throttling_text", rule.threshold, rule.minutes),
            AlertKind::Runaway => self.p.f2("rule.runaway_text", rule.threshold, rule.minutes),
            other => self.p.word("rule", other),
        };
        let tenant = rule.tenant_id.and_then(|id| self.names.get(&id).cloned());
        [Some(what), tenant, rule.tool.clone()].into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }
}

/// `GET /admin/alerts`
pub(crate) async fn list(
    State(panel): State<Shared>,
    visitor: Visitor,
    Query(query): Query<After>,
) -> Result<Response, Fault> {
    show(&Alerts::of(&panel, &visitor, query.after.as_deref()).await?)
}

impl RuleFields {
    fn read(&self) -> Result<NewAlertRule, Errors> {
        let mut errors = Errors::default();
        let mut number = |text: &str, field| {
            let number = text.trim().parse::<i64>();
            number.map_err(|_| errors.add(field, format!("{text:?} is not a whole number"))).unwrap_or_default()
        };
        let (threshold, minutes) = (number(&self.threshold, "threshold"), number(&self.minutes, "minutes"));
        let kind = self.kind.parse().map_err(|error| errors.add("kind", format!("{error}"))).ok();
        let text = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let Some(kind) = kind.filter(|_| errors.is_empty()) else { return Err(errors) };
        let about_calls = matches!(kind, AlertKind::Throttling | AlertKind::Runaway);
        Ok(NewAlertRule {
            name: self.name.trim().to_owned(),
            kind,
            tenant: text(&self.tenant).filter(|_| about_calls).map(|tenant| TenantRef::from(tenant.as_str())),
            tool: text(&self.tool).filter(|_| kind == AlertKind::Throttling),
            threshold,
            minutes,
            enabled: true,
            webhook: text(&self.webhook),
        })
    }
}

/// `POST /admin/alerts`
pub(crate) async fn create(
    State(panel): State<Shared>,
    visitor: Visitor,
    Posted(fields): Posted<RuleFields>,
) -> Result<Response, Fault> {
    let errors = match fields.read() {
        Err(errors) => errors,
        Ok(new) => match panel.control.alerts().create_rule(&visitor.actor, new).await {
            Ok(minted) => match minted.secret {
                None => {
                    let text = visitor.page("alerts").f1("alerts.created", &minted.rule.name);
                    return visitor.done("/admin/alerts", text).await;
                }
                secret => return show(&Alerts { secret, ..Alerts::of(&panel, &visitor, None).await? }),
            },
            Err(error) => Errors::from_control(error)?,
        },
    };
    show_again(&Alerts { errors, fields, ..Alerts::of(&panel, &visitor, None).await? })
}

/// `POST /admin/alerts/{rule}/delete`
pub(crate) async fn delete(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(rule): Path<String>,
) -> Result<Response, Fault> {
    let rule: AlertRuleId = rule.parse().map_err(|_| Fault::NotFound)?;
    panel.control.alerts().delete_rule(&visitor.actor, rule).await?;
    visitor.done("/admin/alerts", visitor.page("alerts").t("alerts.deleted")).await
}

/// `POST /admin/alerts/{rule}/rotate`: another secret for the rule's webhook.
pub(crate) async fn rotate(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(rule): Path<String>,
) -> Result<Response, Fault> {
    let rule: AlertRuleId = rule.parse().map_err(|_| Fault::NotFound)?;
    let secret = panel.control.alerts().rotate_secret(&visitor.actor, rule).await?.secret;
    show(&Alerts { secret, ..Alerts::of(&panel, &visitor, None).await? })
}

/// `POST /admin/alerts/{rule}/test`: calls the rule's webhook, and says what came back.
pub(crate) async fn test(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(rule): Path<String>,
) -> Result<Response, Fault> {
    let rule: AlertRuleId = rule.parse().map_err(|_| Fault::NotFound)?;
    let answer = panel.live.test_webhook(&visitor.actor, rule).await?;
    let page = visitor.page("alerts");
    let (tone, text) = match answer.error {
        None => ("ok", page.f2("alerts.test_ok", answer.status.unwrap_or_default(), answer.took_ms)),
        Some(error) => ("bad", page.f2("alerts.test_failed", error, answer.took_ms)),
    };
    visitor.visit.tell(tone, text).await?;
    Ok(Redirect::to("/admin/alerts").into_response())
}

/// `POST /admin/alerts/{rule}/switch`: looked at, or not looked at any more.
pub(crate) async fn switch(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(rule): Path<String>,
) -> Result<Response, Fault> {
    let id: AlertRuleId = rule.parse().map_err(|_| Fault::NotFound)?;
    let rule = panel.control.alerts().rule(&visitor.actor, id).await?;
    let changed = NewAlertRule {
        name: rule.name,
        kind: rule.kind,
        tenant: rule.tenant_id.map(TenantRef::Id),
        tool: rule.tool,
        threshold: rule.threshold,
        minutes: rule.minutes,
        enabled: !rule.enabled,
        webhook: rule.webhook,
    };
    panel.control.alerts().replace_rule(&visitor.actor, id, changed).await?;
    visitor.done("/admin/alerts", visitor.page("alerts").t("list.saved")).await
}
