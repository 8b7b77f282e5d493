//! The parser of quotas, and errors that point at what is wrong.

use std::{ops::Range, time::Duration};

use thiserror::Error;

use super::{D, H, MIN, MS, Quota, Quotas, S};
use crate::choice::did_you_mean;

/// Every spelling of a unit; the canonical ones first.
const UNITS: &[(&str, u64)] = &[
    ("ms", MS),
    ("s", S),
    ("min", MIN),
    ("h", H),
    ("d", D),
    ("sec", S),
    ("second", S),
    ("seconds", S),
    ("m", MIN),
    ("minute", MIN),
    ("minutes", MIN),
    ("hr", H),
    ("hour", H),
    ("hours", H),
    ("day", D),
    ("days", D),
];

/// The spellings that a typing error is corrected to; one-letter ones would match any typing error.
const SUGGESTED: &[&str] =
    &["min", "ms", "sec", "second", "seconds", "minute", "minutes", "hr", "hour", "hours", "day", "days"];

/// What is wrong with the text of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuotaErrorKind {
    /// Nothing was written, or nothing between two commas.
    Empty,
    /// There is no `/`.
    NoWindow,
    /// The count is missing or is not a whole number.
    BadCount,
    /// The count is 0.
    ZeroCount,
    /// The number in front of the unit is not a whole number, or is 0.
    BadWindow,
    /// There is no unit after the `/`.
    NoUnit,
    /// The unit is none of those known.
    UnknownUnit,
    /// The window is longer than 366 days, or not made of whole milliseconds.
    WindowOutOfRange,
    /// The rate is above one call per nanosecond.
    TooFast,
    /// More than eight quotas in one list.
    TooMany,
}

/// A quota that cannot be understood: what is wrong, with which part of the text, and what to write instead.
///
/// ```
/// use sluicegate_limits::Quota;
///
/// let text = "100/mn";
/// let error = text.parse::<Quota>().unwrap_err();
/// assert_eq!(error.to_string(), "unknown unit `mn` in `100/mn`: use ms, s, min, h or d (did you mean `min`?)");
/// assert_eq!(&text[error.span()], "mn");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{problem} in `{text}`: {hint}")]
pub struct QuotaError {
    kind: QuotaErrorKind,
    text: String,
    span: Range<usize>,
    problem: String,
    hint: String,
}

impl QuotaError {
    /// What sort of error this is.
    #[must_use]
    pub fn kind(&self) -> QuotaErrorKind {
        self.kind
    }

    /// The bytes of the parsed text that are wrong, always on character boundaries.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// What to write instead.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

/// A piece of a longer text that knows where it stands.
#[derive(Clone, Copy)]
struct Part<'a> {
    whole: &'a str,
    start: usize,
    end: usize,
}

impl<'a> Part<'a> {
    fn all(whole: &'a str) -> Self {
        Self { whole, start: 0, end: whole.len() }
    }

    fn text(self) -> &'a str {
        &self.whole[self.start..self.end]
    }

    fn trim(self) -> Self {
        let start = self.end - self.text().trim_start().len();
        Self { start, end: self.start + self.text().trim_end().len(), ..self }.ordered()
    }

    /// Of a part that is all white space, trimming leaves an empty one.
    fn ordered(self) -> Self {
        Self { end: self.end.max(self.start), ..self }
    }

    fn split_at(self, at: usize) -> (Self, Self) {
        let middle = self.start + at;
        (Self { end: middle, ..self }, Self { start: middle, ..self })
    }

    fn error(self, kind: QuotaErrorKind, problem: impl Into<String>, hint: impl Into<String>) -> QuotaError {
        QuotaError {
            kind,
            text: self.whole.to_owned(),
            span: self.start..self.end,
            problem: problem.into(),
            hint: hint.into(),
        }
    }

    /// The digits of this part, `_` between them allowed; `None` when it is anything else, `Some(None)` when too large.
    fn number(self) -> Option<Option<u64>> {
        let text = self.text();
        let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
        if !plain || text.is_empty() || text.starts_with('_') || text.ends_with('_') {
            return None;
        }
        let digits = text.bytes().filter(|b| *b != b'_').map(|b| u64::from(b - b'0'));
        Some(digits.into_iter().try_fold(0_u64, |n, digit| n.checked_mul(10)?.checked_add(digit)))
    }
}

pub(super) fn quota(text: &str) -> Result<Quota, QuotaError> {
    parse(Part::all(text))
}

pub(super) fn quotas(text: &str) -> Result<Vec<Quota>, QuotaError> {
    let mut quotas = Vec::new();
    let mut rest = Part::all(text);
    loop {
        let comma = rest.text().find(',');
        let (item, after) = rest.split_at(comma.unwrap_or(rest.text().len()));
        if quotas.len() == Quotas::MAX {
            return Err(too_many(item.trim()));
        }
        quotas.push(parse(item)?);
        if comma.is_none() {
            return Ok(quotas);
        }
        rest = Part { start: after.start + 1, ..after };
    }
}

