//! People: who may sign in, what they may do, and the tokens of programs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use secrecy::SecretString;
use serde::Deserialize;
use sluicegate_control::{
    AdminToken, AdminTokenId, AdminUser, ControlError, KeyStatus, MintedToken, NewToken, NewUser, PageRequest, Role,
    Session, Tenant, TenantId, TenantRef, UserId, UserRef,
};

use crate::Shared;
use crate::fault::Fault;
use crate::form::{Errors, Posted};
use crate::page::Page;
use crate::pages::tenants::Confirmed;
use crate::pages::{named_tenant, tenants_to_choose};
use crate::visit::{Visitor, show, show_again};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

#[derive(Template)]
#[template(path = "people/list.html")]
struct People {
    p: Page,
    users: Vec<AdminUser>,
    tokens: Vec<AdminToken>,
    tenants: Vec<Tenant>,
    reach: BTreeMap<TenantId, String>,
    user_errors: Errors,
    token_errors: Errors,
    user: UserFields,
    token: TokenFields,
    minted: Option<MintedToken>,
}

impl People {
    async fn of(panel: &Shared, visitor: &Visitor) -> Result<Self, Fault> {
        let actor = &visitor.actor;
        let all = PageRequest::first(PageRequest::MAX);
        let users = panel.control.users().list(actor, &all).await?.items;
        let tokens = if actor.may(Role::Owner) {
            panel.control.admin_tokens().list(actor, &all).await?.items
        } else {
            Vec::new()
        };
        let tenants = tenants_to_choose(panel, visitor, None).await?;
        let mut reach: BTreeMap<_, _> = tenants.iter().map(|tenant| (tenant.id, tenant.name.clone())).collect();
        let confined = users.iter().filter_map(|user| user.tenant_id);
        for tenant in confined.chain(tokens.iter().filter_map(|token| token.tenant_id)) {
            if let Entry::Vacant(name) = reach.entry(tenant) {
                name.insert(panel.control.tenants().get(actor, &tenant.into()).await?.name);
            }
        }
        let (user_errors, token_errors, user, token) = <_>::default();
        let p = visitor.page("people");
        Ok(Self { p, users, tokens, tenants, reach, user_errors, token_errors, user, token, minted: None })
    }

    fn reach(&self, tenant: &Option<TenantId>) -> String {
        let tenant = tenant.as_ref().map(|id| self.reach.get(id).cloned().unwrap_or_else(|| id.to_string()));
        tenant.unwrap_or_else(|| self.p.t("people.everywhere").to_owned())
    }

    fn roles(&self) -> [Role; 3] {
        Role::ALL
    }

    fn opens(&self, token: &AdminToken) -> bool {
        token.status(self.p.now) == KeyStatus::Active
    }

    fn token_status(&self, token: &AdminToken) -> String {
        self.p.word("status", token.status(self.p.now))
    }
}

