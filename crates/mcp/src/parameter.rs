//! How the macros tell the two kinds of parameters apart: by trait, while the user's crate is compiled.
//!
//! Rust has no specialisation, but method lookup prefers the receiver that needs the fewest dereferences. The macros call
//! `(&&&Parameter::<T>::new()).parameter_kind()` with the three traits below in scope: the first that fits `T` wins, and the last
//! fits every type, in order to say what is wrong with it.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::arguments;
use crate::call::Call;
use crate::error::ToolError;
use crate::from_call::FromCall;
use crate::schema::InputSchema;

/// A parameter that is one argument of the tool: a property of the arguments object, named like the parameter.
///
/// Implemented for every type that is [`serde::Deserialize`] and [`schemars::JsonSchema`]. An `Option` need not be sent.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a tool",
    label = "neither an argument nor made from the call",
    note = "for an argument, derive both: `#[derive(serde::Deserialize, schemars::JsonSchema)]`",
    note = "`Params<T>` asks for both on `T`",
    note = "for a value that is made from the call, implement `FromCall`"
)]
pub trait Argument: DeserializeOwned + JsonSchema {}

impl<T: DeserializeOwned + JsonSchema> Argument for T {}

/// The type of a parameter, for method lookup to look at.
pub struct Parameter<T>(PhantomData<fn() -> T>);

impl<T> Parameter<T> {
    /// Names the type; there is nothing else to it.
    #[expect(clippy::new_without_default, reason = "only ever written by the macros")]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

/// First choice: a type that is made from the call.
pub trait IsFromCall {
    /// The type.
    type Value;
    /// Decides that it is made from the call.
    fn parameter_kind(&self) -> ParameterKind<Self::Value>;
}

impl<T: FromCall> IsFromCall for &&Parameter<T> {
    type Value = T;
    fn parameter_kind(&self) -> ParameterKind<T> {
        made_from_call()
    }
}

/// Second choice: a type that is an argument.
pub trait IsArgument {
    /// The type.
    type Value;
    /// Decides that it is an argument.
    fn parameter_kind(&self) -> ParameterKind<Self::Value>;
}

impl<T: Argument> IsArgument for &Parameter<T> {
    type Value = T;
    fn parameter_kind(&self) -> ParameterKind<T> {
        one_argument()
    }
}

/// Last resort: a type that is neither. It fits everything and then asks for an [`Argument`], so that the compiler
/// explains what is missing.
pub trait IsNeither {
    /// The type.
    type Value;
    /// Fails to compile.
    fn parameter_kind(&self) -> ParameterKind<Self::Value>
    where
        Self::Value: Argument;
}

impl<T> IsNeither for Parameter<T> {
    type Value = T;
    fn parameter_kind(&self) -> ParameterKind<T>
    where
        T: Argument,
    {
        one_argument()
    }
}

/// What a parameter is, once that is decided.
///
/// Holds functions instead of asking for traits again, so that a type that is neither is one error and not three.
pub struct ParameterKind<T> {
    needs_peer: bool,
    describe: fn(&mut InputSchema, &str, Option<&str>),
    take: fn(&Call, &str) -> Result<T, ToolError>,
}

impl<T> ParameterKind<T> {
    /// See [`FromCall::NEEDS_PEER`].
    pub fn needs_peer(self) -> bool {
        self.needs_peer
    }

    /// Adds to the input schema what the parameter reads from the arguments.
    pub fn describe(self, schema: &mut InputSchema, name: &str, description: Option<&str>) {
        (self.describe)(schema, name, description);
    }

    /// Takes the value out of the call.
    ///
    /// # Errors
    ///
    /// If an argument is missing or does not fit, or what [`FromCall::from_call`] says.
    pub fn take(self, call: &Call, name: &str) -> Result<T, ToolError> {
        (self.take)(call, name)
    }
}

impl<T> Clone for ParameterKind<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ParameterKind<T> {}

/// A parameter that is made from the call. Its doc comment has no place in the schema.
pub fn made_from_call<T: FromCall>() -> ParameterKind<T> {
    ParameterKind {
        needs_peer: T::NEEDS_PEER,
        describe: |schema, _name, _description| T::describe(schema),
        take: |call, _name| T::from_call(call),
    }
}

/// A parameter that is one argument; required unless its type makes something of its absence.
fn one_argument<T: Argument>() -> ParameterKind<T> {
    ParameterKind {
        needs_peer: false,
        describe: |schema, name, description| {
            schema.property::<T>(name, description, arguments::is_required::<T>());
        },
        take: |call, name| arguments::argument(&call.arguments, name),
    }
}
