use std::pin::Pin;

use sluicegate_control::{
    Actor, AdminTokenId, Agent, AlertKind, AlertRuleId, AuditFilter, Control, ControlError, EventFilter, Instance,
    JsonText, KeyId, LimitFilter, LimitId, LimitKindName, MatrixQuery, NewAlertRule, NewKey, NewLimit, NewToken,
    Overlap, PageRequest, Period, PlanId, PolicyDocument, Reach, Retention, Role, RunawayRule, SessionId, Signals,
    Target, TenantFilter, TenantId, TenantRef, TenantSettings, UsageBatch, UsageRange, UsageScope, UserId,
};

use crate::harness::{START, Store, kind, on_both, tool};

/// What there is in the tenant that the use cases are tried on.
pub(crate) struct Fixture {
    pub(crate) acme: TenantId,
    agent: Agent,
    pub(crate) key: KeyId,
    plan: PlanId,
    limit: LimitId,
    server_limit: LimitId,
    pub(crate) user: UserId,
    pub(crate) session: SessionId,
    token: AdminTokenId,
    rule: AlertRuleId,
    /// Unlike any other of the same test.
    fresh: String,
}

pub(crate) type Outcome<'a> = Pin<Box<dyn Future<Output = Result<(), ControlError>> + 'a>>;
pub(crate) type Run = for<'a> fn(&'a Control, &'a Actor, &'a Fixture) -> Outcome<'a>;

/// What an actor gets who has the role, but inside one tenant.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Confined {
    /// In its own tenant it may; to another it does not exist.
    ToItsTenant,
    /// It may, and gets what it can see.
    Filtered,
    /// It does not exist for it.
    NotFound,
    /// It may not, in its own tenant; another does not exist for it.
    ForbiddenInItsTenant,
    /// It may not.
    Forbidden,
}

