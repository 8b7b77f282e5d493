//! Lists of tenants, a page at a time.

use super::{Tenant, Tenants};
use crate::actor::{Actor, Role};
use crate::db::args;
use crate::error::ControlError;
use crate::ids::PlanId;
use crate::page::{Page, PageRequest};
use crate::status::Status;
use crate::text;

/// In which order tenants are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TenantOrder {
    /// By slug.
    #[default]
    Slug,
    /// The newest first.
    Newest,
}

/// Which tenants a list holds, and in which order.
#[derive(Clone, Debug, Default)]
pub struct TenantFilter {
    /// In which order; a cursor belongs to the order that it came from.
    pub order: TenantOrder,
    /// Only those with this status.
    pub status: Option<Status>,
    /// Only those whose slug or name contains this text, ignoring the case of ASCII
    /// letters. Such a list looks at every tenant up to the end of its page.
    pub search: Option<String>,
}

const LIST: &str = select_tenants!(
    r"WHERE t.slug > $1
        AND (CAST($3 AS TEXT) IS NULL OR t.id = $3)
        AND (CAST($4 AS TEXT) IS NULL OR t.status = $4)
        AND (CAST($5 AS TEXT) IS NULL
             OR t.slug LIKE $5 ESCAPE '\' OR lower(t.name) LIKE $5 ESCAPE '\')
      ORDER BY t.slug LIMIT $2"
);

/// Ids begin with the time at which they were made.
const NEWEST: &str = select_tenants!(
    r"WHERE t.id < $1
        AND (CAST($3 AS TEXT) IS NULL OR t.id = $3)
        AND (CAST($4 AS TEXT) IS NULL OR t.status = $4)
        AND (CAST($5 AS TEXT) IS NULL
             OR t.slug LIKE $5 ESCAPE '\' OR lower(t.name) LIKE $5 ESCAPE '\')
      ORDER BY t.id DESC LIMIT $2"
);

/// Greater than every id: where a list that begins with the newest begins.
const BEHIND_ALL: &str = "ten_~";

const ON_PLAN: &str = select_tenants!(
    "WHERE t.plan_id = $4 AND t.slug > $1
        AND (CAST($3 AS TEXT) IS NULL OR t.id = $3)
      ORDER BY t.slug LIMIT $2"
);

impl Tenants<'_> {
    /// The tenants that the actor sees.
    ///
    /// # Errors
    /// `Invalid` for a bad page.
    pub async fn list(
        self,
        actor: &Actor,
        filter: &TenantFilter,
        page: &PageRequest,
    ) -> Result<Page<Tenant>, ControlError> {
        actor.require(Role::Viewer)?;
        let [after] = page.key()?;
        let search = filter.search.as_deref().map(|text| text::like(&text.to_ascii_lowercase(), "%", "%"));
        let status = filter.status.map(Status::as_str);
        let (sql, after, key): (_, _, fn(&Tenant) -> String) = match filter.order {
            TenantOrder::Slug => (LIST, after.as_str(), |tenant| tenant.slug.clone()),
            TenantOrder::Newest if after.is_empty() => (NEWEST, BEHIND_ALL, |tenant| tenant.id.to_string()),
            TenantOrder::Newest => (NEWEST, after.as_str(), |tenant| tenant.id.to_string()),
        };
        let values = args![after, page.rows(), actor.confined_to(), status, search];
        let rows = self.control.read().await?.all(sql, values).await?;
        Ok(Page::new(rows, page, |tenant: &Tenant| vec![key(tenant)]))
    }

    /// The tenants on a plan that the actor sees, by slug.
    ///
    /// # Errors
    /// `Invalid` for a bad page.
    pub async fn on_plan(self, actor: &Actor, plan: PlanId, page: &PageRequest) -> Result<Page<Tenant>, ControlError> {
        actor.require(Role::Viewer)?;
        let [after] = page.key()?;
        let values = args![&after, page.rows(), actor.confined_to(), plan];
        let rows = self.control.read().await?.all(ON_PLAN, values).await?;
        Ok(Page::new(rows, page, |tenant: &Tenant| vec![tenant.slug.clone()]))
    }
}
