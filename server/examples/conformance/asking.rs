//! Tools that ask: a person, a model, for roots; in one round or several, in both eras.

#![expect(deprecated, reason = "the suite asks models and for roots, which 2026-07-28 deprecates")]

use rmcp::model::{CreateMessageRequestParams, ElicitationSchema, SamplingMessage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sluicegate::Answers;
use sluicegate::prelude::*;

/// The tools of this file.
pub(crate) struct Asking;

#[derive(Deserialize, JsonSchema)]
struct Named {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirmed {
    #[expect(dead_code, reason = "that somebody answered is all that counts")]
    ok: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Colored {
    color: String,
}

/// Where a call of several rounds stands.
#[derive(Serialize, Deserialize)]
struct Stage {
    round: u32,
}

fn to_model(prompt: impl Into<String>) -> CreateMessageRequestParams {
    CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], 100)
}

/// What a model said.
fn said(answers: &Answers, key: &str) -> Result<String, ToolError> {
    let said = answers.model(key)?;
    let text = said.message.content.first().and_then(|content| content.as_text().map(|text| text.text.clone()));
    Ok(text.unwrap_or_else(|| "no text".to_owned()))
}

/// A form that is written as JSON Schema by hand.
fn written(schema: Value) -> Result<ElicitationSchema, ToolError> {
    serde_json::from_value(schema).or_tool_error("the form is not one")
}

/// Asks with a form and says what became of it.
async fn filled(ask: &Ask, message: impl Into<String>, schema: Value) -> Result<String, ToolError> {
    let answers = ask.question().form_with("form", message, written(schema)?).ask().await?;
    let decision = answers.decision("form")?;
    let action = serde_json::to_value(&decision.action).unwrap_or_default();
    let content = decision.content.unwrap_or_default();
    Ok(format!("action={}, content={content}", action.as_str().unwrap_or_default()))
}

#[tools]
impl Asking {
    /// Ask the caller's model.
    #[tool]
    async fn test_sampling(&self, prompt: String, ask: Ask) -> Result<String, ToolError> {
        let answers = ask.question().model("answer", to_model(prompt)).ask().await?;
        Ok(format!("LLM response: {}", said(&answers, "answer")?))
    }

    /// Ask a person.
    #[tool]
    async fn test_elicitation(&self, message: String, ask: Ask) -> Result<String, ToolError> {
        let form = json!({
            "type": "object",
            "properties": {
                "username": { "type": "string", "description": "User's response" },
                "email": { "type": "string", "description": "User's email address" },
            },
            "required": ["username", "email"],
        });
        Ok(format!("User response: {}", filled(&ask, message, form).await?))
    }

    /// Ask with a form that has defaults (SEP-1034).
    #[tool]
    async fn test_elicitation_sep1034_defaults(&self, ask: Ask) -> Result<String, ToolError> {
        let form = json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "description": "User's name", "default": "John Doe" },
                "age": { "type": "integer", "description": "User's age", "default": 30 },
                "score": { "type": "number", "description": "User's score", "default": 95.5 },
                "status": {
                    "type": "string",
                    "description": "User's status",
                    "enum": ["active", "inactive", "pending"],
                    "default": "active",
                },
                "verified": { "type": "boolean", "description": "Whether user is verified", "default": true },
            },
        });
        Ok(format!("Elicitation completed: {}", filled(&ask, "All of these have defaults.", form).await?))
    }

    /// Ask with a form of choices (SEP-1330).
    #[tool]
    async fn test_elicitation_sep1330_enums(&self, ask: Ask) -> Result<String, ToolError> {
        let titled = |word: &str| {
            json!([
                { "const": "value1", "title": format!("First {word}") },
                { "const": "value2", "title": format!("Second {word}") },
                { "const": "value3", "title": format!("Third {word}") },
            ])
        };
        let options = json!(["option1", "option2", "option3"]);
        let form = json!({
            "type": "object",
            "properties": {
                "untitledSingle": { "type": "string", "enum": options },
                "titledSingle": { "type": "string", "oneOf": titled("Option") },
                "legacyEnum": {
                    "type": "string",
                    "enum": ["opt1", "opt2", "opt3"],
                    "enumNames": ["Option One", "Option Two", "Option Three"],
                },
                "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
                "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
            },
        });
        Ok(format!("Elicitation completed: {}", filled(&ask, "Choose.", form).await?))
    }

    /// Needs a caller with a model.
    #[tool]
    async fn test_missing_capability(&self, ask: Ask) -> Result<&'static str, ToolError> {
        ask.require_model()?;
        Ok("Required capability declared")
    }

    /// Ask a person, whatever was answered before.
    #[tool]
    async fn test_streaming_elicitation(&self, ask: Ask) -> Result<String, ToolError> {
        let named: Option<Named> = ask.form("streaming_elicitation", "Provide a name").await?;
        Ok(named.map_or_else(|| "declined".to_owned(), |named| named.name))
    }

    /// Ask a person for a name.
    #[tool]
    async fn test_input_required_result_elicitation(&self, ask: Ask) -> Result<String, ToolError> {
        let named: Option<Named> = ask.form("user_name", "What is your name?").await?;
        Ok(format!("Hello, {}!", named.map_or_else(|| "friend".to_owned(), |named| named.name)))
    }

    /// Ask the caller's model a question.
    #[tool]
    async fn test_input_required_result_sampling(&self, ask: Ask) -> Result<String, ToolError> {
        let question = to_model("What is the capital of France?");
        let answers = ask.question().model("capital_question", question).ask().await?;
        Ok(format!("Sampling response: {}", said(&answers, "capital_question")?))
    }

    /// Ask for the caller's roots.
    #[tool]
    async fn test_input_required_result_list_roots(&self, ask: Ask) -> Result<String, ToolError> {
        let answers = ask.question().roots("client_roots").ask().await?;
        let roots = answers.roots("client_roots")?.roots;
        Ok(format!("Client roots: {}", roots.iter().map(|root| &*root.uri).collect::<Vec<_>>().join(", ")))
    }

    /// Keep something while a person answers.
    #[tool]
    async fn test_input_required_result_request_state(&self, ask: Ask) -> Result<&'static str, ToolError> {
        confirmed(&ask).await
    }

    /// Keep something that nobody may touch.
    #[tool]
    async fn test_input_required_result_tampered_state(&self, ask: Ask) -> Result<&'static str, ToolError> {
        confirmed(&ask).await
    }

    /// Ask for three things at once.
    #[tool]
    async fn test_input_required_result_multiple_inputs(&self, ask: Ask) -> Result<&'static str, ToolError> {
        let question = ask.question().form::<Named>("user_name", "What is your name?");
        let question = question.model("greeting", to_model("Generate a greeting")).roots("client_roots");
        question.keep(&Stage { round: 1 }).ask().await?;
        Ok("All inputs received")
    }

    /// Ask in two rounds.
    #[tool]
    async fn test_input_required_result_multi_round(&self, ask: Ask) -> Result<String, ToolError> {
        let first = ask.question().form::<Named>("step1", "Step 1: What is your name?");
        let named: Option<Named> = first.keep(&Stage { round: 1 }).ask().await?.form("step1")?;
        let second = ask.question().form::<Colored>("step2", "Step 2: What is your favorite color?");
        let colored: Option<Colored> = second.keep(&Stage { round: 2 }).ask().await?.form("step2")?;
        let name = named.map_or_else(|| "nobody".to_owned(), |named| named.name);
        Ok(format!("{name} likes {}", colored.map_or_else(|| "nothing".to_owned(), |colored| colored.color)))
    }

    /// Ask for whatever the caller offers.
    #[tool]
    async fn test_input_required_result_capabilities(&self, ask: Ask) -> Result<&'static str, ToolError> {
        let mut question = ask.question();
        if ask.has_person() {
            question = question.form::<Named>("user_name", "What is your name?");
        }
        if ask.has_model() {
            question = question.model("greeting", to_model("Generate a greeting"));
        }
        if ask.has_roots() {
            question = question.roots("client_roots");
        }
        question.ask().await?;
        Ok("Capability-aware flow complete")
    }
}

async fn confirmed(ask: &Ask) -> Result<&'static str, ToolError> {
    let question = ask.question().form::<Confirmed>("confirm", "Please confirm").keep(&Stage { round: 1 });
    question.ask().await?;
    Ok(if ask.kept::<Stage>()?.is_some_and(|stage| stage.round == 1) { "Confirmed: state-ok" } else { "Confirmed" })
}
