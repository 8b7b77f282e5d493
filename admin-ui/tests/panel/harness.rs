//! A panel on a fresh database, and somebody who browses it.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use secrecy::SecretString;
use sluicegate_admin_ui::Panel;
use sluicegate_control::{
    Actor, Agent, AgentRef, AlertRuleId, Answer, Control, ControlError, EngineHealth, Explanation, Health, JsonText,
    KeyId, LiveView, ManualClock, NewUser, Options, PolicyHealth, Question, Revision, Role, Tenant, TenantRef, Tool,
    ToolDefinition, UsageHealth, WebhookAnswer,
};
use tempfile::TempDir;
use tower::ServiceExt as _;

/// When a test begins: 2026-01-01T00:00:00Z.
pub(crate) const START: i64 = 1_767_225_600_000;

pub(crate) const PASSWORD: &str = "correct horse battery";

/// A server that serves no tool itself, beside which the panel runs.
struct Elsewhere(Control);

impl LiveView for Elsewhere {
    fn revision(&self) -> Revision {
        Revision::START
    }

    fn explain<'a>(&'a self, _: &'a Actor, question: Question) -> Answer<'a, Result<Explanation, ControlError>> {
        Box::pin(async { Err(ControlError::NotFound { what: "tool on this server", name: question.tool }) })
    }

    fn explain_each<'a>(
        &'a self,
        _: &'a Actor,
        _: &'a TenantRef,
        _: &'a AgentRef,
        _: Option<KeyId>,
        _: &'a [Tool],
    ) -> Answer<'a, Result<Vec<Explanation>, ControlError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn health(&self) -> Health {
        Health {
            version: "0.0.0".to_owned(),
            started_at: START,
            draining: false,
            in_flight: 3,
            engine: EngineHealth { kind: "memory".to_owned(), degraded: false, live_keys: 12 },
            policy: PolicyHealth { revision: 1, loaded_at: START, error: None },
            usage: UsageHealth::default(),
        }
    }

    fn test_webhook<'a>(
        &'a self,
        actor: &'a Actor,
        rule: AlertRuleId,
    ) -> Answer<'a, Result<WebhookAnswer, ControlError>> {
        Box::pin(async move {
            self.0.alerts().test_message(actor, rule).await?;
            Ok(WebhookAnswer { delivered: true, status: Some(204), error: None, took_ms: 7 })
        })
    }
}

pub(crate) struct House {
    pub(crate) router: Router,
    pub(crate) control: Control,
    pub(crate) clock: ManualClock,
    pub(crate) root: Actor,
    _folder: TempDir,
}

impl House {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = ManualClock::at(START);
        let mut options = Options::default();
        options.clock = clock.clone().into();
        let url = format!("sqlite:{}", folder.path().join("panel.db").display());
        let control = Control::connect(&url, options).await.expect("a database");
        control.migrate().await.expect("a schema");
        let router = sluicegate_admin_ui::router(Panel {
            control: control.clone(),
            live: Arc::new(Elsewhere(control.clone())),
            clock: clock.clone().into(),
            settings: vec![("bind".to_owned(), "127.0.0.1:8080".to_owned())],
            metrics: "/metrics".to_owned(),
        });
        Self { router, control, clock, root: Actor::cli("root"), _folder: folder }
    }

    pub(crate) async fn tenant(&self, slug: &str) -> Tenant {
        self.control.tenants().create(&self.root, slug, &format!("{slug} Inc.")).await.expect("a tenant")
    }

    pub(crate) async fn agent(&self, tenant: &str, name: &str) -> Agent {
        self.control.agents().create(&self.root, &tenant.into(), name).await.expect("an agent")
    }

    pub(crate) async fn tools(&self, names: &[&str]) {
        let tool = |name: &&str| ToolDefinition {
            name: (*name).to_owned(),
            title: None,
            description: Some(format!("does {name} <b>boldly</b>")),
            input_schema: JsonText::empty_object(),
            declared_limits: r#"{"rate_limit":["5/min"]}"#.parse().expect("JSON"),
        };
        let tools: Vec<_> = names.iter().map(tool).collect();
        self.control.tools().register(&self.root, &tools).await.expect("tools");
    }

    pub(crate) async fn user(&self, name: &str, role: Role, tenant: Option<&str>) {
        let new = NewUser {
            name: name.to_owned(),
            password: SecretString::from(PASSWORD),
            role,
            tenant: tenant.map(Into::into),
        };
        self.control.users().create(&self.root, new).await.expect("a user");
    }

    /// Somebody whose browser has no cookie yet.
    pub(crate) fn stranger(&self) -> Browser {
        Browser { router: self.router.clone(), cookie: None, language: "en", site: Some("same-origin") }
    }

    pub(crate) async fn signed_in(&self, name: &str) -> Browser {
        let mut browser = self.stranger();
        let page = browser.post("/admin/sign-in", &[("name", name), ("password", PASSWORD)]).await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{}", page.text);
        browser
    }

    /// An owner of the server who has signed in.
    pub(crate) async fn owner(&self) -> Browser {
        self.user("olga", Role::Owner, None).await;
        self.signed_in("olga").await
    }
}

/// A browser that keeps the session cookie, and says where its forms come from.
pub(crate) struct Browser {
    router: Router,
    pub(crate) cookie: Option<String>,
    pub(crate) language: &'static str,
    /// What it sends as `Sec-Fetch-Site`.
    pub(crate) site: Option<&'static str>,
}

/// What it gets.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) head: Response<()>,
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn location(&self) -> &str {
        self.head.headers().get(header::LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.head.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The value of a hidden field.
    pub(crate) fn hidden(&self, name: &str) -> String {
        let start = format!("name=\"{name}\" value=\"");
        let (_, after) = self.text.split_once(&start).unwrap_or_else(|| panic!("no field {name} in {}", self.text));
        after.split('"').next().expect("an end").to_owned()
    }
}

impl Browser {
    pub(crate) async fn get(&mut self, path: &str) -> Page {
        self.send(Method::GET, path, String::new()).await
    }

    pub(crate) async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let pairs: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        self.send(Method::POST, path, pairs.join("&")).await
    }

    /// The status of a page, whose body is not waited for.
    pub(crate) async fn status(&self, path: &str) -> StatusCode {
        let mut request = Request::get(path).header(header::HOST, "panel.example");
        if let Some(cookie) = &self.cookie {
            request = request.header(header::COOKIE, cookie);
        }
        let request = request.body(Body::empty()).expect("a request");
        self.router.clone().oneshot(request).await.expect("an answer").status()
    }

    async fn send(&mut self, method: Method, path: &str, body: String) -> Page {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "panel.example")
            .header(header::ACCEPT_LANGUAGE, self.language)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(site) = self.site {
            request = request.header("sec-fetch-site", site);
        }
        if let Some(cookie) = &self.cookie {
            request = request.header(header::COOKIE, cookie);
        }
        let request = request.body(Body::from(body)).expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("an answer");
        let (parts, body) = response.into_parts();
        for set in parts.headers.get_all(header::SET_COOKIE) {
            let set = set.to_str().expect("text");
            let pair = set.split(';').next().expect("a pair");
            if pair.starts_with("__Host-sluicegate=") {
                self.cookie = Some(pair.to_owned()).filter(|_| !set.contains("Max-Age=0"));
            }
        }
        let bytes = body.collect().await.expect("a body").to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Page { status: parts.status, head: Response::from_parts(parts, ()), text }
    }
}
