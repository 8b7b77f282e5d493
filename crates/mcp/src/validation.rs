//! Checking the arguments of a call against the tool's input schema.

use std::sync::Arc;

use jsonschema::Validator;
use rmcp::model::JsonObject;
use serde_json::Value;

use crate::arguments::{ArgumentPath, invalid_arguments};
use crate::error::ToolError;

/// How many mistakes one answer names.
const NAMED_MISTAKES: usize = 8;

/// A compiled input schema, or the reason why there is none.
#[derive(Clone)]
pub(crate) struct Validation {
    validator: Result<Arc<Validator>, Arc<str>>,
}

impl Validation {
    pub(crate) fn new(schema: &JsonObject) -> Self {
        let validator = jsonschema::draft202012::new(&Value::Object(schema.clone()));
        Self { validator: validator.map(Arc::new).map_err(|error| error.to_string().into()) }
    }

    /// What is wrong with the schema itself.
    pub(crate) fn defect(&self) -> Option<&str> {
        self.validator.as_ref().err().map(|reason| &**reason)
    }

    /// Checks the arguments, which are handed back if they fit.
    pub(crate) fn check(&self, arguments: JsonObject) -> Result<JsonObject, ToolError> {
        let validator = self
            .validator
            .as_ref()
            .map_err(|reason| ToolError::new("this tool's input schema is broken").with_source(&**reason))?;
        let arguments = Value::Object(arguments);
        let mut errors = validator.iter_errors(&arguments).peekable();
        if errors.peek().is_some() {
            return Err(report(errors));
        }
        drop(errors);
        match arguments {
            Value::Object(arguments) => Ok(arguments),
            _ => Ok(JsonObject::new()),
        }
    }
}

/// One line per mistake, each with the path of the field and without the rest of the schema.
fn report<'a>(errors: impl Iterator<Item = jsonschema::ValidationError<'a>>) -> ToolError {
    let mut mistakes: Vec<String> = errors
        .take(NAMED_MISTAKES + 1)
        .map(|error| {
            let path: ArgumentPath = error.instance_path().into_iter().collect();
            path.explain(&error)
        })
        .collect();
    if mistakes.len() > NAMED_MISTAKES {
        mistakes[NAMED_MISTAKES] = "and more".to_owned();
    }
    invalid_arguments(&mistakes.join("; "))
}
