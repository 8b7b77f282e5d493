//! Why a page cannot be shown, or a form not be taken.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use sluicegate_control::ControlError;

/// Why a request was not answered with what it asked for. The middleware [`visit`](crate::visit) turns it into a page.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Control(#[from] ControlError),
    /// There is no such page.
    #[error("there is no such page")]
    NotFound,
    /// A form that was sent from elsewhere.
    #[error("the form was sent from another site")]
    ForeignForm,
    /// A form that no page of ours sends.
    #[error("{0}")]
    BadForm(String),
    /// Nobody is signed in, and a page cannot be shown instead.
    #[error("nobody is signed in")]
    SignedOut,
    #[error("the session could not be read or written: {0}")]
    Session(#[from] tower_sessions::session::Error),
    #[error("a template failed: {0}")]
    Template(#[from] askama::Error),
}

/// What the page about a fault says, on its way through the response.
#[derive(Clone, Debug)]
pub(crate) struct FaultNotice {
    pub(crate) title: &'static str,
    pub(crate) message: Option<String>,
    /// A key of the catalogue: what the reader can do now.
    pub(crate) advice: &'static str,
}

impl Fault {
    fn status(&self) -> StatusCode {
        match self {
            Self::Control(error) => match error {
                ControlError::NotFound { .. } | ControlError::UnknownTool { .. } => StatusCode::NOT_FOUND,
                ControlError::Invalid { .. } => StatusCode::UNPROCESSABLE_ENTITY,
                ControlError::Conflict(_) | ControlError::Stale { .. } => StatusCode::CONFLICT,
                ControlError::Forbidden { .. } => StatusCode::FORBIDDEN,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            },
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::ForeignForm => StatusCode::FORBIDDEN,
            Self::BadForm(_) => StatusCode::BAD_REQUEST,
            Self::SignedOut => StatusCode::UNAUTHORIZED,
            Self::Session(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Template(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn notice(&self, status: StatusCode) -> FaultNotice {
        let (title, advice) = match status {
            StatusCode::NOT_FOUND => ("fault.not_found", "fault.not_found_advice"),
            StatusCode::FORBIDDEN if matches!(self, Self::ForeignForm) => ("fault.foreign", "fault.foreign_advice"),
            StatusCode::FORBIDDEN => ("fault.forbidden", "fault.forbidden_advice"),
            StatusCode::CONFLICT => ("fault.conflict", "fault.conflict_advice"),
            StatusCode::UNAUTHORIZED => ("fault.signed_out", "fault.signed_out_advice"),
            StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST => ("fault.invalid", "fault.invalid_advice"),
            _ => ("fault.unavailable", "fault.unavailable_advice"),
        };
        let message = match self {
            Self::Control(error) if status != StatusCode::SERVICE_UNAVAILABLE => Some(error.to_string()),
            Self::BadForm(message) => Some(message.clone()),
            _ => None,
        };
        FaultNotice { title, message, advice }
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let status = self.status();
        if status.is_server_error() {
            let inside = match &self {
                Self::Control(error) => error.inside(),
                other => other.to_string(),
            };
            tracing::error!(error = inside, "the panel could not answer");
        }
        let mut response = status.into_response();
        response.extensions_mut().insert(self.notice(status));
        response
    }
}

impl FaultNotice {
    /// The words for an answer that came from the framework, such as 405.
    pub(crate) fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::NOT_FOUND => Self { title: "fault.not_found", message: None, advice: "fault.not_found_advice" },
            _ => Self { title: "fault.invalid", message: None, advice: "fault.invalid_advice" },
        }
    }
}
