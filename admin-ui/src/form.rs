//! Errors that stand at the field they are about.

use std::collections::BTreeMap;

use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;
use sluicegate_control::ControlError;

use crate::fault::Fault;
use crate::markup::{Markup, escape};

/// The fields of a posted form.
pub(crate) struct Posted<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Posted<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, state: &S) -> Result<Self, Fault> {
        let form = axum::Form::<T>::from_request(request, state).await;
        form.map(|axum::Form(fields)| Self(fields)).map_err(|error| Fault::BadForm(error.body_text()))
    }
}

/// What is wrong with a form, by field. The field `""` is the form as a whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Errors(BTreeMap<&'static str, String>);

impl Errors {
    pub(crate) fn at(field: &'static str, message: impl Into<String>) -> Self {
        Self(BTreeMap::from([(field, message.into())]))
    }

    /// What a use case had against a form; what no form can mend is handed back.
    pub(crate) fn from_control(error: ControlError) -> Result<Self, Fault> {
        match error {
            ControlError::Invalid { field, message, .. } => Ok(Self::at(field, message)),
            ControlError::Conflict(message) => Ok(Self::at("", message)),
            ControlError::UnknownTool { .. } => Ok(Self::at("tool", error.to_string())),
            other => Err(other.into()),
        }
    }

    /// The same error at another name: the form calls the field differently.
    pub(crate) fn renamed(mut self, from: &'static str, to: &'static str) -> Self {
        if let Some(message) = self.0.remove(from) {
            self.0.insert(to, message);
        }
        self
    }

    pub(crate) fn add(&mut self, field: &'static str, message: impl Into<String>) {
        self.0.insert(field, message.into());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The attributes of a field that was refused, for templates.
    pub(crate) fn mark(&self, field: &str) -> Markup {
        match self.0.get(field) {
            Some(_) => Markup::trusted(format!(" aria-invalid=\"true\" aria-describedby=\"{}-error\"", escape(field))),
            None => Markup::default(),
        }
    }

    /// The message under a field that was refused, for templates.
    pub(crate) fn note(&self, field: &str) -> Markup {
        let Some(message) = self.0.get(field) else { return Markup::default() };
        let (field, message) = (escape(field), escape(message));
        Markup::trusted(format!("<span class=\"error\" id=\"{field}-error\">{message}</span>"))
    }

    pub(crate) fn has(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    /// Any of the messages.
    pub(crate) fn first(&self) -> &str {
        self.0.values().next().map(String::as_str).unwrap_or_default()
    }

    /// Messages about fields that this form does not show, and about the form as a whole.
    pub(crate) fn others<'s>(&self, shown: impl AsRef<[&'s str]>) -> Vec<&str> {
        let shown = shown.as_ref();
        self.0.iter().filter(|(field, _)| !shown.contains(*field)).map(|(_, message)| message.as_str()).collect()
    }
}
