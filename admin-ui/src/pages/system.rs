//! The server itself: version, health, migrations, settings.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use sluicegate_control::{Health, Instance, MigrationStatus, Role};

use crate::Shared;
use crate::fault::Fault;
use crate::page::Page;
use crate::visit::{Visitor, show};

#[derive(Template)]
#[template(path = "system.html")]
struct System<'a> {
    p: Page,
    health: Health,
    migrations: MigrationStatus,
    instances: Vec<Instance>,
    settings: &'a [(String, String)],
    metrics: &'a str,
}

/// `GET /admin/system`
pub(crate) async fn system(State(panel): State<Shared>, visitor: Visitor) -> Result<Response, Fault> {
    if !visitor.actor.may_globally(Role::Viewer) {
        return Err(Fault::NotFound);
    }
    let migrations = panel.control.migration_status().await?;
    let health = panel.live.health();
    let instances = panel.control.instances().list(&visitor.actor).await?;
    let (settings, metrics) = (&panel.settings, &panel.metrics);
    show(&System { p: visitor.page("system"), health, migrations, instances, settings, metrics })
}
