//! Somebody who has signed in to the panel: pages as a browser without scripts gets them.

use std::fmt::Write as _;

use http::{Method, StatusCode, header};
use reqwest::redirect::Policy;
use sluicegate::control::{Control, NewUser, Role, TenantRef};

use crate::client::Answer;
use crate::server::actor;

const PASSWORD: &str = "correct horse battery";

/// Somebody with a session.
#[derive(Clone, Debug)]
pub struct Visitor {
    http: reqwest::Client,
    base: String,
    cookie: String,
}

impl Visitor {
    /// Makes an account, and signs in to the panel of the server at `base`, such as `http://127.0.0.1:8080`.
    ///
    /// # Panics
    /// When one of the two does not succeed.
    pub async fn sign_in(control: &Control, base: &str, name: &str, role: Role, tenant: Option<&str>) -> Self {
        let new = NewUser {
            name: name.to_owned(),
            password: PASSWORD.to_owned().into(),
            role,
            tenant: tenant.map(TenantRef::from),
        };
        control.users().create(&actor(), new).await.expect("an account");
        let http = reqwest::Client::builder().no_proxy().redirect(Policy::none()).build().expect("a client");
        let mut visitor = Self { http, base: base.to_owned(), cookie: String::new() };
        let answer = visitor.post("/admin/sign-in", &[("name", name), ("password", PASSWORD)]).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{answer:?}");
        let cookie = answer.header("set-cookie").and_then(|cookie| cookie.split(';').next()).expect("a session");
        cookie.clone_into(&mut visitor.cookie);
        visitor
    }

    /// The cookie of the session, as it is sent.
    #[must_use]
    pub fn cookie(&self) -> &str {
        &self.cookie
    }

    /// A page.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.http.request(Method::GET, format!("{}{path}", self.base))).await
    }

    /// Sends a form of one of the panel's pages.
    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let mut form = String::new();
        for (name, value) in fields {
            let _ = write!(form, "&{name}=");
            value.bytes().for_each(|byte| {
                let _ = write!(form, "%{byte:02X}");
            });
        }
        let request = self.http.request(Method::POST, format!("{}{path}", self.base));
        let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.send(request.header("sec-fetch-site", "same-origin").body(form.trim_start_matches('&').to_owned())).await
    }

    async fn send(&self, mut request: reqwest::RequestBuilder) -> Answer {
        if !self.cookie.is_empty() {
            request = request.header(header::COOKIE, &self.cookie);
        }
        let response = request.send().await.expect("every request is answered");
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, text: response.text().await.expect("the body arrives whole") }
    }
}