pub(super) fn check_list_length(len: usize) -> Result<(), QuotaError> {
    match len {
        0 => Err(empty(Part::all(""))),
        1..=Quotas::MAX => Ok(()),
        _ => Err(too_many(Part::all(&format!("{len} quotas")))),
    }
}

/// A quota made of numbers instead of text; errors show how it would have been written.
pub(super) fn checked(count: u64, window: Duration) -> Result<Quota, QuotaError> {
    let shown = format!("{count}/{}ms", window.as_secs_f64() * 1e3);
    let (count_part, after) = Part::all(&shown).split_at(shown.find('/').unwrap_or(0));
    let window_part = Part { start: after.start + 1, ..after };
    if count == 0 {
        return Err(zero_count(count_part));
    }
    if window.is_zero() || !window.subsec_nanos().is_multiple_of(1_000_000) {
        let problem = format!("window of {window:?}");
        return Err(window_part.error(
            QuotaErrorKind::WindowOutOfRange,
            problem,
            "use whole milliseconds, at least 1ms",
        ));
    }
    in_range(Part::all(&shown), window_part, count, window.as_nanos())
}

fn parse(part: Part<'_>) -> Result<Quota, QuotaError> {
    use QuotaErrorKind::{BadCount, BadWindow, NoUnit, NoWindow, UnknownUnit};

    let part = part.trim();
    if part.text().is_empty() {
        return Err(empty(part));
    }
    let Some(slash) = part.text().find('/') else {
        return Err(part.error(
            NoWindow,
            format!("no window in `{}`", part.text()),
            "write a count per window, like 100/min",
        ));
    };
    let (count_part, after) = part.split_at(slash);
    let count_part = count_part.trim();
    let window_part = Part { start: after.start + 1, ..after }.trim();

    let count = match count_part.number() {
        Some(Some(0)) => return Err(zero_count(count_part)),
        Some(Some(count)) => count,
        Some(None) => return Err(too_fast(count_part, "count too large")),
        None => {
            let problem = match count_part.text() {
                "" => "no count".to_owned(),
                text if text.starts_with('-') => format!("negative count `{text}`"),
                text if text.contains(['.', ',']) => format!("fractional count `{text}`"),
                text => format!("bad count `{text}`"),
            };
            let part = if count_part.text().is_empty() { part } else { count_part };
            return Err(part.error(BadCount, problem, "write a whole number of calls, like 100/min"));
        }
    };

    let letters = window_part.text().find(|c: char| c.is_alphabetic()).unwrap_or(window_part.text().len());
    let (n_part, unit_part) = window_part.split_at(letters);
    let n_part = n_part.trim();
    let n = match n_part.number() {
        _ if n_part.text().is_empty() => 1,
        Some(Some(n)) if n > 0 => n,
        Some(None) => return Err(too_long(window_part)),
        _ => {
            let problem = format!("bad window length `{}`", n_part.text());
            return Err(n_part.error(BadWindow, problem, "write a whole number of units, at least 1, like 100/90s"));
        }
    };
    if unit_part.text().is_empty() {
        let part = if window_part.text().is_empty() { part } else { window_part };
        return Err(part.error(NoUnit, "no unit", "use ms, s, min, h or d, like 100/min"));
    }
    let Some((_, unit)) = UNITS.iter().find(|(name, _)| *name == unit_part.text()) else {
        let hint = format!("use ms, s, min, h or d{}", did_you_mean(unit_part.text(), SUGGESTED));
        return Err(unit_part.error(UnknownUnit, format!("unknown unit `{}`", unit_part.text()), hint));
    };
    in_range(part, window_part, count, u128::from(n) * u128::from(*unit))
}

fn in_range(whole: Part<'_>, window_part: Part<'_>, count: u64, window_ns: u128) -> Result<Quota, QuotaError> {
    if window_ns > Quota::MAX_WINDOW.as_nanos() {
        return Err(too_long(window_part));
    }
    let Ok(window_ns) = u64::try_from(window_ns) else { return Err(too_long(window_part)) };
    if count > window_ns {
        return Err(too_fast(whole, "rate too high"));
    }
    Ok(Quota { count, window_ns })
}

fn empty(part: Part<'_>) -> QuotaError {
    part.error(QuotaErrorKind::Empty, "no quota", "write a count per window, like 100/min")
}

fn zero_count(part: Part<'_>) -> QuotaError {
    part.error(
        QuotaErrorKind::ZeroCount,
        "count of 0",
        "the count is at least 1; to stop calls altogether, suspend the agent or the tenant",
    )
}

fn too_fast(part: Part<'_>, problem: &str) -> QuotaError {
    part.error(QuotaErrorKind::TooFast, problem, "the highest rate is 1000000000/s")
}

fn too_long(part: Part<'_>) -> QuotaError {
    part.error(
        QuotaErrorKind::WindowOutOfRange,
        format!("window `{}` too long", part.text()),
        "the longest window is 366d",
    )
}

fn too_many(part: Part<'_>) -> QuotaError {
    part.error(QuotaErrorKind::TooMany, "too many quotas", format!("one limit carries at most {}", Quotas::MAX))
}
