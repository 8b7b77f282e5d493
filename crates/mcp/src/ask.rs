//! Asking the caller: a person by a form, a model, or for the roots of a workspace.
//!
//! Since 2026-07-28 a tool asks by ending its call: the caller calls again with the answers, and the tool runs from its
//! start. Before, a request goes to the caller while the call runs. Both look the same to a tool.

#![expect(
    deprecated,
    reason = "sampling and roots are deprecated by 2026-07-28 and still asked of those who offer them"
)]

use std::collections::BTreeMap;

use rmcp::ErrorData;
use rmcp::model::{
    ClientCapabilities, ClientResult, CreateMessageRequest, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, InputRequest,
    InputRequiredResult, ListRootsRequest, ListRootsResult, ServerRequest,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call::Call;
use crate::context::CallContext;
use crate::error::ToolError;
use crate::from_call::FromCall;
use crate::wire::Wire;

mod sealed;

pub(crate) use sealed::Seal;
use sealed::{Kept, binding};

/// Asking the caller, as a parameter of a tool.
///
/// ```
/// use sluicegate_mcp::{Ask, ToolError};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Confirmed {
///     /// Really delete it?
///     really: bool,
/// }
///
/// async fn delete(dataset: String, ask: Ask) -> Result<String, ToolError> {
///     match ask.form::<Confirmed>("confirm", format!("Delete `{dataset}`?")).await? {
///         Some(Confirmed { really: true }) => Ok(format!("`{dataset}` is deleted")),
///         _ => Ok(format!("`{dataset}` stays")),
///     }
/// }
/// ```
///
/// **The tool may run several times.** For callers on 2026-07-28 `?` ends the call with the question, no permit is held
/// while somebody thinks, and the tool runs again from its start with the answer in its place. So ask before you act.
/// Every round is a call and counts as one. What was answered before, and what is [kept](Question::keep), travels through
/// the caller's hands, sealed: it can be read and replayed there, and neither altered nor used by another caller, for
/// another tool or with other arguments. It is good for an hour.
///
/// Callers of older revisions can be asked on stdio and in a session (setting `sessions`); all others get an error.
#[derive(Clone)]
pub struct Ask {
    call: CallContext,
    /// What the caller's answers must belong to.
    binding: Vec<u8>,
    kept: Kept,
}

impl Ask {
    /// Asks a person to fill in a form: a struct of texts, numbers, flags and choices. `None` if he declines.
    ///
    /// # Errors
    ///
    /// To be passed on with `?`: it may be the question itself. Otherwise the caller cannot be asked, or his answer does
    /// not fit.
    pub async fn form<T: JsonSchema + DeserializeOwned>(
        &self,
        key: &str,
        message: impl Into<String>,
    ) -> Result<Option<T>, ToolError> {
        self.question().form::<T>(key, message).ask().await?.form(key)
    }

    /// Several questions at once.
    pub fn question(&self) -> Question<'_> {
        Question { ask: self, requests: BTreeMap::new(), kept: Ok(self.kept.value.clone()) }
    }

    /// What was [kept](Question::keep) in an earlier round of this call.
    ///
    /// # Errors
    ///
    /// When it is of another type.
    pub fn kept<T: DeserializeOwned>(&self) -> Result<Option<T>, ToolError> {
        let value = self.kept.value.clone();
        let kept = value.map(serde_json::from_value).transpose();
        kept.map_err(|error| ToolError::new("what was kept of this call cannot be read").with_source(error))
    }

    /// Whether the caller lets a person be asked.
    pub fn has_person(&self) -> bool {
        self.capabilities().elicitation.is_some()
    }

    /// Whether the caller lets a model be asked.
    pub fn has_model(&self) -> bool {
        self.capabilities().sampling.is_some()
    }

    /// Whether the caller tells the roots of its workspace.
    pub fn has_roots(&self) -> bool {
        self.capabilities().roots.is_some()
    }

    /// Makes sure that the caller lets a model be asked, before work that is in vain without one.
    ///
    /// # Errors
    ///
    /// The protocol's own, which names what is missing.
    pub fn require_model(&self) -> Result<(), ToolError> {
        require(&self.capabilities(), |needed| {
            needed.sampling.get_or_insert_default();
        })
    }

    /// The same for a person.
    ///
    /// # Errors
    ///
    /// See [`require_model`](Self::require_model).
    pub fn require_person(&self) -> Result<(), ToolError> {
        require(&self.capabilities(), |needed| {
            needed.elicitation.get_or_insert_default();
        })
    }

    fn capabilities(&self) -> ClientCapabilities {
        self.call.wire().map(|wire| wire.capabilities.clone()).unwrap_or_default()
    }
}