pub(crate) struct UseCase(&'static str, Role, Confined, pub(crate) Run);

macro_rules! use_cases {
    ($($name:literal, $role:ident, $confined:ident:
        |$control:ident, $actor:ident, $f:ident| $run:expr;)*) => {
        vec![$(UseCase($name, Role::$role, Confined::$confined, |$control, $actor, $f| {
            Box::pin(async move { $run.await.map(drop) })
        })),*]
    };
}

pub(crate) fn use_cases() -> Vec<UseCase> {
    use_cases![
        "tenants.create", Operator, Forbidden: |c, a, f| c.tenants().create(a, &f.fresh, "x");
        "tenants.get", Viewer, ToItsTenant: |c, a, f| c.tenants().get(a, &f.acme.into());
        "tenants.get by slug", Viewer, ToItsTenant: |c, a, _f| c.tenants().get(a, &"acme".into());
        "tenants.list", Viewer, Filtered: |c, a, _f| c.tenants().list(a, &TenantFilter::default(), &PageRequest::default());
        "tenants.rename", Operator, ToItsTenant: |c, a, f| c.tenants().rename(a, &f.acme.into(), &f.fresh);
        "tenants.suspend", Operator, ToItsTenant: |c, a, f| c.tenants().suspend(a, &f.acme.into());
        "tenants.resume", Operator, ToItsTenant: |c, a, f| c.tenants().resume(a, &f.acme.into());
        "tenants.set_settings", Operator, ToItsTenant: |c, a, f| c.tenants().set_settings(a, &f.acme.into(), TenantSettings::default());
        "tenants.set_metadata", Operator, ToItsTenant: |c, a, f| c.tenants().set_metadata(a, &f.acme.into(), JsonText::empty_object());
        "tenants.assign_plan", Operator, ForbiddenInItsTenant: |c, a, f| c.tenants().assign_plan(a, &f.acme.into(), None);
        "agents.create", Operator, ToItsTenant: |c, a, f| c.agents().create(a, &f.acme.into(), &f.fresh);
        "agents.get", Viewer, ToItsTenant: |c, a, f| c.agents().get(a, &f.acme.into(), &f.agent.id.into());
        "agents.names", Viewer, ToItsTenant: |c, a, f| c.agents().names(a, &f.acme.into(), &[f.agent.id]);
        "agents.list", Viewer, ToItsTenant: |c, a, f| c.agents().list(a, &f.acme.into(), &PageRequest::default());
        "agents.suspend", Operator, ToItsTenant: |c, a, f| c.agents().suspend(a, &f.acme.into(), &f.agent.id.into());
        "agents.resume", Operator, ToItsTenant: |c, a, f| c.agents().resume(a, &f.acme.into(), &f.agent.id.into());
        "agents.record_sightings", Operator, Forbidden: |c, a, _f| c.agents().record_sightings(a, &[]);
        "keys.create", Operator, ToItsTenant: |c, a, f| c.keys().create(a, &f.acme.into(), &f.agent.id.into(), NewKey::named("x"));
        "keys.get", Viewer, ToItsTenant: |c, a, f| c.keys().get(a, f.key);
        "keys.list", Viewer, ToItsTenant: |c, a, f| c.keys().list(a, &f.acme.into(), None, &PageRequest::default());
        "keys.list of an agent", Viewer, ToItsTenant: |c, a, f| c.keys().list(a, &f.acme.into(), Some(&f.agent.id.into()), &PageRequest::default());
        "keys.rotate", Operator, ToItsTenant: |c, a, f| c.keys().rotate(a, f.key, Overlap::Week);
        "keys.revoke", Operator, ToItsTenant: |c, a, f| c.keys().revoke(a, f.key);
        "keys.record_uses", Operator, Forbidden: |c, a, _f| c.keys().record_uses(a, &[]);
        "plans.create", Operator, Forbidden: |c, a, f| c.plans().create(a, &f.fresh, "");
        "plans.get", Viewer, NotFound: |c, a, f| c.plans().get(a, &f.plan.into());
        "plans.list", Viewer, Filtered: |c, a, _f| c.plans().list(a, &PageRequest::default());
        "plans.delete", Operator, NotFound: |c, a, f| c.plans().delete(a, &f.plan.into());
        "limits.set on a tenant", Operator, ToItsTenant: |c, a, f| c.limits().set(a, &NewLimit::rate(Target::Tenant { tenant: f.acme }, "1/s"));
        "limits.set on an agent", Operator, ToItsTenant: |c, a, f| c.limits().set(a, &NewLimit::rate(Target::Agent { tenant: f.acme, agent: f.agent.id }, "1/s"));
        "limits.set on a tenant's tool", Operator, ToItsTenant: |c, a, f| c.limits().set(a, &NewLimit::rate(Target::TenantTool { tenant: f.acme, tool: "export".into() }, "1/s"));
        "limits.set on the server", Operator, NotFound: |c, a, _f| c.limits().set(a, &NewLimit::rate(Target::Server, "1/s"));
        "limits.set on a tool", Operator, NotFound: |c, a, _f| c.limits().set(a, &NewLimit::rate(Target::Tool { tool: "export".into() }, "1/s"));
        "limits.set on a plan", Operator, NotFound: |c, a, f| c.limits().set(a, &NewLimit::rate(Target::Plan { plan: f.plan }, "1/s"));
        "limits.get", Viewer, ToItsTenant: |c, a, f| c.limits().get(a, f.limit);
        "limits.get of the server", Viewer, NotFound: |c, a, f| c.limits().get(a, f.server_limit);
        "limits.list", Viewer, Filtered: |c, a, _f| c.limits().list(a, &LimitFilter::All, &PageRequest::default());
        "limits.list of a tenant", Viewer, ToItsTenant: |c, a, f| c.limits().list(a, &LimitFilter::Tenant(f.acme.into()), &PageRequest::default());
        "limits.list of a plan", Viewer, NotFound: |c, a, f| c.limits().list(a, &LimitFilter::Plan(f.plan.into()), &PageRequest::default());
        "limits.unset", Operator, ToItsTenant: |c, a, f| c.limits().unset(a, &Target::Agent { tenant: f.acme, agent: f.agent.id }, LimitKindName::Concurrency);
        "limits.unset on the server", Operator, NotFound: |c, a, _f| c.limits().unset(a, &Target::Server, LimitKindName::Rate);
        "tools.register", Operator, Forbidden: |c, a, _f| c.tools().register(a, &[tool("export")]);
        "tools.get", Viewer, Filtered: |c, a, _f| c.tools().get(a, "export");
        "tools.list", Viewer, Filtered: |c, a, _f| c.tools().list(a, &PageRequest::default());
        "tools.disable for everybody", Operator, Forbidden: |c, a, _f| c.tools().disable(a, "export", None);
        "tools.disable for a tenant", Operator, ToItsTenant: |c, a, f| c.tools().disable(a, "export", Some(&f.acme.into()));
        "tools.enable for a tenant", Operator, ToItsTenant: |c, a, f| c.tools().enable(a, "export", Some(&f.acme.into()));
        "tools.enable for everybody", Operator, Forbidden: |c, a, _f| c.tools().enable(a, "export", None);
        "tools.switches", Viewer, Filtered: |c, a, _f| c.tools().switches(a, None);
        "tools.switches of a tenant", Viewer, ToItsTenant: |c, a, f| c.tools().switches(a, Some(&f.acme.into()));
        "limits.preview of a tenant", Viewer, ToItsTenant: |c, a, f| c.limits().preview(a, &NewLimit::rate(Target::Tenant { tenant: f.acme }, "1/s"), Period::Day);
        "limits.preview of an agent", Viewer, ToItsTenant: |c, a, f| c.limits().preview(a, &NewLimit::rate(Target::Agent { tenant: f.acme, agent: f.agent.id }, "1/s"), Period::Week);
        "limits.preview of the server", Viewer, NotFound: |c, a, _f| c.limits().preview(a, &NewLimit::rate(Target::Server, "1/s"), Period::Day);
        "limits.preview of a plan", Viewer, NotFound: |c, a, f| c.limits().preview(a, &NewLimit::rate(Target::Plan { plan: f.plan }, "1/s"), Period::Day);
        "usage.totals", Viewer, Filtered: |c, a, _f| c.usage().totals(a, &UsageScope::default(), range());
        "usage.totals of a tenant", Viewer, ToItsTenant: |c, a, f| c.usage().totals(a, &of(f), range());
        "usage.totals of an agent", Viewer, ToItsTenant: |c, a, f| c.usage().totals(a, &of_agent(f), range());
        "usage.series", Viewer, Filtered: |c, a, _f| c.usage().series(a, &UsageScope::default(), range());
        "usage.series of a tenant", Viewer, ToItsTenant: |c, a, f| c.usage().series(a, &of(f), range());
        "usage.series of an agent", Viewer, ToItsTenant: |c, a, f| c.usage().series(a, &of_agent(f), range());
        "usage.by_tool", Viewer, Filtered: |c, a, _f| c.usage().by_tool(a, &UsageScope::default(), range());
        "usage.by_tool of a tenant", Viewer, ToItsTenant: |c, a, f| c.usage().by_tool(a, &of(f), range());
        "usage.by_tool of an agent", Viewer, ToItsTenant: |c, a, f| c.usage().by_tool(a, &of_agent(f), range());
        "usage.of_agents", Viewer, ToItsTenant: |c, a, f| c.usage().of_agents(a, &f.acme.into(), &[f.agent.id], range());
        "usage.of_tenants", Viewer, Filtered: |c, a, f| c.usage().of_tenants(a, &[f.acme], range());
        "usage.throttle_by_tool", Viewer, Filtered: |c, a, _f| c.usage().throttle_by_tool(a, &MatrixQuery::of(range()), &PageRequest::default());
        "usage.throttle_by_tool of a tenant", Viewer, ToItsTenant: |c, a, f| c.usage().throttle_by_tool(a, &MatrixQuery { tenant: Some(f.acme.into()), ..MatrixQuery::of(range()) }, &PageRequest::default());
        "usage.runaways", Viewer, Filtered: |c, a, _f| c.usage().runaways(a, RunawayRule::default());
        "usage.record", Operator, Forbidden: |c, a, f| c.usage().record(a, &UsageBatch { writer: f.fresh.clone(), seq: 1, seen: vec![(f.acme, f.agent.id, 1)], ..UsageBatch::default() });
        "usage.forget", Operator, Forbidden: |c, a, _f| c.usage().forget(a, Retention { minutes_ms: 1, hours_ms: 1, days_ms: 1 });
        "events.list", Viewer, Filtered: |c, a, _f| c.events().list(a, &EventFilter::default(), &PageRequest::default());
        "events.list of a tenant", Viewer, ToItsTenant: |c, a, f| c.events().list(a, &EventFilter { tenant: Some(f.acme.into()), ..EventFilter::default() }, &PageRequest::default());
        "events.list of an agent", Viewer, ToItsTenant: |c, a, f| c.events().list(a, &EventFilter { tenant: Some(f.acme.into()), agent: Some(f.agent.id.into()), ..EventFilter::default() }, &PageRequest::default());
        "events.after", Viewer, Filtered: |c, a, _f| c.events().after(a, &EventFilter::default(), None, 10);
        "events.record", Operator, Forbidden: |c, a, _f| c.events().record(a, &[]);
        "events.forget", Operator, Forbidden: |c, a, _f| c.events().forget(a, 1, 1);
        "users.get", Owner, ToItsTenant: |c, a, f| c.users().get(a, &f.user.into());
        "users.list", Owner, Filtered: |c, a, _f| c.users().list(a, &PageRequest::default());
        "users.set_role", Owner, ToItsTenant: |c, a, f| async { c.users().set_role(a, &f.user.into(), Role::Operator, Some(&TenantRef::from(f.acme))).await };
        "users.set_role everywhere", Owner, ForbiddenInItsTenant: |c, a, f| c.users().set_role(a, &f.user.into(), Role::Operator, None);
        "users.suspend", Owner, ToItsTenant: |c, a, f| c.users().suspend(a, &f.user.into());
        "users.resume", Owner, ToItsTenant: |c, a, f| c.users().resume(a, &f.user.into());
        "users.delete", Owner, ToItsTenant: |c, a, f| c.users().delete(a, &f.user.into());
        "admin_tokens.create for everything", Owner, Forbidden: |c, a, _f| c.admin_tokens().create(a, token(None));
        "admin_tokens.create for a tenant", Owner, ToItsTenant: |c, a, f| c.admin_tokens().create(a, token(Some(f.acme)));
        "admin_tokens.get", Owner, ToItsTenant: |c, a, f| c.admin_tokens().get(a, f.token);
        "admin_tokens.list", Owner, Filtered: |c, a, _f| c.admin_tokens().list(a, &PageRequest::default());
        "admin_tokens.revoke", Owner, ToItsTenant: |c, a, f| c.admin_tokens().revoke(a, f.token);
        "setup.offer", Owner, Forbidden: |c, a, _f| c.setup().offer(a);
        "alerts.create_rule", Operator, Forbidden: |c, a, _f| c.alerts().create_rule(a, rule(None));
        "alerts.create_rule of a tenant", Operator, ToItsTenant: |c, a, f| c.alerts().create_rule(a, rule(Some(f.acme)));
        "alerts.replace_rule", Operator, ToItsTenant: |c, a, f| c.alerts().replace_rule(a, f.rule, NewAlertRule { minutes: 7, ..rule(Some(f.acme)) });
        "alerts.replace_rule by one of everything", Operator, ForbiddenInItsTenant: |c, a, f| c.alerts().replace_rule(a, f.rule, rule(None));
        "alerts.rule", Viewer, ToItsTenant: |c, a, f| c.alerts().rule(a, f.rule);
        "alerts.rules", Viewer, Filtered: |c, a, _f| c.alerts().rules(a, &PageRequest::default());
        "alerts.list", Viewer, Filtered: |c, a, _f| c.alerts().list(a, &PageRequest::default());
        "alerts.open", Viewer, Filtered: |c, a, _f| c.alerts().open(a);
        "alerts.evaluate", Operator, Forbidden: |c, a, _f| async { c.alerts().evaluate(a, &Signals::default()).await };
        "alerts.test_message", Operator, ToItsTenant: |c, a, f| c.alerts().test_message(a, f.rule);
        "alerts.rotate_secret", Operator, ToItsTenant: |c, a, f| c.alerts().rotate_secret(a, f.rule);
        "alerts.claim_deliveries", Operator, Forbidden: |c, a, _f| c.alerts().claim_deliveries(a, 1_000, 8);
        "alerts.forget", Operator, Forbidden: |c, a, _f| c.alerts().forget(a, 1);
        "alerts.delete_rule", Operator, ToItsTenant: |c, a, f| c.alerts().delete_rule(a, f.rule);
        "instances.list", Viewer, Forbidden: |c, a, _f| c.instances().list(a);
        "instances.beat", Operator, Forbidden: |c, a, f| async { c.instances().beat(a, &instance(&f.fresh)).await };
        "instances.leave", Operator, Forbidden: |c, a, f| c.instances().leave(a, &f.fresh);
        "transfer.export", Viewer, Filtered: |c, a, _f| c.transfer().export(a, None);
        "transfer.export of a tenant", Viewer, ToItsTenant: |c, a, f| async { c.transfer().export(a, Some(&f.acme.into())).await };
        "transfer.import of a tenant", Operator, ToItsTenant: |c, a, f| async { c.transfer().import(a, &policy(f), false).await };
        "transfer.import of a tenant, tried", Operator, ToItsTenant: |c, a, f| async { c.transfer().import(a, &policy(f), true).await };
        "transfer.import of a plan", Operator, Forbidden: |c, a, _f| async { c.transfer().import(a, &everything(), true).await };
        "plans.set_note", Operator, NotFound: |c, a, f| c.plans().set_note(a, &f.plan.into(), "x");
        "audit.list", Viewer, Filtered: |c, a, _f| c.audit().list(a, None, &PageRequest::default());
        "audit.search", Viewer, Filtered: |c, a, _f| c.audit().search(a, &AuditFilter::default(), &PageRequest::default());
        "audit.search of a tenant", Viewer, ToItsTenant: |c, a, f| c.audit().search(a, &AuditFilter { tenant: Some(f.acme.into()), ..AuditFilter::default() }, &PageRequest::default());
        "audit.list of a tenant", Viewer, ToItsTenant: |c, a, f| c.audit().list(a, Some(&f.acme.into()), &PageRequest::default());
        "audit.verify", Viewer, Forbidden: |c, a, _f| c.audit().verify(a);
        "tenants.delete", Operator, ForbiddenInItsTenant: |c, a, f| c.tenants().delete(a, &f.acme.into());
    ]
}

fn range() -> UsageRange {
    UsageRange::last(Period::Hour, START)
}

fn of(f: &Fixture) -> UsageScope {
    UsageScope { tenant: Some(f.acme.into()), ..UsageScope::default() }
}

fn of_agent(f: &Fixture) -> UsageScope {
    UsageScope { agent: Some(f.agent.id.into()), tool: Some("export".to_owned()), ..of(f) }
}

fn token(tenant: Option<TenantId>) -> NewToken {
    NewToken { name: "ci".to_owned(), role: Role::Viewer, tenant: tenant.map(TenantRef::from), expires_at: None }
}

fn rule(tenant: Option<TenantId>) -> NewAlertRule {
    NewAlertRule {
        name: "throttling".to_owned(),
        kind: AlertKind::Throttling,
        tenant: tenant.map(TenantRef::from),
        tool: None,
        threshold: 10,
        minutes: 5,
        enabled: true,
        webhook: Some("https://example.com/hook".to_owned()),
    }
}

fn instance(id: &str) -> Instance {
    Instance {
        id: id.to_owned(),
        address: String::new(),
        version: String::new(),
        revision: sluicegate_control::Revision::START,
        draining: false,
        started_at: 0,
        seen_at: 0,
    }
}

/// Another name for the tenant, and other limits.
fn policy(f: &Fixture) -> PolicyDocument {
    let text = serde_json::json!({
        "version": 1,
        "tenants": [{
            "slug": "acme", "name": f.fresh, "limits": [{ "rate": "5/s" }, { "rate": "1/s", "tool": "export" }],
            "agents": [{ "name": "u-42", "limits": [] }], "disabled_tools": ["export"],
        }],
    });
    serde_json::from_value(text).unwrap()
}

fn everything() -> PolicyDocument {
    let text = serde_json::json!({
        "version": 1, "limits": [], "plans": [{ "name": "imported", "limits": [{ "rate": "5/s" }] }],
    });
    serde_json::from_value(text).unwrap()
}

/// An account and a session without the cost of hashing a password.
async fn account(store: &Store, acme: TenantId, number: usize) -> (UserId, SessionId) {
    let (user, session) = (format!("usr_{number:032x}"), format!("ses_{number:032x}"));
    let account = format!(
        "INSERT INTO admin_users (id, name, password_hash, role, tenant_id, status, created_at, created_by, updated_at,
             revision)
         VALUES ('{user}', 'user-{number}', '', 'viewer', '{acme}', 'active', 0, '', 0, 0);
         INSERT INTO admin_sessions (hash, id, user_id, data, created_at, seen_at, idle_ends_at, ends_at)
         VALUES ('{session}', '{session}', '{user}', '{{}}', 0, 0, {START}0, {START}0)"
    );
    store.sql(&account).await.unwrap();
    (user.parse().unwrap(), session.parse().unwrap())
}

