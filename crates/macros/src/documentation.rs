//! Doc comments as descriptions.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// What the doc comment of an item says.
pub(crate) enum Documentation {
    /// There is none.
    None,
    /// A text.
    Text(String),
    /// Something that only the compiler can put together, such as `#[doc = include_str!("…")]`.
    Expression(Vec<Expr>),
}

impl Documentation {
    /// Reads the doc attributes among `attributes`.
    pub(crate) fn of(attributes: &[Attribute]) -> Self {
        let parts: Vec<&Expr> = attributes.iter().filter_map(part).collect();
        let lines: Option<Vec<String>> = parts.iter().map(|part| line(part)).collect();
        match lines {
            Some(lines) => {
                let text = unindented(&lines.join("\n"));
                if text.is_empty() { Self::None } else { Self::Text(text) }
            }
            None => Self::Expression(parts.into_iter().cloned().collect()),
        }
    }

    /// The whole of it, for generated code.
    pub(crate) fn description(&self, private: &TokenStream) -> Option<TokenStream> {
        match self {
            Self::None => None,
            Self::Text(text) => Some(quote!(#text)),
            Self::Expression(parts) => Some(quote!(#private::concat!(#(#parts, "\n"),*))),
        }
    }

    /// The first line without its final dot, if it is a paragraph of its own; half a sentence makes no title.
    pub(crate) fn title(&self) -> Option<String> {
        let Self::Text(text) = self else { return None };
        let mut lines = text.lines();
        let first = lines.next()?;
        let is_paragraph = lines.next().is_none_or(|second| second.trim().is_empty());
        is_paragraph.then(|| first.strip_suffix('.').unwrap_or(first).to_owned())
    }
}

/// Whether an attribute is (a line of) a doc comment.
pub(crate) fn is_doc(attribute: &Attribute) -> bool {
    part(attribute).is_some()
}

fn part(attribute: &Attribute) -> Option<&Expr> {
    match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => Some(&pair.value),
        _ => None,
    }
}

fn line(part: &Expr) -> Option<String> {
    match part {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// Without the indentation that all lines share (after `///` that is one space) and without blank lines at the ends.
fn unindented(text: &str) -> String {
    let indents = text.lines().filter(|line| !line.trim().is_empty()).map(|line| line.len() - line.trim_start().len());
    let shared = indents.min().unwrap_or(0);
    let lines: Vec<&str> = text.lines().map(|line| line.get(shared..).unwrap_or_default().trim_end()).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}
