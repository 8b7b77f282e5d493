//! Parameters of a tool that are made from the call instead of being one of its arguments.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::arguments;
use crate::ask::UNREACHABLE;
use crate::call::Call;
use crate::context::CallContext;
use crate::error::ToolError;
use crate::schema::InputSchema;

/// A parameter of a tool that is made from the call: who calls, the [`CallContext`], or all arguments at once
/// ([`Params`]). Such a parameter may stand anywhere in the list.
///
/// Every other parameter is one argument, see [`Argument`](crate::Argument). The distinction is made by this trait and
/// not by a type's name, so that your own types can be either.
///
/// ```
/// use sluicegate_mcp::{Call, FromCall, ToolError};
///
/// /// The correlation id of the call, for the logs of a service behind the tool.
/// struct RequestId(String);
///
/// impl FromCall for RequestId {
///     const NEEDS_PEER: bool = false;
///
///     fn from_call(call: &Call) -> Result<Self, ToolError> {
///         Ok(Self(call.context.request_id().to_owned()))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be made from a call",
    label = "not a `FromCall`",
    note = "a parameter with a pattern has no name, so it cannot be an argument: give it a plain name, or take `Params<T>`"
)]
pub trait FromCall: Sized {
    /// Whether making or using the value may involve the caller's end of the connection: [`Peer`](crate::Peer),
    /// [`Ask`](crate::Ask), [`Progress`](crate::Progress) or [`Log`](crate::Log). A tool none of whose parameters do is
    /// served on a shorter path. `true` is always safe; say `false` for a value that is made of nothing but
    /// [`Call::arguments`] and a [`CallContext`].
    const NEEDS_PEER: bool = true;

    /// Makes the value.
    ///
    /// # Errors
    ///
    /// If the call does not provide what is needed. The tool is not run, and the caller gets the error.
    fn from_call(call: &Call) -> Result<Self, ToolError>;

    /// Adds to the tool's input schema what this value reads from the arguments; nothing by default.
    fn describe(schema: &mut InputSchema) {
        let _ = schema;
    }
}

impl FromCall for CallContext {
    const NEEDS_PEER: bool = false;

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        Ok(call.context.clone())
    }
}

/// The caller's end of the connection as rmcp has it, as a parameter of a tool, for what [`Ask`](crate::Ask),
/// [`Progress`](crate::Progress) and [`Log`](crate::Log) do not do.
///
/// A caller of an older revision without a session could never answer a request, so there the tool fails at once instead of
/// waiting with a permit in its hand.
pub type Peer = rmcp::Peer<rmcp::RoleServer>;

impl FromCall for Peer {
    fn from_call(call: &Call) -> Result<Self, ToolError> {
        let wire = call.context.wire().ok_or("this call comes from nobody who could be asked")?;
        if !wire.is_modern() && !wire.is_reachable() {
            return Err(ToolError::new(UNREACHABLE));
        }
        Ok(wire.peer.clone())
    }
}

/// Several values at once, for [`Tool::from_fn`](crate::Tool::from_fn).
macro_rules! together {
    ($($value:ident)*) => {
        impl<$($value: FromCall),*> FromCall for ($($value,)*) {
            const NEEDS_PEER: bool = false $(|| $value::NEEDS_PEER)*;

            fn from_call(call: &Call) -> Result<Self, ToolError> {
                let _ = call;
                Ok(($($value::from_call(call)?,)*))
            }

            fn describe(schema: &mut InputSchema) {
                let _ = &schema;
                $($value::describe(schema);)*
            }
        }
    };
}

together!();
together!(A);
together!(A B);
together!(A B C);
together!(A B C D);
together!(A B C D E);

/// The whole arguments object as one struct, whose fields are the tool's arguments.
///
/// It sees the whole object also beside other parameters, so several may share it; leave `deny_unknown_fields` out then.
///
/// For tools with many arguments, or with constraints that serde and schemars attributes express:
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use sluicegate_mcp::Params;
///
/// #[derive(Deserialize, JsonSchema)]
/// #[serde(deny_unknown_fields)]
/// struct Search {
///     /// Words to look for.
///     query: String,
///     #[serde(default = "ten")]
///     #[schemars(range(min = 1, max = 100))]
///     limit: u32,
/// }
///
/// fn ten() -> u32 {
///     10
/// }
///
/// // #[tool(validate = true)]
/// async fn search(Params(search): Params<Search>) -> String {
///     format!("{} x {}", search.query, search.limit)
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Params<T>(pub T);

impl<T: DeserializeOwned + JsonSchema> FromCall for Params<T> {
    const NEEDS_PEER: bool = false;

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        arguments::all_arguments(&call.arguments).map(Self)
    }

    fn describe(schema: &mut InputSchema) {
        schema.object::<T>();
    }
}
