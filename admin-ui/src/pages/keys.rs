//! API keys: made, shown once, rotated, revoked.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use serde::Deserialize;
use sluicegate_control::{
    Agent, AgentRef, ApiKey, KeyId, KeyRecord, KeyScopes, KeyStatus, NewKey, Overlap, Tenant, TenantRef, ToolGlob,
};

use crate::Shared;
use crate::fault::Fault;
use crate::form::{Errors, Posted};
use crate::page::Page;
use crate::pages::tenants::Confirmed;
use crate::pages::{agents, link};
use crate::visit::{Visitor, show, show_again};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Where the session keeps the form that made a key, so that a page that is loaded again makes no second one.
const LAST_FORM: &str = "last_key_form";

#[derive(Template)]
#[template(path = "keys/new.html")]
struct New {
    p: Page,
    tenant: Tenant,
    agent: Agent,
    errors: Errors,
    fields: Fields,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Fields {
    name: String,
    scopes: String,
    grants: String,
    /// Days, or nothing for never.
    expires: String,
    environment: String,
    /// Tells a form from the same form that is sent again.
    form: String,
}

impl New {
    fn expires(&self, days: &str) -> bool {
        self.fields.expires == days
    }
}

async fn owner(panel: &Shared, visitor: &Visitor, tenant: &str, agent: &str) -> Result<(Tenant, Agent), Fault> {
    let tenant = panel.control.tenants().get(&visitor.actor, &tenant.into()).await?;
    let agent = panel.control.agents().get(&visitor.actor, &TenantRef::Id(tenant.id), &agent.into()).await?;
    Ok((tenant, agent))
}

/// `GET /admin/tenants/{tenant}/agents/{agent}/keys/new`
pub(crate) async fn new(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path((tenant, agent)): Path<(String, String)>,
) -> Result<Response, Fault> {
    let (tenant, agent) = owner(&panel, &visitor, &tenant, &agent).await?;
    let fields = Fields {
        scopes: "*".to_owned(),
        environment: "live".to_owned(),
        form: uuid::Uuid::now_v7().simple().to_string(),
        ..Fields::default()
    };
    show(&New { p: visitor.page("agents"), tenant, agent, errors: Errors::default(), fields })
}

impl Fields {
    fn read(&self, now_ms: i64) -> Result<NewKey, Errors> {
        let mut errors = Errors::default();
        let patterns = self.scopes.split_whitespace().map(str::parse::<ToolGlob>).collect::<Result<Vec<_>, _>>();
        let patterns = patterns.map_err(|error| errors.add("scopes", error.to_string())).unwrap_or_default();
        let grants = self.grants.split_whitespace().map(str::to_owned).collect();
        let scopes = if errors.is_empty() {
            let scopes = KeyScopes::new(patterns).map_err(|error| errors.add("scopes", error.to_string())).ok();
            scopes.and_then(|it| it.with_grants(grants).map_err(|error| errors.add("grants", error.to_string())).ok())
        } else {
            None
        };
        let environment =
            self.environment.trim().parse().map_err(|error| errors.add("environment", format!("{error}"))).ok();
        let days = self.expires.parse::<i64>().ok().filter(|days| (1..=3_650).contains(days));
        match (scopes, environment) {
            (Some(scopes), Some(environment)) if errors.is_empty() => Ok(NewKey {
                name: self.name.trim().to_owned(),
                environment,
                scopes,
                expires_at: days.map(|days| now_ms + days * DAY_MS),
            }),
            _ => Err(errors),
        }
    }
}

/// A key that was just made, with what a client needs to use it.
#[derive(Template)]
#[template(path = "keys/created.html")]
struct Created {
    p: Page,
    tenant: Tenant,
    agent: Agent,
    key: KeyRecord,
    secret: ApiKey,
    endpoint: String,
    /// When the key before it ends, after a rotation.
    old_ends_at: Option<i64>,
}

impl Created {
    fn text(&self) -> &str {
        self.secret.expose()
    }

    /// The entry of Claude Desktop's, Cursor's and other clients' `mcpServers`.
    fn servers_json(&self, with_type: bool) -> String {
        let mut server = serde_json::Map::new();
        if with_type {
            server.insert("type".to_owned(), "http".into());
        }
        server.insert("url".to_owned(), self.endpoint.as_str().into());
        server.insert("headers".to_owned(), serde_json::json!({ "Authorization": format!("Bearer {}", self.text()) }));
        let group = if with_type { "servers" } else { "mcpServers" };
        let config = serde_json::json!({ group: { "sluicegate": server } });
        serde_json::to_string_pretty(&config).unwrap_or_default()
    }

    /// Claude Desktop's file starts programs; `mcp-remote` is the bridge to a server on the network.
    fn desktop_json(&self) -> String {
        let config = serde_json::json!({ "mcpServers": { "sluicegate": {
            "command": "npx",
            "args": ["-y", "mcp-remote", self.endpoint, "--header", "Authorization:${SLUICEGATE_AUTHORIZATION}"],
            "env": { "SLUICEGATE_AUTHORIZATION": format!("Bearer {}", self.text()) },
        } } });
        serde_json::to_string_pretty(&config).unwrap_or_default()
    }

