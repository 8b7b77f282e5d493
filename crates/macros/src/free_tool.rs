//! `#[tool]` on a free function.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ItemFn;

use crate::attribute::ToolAttribute;
use crate::errors::Errors;
use crate::expansion::{ToolDefinition, deciding_traits};
use crate::signature::{Receiver, ToolSignature};

/// The function as it was, and beside it a type of its name that is a `FreeTool`.
pub(crate) fn expand(arguments: TokenStream, item: &TokenStream) -> TokenStream {
    let mut function: ItemFn = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let error =
                syn::Error::new(error.span(), format!("`#[tool]` goes on an `async fn`: {error}")).to_compile_error();
            return quote!(#item #error);
        }
    };
    let mut errors = Errors::default();
    let attribute = ToolAttribute::read(arguments, &mut errors);
    let private = attribute.facade.private();
    let signature = ToolSignature::read(&mut function.sig, &mut errors);
    if signature.receiver != Receiver::None || function.sig.receiver().is_some() {
        // Inside an impl block nothing but the method itself can be emitted.
        let receiver = function.sig.receiver();
        errors = Errors::default();
        errors.on(receiver, "a method becomes a tool by `#[tools]` on its impl block");
        return method_with(&errors, function);
    }
    let definition = ToolDefinition::new(attribute, &function.attrs, signature, &mut errors);

    let ident = &function.sig.ident;
    let visibility = &function.vis;
    let conditions = &definition.conditions;
    let body = if errors.is_empty() {
        let traits = deciding_traits(&private);
        let tool = definition.tool(&private, &quote!(#ident), None);
        quote!(#traits #tool)
    } else {
        // The errors are enough; a missing tool would only add to them.
        quote!(loop {})
    };
    quote! {
        #function

        #(#conditions)*
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, unreachable_pub)]
        #visibility struct #ident {}

        #(#conditions)*
        #[automatically_derived]
        #[allow(deprecated)]
        impl #private::FreeTool for #ident {
            fn tool() -> #private::Tool {
                #body
            }
        }

        #errors
    }
}

/// The method with the error inside of its body, which is the only place for it.
fn method_with(errors: &Errors, mut function: ItemFn) -> TokenStream {
    let block = &function.block;
    function.block = syn::parse_quote!({ #errors #block });
    quote!(#function)
}
