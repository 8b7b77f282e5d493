//! The registry of tools, as rows.
//!
//! A server writes the tools it serves when it starts, so that the command line and the
//! panel, which may be other processes, know their names and can refuse a misspelt one.

mod switches;

pub use switches::ToolSwitch;
pub(crate) use switches::{ALL_SWITCHES, OF_SCOPE, SWITCHES_SINCE, switch};

use std::collections::HashMap;

use serde::Serialize;
use utoipa::ToSchema;

use crate::actor::{Actor, Role};
use crate::audit::Record;
use crate::control::Control;
use crate::db::{Transaction, args};
use crate::error::ControlError;
use crate::json::JsonText;
use crate::page::{Page, PageRequest};
use crate::tool_glob::ToolGlob;

/// A tool that a server serves, or once served.
#[derive(Clone, Debug, PartialEq, Serialize, sqlx::FromRow, ToSchema)]
pub struct Tool {
    /// What it is, as the server declares it.
    #[sqlx(flatten)]
    #[serde(flatten)]
    pub definition: ToolDefinition,
    /// When a server first served it, in epoch milliseconds.
    pub first_seen_at: i64,
    /// When a server last started with it, in epoch milliseconds.
    pub last_seen_at: i64,
}

/// What a server declares of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, sqlx::FromRow, ToSchema)]
pub struct ToolDefinition {
    /// Its name: 1 to 128 letters, digits and any of `_-./`.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// The JSON Schema of its arguments.
    pub input_schema: JsonText,
    /// The limits in its code, as JSON; the server defines the form.
    pub declared_limits: JsonText,
}

macro_rules! select_tools {
    ($tail:literal) => {
        concat!(
            "SELECT name, title, description, input_schema, declared_limits, first_seen_at,
                    last_seen_at
             FROM tools ",
            $tail
        )
    };
}

const ALL: &str = select_tools!("ORDER BY name");

const BY_NAME: &str = select_tools!("WHERE name = $1");

const LIST: &str = select_tools!("WHERE name > $1 ORDER BY name LIMIT $2");

const NAMES: &str = "SELECT name FROM tools ORDER BY name";

const UPSERT: &str = "INSERT INTO tools (name, title, description, input_schema, declared_limits,
         first_seen_at, last_seen_at)
     VALUES ($1, $2, $3, $4, $5, $6, $6)
     ON CONFLICT (name) DO UPDATE SET title = excluded.title, description = excluded.description,
         input_schema = excluded.input_schema, declared_limits = excluded.declared_limits,
         last_seen_at = excluded.last_seen_at";

const SEE: &str = "UPDATE tools SET last_seen_at = $2 WHERE name = $1";

/// How many names an error suggests.
const SUGGESTIONS: usize = 3;

/// Use cases on the registry of tools.
#[derive(Clone, Copy)]
pub struct Tools<'a> {
    pub(crate) control: &'a Control,
}

impl Tools<'_> {
    /// Writes the tools that a server serves. New and altered ones are a change and go to
    /// the audit log; the others are only seen again. Tools that are not mentioned stay:
    /// another server may serve them.
    ///
    /// # Errors
    /// `Invalid` for a bad name, `Forbidden` for an actor confined to a tenant.
    pub async fn register(self, actor: &Actor, tools: &[ToolDefinition]) -> Result<(), ControlError> {
        actor.require_global(Role::Operator)?;
        for tool in tools {
            check_name(&tool.name)?;
        }
        let known: Vec<Tool> = self.control.read().await?.all(ALL, args![]).await?;
        let known: HashMap<_, _> =
            known.into_iter().map(|tool| (tool.definition.name.clone(), tool.definition)).collect();
        let (same, altered): (Vec<_>, Vec<_>) = tools.iter().partition(|tool| known.get(&tool.name) == Some(tool));

        let now = self.control.now_ms();
        let mut tx = self.control.db().write().await?;
        for tool in same {
            tx.execute(SEE, args![&tool.name, now]).await?;
        }
        tx.commit().await?;
        if altered.is_empty() {
            return Ok(());
        }

        let mut change = self.control.change(actor).await?;
        for tool in altered {
            let values = args![
                &tool.name,
                tool.title.as_deref(),
                tool.description.as_deref(),
                &tool.input_schema,
                &tool.declared_limits,
                now,
            ];
            change.execute(UPSERT, values).await?;
            change
                .record(Record {
                    action: "tool.register",
                    target: format!("tool {}", tool.name),
                    tenant_id: None,
                    before: known.get(&tool.name).map(JsonText::of),
                    after: Some(JsonText::of(tool)),
                })
                .await?;
        }
        change.commit().await
    }

    /// One tool. Tools belong to the server and are visible to everybody, since they are
    /// what everybody's limits are about.
    ///
    /// # Errors
    /// `UnknownTool`, with the names that look most like it.
    pub async fn get(self, actor: &Actor, name: &str) -> Result<Tool, ControlError> {
        actor.require(Role::Viewer)?;
        let mut tx = self.control.read().await?;
        match tx.optional(BY_NAME, args![name]).await? {
            Some(tool) => Ok(tool),
            None => Err(unknown(&mut tx, name).await?),
        }
    }

    /// All tools, by name.
    ///
    /// # Errors
    /// `Invalid` for a bad page.
    pub async fn list(self, actor: &Actor, page: &PageRequest) -> Result<Page<Tool>, ControlError> {
        actor.require(Role::Viewer)?;
        let [after] = page.key()?;
        let rows = self.control.read().await?.all(LIST, args![&after, page.rows()]).await?;
        Ok(Page::new(rows, page, |tool: &Tool| vec![tool.definition.name.clone()]))
    }
}

/// Refuses a name that no server has registered.
pub(crate) async fn check_known(tx: &mut Transaction, name: &str) -> Result<(), ControlError> {
    match tx.optional::<Tool>(BY_NAME, args![name]).await? {
        Some(_) => Ok(()),
        None => Err(unknown(tx, name).await?),
    }
}

async fn unknown(tx: &mut Transaction, name: &str) -> Result<ControlError, ControlError> {
    let names: Vec<(String,)> = tx.all(NAMES, args![]).await?;
    let mut nearest: Vec<_> = names.into_iter().map(|(name,)| name).collect();
    nearest.sort_by_cached_key(|known| strsim::damerau_levenshtein(known, name));
    nearest.truncate(SUGGESTIONS);
    Ok(ControlError::UnknownTool { name: name.to_owned(), nearest })
}

/// Refuses a text that cannot be the name of a tool.
pub(crate) fn check_name(name: &str) -> Result<(), ControlError> {
    if name.parse::<ToolGlob>().is_ok() && !name.contains('*') {
        return Ok(());
    }
    let message = format!("tool name {name:?} must be 1 to {} letters, digits and any of _-./", ToolGlob::MAX_LENGTH);
    Err(ControlError::invalid("tool", name, &message))
}