    fn curl(&self) -> String {
        format!(
            "curl -sS {} \\\n  -H 'Authorization: Bearer {}' \\\n  -H 'Content-Type: application/json' \\\n  \
             -H 'Accept: application/json, text/event-stream' \\\n  \
             -d '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}}'",
            self.endpoint,
            self.text()
        )
    }
}

/// Whether this form has made a key before: the page was loaded again.
async fn is_repeated(visitor: &Visitor, form: &str) -> Result<bool, Fault> {
    let session = visitor.visit.session();
    let last: Option<String> = session.get(LAST_FORM).await?;
    if last.as_deref() == Some(form) && !form.is_empty() {
        return Ok(true);
    }
    session.insert(LAST_FORM, form).await?;
    Ok(false)
}

/// `POST /admin/tenants/{tenant}/agents/{agent}/keys`
pub(crate) async fn create(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path((tenant, agent)): Path<(String, String)>,
    Posted(fields): Posted<Fields>,
) -> Result<Response, Fault> {
    let (tenant, agent) = owner(&panel, &visitor, &tenant, &agent).await?;
    let p = visitor.page("agents");
    let errors = match fields.read(panel.clock.now_ms()) {
        Err(errors) => errors,
        Ok(new) => {
            if is_repeated(&visitor, &fields.form).await? {
                let path = agents::path(&tenant.slug, agent.id);
                return visitor.done(&path, p.t("keys.shown_already")).await;
            }
            let (tenant_ref, agent_ref) = (TenantRef::Id(tenant.id), AgentRef::Id(agent.id));
            match panel.control.keys().create(&visitor.actor, &tenant_ref, &agent_ref, new).await {
                Ok(minted) => {
                    // Shown in the answer itself: the text is kept nowhere that a second page could read it from.
                    return show(&Created {
                        endpoint: visitor.visit.endpoint(),
                        p,
                        tenant,
                        agent,
                        key: minted.record,
                        secret: minted.key,
                        old_ends_at: None,
                    });
                }
                Err(error) => Errors::from_control(error)?,
            }
        }
    };
    let fields = Fields { form: uuid::Uuid::now_v7().simple().to_string(), ..fields };
    show_again(&New { p, tenant, agent, errors, fields })
}

#[derive(Template)]
#[template(path = "keys/detail.html")]
struct Detail {
    p: Page,
    tenant: Tenant,
    agent: Agent,
    key: KeyRecord,
    active: bool,
    form: String,
    errors: Errors,
}

impl Detail {
    async fn of(panel: &Shared, visitor: &Visitor, key: &str) -> Result<Self, Fault> {
        let id: KeyId = key.parse().map_err(|_| Fault::NotFound)?;
        let key = panel.control.keys().get(&visitor.actor, id).await?;
        let tenant = panel.control.tenants().get(&visitor.actor, &key.tenant_id.into()).await?;
        let agent = panel.control.agents().get(&visitor.actor, &key.tenant_id.into(), &key.agent_id.into()).await?;
        Ok(Self {
            p: visitor.page("agents"),
            tenant,
            agent,
            active: key.status(panel.clock.now_ms()) == KeyStatus::Active,
            key,
            form: uuid::Uuid::now_v7().simple().to_string(),
            errors: Errors::default(),
        })
    }

    fn limit_link(&self) -> String {
        let target = format!("key/{}/{}/{}", self.tenant.id, self.agent.id, self.key.id);
        link("/admin/limits/edit", &[("target", &target), ("kind", "rate"), ("back", &self.p.here)])
    }
}

/// `GET /admin/keys/{key}`
pub(crate) async fn detail(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(key): Path<String>,
) -> Result<Response, Fault> {
    show(&Detail::of(&panel, &visitor, &key).await?)
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Rotate {
    overlap: String,
    form: String,
}

/// `POST /admin/keys/{key}/rotate`
pub(crate) async fn rotate(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(key): Path<String>,
    Posted(form): Posted<Rotate>,
) -> Result<Response, Fault> {
    let before = Detail::of(&panel, &visitor, &key).await?;
    let overlap: Overlap = form.overlap.parse()?;
    if is_repeated(&visitor, &form.form).await? {
        let path = agents::path(&before.tenant.slug, before.agent.id);
        return visitor.done(&path, before.p.t("keys.shown_already")).await;
    }
    let minted = panel.control.keys().rotate(&visitor.actor, before.key.id, overlap).await?;
    let old = panel.control.keys().get(&visitor.actor, before.key.id).await?;
    let Detail { p, tenant, agent, .. } = before;
    show(&Created {
        endpoint: visitor.visit.endpoint(),
        old_ends_at: old.revoked_at.or(old.expires_at),
        p,
        tenant,
        agent,
        key: minted.record,
        secret: minted.key,
    })
}

/// `POST /admin/keys/{key}/revoke`
pub(crate) async fn revoke(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(key): Path<String>,
    Posted(form): Posted<Confirmed>,
) -> Result<Response, Fault> {
    let page = Detail::of(&panel, &visitor, &key).await?;
    if form.confirm.trim() != page.key.name {
        let errors = Errors::at("confirm", page.p.f1("list.type_name", &page.key.name));
        return show_again(&Detail { errors, ..page });
    }
    panel.control.keys().revoke(&visitor.actor, page.key.id).await?;
    let text = page.p.f1("keys.revoked_done", &page.key.name);
    visitor.done(&agents::path(&page.tenant.slug, page.agent.id), text).await
}
