//! Writing the document.

use std::collections::BTreeMap;

use crate::actor::{Actor, Role};
use crate::control::Control;
use crate::error::ControlError;
use crate::ids::AgentId;
use crate::limits::{LimitFilter, Target};
use crate::page::PageRequest;
use crate::status::Status;
use crate::tenants::{Tenant, TenantFilter, TenantRef};
use crate::transfer::Transfer;
use crate::transfer::document::{AgentDocument, LimitDocument, PlanDocument, PolicyDocument, TenantDocument};

/// All pages of a list. Whoever waits for a function of a closure cannot be moved to another thread meanwhile.
macro_rules! every {
    ($page:ident => $list:expr) => {{
        let (mut items, mut request) = (Vec::new(), PageRequest::first(PageRequest::MAX));
        loop {
            let $page = &request;
            let found = $list.await?;
            items.extend(found.items);
            match found.next {
                Some(next) => request.after = Some(next),
                None => break items,
            }
        }
    }};
}

impl Transfer<'_> {
    /// The policy as a document: everything that the actor sees, or one tenant.
    ///
    /// # Errors
    /// `NotFound` for the tenant.
    pub async fn export(self, actor: &Actor, tenant: Option<&TenantRef>) -> Result<PolicyDocument, ControlError> {
        actor.require(Role::Viewer)?;
        let control = self.control;
        let mut document = PolicyDocument { version: 1, ..PolicyDocument::default() };
        if let Some(tenant) = tenant {
            let tenant = control.tenants().get(actor, tenant).await?;
            document.tenants.push(tenant_document(control, actor, tenant).await?);
            return Ok(document);
        }
        if actor.confined_to().is_none() {
            let limits = every!(page => control.limits().list(actor, &LimitFilter::All, page));
            let of_everybody =
                limits.iter().filter(|entry| matches!(entry.target, Target::Server | Target::Tool { .. }));
            document.limits = Some(of_everybody.map(LimitDocument::of).collect());
            document.disabled_tools = Some(disabled(control, actor, None).await?);
            for plan in every!(page => control.plans().list(actor, page)) {
                let filter = LimitFilter::Plan(plan.id.into());
                let limits = every!(page => control.limits().list(actor, &filter, page));
                let limits = Some(limits.iter().map(LimitDocument::of).collect());
                document.plans.push(PlanDocument { name: plan.name, note: plan.note, limits });
            }
        }
        let all = TenantFilter::default();
        for tenant in every!(page => control.tenants().list(actor, &all, page)) {
            document.tenants.push(tenant_document(control, actor, tenant).await?);
        }
        Ok(document)
    }
}

async fn tenant_document(control: &Control, actor: &Actor, tenant: Tenant) -> Result<TenantDocument, ControlError> {
    let reference = TenantRef::Id(tenant.id);
    let filter = LimitFilter::Tenant(reference.clone());
    let limits = every!(page => control.limits().list(actor, &filter, page));
    let mut of_agents = BTreeMap::<AgentId, Vec<LimitDocument>>::new();
    let mut of_tenant = Vec::new();
    for entry in &limits {
        match (&entry.target, entry.target.agent()) {
            (Target::Key { .. }, _) => {}
            (_, Some(agent)) => of_agents.entry(agent).or_default().push(LimitDocument::of(entry)),
            (_, None) => of_tenant.push(LimitDocument::of(entry)),
        }
    }
    let mut agents = Vec::new();
    for agent in every!(page => control.agents().list(actor, &reference, page)) {
        let limits = of_agents.remove(&agent.id);
        if limits.is_some() || agent.status != Status::Active {
            let limits = Some(limits.unwrap_or_default());
            agents.push(AgentDocument { name: agent.name, status: Some(agent.status), limits });
        }
    }
    let metadata = serde_json::from_str(tenant.metadata.as_str()).unwrap_or_default();
    Ok(TenantDocument {
        slug: tenant.slug,
        name: tenant.name,
        status: Some(tenant.status),
        plan: Some(tenant.plan_name.unwrap_or_default()),
        settings: Some(tenant.settings),
        metadata: Some(metadata),
        disabled_tools: Some(disabled(control, actor, Some(&reference)).await?),
        limits: Some(of_tenant),
        agents,
    })
}

async fn disabled(control: &Control, actor: &Actor, tenant: Option<&TenantRef>) -> Result<Vec<String>, ControlError> {
    let switches = control.tools().switches(actor, tenant).await?;
    Ok(switches.into_iter().filter(|switch| !switch.enabled).map(|switch| switch.tool).collect())
}
