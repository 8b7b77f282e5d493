//! How the macros tell the two kinds of parameters apart: by trait, while the user's crate is compiled.
//!
//! Rust has no specialisation, but method lookup prefers the receiver that needs the fewest dereferences. The macros call
//! `(&&&Parameter::<T>::new()).kind()` with the three traits below in scope: the first that fits `T` wins, and the last
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
    fn kind(&self) -> MadeFromCall<Self::Value>;
}

impl<T: FromCall> IsFromCall for &&Parameter<T> {
    type Value = T;
    fn kind(&self) -> MadeFromCall<T> {
        MadeFromCall(PhantomData)
    }
}

/// Second choice: a type that is an argument.
pub trait IsArgument {
    /// The type.
    type Value;
    /// Decides that it is an argument.
    fn kind(&self) -> OneArgument<Self::Value>;
}

impl<T: Argument> IsArgument for &Parameter<T> {
    type Value = T;
    fn kind(&self) -> OneArgument<T> {
        OneArgument(PhantomData)
    }
}

/// Last resort: a type that is neither. It fits everything and then asks for an [`Argument`], so that the compiler
/// explains what is missing.
pub trait IsNeither {
    /// The type.
    type Value;
    /// Fails to compile.
    fn kind(&self) -> OneArgument<Self::Value>
    where
        Self::Value: Argument;
}

impl<T> IsNeither for Parameter<T> {
    type Value = T;
    fn kind(&self) -> OneArgument<T>
    where
        T: Argument,
    {
        OneArgument(PhantomData)
    }
}

/// A parameter that is made from the call.
pub struct MadeFromCall<T>(PhantomData<fn() -> T>);

impl<T: FromCall> MadeFromCall<T> {
    /// Adds to the input schema what the value reads from the arguments. A parameter's doc comment has no place there.
    pub fn describe(&self, schema: &mut InputSchema, _name: &str, _description: Option<&str>) {
        T::describe(schema);
    }

    /// Makes the value.
    ///
    /// # Errors
    ///
    /// What [`FromCall::from_call`] says.
    pub fn take(&self, call: &Call, _name: &str) -> Result<T, ToolError> {
        T::from_call(call)
    }
}

/// A parameter that is one argument.
pub struct OneArgument<T>(PhantomData<fn() -> T>);

impl<T: Argument> OneArgument<T> {
    /// Adds the property to the input schema; it is required unless the type makes something of its absence.
    pub fn describe(&self, schema: &mut InputSchema, name: &str, description: Option<&str>) {
        schema.property::<T>(name, description, arguments::is_required::<T>());
    }

    /// Takes the argument.
    ///
    /// # Errors
    ///
    /// If it is missing or does not fit the type.
    pub fn take(&self, call: &Call, name: &str) -> Result<T, ToolError> {
        arguments::argument(&call.arguments, name)
    }
}
