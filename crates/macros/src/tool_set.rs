//! `#[tools]` on an impl block.

use std::collections::HashMap;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, ImplItem, ImplItemFn, ItemImpl, Meta};

use crate::attribute::{Facade, ToolAttribute};
use crate::errors::Errors;
use crate::expansion::{ToolDefinition, deciding_traits, local};
use crate::signature::ToolSignature;

/// The impl block as it was, without what only we understand, and a `ToolSet` of its tools.
pub(crate) fn expand(arguments: TokenStream, item: &TokenStream) -> TokenStream {
    let mut block: ItemImpl = match syn::parse2(item.clone()) {
        Ok(block) => block,
        Err(error) => {
            let error =
                syn::Error::new(error.span(), format!("`#[tools]` goes on an impl block: {error}")).to_compile_error();
            return quote!(#item #error);
        }
    };
    let mut errors = Errors::default();
    let private = Facade::of_tools(arguments, &mut errors).private();
    let definitions = definitions(&mut block, &mut errors);
    if let Some((path, _)) = &block.trait_ {
        errors.on(path, "`#[tools]` goes on a type's own impl block, not on that of a trait");
        return quote!(#block #errors);
    }
    if definitions.is_empty() {
        errors.on(&block.self_ty, "no method here is a tool: put `#[tool]` on the ones that are");
    }
    report_repeated_names(&definitions, &mut errors);

    let self_ty = &block.self_ty;
    let all = local("tools");
    let body = if errors.is_empty() {
        let traits = deciding_traits(&private);
        let tools = definitions.iter().map(|definition| {
            let ident = &definition.signature.ident;
            let conditions = &definition.conditions;
            let tool = definition.tool(&private, &quote!(Self::#ident), Some(self_ty));
            quote!(#(#conditions)* #all.push(#tool);)
        });
        quote! {
            #traits
            let mut #all = #private::Vec::new();
            #(#tools)*
            #all
        }
    } else {
        // The errors are enough; a missing `ToolSet` would only add to them.
        quote!(#private::Vec::new())
    };
    let (generics, _, where_clause) = block.generics.split_for_impl();
    quote! {
        #block

        #[automatically_derived]
        #[allow(deprecated)]
        impl #generics #private::ToolSet for #self_ty #where_clause {
            fn tools(self: #private::Arc<Self>) -> #private::Vec<#private::Tool> {
                #body
            }
        }

        #errors
    }
}

/// The tools of the block, whose attributes are taken off.
fn definitions(block: &mut ItemImpl, errors: &mut Errors) -> Vec<ToolDefinition> {
    let methods = block.items.iter_mut().filter_map(|item| match item {
        ImplItem::Fn(method) => Some(method),
        _ => None,
    });
    methods.filter_map(|method| definition(method, errors)).collect()
}

fn definition(method: &mut ImplItemFn, errors: &mut Errors) -> Option<ToolDefinition> {
    let at = method.attrs.iter().position(is_tool)?;
    let written = method.attrs.remove(at);
    while let Some(again) = method.attrs.iter().position(is_tool) {
        errors.on(method.attrs.remove(again), "a second `#[tool]`: put all keys into one");
    }
    let arguments = match written.meta {
        Meta::Path(_) => TokenStream::new(),
        Meta::List(list) => list.tokens,
        Meta::NameValue(pair) => {
            errors.on(pair, "keys stand in parentheses: `#[tool(rate_limit = \"100/min\")]`");
            TokenStream::new()
        }
    };
    let attribute = ToolAttribute::read(arguments, errors);
    if let Some(span) = attribute.facade_span {
        errors.at(span, "`crate` stands once, on the impl block: `#[tools(crate = \"…\")]`");
    }
    let signature = ToolSignature::read(&mut method.sig, errors);
    Some(ToolDefinition::new(attribute, &method.attrs, signature, errors))
}

/// Whether an attribute is `#[tool]`, by whatever path.
fn is_tool(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "tool")
}

/// Two tools of one block with the same name. Those under a `#[cfg]` may exclude each other; the registry looks at them.
fn report_repeated_names(definitions: &[ToolDefinition], errors: &mut Errors) {
    let mut seen = HashMap::new();
    for definition in definitions.iter().filter(|definition| definition.conditions.is_empty()) {
        let name = definition.name();
        if let Some(first) = seen.insert(name.value(), &definition.signature.ident) {
            errors.at(
                name.span(),
                format!(
                    "the tool name `{}` is taken twice, by `{first}` and by `{}`",
                    name.value(),
                    definition.signature.ident
                ),
            );
        }
    }
}
