//! The signature of a tool: what is asked of it, and what generated code needs of it.

use proc_macro2::{Ident, Span};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{FnArg, GenericParam, Pat, PatType, ReceiverKind, ReturnType, Safety, Signature, Type, parse_quote};

use crate::documentation::{self, Documentation};
use crate::errors::Errors;

/// A tool's signature.
pub(crate) struct ToolSignature {
    pub(crate) ident: Ident,
    pub(crate) receiver: Receiver,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) output: Type,
}

/// How a tool takes the value that it is a method of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receiver {
    /// Not at all.
    None,
    /// `&self`
    Reference,
    /// `self: Arc<Self>`
    Shared,
}

/// A parameter other than the receiver.
pub(crate) struct Parameter {
    /// Its name, and so the argument's; a pattern has none.
    pub(crate) name: Option<String>,
    pub(crate) documentation: Documentation,
    pub(crate) ty: Type,
}

impl ToolSignature {
    /// Reads a signature and takes the doc comments off its parameters, where Rust does not allow them.
    pub(crate) fn read(signature: &mut Signature, errors: &mut Errors) -> Self {
        check_qualifiers(signature, errors);
        let mut receiver = Receiver::None;
        let mut parameters = Vec::new();
        for input in &mut signature.inputs {
            match input {
                FnArg::Receiver(written) => receiver = read_receiver(written, errors),
                FnArg::Typed(written) => parameters.push(Parameter::read(written, errors)),
            }
        }
        let output = match &signature.output {
            ReturnType::Default => parse_quote!(()),
            ReturnType::Type(_, ty) => (**ty).clone(),
        };
        check_output(&output, errors);
        Self { ident: signature.ident.clone(), receiver, parameters, output }
    }

    /// The name that clients call unless another is given.
    pub(crate) fn name(&self) -> String {
        self.ident.unraw().to_string()
    }
}

fn check_qualifiers(signature: &Signature, errors: &mut Errors) {
    let name = &signature.ident;
    if signature.asyncness.is_none() {
        errors.on(signature.fn_token, format!("a tool must be async: `async fn {name}`"));
    }
    if let Safety::Unsafe(token) = &signature.safety {
        errors.on(token, "a tool cannot be unsafe: clients call it with any arguments");
    }
    if let Some(abi) = &signature.abi {
        errors.on(abi, "a tool has Rust's own ABI");
    }
    for parameter in &signature.generics.params {
        if !matches!(parameter, GenericParam::Lifetime(_)) {
            errors.on(
                parameter,
                "a tool cannot be generic: its schema needs types; name them, or make the impl block generic",
            );
        }
    }
}

fn read_receiver(receiver: &syn::Receiver, errors: &mut Errors) -> Receiver {
    match &receiver.kind {
        ReceiverKind::Reference(_, _, None) => return Receiver::Reference,
        ReceiverKind::Reference(_, _, Some(_)) => {
            errors.on(
                receiver,
                "a tool takes `&self`: calls run at the same time; keep what changes in a `Mutex` or an atomic",
            );
        }
        ReceiverKind::Typed(_, ty) if is_arc_of_self(ty) => return Receiver::Shared,
        ReceiverKind::Typed(_, ty) => {
            errors.on(ty, "a tool takes `&self` or `self: Arc<Self>`: all its calls share one value");
        }
        _ => errors.on(receiver, "a tool takes `&self`: all its calls share one value"),
    }
    Receiver::Reference
}

/// Whether a type is written `Arc<Self>`, with any path in front.
fn is_arc_of_self(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path.segments.last().is_some_and(|last| {
        last.ident == "Arc" && last.arguments.to_token_stream().to_string().replace(' ', "") == "<Self>"
    })
}

fn check_output(output: &Type, errors: &mut Errors) {
    match output {
        Type::Reference(reference) if reference.lifetime.as_ref().is_none_or(|lifetime| lifetime.ident != "static") => {
            errors.on(output, "a tool returns a value of its own: use `String` instead of a borrowed text");
        }
        Type::ImplTrait(_) => {
            errors.on(output, "name the type that the tool returns: its schema needs it");
        }
        _ => {}
    }
}

impl Parameter {
    fn read(parameter: &mut PatType, errors: &mut Errors) -> Self {
        let documentation = Documentation::of(&parameter.attrs);
        parameter.attrs.retain(|attribute| !documentation::is_doc(attribute));
        let ty = (*parameter.ty).clone();
        match &ty {
            Type::Reference(_) => {
                errors.on(&ty, "a tool's parameter is a value of its own: use `String` instead of `&str`, `Vec` instead of a slice");
            }
            Type::ImplTrait(_) => {
                errors.on(&ty, "name the type of the parameter: its schema needs it");
            }
            _ => {}
        }
        Self { name: name(&parameter.pat), documentation, ty }
    }

    /// Where the type is written, for errors about it.
    pub(crate) fn span(&self) -> Span {
        self.ty.span()
    }
}

/// The name that a pattern gives to the whole value.
fn name(pattern: &Pat) -> Option<String> {
    match pattern {
        Pat::Ident(pattern) if pattern.subpat.is_none() => Some(pattern.ident.unraw().to_string()),
        _ => None,
    }
}
