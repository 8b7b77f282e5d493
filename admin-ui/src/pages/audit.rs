//! The audit log: who changed what, from what to what.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::Value;
use sluicegate_control::{AuditEntry, AuditFilter, AuditVerdict, JsonText, PageRequest, Tenant};

use crate::Shared;
use crate::fault::Fault;
use crate::page::Page;
use crate::pages::throttling::download;
use crate::pages::{link, named_tenant, next_link, page_request, tenants_to_choose};
use crate::visit::{Visitor, show};

/// How many entries an export holds: the newest.
const EXPORTED: usize = 10_000;

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct ListQuery {
    tenant: String,
    actor: String,
    action: String,
    target: String,
    after: Option<String>,
}

/// The sorts of things that are changed, as the first word of an action names them.
const SORTS: &[&str] = &["tenant", "agent", "key", "limit", "plan", "tool", "alert_rule", "user", "token", "session"];

impl ListQuery {
    fn filter(&self) -> AuditFilter {
        let text = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        AuditFilter {
            tenant: named_tenant(&self.tenant),
            // Who types a name alone means the person.
            actor: text(&self.actor).map(|actor| if actor.contains(':') { actor } else { format!("user:{actor}") }),
            action: text(&self.action),
            target: text(&self.target),
            ..AuditFilter::default()
        }
    }

    fn pairs(&self) -> [(&'static str, &str); 4] {
        [("tenant", &self.tenant), ("actor", &self.actor), ("action", &self.action), ("target", &self.target)]
    }
}

#[derive(Template)]
#[template(path = "audit/list.html")]
struct List {
    p: Page,
    query: ListQuery,
    tenants: Vec<Tenant>,
    entries: Vec<AuditEntry>,
    next: Option<String>,
}

impl List {
    fn sorts(&self) -> &'static [&'static str] {
        SORTS
    }

    fn export_link(&self) -> String {
        link("/admin/audit.json", &self.query.pairs())
    }
}

/// `GET /admin/audit`
pub(crate) async fn list(
    State(panel): State<Shared>,
    visitor: Visitor,
    Query(query): Query<ListQuery>,
) -> Result<Response, Fault> {
    let page = page_request(query.after.as_deref())?;
    let found = panel.control.audit().search(&visitor.actor, &query.filter(), &page).await?;
    let tenants = tenants_to_choose(&panel, &visitor, named_tenant(&query.tenant).as_ref()).await?;
    let next = next_link("/admin/audit", &query.pairs(), found.next.as_ref());
    show(&List { p: visitor.page("audit"), query, tenants, entries: found.items, next })
}

/// `GET /admin/audit.json`
pub(crate) async fn export(
    State(panel): State<Shared>,
    visitor: Visitor,
    Query(query): Query<ListQuery>,
) -> Result<Response, Fault> {
    let filter = query.filter();
    let mut entries = Vec::new();
    let mut page = PageRequest::first(PageRequest::MAX);
    while entries.len() < EXPORTED {
        let found = panel.control.audit().search(&visitor.actor, &filter, &page).await?;
        entries.extend(found.items);
        page.after = found.next;
        if page.after.is_none() {
            break;
        }
    }
    let text = serde_json::to_string_pretty(&entries).map_err(|error| Fault::BadForm(error.to_string()))?;
    Ok(download("application/json", "audit.json", text))
}

/// `POST /admin/audit/verify`
pub(crate) async fn verify(State(panel): State<Shared>, visitor: Visitor) -> Result<Response, Fault> {
    let p = visitor.page("audit");
    let (tone, text) = match panel.control.audit().verify(&visitor.actor).await? {
        AuditVerdict::Intact { entries } => ("ok", p.f1("audit.intact", p.num(entries))),
        AuditVerdict::Broken { seq } => ("bad", p.f1("audit.broken", seq)),
    };
    visitor.visit.tell(tone, text).await?;
    Ok(Redirect::to("/admin/audit").into_response())
}

/// One line of the comparison.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    name: String,
    before: Option<String>,
    after: Option<String>,
}

impl Line {
    fn is_changed(&self) -> bool {
        self.before != self.after
    }
}

#[derive(Template)]
#[template(path = "audit/detail.html")]
struct Detail {
    p: Page,
    entry: AuditEntry,
    lines: Vec<Line>,
}

/// `GET /admin/audit/{seq}`
pub(crate) async fn detail(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(seq): Path<i64>,
) -> Result<Response, Fault> {
    let entry = panel.control.audit().get(&visitor.actor, seq).await?;
    let lines = compare(entry.before.as_ref(), entry.after.as_ref());
    show(&Detail { p: visitor.page("audit"), entry, lines })
}

/// The values of both states by their names, side by side.
fn compare(before: Option<&JsonText>, after: Option<&JsonText>) -> Vec<Line> {
    let (before, after) = (flat(before), flat(after));
    let mut names: Vec<_> = before.keys().chain(after.keys()).cloned().collect();
    names.sort_unstable();
    names.dedup();
    let line = |name: String| Line { before: before.get(&name).cloned(), after: after.get(&name).cloned(), name };
    names.into_iter().map(line).collect()
}

fn flat(json: Option<&JsonText>) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    if let Some(value) = json.and_then(|json| serde_json::from_str(json.as_str()).ok()) {
        collect("", &value, &mut values);
    }
    values
}

fn collect(name: &str, value: &Value, values: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                let name = if name.is_empty() { member.clone() } else { format!("{name}.{member}") };
                collect(&name, value, values);
            }
        }
        Value::Null => {}
        Value::String(text) => {
            values.insert(name.to_owned(), text.clone());
        }
        other => {
            values.insert(name.to_owned(), other.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_states_are_compared_value_by_value() {
        let before: JsonText = r#"{"name":"a","of":{"quotas":"5/min"},"note":null}"#.parse().expect("JSON");
        let after: JsonText = r#"{"name":"a","of":{"quotas":"50/min"},"note":"raised"}"#.parse().expect("JSON");
        let changed: Vec<_> = compare(Some(&before), Some(&after)).into_iter().filter(Line::is_changed).collect();
        let line = |name: &str, before: Option<&str>, after: &str| Line {
            name: name.to_owned(),
            before: before.map(str::to_owned),
            after: Some(after.to_owned()),
        };
        assert_eq!(changed, [line("note", None, "raised"), line("of.quotas", Some("5/min"), "50/min")]);
    }
}
