//! Values of attribute keys: literals of the expected kind, with messages that show how to write one.

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::{Expr, ExprLit, Lit, LitStr};

use crate::errors::Errors;

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) span: Span,
}

/// A text.
pub(crate) fn text(key: &str, example: &str, value: &Expr, errors: &mut Errors) -> Option<LitStr> {
    if let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = value {
        return Some(text.clone());
    }
    errors.on(value, format!("`{key}` takes a text in quotes: `{key} = {example}`"));
    None
}

/// One text, or several in brackets. Nothing that is not a text is returned.
pub(crate) fn texts(key: &str, example: &str, value: &Expr, errors: &mut Errors) -> Vec<LitStr> {
    match value {
        Expr::Array(array) => array.elems.iter().filter_map(|element| text(key, example, element, errors)).collect(),
        _ => text(key, example, value, errors).into_iter().collect(),
    }
}

/// A whole number from 1 on.
pub(crate) fn number(key: &str, value: &Expr, errors: &mut Errors) -> Option<Located<u32>> {
    let span = value.span();
    if let Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) = value
        && number.suffix().is_empty()
    {
        let written = number.base10_digits();
        match written.parse::<u32>() {
            Ok(0) => {
                errors.at(span, format!("`{key}` is at least 1; leave it out for the default"));
            }
            Ok(value) => return Some(Located { value, span }),
            Err(_) if written.starts_with('-') => errors.at(span, format!("`{key}` is at least 1")),
            Err(_) => errors.at(span, format!("`{key}` is at most {}", u32::MAX)),
        }
    } else {
        errors.on(value, format!("`{key}` takes a whole number without quotes: `{key} = 4`"));
    }
    None
}

/// `true` or `false`.
pub(crate) fn flag(key: &str, value: &Expr, errors: &mut Errors) -> Option<bool> {
    if let Expr::Lit(ExprLit { lit: Lit::Bool(flag), .. }) = value {
        return Some(flag.value);
    }
    errors.on(value, format!("`{key}` takes `true` or `false`: `{key} = true`"));
    None
}