/// Makes a new `acme`, so that each use case finds everything in its first state.
pub(crate) async fn fixture(store: &Store, number: usize) -> Fixture {
    if store.control.tenants().get(&store.root, &"acme".into()).await.is_ok() {
        store.control.tenants().delete(&store.root, &"acme".into()).await.unwrap();
    }
    let acme = store.tenant("acme").await.id;
    let agent = store.agent("acme", "u-42").await;
    let key = store.key(&agent).await.key.id();
    let plan = format!("plan-{number}");
    let plan = store.control.plans().create(&store.root, &plan, "").await.unwrap().id;
    let set = async |new: NewLimit| store.control.limits().set(&store.root, &new).await.unwrap().id;
    let target = Target::Agent { tenant: acme, agent: agent.id };
    let limit = set(NewLimit::concurrency(target, "5")).await;
    let server_limit = set(NewLimit::rate(Target::Server, "1000/s")).await;
    let (user, session) = account(store, acme, number).await;
    let token = store.control.admin_tokens().create(&store.root, token(Some(acme))).await.unwrap().record.id;
    let rule = store.control.alerts().create_rule(&store.root, rule(Some(acme))).await.unwrap().rule.id;
    Fixture {
        acme,
        agent,
        key,
        plan,
        limit,
        server_limit,
        user,
        session,
        token,
        rule,
        fresh: format!("fresh-{number}"),
    }
}

