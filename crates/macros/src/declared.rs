//! The limits that a tool's author declares, checked with the parser that reads them at run time.

use std::fmt::Display;
use std::str::FromStr;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use sluicegate_limits::{Algorithm, OnOutage, Per, Priority, Quota, QuotaErrorKind, Quotas, RateLimit};
use syn::spanned::Spanned as _;
use syn::{Expr, LitStr};

use crate::errors::Errors;
use crate::literal::{self, Located};

/// What the attribute says about limits; `None` where it says nothing (or nothing valid).
#[derive(Default)]
pub(crate) struct Declared {
    rates: Vec<Located<Quota>>,
    /// Whether `rate_limit` was written, valid or not.
    is_rated: bool,
    burst: Option<Located<u32>>,
    /// Whether `burst` was written, but not as a number: then what the limits can hold is not known.
    is_burst_unknown: bool,
    algorithm: Option<Located<Algorithm>>,
    per: Option<Located<Per>>,
    cost: Option<Located<u32>>,
    concurrency: Option<Located<u32>>,
    timeout_ms: Option<u64>,
    priority: Option<Located<Priority>>,
    on_outage: Option<Located<OnOutage>>,
    scopes: Vec<String>,
}

impl Declared {
    /// Reads the value of one key.
    pub(crate) fn read(&mut self, key: &str, value: &Expr, errors: &mut Errors) {
        match key {
            "rate_limit" => self.read_rates(value, errors),
            "burst" => {
                self.burst = literal::number(key, value, errors);
                self.is_burst_unknown = self.burst.is_none();
            }
            "algorithm" => self.algorithm = word(key, "\"sliding_window\"", value, errors),
            "per" => self.per = word(key, "\"tenant\"", value, errors),
            "cost" => self.cost = literal::number(key, value, errors),
            "concurrency" => self.concurrency = literal::number(key, value, errors),
            "timeout" => self.timeout_ms = timeout(value, errors),
            "priority" => self.priority = word(key, "\"low\"", value, errors),
            "on_outage" => self.on_outage = word(key, "\"closed\"", value, errors),
            "scopes" => self.scopes = scopes(value, errors),
            _ => unreachable!("`{key}` is read elsewhere"),
        }
    }

    fn read_rates(&mut self, value: &Expr, errors: &mut Errors) {
        self.is_rated = true;
        if matches!(value, Expr::Array(array) if array.elems.is_empty()) {
            errors.on(
                value,
                "`rate_limit` is empty: leave it out for the server's limit, or write one, like \"100/min\"",
            );
        }
        for text in literal::texts("rate_limit", "\"100/min\"", value, errors) {
            let span = text.span();
            match text.value().parse::<Quotas>() {
                Ok(quotas) => {
                    self.rates.extend(quotas.iter().map(|&value| Located { value, span }));
                }
                Err(error) => errors.at(span, error),
            }
        }
        if self.rates.len() > Quotas::MAX {
            errors.on(value, format!("{} rates: one tool carries at most {}", self.rates.len(), Quotas::MAX));
        }
    }

    /// Checks what the keys say together.
    pub(crate) fn check(&self, errors: &mut Errors) {
        if !self.is_rated {
            let without = "has no effect without `rate_limit`: add one, like `rate_limit = \"100/min\"`";
            if let Some(burst) = &self.burst {
                errors.at(burst.span, format!("`burst` {without}"));
            }
            if let Some(algorithm) = &self.algorithm {
                errors.at(algorithm.span, format!("`algorithm` {without}"));
            }
        }
        if self.is_burst_unknown {
            return;
        }
        let algorithm = self.algorithm.as_ref().map_or(Algorithm::TokenBucket, |algorithm| algorithm.value);
        let burst = self.burst.as_ref().map(|burst| burst.value);
        let mut limits = Vec::new();
        for rate in &self.rates {
            match RateLimit::new(rate.value, burst, algorithm) {
                Ok(limit) => limits.push(limit),
                Err(error) => {
                    errors.at(self.burst.as_ref().map_or(rate.span, |burst| burst.span), error);
                    return;
                }
            }
        }
        let smallest = limits.iter().min_by_key(|limit| limit.capacity());
        if let (Some(cost), Some(limit)) = (&self.cost, smallest)
            && let Err(error) = limit.check_cost(cost.value)
        {
            errors.at(cost.span, error);
        }
    }

