//! Patterns over tool names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A pattern that tool names are matched against: `*` stands for any run of characters,
/// the empty one included, and everything else for itself.
///
/// It is what an API key's scopes and a tenant's allowed tools are made of: `*`,
/// `export`, `reports_*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(into = "String", try_from = "String")]
#[schema(value_type = String)]
pub struct ToolGlob(String);

/// Why a text is no tool pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolGlobError {
    /// Nothing, or more than [`ToolGlob::MAX_LENGTH`] bytes.
    #[error(
        "a tool pattern has 1 to {max} characters: {0:?} has {len}",
        max = ToolGlob::MAX_LENGTH,
        len = .0.len()
    )]
    Length(String),
    /// A character that no tool name has.
    #[error(
        "{character:?} cannot occur in tool pattern {pattern:?}: \
         use letters, digits and any of _-./*"
    )]
    Character {
        /// The text that was refused.
        pattern: String,
        /// The first character that does not belong.
        character: char,
    },
}

impl ToolGlob {
    /// The longest pattern, in bytes; tool names are at most as long.
    pub const MAX_LENGTH: usize = 128;

    /// The pattern that every tool matches.
    pub fn any() -> Self {
        Self("*".to_owned())
    }

    /// The text of the pattern.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `tool` is one of the names the pattern stands for.
    ///
    /// Takes the first place where each literal piece fits, so the time is at most the
    /// product of the two lengths, whatever the pattern.
    pub fn matches(&self, tool: &str) -> bool {
        let Some((head, rest)) = self.0.split_once('*') else { return self.0 == tool };
        let Some(mut tool) = tool.strip_prefix(head) else { return false };
        let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
        for piece in middle.split('*') {
            let Some(at) = tool.find(piece) else { return false };
            tool = &tool[at + piece.len()..];
        }
        tool.ends_with(tail)
    }
}

impl FromStr for ToolGlob {
    type Err = ToolGlobError;

    fn from_str(text: &str) -> Result<Self, ToolGlobError> {
        if text.is_empty() || text.len() > Self::MAX_LENGTH {
            return Err(ToolGlobError::Length(text.to_owned()));
        }
        let foreign = text.chars().find(|c| !c.is_ascii_alphanumeric() && !"_-./*".contains(*c));
        match foreign {
            None => Ok(Self(text.to_owned())),
            Some(character) => Err(ToolGlobError::Character { pattern: text.to_owned(), character }),
        }
    }
}

impl TryFrom<String> for ToolGlob {
    type Error = ToolGlobError;

    fn try_from(text: String) -> Result<Self, ToolGlobError> {
        text.parse()
    }
}

impl From<ToolGlob> for String {
    fn from(glob: ToolGlob) -> Self {
        glob.0
    }
}

impl fmt::Display for ToolGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, tool: &str) -> bool {
        pattern.parse::<ToolGlob>().expect("a good pattern").matches(tool)
    }

    #[test]
    fn a_star_stands_for_any_run_of_characters() {
        assert!(matches("*", ""));
        assert!(matches("*", "export"));
        assert!(matches("reports_*", "reports_write"));
        assert!(matches("reports_*", "reports_"));
        assert!(matches("*_write", "reports_write"));
        assert!(matches("a*b*c", "a--b--b--c"));
        assert!(matches("**", "x"));
    }

    #[test]
    fn what_is_not_a_star_stands_for_itself() {
        assert!(matches("export", "export"));
        assert!(!matches("export", "exports"));
        assert!(!matches("reports_*", "report"));
        assert!(!matches("*_write", "reports_write_all"));
        assert!(!matches("ab*ba", "aba"), "the ends may not overlap");
        assert!(!matches("a*b*c", "acb"));
    }

    #[test]
    fn a_bad_pattern_is_refused_with_the_character_that_does_not_belong() {
        let error = "reports ?".parse::<ToolGlob>().expect_err("has a space");
        assert!(error.to_string().starts_with("' ' cannot occur"), "{error}");
        assert!("".parse::<ToolGlob>().is_err());
        assert!("a".repeat(129).parse::<ToolGlob>().is_err());
    }

    /// The definition, letter by letter.
    fn naive(pattern: &[u8], tool: &[u8]) -> bool {
        match pattern.split_first() {
            None => tool.is_empty(),
            Some((b'*', rest)) => (0..=tool.len()).any(|skip| naive(rest, &tool[skip..])),
            Some((first, rest)) => tool.first() == Some(first) && naive(rest, &tool[1..]),
        }
    }

    proptest! {
        #[test]
        fn matching_agrees_with_the_definition(pattern in "[ab*]{1,8}", tool in "[ab]{0,10}") {
            prop_assert_eq!(matches(&pattern, &tool), naive(pattern.as_bytes(), tool.as_bytes()));
        }
    }
}