fn expected(needed: Role, confined: Confined, role: Role, global: bool, own: bool) -> &'static str {
    if role < needed {
        return "forbidden";
    }
    if global {
        return "ok";
    }
    match confined {
        Confined::Filtered => "ok",
        Confined::Forbidden => "forbidden",
        Confined::NotFound => "not found",
        Confined::ToItsTenant if own => "ok",
        Confined::ForbiddenInItsTenant if own => "forbidden",
        Confined::ToItsTenant | Confined::ForbiddenInItsTenant => "not found",
    }
}

on_both! {
    async fn each_use_case_serves_whom_it_should_and_nobody_else(store: &Store) {
        store.tools(&["export"]).await;
        let globex = store.tenant("globex").await.id;
        let mut number = 0;
        let mut f = fixture(store, number).await;
        for UseCase(name, needed, confined, run) in use_cases() {
            for role in [Role::Viewer, Role::Operator, Role::Owner] {
                for reach in ["global", "own", "foreign"] {
                    let actor = Actor::user("alice", role, match reach {
                        "global" => Reach::Global,
                        "own" => Reach::Tenant(f.acme),
                        _ => Reach::Tenant(globex),
                    });
                    let outcome = run(&store.control, &actor, &f).await;
                    let expected = expected(needed, confined, role, reach == "global", reach == "own");
                    assert_eq!(kind(&outcome), expected, "{name} as {role}, {reach}: {outcome:?}");
                    if outcome.is_ok() && needed != Role::Viewer {
                        number += 1;
                        f = fixture(store, number).await;
                    }
                }
            }
        }
    }

    async fn lists_hold_only_what_a_confined_actor_sees(store: &Store) {
        store.tools(&["export"]).await;
        let f = fixture(store, 0).await;
        let globex = store.tenant("globex").await.id;
        let theirs = store.agent("globex", "u-42").await;
        let target = Target::Agent { tenant: globex, agent: theirs.id };
        store.control.limits().set(&store.root, &NewLimit::rate(target, "1/s")).await.unwrap();
        let alice = Actor::user("alice", Role::Owner, Reach::Tenant(f.acme));
        let page = PageRequest::default();

        let tenants = store.control.tenants().list(&alice, &TenantFilter::default(), &page).await.unwrap();
        assert_eq!(tenants.items.iter().map(|t| t.id).collect::<Vec<_>>(), [f.acme]);
        let limits = store.control.limits().list(&alice, &LimitFilter::All, &page).await.unwrap();
        assert_eq!(limits.items.iter().map(|l| l.id).collect::<Vec<_>>(), [f.limit]);
        assert!(store.control.plans().list(&alice, &page).await.unwrap().items.is_empty());
        let log = store.control.audit().list(&alice, None, &page).await.unwrap();
        assert!(log.items.iter().all(|entry| entry.tenant_id == Some(f.acme)));
        assert_eq!(log.items.len(), 6);
    }

    async fn an_actor_that_names_the_other_tenants_agent_of_the_same_name_gets_its_own(store: &Store) {
        let ours = fixture(store, 0).await;
        store.tenant("globex").await;
        let theirs = store.agent("globex", "u-42").await;
        let alice = Actor::user("alice", Role::Owner, Reach::Tenant(ours.acme));
        let agents = store.control.agents();
        let found = agents.get(&alice, &"acme".into(), &"u-42".into()).await.unwrap();
        assert_eq!(found.id, ours.agent.id);
        assert_eq!(kind(&agents.get(&alice, &"globex".into(), &"u-42".into()).await), "not found");
        assert_eq!(kind(&agents.get(&alice, &"acme".into(), &theirs.id.into()).await), "not found");
        let crossed = Target::Agent { tenant: ours.acme, agent: theirs.id };
        let set = store.control.limits().set(&alice, &NewLimit::rate(crossed, "1/s")).await;
        assert_eq!(kind(&set), "not found");
    }
}