    /// The value that travels with the tool. Texts are in their canonical form.
    pub(crate) fn to_tokens(&self, private: &TokenStream) -> TokenStream {
        let rates = self.rates.iter().map(|rate| rate.value.to_string());
        let burst = option(self.burst.as_ref().map(|burst| burst.value), private);
        let algorithm = option(self.algorithm.as_ref().map(|algorithm| algorithm.value.as_str()), private);
        let per = option(self.per.as_ref().map(|per| per.value.as_str()), private);
        let cost = self.cost.as_ref().map_or(1, |cost| cost.value);
        let concurrency = option(self.concurrency.as_ref().map(|concurrency| concurrency.value), private);
        let timeout_ms = option(self.timeout_ms, private);
        let priority = option(self.priority.as_ref().map(|priority| priority.value.as_str()), private);
        let on_outage = option(self.on_outage.as_ref().map(|on_outage| on_outage.value.as_str()), private);
        let scopes = &self.scopes;
        quote! {
            #private::Declared {
                rates: &[#(#rates),*],
                burst: #burst,
                algorithm: #algorithm,
                per: #per,
                cost: #cost,
                concurrency: #concurrency,
                timeout_ms: #timeout_ms,
                priority: #priority,
                on_outage: #on_outage,
                scopes: &[#(#scopes),*],
            }
        }
    }
}

/// An `Option` in generated code.
fn option(value: Option<impl ToTokens>, private: &TokenStream) -> TokenStream {
    match value {
        Some(value) => quote!(#private::Option::Some(#value)),
        None => quote!(#private::Option::None),
    }
}

/// One of the words that the limits know.
fn word<T>(key: &str, example: &str, value: &Expr, errors: &mut Errors) -> Option<Located<T>>
where
    T: FromStr<Err: Display>,
{
    let text = literal::text(key, example, value, errors)?;
    match text.value().parse() {
        Ok(word) => Some(Located { value: word, span: text.span() }),
        Err(error) => {
            errors.at(text.span(), error);
            None
        }
    }
}

/// A duration, written like a quota's window with its number in front: `500ms`, `30s`, `5min`.
fn timeout(value: &Expr, errors: &mut Errors) -> Option<u64> {
    let text = literal::text("timeout", "\"30s\"", value, errors)?;
    let written = text.value();
    let parsed = format!("1/{written}").parse::<Quota>();
    let starts_with_digit = written.starts_with(|c: char| c.is_ascii_digit());
    let problem = match parsed {
        Ok(quota) if starts_with_digit => return u64::try_from(quota.window().as_millis()).ok(),
        Err(error) if starts_with_digit && error.kind() == QuotaErrorKind::UnknownUnit => error.hint().to_owned(),
        Err(error) if error.kind() == QuotaErrorKind::WindowOutOfRange => "the longest is 366d".to_owned(),
        _ => "write a whole number, at least 1, and one of ms, s, min, h, d, like \"30s\"".to_owned(),
    };
    errors.at(text.span(), format!("bad timeout `{written}`: {problem}"));
    None
}

/// What the caller's key or token must carry. A scope is a `scope-token` of RFC 6749, section 3.3.
fn scopes(value: &Expr, errors: &mut Errors) -> Vec<String> {
    if !matches!(value, Expr::Array(_)) {
        errors.at(value.span(), "`scopes` takes a list: `scopes = [\"reports:write\"]`");
        return Vec::new();
    }
    let texts = literal::texts("scopes", "[\"reports:write\"]", value, errors);
    texts.into_iter().filter(|scope| check_scope(scope, errors)).map(|scope| scope.value()).collect()
}

fn check_scope(scope: &LitStr, errors: &mut Errors) -> bool {
    let text = scope.value();
    let valid = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
    if !valid {
        errors.at(
            scope.span(),
            format!(
                "bad scope `{text}`: one word of printable ASCII without quotes and backslashes, like \"reports:write\""
            ),
        );
    }
    valid
}
