//! The code that is generated for one tool. It names nothing but the facade's `__private` module.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Attribute, LitStr, Type};

use crate::attribute::{ToolAttribute, check_name};
use crate::documentation::Documentation;
use crate::errors::Errors;
use crate::signature::{Parameter, Receiver, ToolSignature};

/// Everything about one tool.
pub(crate) struct ToolDefinition {
    pub(crate) attribute: ToolAttribute,
    pub(crate) documentation: Documentation,
    pub(crate) signature: ToolSignature,
    /// The `#[cfg]`s that the tool is subject to.
    pub(crate) conditions: Vec<Attribute>,
}

impl ToolDefinition {
    /// Puts together what was read, and checks the name that follows from it.
    pub(crate) fn new(
        attribute: ToolAttribute,
        attributes: &[Attribute],
        signature: ToolSignature,
        errors: &mut Errors,
    ) -> Self {
        let definition = Self {
            attribute,
            documentation: Documentation::of(attributes),
            conditions: attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).cloned().collect(),
            signature,
        };
        if definition.attribute.name.is_none() {
            // A function's name may hold letters that a tool's may not.
            check_name(&definition.name(), errors);
        }
        definition
    }

    /// The name that clients call, located where it was written.
    pub(crate) fn name(&self) -> LitStr {
        let Self { attribute, signature, .. } = self;
        attribute.name.clone().unwrap_or_else(|| LitStr::new(&signature.name(), signature.ident.span()))
    }

    /// An expression that makes the `Tool`. `function` is what to call; `self_ty` is the type that it is a method of, if
    /// any, of which `self` is then an `Arc`.
    pub(crate) fn tool(&self, private: &TokenStream, function: &TokenStream, self_ty: Option<&Type>) -> TokenStream {
        let Self { attribute, signature, .. } = self;
        let ToolSignature { ident, parameters, output, .. } = signature;
        let span = ident.span().resolved_at(Span::mixed_site());
        let [input, output_kind, this, call] = ["input", "output", "this", "call"].map(local);

        let kinds: Vec<Ident> = numbered("kind", parameters);
        let values: Vec<Ident> = numbered("value", parameters);
        let names = parameters.iter().map(|parameter| parameter.name.as_deref().unwrap_or_default());
        let names: Vec<&str> = names.collect();
        let deciders = parameters.iter().map(|parameter| decider(parameter, private));
        let descriptions = parameters.iter().map(|parameter| match parameter.documentation.description(private) {
            Some(text) => quote!(#private::Option::Some(#text)),
            None => quote!(#private::Option::None),
        });
        let decided_output = {
            let private = located(private, output.span());
            quote_spanned!(output.span()=> #private::output::<#output>())
        };
        let receiver = match signature.receiver {
            Receiver::None => None,
            Receiver::Reference => Some(quote!(&#this,)),
            Receiver::Shared => Some(quote!(#this,)),
        };
        // Once for the closure, and again for every call.
        let share = receiver.is_some().then(|| quote!(let #this = #private::Arc::clone(&self);));
        let share_again = receiver.is_some().then(|| quote!(let #this = #private::Arc::clone(&#this);));
        let called = quote_spanned!(span=> #function(#receiver #(#values),*).await);
        let pin = located(&quote!(#private::Box::pin), span);
        let future = quote_spanned! {span=>
            #pin(async move {
                #(let #values = #kinds.take(&#call, #names)?;)*
                #private::drop(#call);
                #output_kind.into_result(#called)
            })
        };
        let settings = self.settings(private, self_ty);
        let name = self.name().value();
        let validated = attribute.validate.then(|| quote!(.validated()));
        let declared = attribute.declared.to_tokens(private);
        quote! {
            {
                let mut #input = #private::InputSchema::new();
                #(
                    let #kinds = #deciders;
                    #kinds.describe(&mut #input, #names, #descriptions);
                )*
                let #output_kind = #decided_output;
                #share
                #private::Tool::new(#name, #input.finish(), move |#call: #private::Call| {
                    #share_again
                    #future
                })
                #settings
                .with_output_schema(#output_kind.schema())
                .needing_peer(false #(|| #kinds.needs_peer())*)
                .with(#declared)
                #validated
            }
        }
    }

    /// The calls that say what the tool is called and where it is.
    fn settings(&self, private: &TokenStream, self_ty: Option<&Type>) -> TokenStream {
        let Self { attribute, documentation, signature, .. } = self;
        let title = attribute.title.as_ref().map(LitStr::value).or_else(|| documentation.title());
        let title = title.map(|title| quote!(.with_title(#title)));
        let description = match &attribute.description {
            Some(description) => Some(quote!(#description)),
            None => documentation.description(private),
        };
        let description = description.map(|description| quote!(.with_description(#description)));
        let icons = &attribute.icons;
        let hints = attribute.hints.to_tokens(private);
        let parent = self_ty.map(|ty| format!("{}::", last_name(ty))).unwrap_or_default();
        let origin = format!("::{parent}{}", signature.name());
        quote! {
            #title
            #description
            #(.with_icon(#private::Icon::new(#icons)))*
            #hints
            .with_origin(#private::concat!(#private::module_path!(), #origin))
        }
    }
}

/// An expression that decides what a parameter is. Errors about it are errors about the type that was written.
fn decider(parameter: &Parameter, private: &TokenStream) -> TokenStream {
    let ty = &parameter.ty;
    let private = located(private, parameter.span());
    match parameter.name {
        Some(_) => {
            quote_spanned!(parameter.span()=> (&&&#private::Parameter::<#ty>::new()).parameter_kind())
        }
        None => quote_spanned!(parameter.span()=> #private::made_from_call::<#ty>()),
    }
}

/// The same path at another place. The compiler points to an expression only if all of its tokens agree on one.
fn located(path: &TokenStream, span: Span) -> TokenStream {
    let relocated = path.clone().into_iter().map(|mut token| {
        token.set_span(span);
        token
    });
    relocated.collect()
}

/// The traits whose methods [`decider`]'s expression calls.
pub(crate) fn deciding_traits(private: &TokenStream) -> TokenStream {
    quote!(use #private::{IsArgument as _, IsFromCall as _, IsNeither as _};)
}

/// The name of a variable, which no name of the author's can meet.
pub(crate) fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// One variable per parameter.
fn numbered(prefix: &str, parameters: &[Parameter]) -> Vec<Ident> {
    (0..parameters.len()).map(|at| local(&format!("{prefix}_{at}"))).collect()
}

/// The name of a type without path and arguments.
fn last_name(ty: &Type) -> String {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default(),
        _ => quote!(#ty).to_string(),
    }
}
