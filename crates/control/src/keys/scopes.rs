//! What an API key opens.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::db::{Arg, json_column};
use crate::error::ControlError;
use crate::json::JsonText;
use crate::tool_glob::ToolGlob;

/// What a key opens: the tools whose names match a pattern, as far as the key carries
/// what they ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "Unchecked")]
pub struct KeyScopes {
    tools: Vec<ToolGlob>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    grants: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    tools: Vec<ToolGlob>,
    #[serde(default)]
    grants: Vec<String>,
}

impl TryFrom<Unchecked> for KeyScopes {
    type Error = ControlError;

    fn try_from(Unchecked { tools, grants }: Unchecked) -> Result<Self, ControlError> {
        Self::new(tools)?.with_grants(grants)
    }
}

impl KeyScopes {
    /// The most patterns of one key, and the most grants.
    pub const MAX: usize = 64;

    /// The tools of these patterns, without grants.
    ///
    /// # Errors
    /// `Invalid` for none, or for more than [`KeyScopes::MAX`].
    pub fn new(patterns: Vec<ToolGlob>) -> Result<Self, ControlError> {
        if (1..=Self::MAX).contains(&patterns.len()) {
            return Ok(Self { tools: patterns, grants: Vec::new() });
        }
        let message =
            format!("an API key has 1 to {} scopes, not {}; \"*\" opens every tool", Self::MAX, patterns.len());
        Err(ControlError::invalid("scopes", &patterns.len(), &message))
    }

    /// The same tools, with what some of them ask for (`scopes = ["reports:write"]` in
    /// their code).
    ///
    /// # Errors
    /// `Invalid` for a text that is no scope of OAuth (RFC 6749, section 3.3), or for
    /// more than [`KeyScopes::MAX`].
    pub fn with_grants(self, grants: Vec<String>) -> Result<Self, ControlError> {
        if grants.len() > Self::MAX {
            let message = format!("an API key has at most {} grants, not {}", Self::MAX, grants.len());
            return Err(ControlError::invalid("grants", &grants.len(), &message));
        }
        let is_scope_token = |grant: &&String| {
            (1..=128).contains(&grant.len()) && grant.bytes().all(|b| matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
        };
        if let Some(wrong) = grants.iter().find(|grant| !is_scope_token(grant)) {
            let message = format!(
                "{wrong:?} is no scope: 1 to 128 printable ASCII characters without spaces, \
                 quotes and backslashes"
            );
            return Err(ControlError::invalid("grants", wrong, &message));
        }
        Ok(Self { grants, ..self })
    }

    /// Every tool that asks for nothing.
    pub fn all() -> Self {
        Self { tools: vec![ToolGlob::any()], grants: Vec::new() }
    }

    /// The patterns.
    pub fn patterns(&self) -> &[ToolGlob] {
        &self.tools
    }

    /// The grants.
    pub fn grants(&self) -> &[String] {
        &self.grants
    }

    /// Whether a pattern matches this tool.
    pub fn allow(&self, tool: &str) -> bool {
        self.tools.iter().any(|pattern| pattern.matches(tool))
    }

    /// Whether the key carries all that a tool asks for.
    pub fn carry(&self, asked: &[String]) -> bool {
        asked.iter().all(|scope| self.grants.contains(scope))
    }
}

impl fmt::Display for KeyScopes {
    /// The patterns and then the grants, separated by spaces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self.tools.iter().map(ToolGlob::as_str);
        for (at, text) in texts.chain(self.grants.iter().map(String::as_str)).enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{text}")?;
        }
        Ok(())
    }
}

json_column!(KeyScopes);

impl From<&KeyScopes> for Arg<'_> {
    fn from(scopes: &KeyScopes) -> Self {
        JsonText::of(scopes).as_str().to_owned().into()
    }
}
