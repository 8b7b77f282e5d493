//! Every tool of a server, by name.

use crate::tool::Tool;

/// The place of a tool in its server's [`Registry`]. Cheap to copy, compare and count by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolIndex(u32);

impl ToolIndex {
    /// The index of the tool at this place, counted from 0 by name.
    pub fn at(place: usize) -> Option<Self> {
        u32::try_from(place).ok().map(Self)
    }

    /// The index as a number: 0 for the first tool by name, and so on without gaps.
    pub fn get(self) -> u32 {
        self.0
    }
}

/// Every tool of a server: built once, sorted by name, never changed.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    tools: Box<[Tool]>,
}

impl Registry {
    /// Takes the tools, in any order.
    ///
    /// # Errors
    ///
    /// If a name is invalid or taken twice, or if an input schema is not one that a client could satisfy. The first
    /// problem by name is reported.
    pub fn new(tools: impl IntoIterator<Item = Tool>) -> Result<Self, RegistryError> {
        let mut tools: Vec<Tool> = tools.into_iter().collect();
        tools.sort_by(|a, b| a.name().cmp(b.name()));
        for pair in tools.windows(2) {
            if pair[0].name() == pair[1].name() {
                return Err(RegistryError::DuplicateName {
                    name: pair[0].name().to_owned(),
                    first: pair[0].origin().to_owned(),
                    second: pair[1].origin().to_owned(),
                });
            }
        }
        for tool in &tools {
            check(tool)?;
        }
        Ok(Self { tools: tools.into() })
    }

    /// Looks a tool up by its exact name.
    pub fn get(&self, name: &str) -> Option<(ToolIndex, &Tool)> {
        let at = self.tools.binary_search_by(|tool| tool.name().cmp(name)).ok()?;
        Some((index(at), &self.tools[at]))
    }

    /// The tool at an index of this registry.
    ///
    /// # Panics
    ///
    /// If the index comes from a larger registry.
    pub fn tool(&self, index: ToolIndex) -> &Tool {
        &self.tools[index.0 as usize]
    }

    /// All tools, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (ToolIndex, &Tool)> {
        self.tools.iter().enumerate().map(|(at, tool)| (index(at), tool))
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

fn index(at: usize) -> ToolIndex {
    ToolIndex(u32::try_from(at).expect("a registry holds fewer than 2^32 tools"))
}

fn check(tool: &Tool) -> Result<(), RegistryError> {
    let name = tool.name();
    if name.is_empty() || name.len() > 128 || !name.bytes().all(is_name_byte) {
        return Err(RegistryError::InvalidName { name: name.to_owned(), origin: tool.origin().to_owned() });
    }
    let root = tool.input_schema().get("type").cloned().unwrap_or_default();
    if root != "object" {
        return Err(RegistryError::InputIsNoObject { name: name.to_owned(), root: root.to_string() });
    }
    if let Some(reason) = tool.validation().and_then(|validation| validation.defect()) {
        return Err(RegistryError::InvalidSchema { name: name.to_owned(), reason: reason.to_owned() });
    }
    Ok(())
}

/// The characters of a tool name in MCP: ASCII letters, digits, `_`, `-` and `.`.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Why a set of tools is no registry. All of these are mistakes in code, found when the server starts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Two tools have the same name.
    #[error("the tool name `{name}` is taken twice, by `{first}` and by `{second}`: rename one with `name = \"…\"`")]
    DuplicateName {
        /// The name.
        name: String,
        /// Where one of them is written.
        first: String,
        /// Where the other is written.
        second: String,
    },
    /// A name that MCP does not allow.
    #[error("the tool name `{name}` of `{origin}` is not valid: 1 to 128 of A-Z a-z 0-9 _ - .")]
    InvalidName {
        /// The name.
        name: String,
        /// Where the tool is written.
        origin: String,
    },
    /// The arguments of a call are always an object, so the schema has to be one of an object.
    #[error(
        "the input schema of the tool `{name}` describes no object (its type is {root}): make `Params<T>` a struct"
    )]
    InputIsNoObject {
        /// The tool's name.
        name: String,
        /// What the schema's root says it is.
        root: String,
    },
    /// The input schema is no valid JSON Schema, so arguments cannot be checked against it.
    #[error("the input schema of the tool `{name}` is not valid: {reason}")]
    InvalidSchema {
        /// The tool's name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rmcp::model::JsonObject;
    use serde_json::json;

    use super::*;
    use crate::output::ToolOutput as _;
    use crate::schema::InputSchema;

    fn tool(name: &'static str, schema: Arc<JsonObject>) -> Tool {
        Tool::new(name, schema, |_call| Box::pin(async { ().into_result() }))
    }

    fn error(tool: Tool) -> String {
        Registry::new([tool]).expect_err("the tool is refused").to_string()
    }

    #[test]
    fn names_that_mcp_does_not_allow_are_refused() {
        for name in ["", "a b", "größe", "a/b"] {
            let message = error(tool(name, InputSchema::new().finish()).with_origin("reports::export"));
            assert_eq!(
                message,
                format!("the tool name `{name}` of `reports::export` is not valid: 1 to 128 of A-Z a-z 0-9 _ - .")
            );
        }
        assert!(Registry::new([tool("A.z-0_9", InputSchema::new().finish())]).is_ok());
    }

    #[test]
    fn an_input_schema_that_no_call_could_satisfy_is_refused() {
        let mut schema = InputSchema::new();
        schema.object::<Vec<u8>>();
        assert!(error(tool("list", schema.finish())).contains(r#"(its type is "array")"#));
        assert!(error(tool("untyped", Arc::new(JsonObject::new()))).contains("(its type is null)"));
    }

    #[test]
    fn a_schema_that_is_none_is_refused_when_arguments_are_to_be_checked_against_it() {
        let schema = json!({ "type": "object", "properties": { "a": { "type": "strange" } } });
        let schema = Arc::new(schema.as_object().expect("an object").clone());
        assert!(Registry::new([tool("odd", Arc::clone(&schema))]).is_ok());
        let message = error(tool("odd", schema).validated());
        assert!(message.starts_with("the input schema of the tool `odd` is not valid: "), "{message}");
    }

    #[test]
    fn an_empty_registry_finds_nothing() {
        let registry = Registry::default();
        assert!(registry.is_empty() && registry.get("x").is_none());
    }
}