impl FromCall for Ask {
    /// What was sealed is opened here, so that a tool does not even start on state that was tampered with.
    fn from_call(call: &Call) -> Result<Self, ToolError> {
        let wire = call.context.wire();
        let binding = wire.map(|wire| binding(wire, &call.arguments)).unwrap_or_default();
        let mut kept = Kept::default();
        if let Some(wire) = wire
            && let Some(state) = &wire.state
        {
            kept = wire.seal.open(state, &binding).map_err(|error| {
                tracing::info!(request_id = call.context.request_id(), %error, "request state was refused");
                ToolError::protocol(ErrorData::invalid_params("requestState is not valid for this request", None))
            })?;
        }
        for (key, answer) in wire.and_then(|wire| wire.answers.clone()).unwrap_or_default() {
            kept.answers.insert(key, answer);
        }
        Ok(Self { call: call.context.clone(), binding, kept })
    }
}

/// Questions that are asked together, each under a key of its own within the tool.
#[must_use = "nothing is asked before `ask`"]
pub struct Question<'a> {
    ask: &'a Ask,
    requests: BTreeMap<String, Result<InputRequest, ToolError>>,
    kept: Result<Option<Value>, ToolError>,
}

impl Question<'_> {
    /// Asks a person to fill in a form, see [`Ask::form`].
    pub fn form<T: JsonSchema>(self, key: &str, message: impl Into<String>) -> Self {
        let schema = ElicitationSchema::from_type::<T>();
        let schema =
            schema.map_err(|error| ToolError::new("this tool asks for more than a form can hold").with_source(error));
        self.with(key, schema.map(|schema| form_request(message.into(), schema)))
    }

    /// The same with a schema that is written by hand.
    pub fn form_with(self, key: &str, message: impl Into<String>, schema: ElicitationSchema) -> Self {
        self.with(key, Ok(form_request(message.into(), schema)))
    }

    /// Asks the caller's model.
    pub fn model(self, key: &str, request: CreateMessageRequestParams) -> Self {
        self.with(key, Ok(InputRequest::CreateMessage(CreateMessageRequest::new(request))))
    }

    /// Asks for the roots of the caller's workspace.
    pub fn roots(self, key: &str) -> Self {
        self.with(key, Ok(InputRequest::ListRoots(ListRootsRequest::default())))
    }

    /// Keeps a value for the next round of this call, see [`Ask::kept`].
    pub fn keep(mut self, value: &impl Serialize) -> Self {
        let value = serde_json::to_value(value).map(Some);
        self.kept = value.map_err(|error| ToolError::new("what is kept cannot be written as JSON").with_source(error));
        self
    }

    fn with(mut self, key: &str, request: Result<InputRequest, ToolError>) -> Self {
        self.requests.insert(key.to_owned(), request);
        self
    }

    /// Asks, unless all is answered already.
    ///
    /// # Errors
    ///
    /// See [`Ask::form`].
    pub async fn ask(self) -> Result<Answers, ToolError> {
        let Self { ask, requests, kept } = self;
        let requests = requests
            .into_iter()
            .map(|(key, request)| Ok((key, request?)))
            .collect::<Result<BTreeMap<_, _>, ToolError>>()?;
        // An answer that is no object is none.
        let is_answered = |key: &String| ask.kept.answers.get(key).is_some_and(Value::is_object);
        if requests.keys().all(is_answered) {
            return Ok(Answers(ask.kept.answers.clone()));
        }
        let Some(wire) = ask.call.wire() else {
            return Err(ToolError::new("this call comes from nobody who could be asked"));
        };
        check_capabilities(&wire.capabilities, requests.values())?;
        let missing = requests.into_iter().filter(|(key, _)| !is_answered(key)).collect();
        let mut kept = Kept { answers: ask.kept.answers.clone(), value: kept? };
        if wire.is_modern() {
            let state = (!kept.is_empty()).then(|| wire.seal.seal(&kept, &ask.binding)).transpose()?;
            return Err(ToolError::question(InputRequiredResult::new(Some(missing), state)));
        }
        if !wire.is_reachable() {
            return Err(ToolError::new(UNREACHABLE));
        }
        for (key, request) in missing {
            kept.answers.insert(key, send(wire, request).await?);
        }
        Ok(Answers(kept.answers))
    }
}

