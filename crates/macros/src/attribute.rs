//! The keys between the parentheses of `#[tool(…)]` and `#[tools(…)]`.

use std::collections::HashSet;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{Expr, LitStr, Meta, Path, Token};

use crate::declared::Declared;
use crate::errors::Errors;
use crate::literal;

/// The keys of `#[tool(…)]`, as the message about an unknown one lists them.
const TOOL_KEYS: &[&str] = &[
    "rate_limit",
    "burst",
    "algorithm",
    "per",
    "cost",
    "concurrency",
    "timeout",
    "priority",
    "on_outage",
    "scopes",
    "name",
    "title",
    "description",
    "icons",
    "read_only",
    "destructive",
    "idempotent",
    "open_world",
    "validate",
    "crate",
];

/// The keys of `#[tools(…)]`.
const TOOLS_KEYS: &[&str] = &["crate"];

/// What `#[tool(…)]` says.
#[derive(Default)]
pub(crate) struct ToolAttribute {
    pub(crate) name: Option<LitStr>,
    pub(crate) title: Option<LitStr>,
    pub(crate) description: Option<LitStr>,
    pub(crate) icons: Vec<LitStr>,
    pub(crate) hints: Hints,
    pub(crate) validate: bool,
    pub(crate) declared: Declared,
    pub(crate) facade: Facade,
    /// Where `crate = …` was written.
    pub(crate) facade_span: Option<Span>,
}

impl ToolAttribute {
    /// Reads the keys; whatever is wrong with one leaves the others as they are.
    pub(crate) fn read(arguments: TokenStream, errors: &mut Errors) -> Self {
        let mut attribute = Self::default();
        for (key, value) in pairs(arguments, TOOL_KEYS, errors) {
            match &*key {
                "name" => {
                    let name = literal::text(&key, "\"export\"", &value, errors);
                    attribute.name = name.filter(|name| check_name(name, errors));
                }
                "title" => {
                    attribute.title = literal::text(&key, "\"Export a dataset\"", &value, errors);
                }
                "description" => {
                    attribute.description = literal::text(&key, "\"Exports a dataset.\"", &value, errors);
                }
                "validate" => {
                    attribute.validate = literal::flag(&key, &value, errors).unwrap_or_default();
                }
                "icons" => {
                    let icons = literal::texts(&key, "\"https://example.com/icon.svg\"", &value, errors);
                    attribute.icons = icons.into_iter().filter(|icon| check_icon(icon, errors)).collect();
                }
                "read_only" => attribute.hints.read_only = literal::flag(&key, &value, errors),
                "destructive" => attribute.hints.destructive = literal::flag(&key, &value, errors),
                "idempotent" => attribute.hints.idempotent = literal::flag(&key, &value, errors),
                "open_world" => attribute.hints.open_world = literal::flag(&key, &value, errors),
                "crate" => {
                    attribute.facade = Facade::read(&value, errors);
                    attribute.facade_span = Some(value.span());
                }
                _ => attribute.declared.read(&key, &value, errors),
            }
        }
        attribute.declared.check(errors);
        attribute
    }
}

/// How the tool says that it behaves; `None` where it says nothing.
#[derive(Default)]
pub(crate) struct Hints {
    read_only: Option<bool>,
    destructive: Option<bool>,
    idempotent: Option<bool>,
    open_world: Option<bool>,
}

impl Hints {
    /// The call that attaches them to the tool, if there are any.
    pub(crate) fn to_tokens(&self, private: &TokenStream) -> Option<TokenStream> {
        let hints = [self.read_only, self.destructive, self.idempotent, self.open_world];
        if hints.iter().all(Option::is_none) {
            return None;
        }
        let hints = hints.map(|hint| match hint {
            Some(hint) => quote!(#private::Option::Some(#hint)),
            None => quote!(#private::Option::None),
        });
        Some(quote!(.with_annotations(#private::hints(#(#hints),*))))
    }
}

/// The path of the facade crate, whose `__private` module is all that generated code names.
pub(crate) struct Facade(TokenStream);

impl Facade {
    /// Reads the keys of `#[tools(…)]`.
    pub(crate) fn of_tools(arguments: TokenStream, errors: &mut Errors) -> Self {
        let pair = pairs(arguments, TOOLS_KEYS, errors).pop();
        pair.map_or_else(Self::default, |(_, value)| Self::read(&value, errors))
    }

    fn read(value: &Expr, errors: &mut Errors) -> Self {
        let Some(text) = literal::text("crate", "\"::sluicegate\"", value, errors) else {
            return Self::default();
        };
        match text.parse_with(Path::parse_mod_style) {
            Ok(path) => Self(quote!(#path)),
            Err(_) => {
                errors.at(
                    text.span(),
                    "`crate` takes the path of the facade crate: `crate = \"my_framework::sluicegate\"`",
                );
                Self::default()
            }
        }
    }

    /// The module that generated code may name.
    pub(crate) fn private(&self) -> TokenStream {
        let Self(path) = self;
        quote!(#path::__private)
    }
}

impl Default for Facade {
    fn default() -> Self {
        Self(quote!(::sluicegate))
    }
}

/// Reads `key = value, …`. Unknown, repeated and misshapen keys are reported and left out.
fn pairs(arguments: TokenStream, known: &[&str], errors: &mut Errors) -> Vec<(String, Expr)> {
    let metas = match Punctuated::<Meta, Token![,]>::parse_terminated.parse2(arguments) {
        Ok(metas) => metas,
        Err(error) => {
            errors.at(error.span(), format!("keys are written `key = value`, with commas between them: {error}"));
            return Vec::new();
        }
    };
    let mut seen = HashSet::new();
    let mut pairs = Vec::new();
    for meta in metas {
        let path = meta.path();
        let key = quote!(#path).to_string();
        if !known.contains(&&*key) {
            errors.on(path, unknown(&key, known));
            continue;
        }
        if !seen.insert(key.clone()) {
            errors.on(path, format!("`{key}` is given twice: keep one"));
            continue;
        }
        match meta {
            Meta::NameValue(pair) => pairs.push((key, pair.value)),
            Meta::Path(_) | Meta::List(_) => {
                errors.on(&meta, format!("`{key}` takes a value: `{key} = …`"));
            }
        }
    }
    pairs
}

/// The message about a key that does not exist.
fn unknown(key: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(&key.to_lowercase(), candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3))
        .min_by_key(|(distance, _)| *distance);
    let hint = nearest.map(|(_, candidate)| format!(" (did you mean `{candidate}`?)")).unwrap_or_default();
    format!("unknown key `{key}`{hint}: the keys are {}", known.join(", "))
}

/// Clients take icons from these places (MCP, "Icons").
fn check_icon(icon: &LitStr, errors: &mut Errors) -> bool {
    let is_known = ["https://", "http://", "data:"].iter().any(|scheme| icon.value().starts_with(scheme));
    if !is_known {
        errors.at(icon.span(), "an icon is the address of an image: https://…, http://… or data:…");
    }
    is_known
}

/// Checks a name against MCP's rule for tool names; says so if it does not hold.
pub(crate) fn check_name(name: &LitStr, errors: &mut Errors) -> bool {
    let text = name.value();
    let problem = match text.chars().find(|&c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))) {
        Some(character) => format!("`{character}` in `{text}`"),
        None if text.is_empty() => "an empty text".to_owned(),
        None if text.len() > 128 => format!("{} characters", text.len()),
        None => return true,
    };
    errors.at(name.span(), format!("not a tool name: {problem}; write 1 to 128 of A-Z a-z 0-9 _ - ."));
    false
}
