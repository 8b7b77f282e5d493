//! The pages, one module for each subject.

use sluicegate_control::{ControlError, Cursor, PageRequest, Tenant, TenantFilter, TenantRef};

use crate::Shared;
use crate::markup::url_part;
use crate::visit::Visitor;

pub(crate) mod agents;
pub(crate) mod alerts;
pub(crate) mod audit;
pub(crate) mod events;
pub(crate) mod keys;
pub(crate) mod limit_form;
pub(crate) mod limits;
pub(crate) mod overview;
pub(crate) mod people;
pub(crate) mod plans;
pub(crate) mod ranges;
pub(crate) mod sign_in;
pub(crate) mod system;
pub(crate) mod tenants;
pub(crate) mod throttling;
pub(crate) mod tools;

/// How many rows a page of a list has.
const ROWS: u16 = 50;

/// Which page of a list a query asks for.
pub(crate) fn page_request(after: Option<&str>) -> Result<PageRequest, ControlError> {
    let after = after.filter(|after| !after.is_empty()).map(str::parse).transpose()?;
    Ok(PageRequest { after, limit: ROWS })
}

/// The tenants that a form offers: the first 200 by name, and the one that is chosen already, wherever it stands.
pub(crate) async fn tenants_to_choose(
    panel: &Shared,
    visitor: &Visitor,
    chosen: Option<&TenantRef>,
) -> Result<Vec<Tenant>, ControlError> {
    let (tenants, actor) = (panel.control.tenants(), &visitor.actor);
    let all = PageRequest::first(PageRequest::MAX);
    let mut found = tenants.list(actor, &TenantFilter::default(), &all).await?.items;
    if let Some(chosen) = chosen {
        let chosen = tenants.get(actor, chosen).await?;
        if !found.iter().any(|tenant| tenant.id == chosen.id) {
            found.push(chosen);
        }
    }
    Ok(found)
}

/// The tenant that a query names; none for an empty text.
pub(crate) fn named_tenant(text: &str) -> Option<TenantRef> {
    Some(text).filter(|text| !text.is_empty()).map(TenantRef::from)
}

/// A path with a query of the pairs that have a value.
pub(crate) fn link(path: &str, query: &[(&str, &str)]) -> String {
    let mut link = path.to_owned();
    let mut separator = if path.contains('?') { '&' } else { '?' };
    for (name, value) in query.iter().filter(|(_, value)| !value.is_empty()) {
        link.push(separator);
        link.push_str(name);
        link.push('=');
        link.push_str(&url_part(value));
        separator = '&';
    }
    link
}

/// Where a list goes on, its filters kept.
pub(crate) fn next_link(path: &str, query: &[(&str, &str)], next: Option<&Cursor>) -> Option<String> {
    next.map(|next| link(&link(path, query), &[("after", &next.to_string())]))
}