/// Why a caller of an older revision over HTTP without a session cannot be asked.
pub(crate) const UNREACHABLE: &str =
    "this tool has to ask its caller, and this client cannot be asked: it needs a session, or MCP 2026-07-28";

/// The answers to the questions of a tool, by key.
#[derive(Clone, Debug)]
pub struct Answers(BTreeMap<String, Value>);

impl Answers {
    /// What a person has filled in; `None` if he declined.
    ///
    /// # Errors
    ///
    /// When it does not fit.
    pub fn form<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, ToolError> {
        let answer: ElicitResult = self.read(key)?;
        if answer.action != ElicitationAction::Accept {
            return Ok(None);
        }
        let filled = serde_json::from_value(answer.content.unwrap_or_else(|| Value::Object(Default::default())));
        filled.map(Some).map_err(|error| misfit(key, &error))
    }

    /// What a person did with a form: accepted, declined or closed it, and what it holds then.
    ///
    /// # Errors
    ///
    /// When the answer is none to a form.
    pub fn decision(&self, key: &str) -> Result<ElicitResult, ToolError> {
        self.read(key)
    }

    /// What the caller's model said.
    ///
    /// # Errors
    ///
    /// When the answer is none of a model.
    pub fn model(&self, key: &str) -> Result<CreateMessageResult, ToolError> {
        self.read(key)
    }

    /// The roots of the caller's workspace.
    ///
    /// # Errors
    ///
    /// When the answer holds none.
    pub fn roots(&self, key: &str) -> Result<ListRootsResult, ToolError> {
        self.read(key)
    }

    fn read<T: DeserializeOwned>(&self, key: &str) -> Result<T, ToolError> {
        let answer = self.0.get(key).cloned().unwrap_or_default();
        serde_json::from_value(answer).map_err(|error| misfit(key, &error))
    }
}

fn misfit(key: &str, error: &serde_json::Error) -> ToolError {
    ToolError::invalid_input(format!("the answer to `{key}` does not fit: {error}"))
}

fn form_request(message: String, requested_schema: ElicitationSchema) -> InputRequest {
    let form = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
    InputRequest::Elicitation(ElicitRequest::new(form))
}

/// A caller that does not offer what is asked for is told what it lacks (MCP 2026-07-28, -32021).
fn check_capabilities<'a>(
    offered: &ClientCapabilities,
    requests: impl Iterator<Item = &'a InputRequest>,
) -> Result<(), ToolError> {
    require(offered, |needed| {
        for request in requests {
            match request {
                InputRequest::Elicitation(_) => {
                    needed.elicitation.get_or_insert_default();
                }
                InputRequest::CreateMessage(_) => {
                    needed.sampling.get_or_insert_default();
                }
                InputRequest::ListRoots(_) => {
                    needed.roots.get_or_insert_default();
                }
                _ => {}
            }
        }
    })
}

fn require(offered: &ClientCapabilities, need: impl FnOnce(&mut ClientCapabilities)) -> Result<(), ToolError> {
    let mut missing = ClientCapabilities::default();
    need(&mut missing);
    missing.elicitation = missing.elicitation.filter(|_| offered.elicitation.is_none());
    missing.sampling = missing.sampling.filter(|_| offered.sampling.is_none());
    missing.roots = missing.roots.filter(|_| offered.roots.is_none());
    if missing == ClientCapabilities::default() {
        return Ok(());
    }
    Err(ToolError::protocol(ErrorData::missing_required_client_capability(missing)))
}

/// Asks a peer of an older revision and waits for its answer.
async fn send(wire: &Wire, request: InputRequest) -> Result<Value, ToolError> {
    let request = match request {
        InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
        InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
        InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
        _ => return Err(ToolError::new("nobody can be asked this")),
    };
    let failed = "the caller was asked and did not answer";
    let answer = wire.peer.send_request(request).await.map_err(|error| ToolError::new(failed).with_source(error))?;
    let answer = match answer {
        ClientResult::ElicitResult(result) => serde_json::to_value(result),
        ClientResult::CreateMessageResult(result) => serde_json::to_value(result),
        ClientResult::ListRootsResult(result) => serde_json::to_value(result),
        _ => return Err(ToolError::new("the caller's answer is none to what was asked")),
    };
    answer.map_err(|error| ToolError::new(failed).with_source(error))
}