/// `GET /admin/people`
pub(crate) async fn list(State(panel): State<Shared>, visitor: Visitor) -> Result<Response, Fault> {
    show(&People::of(&panel, &visitor).await?)
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct UserFields {
    name: String,
    password: SecretString,
    role: String,
    tenant: String,
}

fn role(text: &str) -> Role {
    text.parse().unwrap_or(Role::Viewer)
}

/// `POST /admin/people`
pub(crate) async fn create(
    State(panel): State<Shared>,
    visitor: Visitor,
    Posted(form): Posted<UserFields>,
) -> Result<Response, Fault> {
    let new = NewUser {
        name: form.name.trim().to_owned(),
        password: form.password.clone(),
        role: role(&form.role),
        tenant: named_tenant(&form.tenant),
    };
    match panel.control.users().create(&visitor.actor, new).await {
        Ok(user) => {
            let text = visitor.page("people").f1("people.created", &user.name);
            visitor.done("/admin/people", text).await
        }
        Err(error) => {
            let user_errors = match error {
                ControlError::Conflict(message) => Errors::at("name", message),
                other => Errors::from_control(other)?,
            };
            let user = UserFields { password: SecretString::default(), ..form };
            show_again(&People { user_errors, user, ..People::of(&panel, &visitor).await? })
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct TokenFields {
    name: String,
    role: String,
    tenant: String,
    expires: String,
}

/// `POST /admin/people/tokens`
pub(crate) async fn create_token(
    State(panel): State<Shared>,
    visitor: Visitor,
    Posted(form): Posted<TokenFields>,
) -> Result<Response, Fault> {
    let days = form.expires.parse::<i64>().ok().filter(|days| (1..=3_650).contains(days));
    let new = NewToken {
        name: form.name.trim().to_owned(),
        role: role(&form.role),
        tenant: named_tenant(&form.tenant),
        expires_at: days.map(|days| panel.clock.now_ms() + days * DAY_MS),
    };
    match panel.control.admin_tokens().create(&visitor.actor, new).await {
        // Shown in the answer itself: the text is kept nowhere that a second page could read it from.
        Ok(minted) => show(&People { minted: Some(minted), ..People::of(&panel, &visitor).await? }),
        Err(error) => {
            let token_errors = Errors::from_control(error)?.renamed("name", "token_name");
            show_again(&People { token_errors, token: form, ..People::of(&panel, &visitor).await? })
        }
    }
}

/// `POST /admin/people/tokens/{token}/revoke`
pub(crate) async fn revoke_token(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(token): Path<String>,
) -> Result<Response, Fault> {
    let token: AdminTokenId = token.parse().map_err(|_| Fault::NotFound)?;
    panel.control.admin_tokens().revoke(&visitor.actor, token).await?;
    visitor.done("/admin/people", visitor.page("people").t("people.token_revoked")).await
}

#[derive(Template)]
#[template(path = "people/detail.html")]
struct Person {
    p: Page,
    user: AdminUser,
    sessions: Vec<Session>,
    tenants: Vec<Tenant>,
    errors: Errors,
    /// Whether it is the reader's own page.
    own: bool,
}

impl Person {
    async fn of(panel: &Shared, visitor: &Visitor, id: UserId) -> Result<Self, Fault> {
        let actor = &visitor.actor;
        let own = visitor.me.id == id;
        let user = panel.control.users().get(actor, &UserRef::Id(id)).await?;
        let sessions =
            if own || actor.may(Role::Owner) { panel.control.sessions().list(actor, id).await? } else { Vec::new() };
        // Whoever saves the form unchanged must not change where the account reaches.
        let confined_to = user.tenant_id.map(TenantRef::Id);
        let tenants = tenants_to_choose(panel, visitor, confined_to.as_ref()).await?;
        Ok(Self { p: visitor.page("people"), user, sessions, tenants, errors: Errors::default(), own })
    }

    fn path(&self) -> String {
        format!("/admin/people/{}", self.user.id)
    }

    fn roles(&self) -> [Role; 3] {
        Role::ALL
    }

    fn has_role(&self, role: &Role) -> bool {
        self.user.role == *role
    }

    fn is_confined_to(&self, tenant: &Tenant) -> bool {
        self.user.tenant_id == Some(tenant.id)
    }
}

fn id(text: &str) -> Result<UserId, Fault> {
    text.parse().map_err(|_| Fault::NotFound)
}

/// `GET /admin/people/{user}`
pub(crate) async fn detail(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(user): Path<String>,
) -> Result<Response, Fault> {
    show(&Person::of(&panel, &visitor, id(&user)?).await?)
}

/// `GET /admin/account`
pub(crate) async fn account(visitor: Visitor) -> Redirect {
    Redirect::to(&format!("/admin/people/{}", visitor.me.id))
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct RoleFields {
    role: String,
    tenant: String,
}

/// `POST /admin/people/{user}/role`
pub(crate) async fn set_role(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(user): Path<String>,
    Posted(form): Posted<RoleFields>,
) -> Result<Response, Fault> {
    let id = id(&user)?;
    let tenant = named_tenant(&form.tenant);
    let changed =
        panel.control.users().set_role(&visitor.actor, &UserRef::Id(id), role(&form.role), tenant.as_ref()).await;
    after(&panel, &visitor, id, changed, "role").await
}

/// What a change of an account is answered with; a conflict stands at the form's field.
async fn after(
    panel: &Shared,
    visitor: &Visitor,
    id: UserId,
    changed: Result<AdminUser, ControlError>,
    field: &'static str,
) -> Result<Response, Fault> {
    match changed {
        Ok(user) => visitor.done(&format!("/admin/people/{}", user.id), visitor.page("people").t("list.saved")).await,
        Err(error) => {
            let errors = Errors::from_control(error)?.renamed("", field);
            show_again(&Person { errors, ..Person::of(panel, visitor, id).await? })
        }
    }
}

/// `POST /admin/people/{user}/suspend`
pub(crate) async fn suspend(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(user): Path<String>,
) -> Result<Response, Fault> {
    let id = id(&user)?;
    let changed = panel.control.users().suspend(&visitor.actor, &UserRef::Id(id)).await;
    after(&panel, &visitor, id, changed, "suspend").await
}

/// `POST /admin/people/{user}/resume`
pub(crate) async fn resume(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(user): Path<String>,
) -> Result<Response, Fault> {
    let id = id(&user)?;
    let changed = panel.control.users().resume(&visitor.actor, &UserRef::Id(id)).await;
    after(&panel, &visitor, id, changed, "suspend").await
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct PasswordFields {
    old_password: SecretString,
    password: SecretString,
}

/// `POST /admin/people/{user}/password`: one's own with the old one; anybody's for owners.
pub(crate) async fn set_password(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(user): Path<String>,
    Posted(form): Posted<PasswordFields>,
) -> Result<Response, Fault> {
    let id = id(&user)?;
    let users = panel.control.users();
    if visitor.me.id != id {
        let changed = users.reset_password(&visitor.actor, &UserRef::Id(id), &form.password).await;
        return after(&panel, &visitor, id, changed, "password").await;
    }
    if panel.attempts.take(&visitor.me.name, visitor.visit.address()).is_err() {
        return Err(Fault::BadForm(visitor.page("").f1("sign.too_many", 30)));
    }
    match users.change_own_password(id, &form.old_password, &form.password).await {
        // All sessions of the account have ended, this one too.
        Ok(_) => {
            visitor.visit.session().flush().await?;
            Ok(Redirect::to("/admin/sign-in").into_response())
        }
        Err(error) => after(&panel, &visitor, id, Err(error), "password").await,
    }
}

/// `POST /admin/people/{user}/sessions/{session}/revoke`
pub(crate) async fn revoke_session(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path((user, session)): Path<(String, String)>,
) -> Result<Response, Fault> {
    let session = session.parse().map_err(|_| Fault::NotFound)?;
    panel.control.sessions().revoke(&visitor.actor, session).await?;
    let text = visitor.page("people").t("people.session_ended");
    visitor.done(&format!("/admin/people/{}", id(&user)?), text).await
}

/// `POST /admin/people/{user}/delete`
pub(crate) async fn delete(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(user): Path<String>,
    Posted(form): Posted<Confirmed>,
) -> Result<Response, Fault> {
    let page = Person::of(&panel, &visitor, id(&user)?).await?;
    if form.confirm.trim() != page.user.name {
        let errors = Errors::at("confirm", page.p.f1("list.type_name", &page.user.name));
        return show_again(&Person { errors, ..page });
    }
    match panel.control.users().delete(&visitor.actor, &UserRef::Id(page.user.id)).await {
        Ok(()) => {
            visitor.visit.tell("ok", page.p.f1("people.deleted", &page.user.name)).await?;
            Ok(Redirect::to("/admin/people").into_response())
        }
        Err(error) => {
            let errors = Errors::from_control(error)?.renamed("", "confirm");
            show_again(&Person { errors, ..page })
        }
    }
}
