//! What a use case can fail with.

use crate::actor::Role;
use crate::json::JsonText;

/// Why a use case did not do what it was asked.
///
/// `Display` is the outside message: safe to show to whoever asked, it says what
/// happened, to which value, and what to do. What only an operator should read (the
/// database's own words) is the [`source`](std::error::Error::source). Neither holds a
/// secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// There is no such thing, or the actor is confined to a tenant that it is not in:
    /// the two are not told apart.
    #[error("there is no {what} {name:?}")]
    NotFound {
        /// The kind of thing, such as `tenant`.
        what: &'static str,
        /// The name or id that was asked for.
        name: String,
    },
    /// A tool name that no server has registered.
    #[error("there is no tool {name:?}{}", suggestion(nearest))]
    UnknownTool {
        /// The name that was asked for.
        name: String,
        /// The registered names that look most like it, best first.
        nearest: Vec<String>,
    },
    /// A value that cannot be accepted. `message` is a complete sentence.
    #[error("{message}")]
    Invalid {
        /// The field, as the use case names it.
        field: &'static str,
        /// The value that was refused.
        value: String,
        /// What is wrong with it and what would be right. For the text of a limit: the
        /// message of the limit parser, unchanged.
        message: String,
    },
    /// The change contradicts what is already there. The text is a complete sentence.
    #[error("{0}")]
    Conflict(String),
    /// What was to be changed is not any more as the actor has seen it, see [`Actor::expecting`](crate::Actor::expecting).
    #[error("{target} has been changed meanwhile: look at it again, and repeat what still applies")]
    Stale {
        /// What it is, in the words of the audit log.
        target: String,
        /// How it is now, as JSON; nothing when it did not exist.
        present: Option<JsonText>,
    },
    /// The actor may see this but not do it.
    #[error("{actor} may not do this: it needs the role {needed} {}", reach(*.global))]
    Forbidden {
        /// Who asked.
        actor: String,
        /// The least role that may.
        needed: Role,
        /// Whether a role inside one tenant is not enough.
        global: bool,
    },
    /// The address of the database cannot be used.
    #[error("the database address is not usable: {0}")]
    Address(&'static str),
    /// The database could not be reached, or did not do what it was told.
    #[error("the database is not available or refused the request; the log has the cause")]
    Database(#[from] sqlx::Error),
    /// The schema could not be brought up to date.
    #[error("the database migrations could not be applied; the log has the cause")]
    Migration(#[from] sqlx::migrate::MigrateError),
}

impl ControlError {
    /// The inside message, for the log: with the cause, which `Display` leaves out.
    pub fn inside(&self) -> String {
        match std::error::Error::source(self) {
            Some(cause) => format!("{self}: {cause}"),
            None => self.to_string(),
        }
    }

    pub(crate) fn not_found(what: &'static str, name: &impl ToString) -> Self {
        Self::NotFound { what, name: name.to_string() }
    }

    pub(crate) fn invalid(
        field: &'static str,
        value: &(impl ToString + ?Sized),
        message: &(impl ToString + ?Sized),
    ) -> Self {
        Self::Invalid { field, value: value.to_string(), message: message.to_string() }
    }
}

fn suggestion(nearest: &[String]) -> String {
    match nearest {
        [] => "; no tool is registered yet".to_owned(),
        [one] => format!("; did you mean {one:?}?"),
        many => format!("; did you mean one of {}?", many.join(", ")),
    }
}

const fn reach(global: bool) -> &'static str {
    if global { "for the whole server" } else { "in this tenant" }
}
