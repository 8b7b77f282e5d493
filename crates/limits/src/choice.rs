//! The closed sets of words that limits are written with.
//!
//! Each parses from and prints as the word that the configuration, the database, the API and the `#[tool]` attribute use.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// A word that is not one of the choices.
///
/// ```
/// use sluicegate_limits::Algorithm;
///
/// let error = "tokenbucket".parse::<Algorithm>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "unknown algorithm `tokenbucket`: use token_bucket or sliding_window (did you mean `token_bucket`?)",
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown {what} `{value}`: use {}{}", one_of(choices), did_you_mean(value, choices))]
pub struct ChoiceError {
    what: &'static str,
    value: String,
    choices: &'static [&'static str],
}

impl ChoiceError {
    /// What was being chosen, for example `algorithm`.
    #[must_use]
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// The word that was given.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The words that would have been understood.
    #[must_use]
    pub fn choices(&self) -> &'static [&'static str] {
        self.choices
    }

    /// The choice that the given word is closest to, if one is close.
    #[must_use]
    pub fn suggestion(&self) -> Option<&'static str> {
        nearest(&self.value, self.choices)
    }
}

/// `a, b or c`.
pub(crate) fn one_of(choices: &[&str]) -> String {
    match choices {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// ` (did you mean `x`?)`, or nothing when no choice is close.
pub(crate) fn did_you_mean(value: &str, choices: &[&'static str]) -> String {
    nearest(value, choices).map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
}

/// The choice within a third of its length of `value`, at least one edit away from nothing.
fn nearest(value: &str, choices: &[&'static str]) -> Option<&'static str> {
    let value = value.to_lowercase();
    choices
        .iter()
        .map(|choice| (strsim::damerau_levenshtein(&value, choice), *choice))
        .filter(|(distance, choice)| *distance <= choice.len().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, choice)| choice)
}

macro_rules! choice {
    (
        $(#[$meta:meta])*
        $name:ident, $what:literal: $( $(#[$variant_meta:meta])* $variant:ident = $word:literal ),+ $(,)?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $( $(#[$variant_meta])* $variant ),+ }

        impl $name {
            /// Every choice, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word this choice is written with.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word ),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = ChoiceError;

            fn from_str(text: &str) -> Result<Self, ChoiceError> {
                match text {
                    $( $word => Ok(Self::$variant), )+
                    _ => Err(ChoiceError { what: $what, value: text.to_owned(), choices: Self::WORDS }),
                }
            }
        }
    };
}

choice! {
    /// How a rate limit counts.
    Algorithm, "algorithm":
    /// A bucket of `burst` tokens that refills at the quota's rate (GCRA, one timestamp per key). Smooth, but a full
    /// bucket lets up to `burst + count` calls through in one window; see
    /// [`RateLimit::worst_case_in_any_window`](crate::RateLimit::worst_case_in_any_window).
    TokenBucket = "token_bucket",
    /// Strict: never more than `count` calls in any trailing window, whatever the phase.
    SlidingWindow = "sliding_window",
}

choice! {
    /// Whose limit it is; what a refused caller is told.
    Scope, "scope":
    /// The whole server.
    Server = "server",
    /// One tenant, all its agents together.
    Tenant = "tenant",
    /// One agent of one tenant.
    Agent = "agent",
    /// One tool; only this scope means that other tools may still work.
    Tool = "tool",
}

choice! {
    /// How far the callers of a tool share its limit.
    Per, "per":
    /// Every agent has its own (the default).
    Agent = "agent",
    /// The agents of a tenant share one.
    Tenant = "tenant",
    /// All callers share one.
    Server = "server",
}

choice! {
    /// Whether a limit refuses or only watches.
    Mode, "mode":
    /// Calls beyond the limit are refused.
    Enforce = "enforce",
    /// Calls beyond the limit pass and are reported as "would have throttled".
    Observe = "observe",
}

choice! {
    /// Who gives way when a concurrency cap fills up; see [`Rules`](crate::Rules).
    Priority, "priority":
    /// May use 80 % of a shared cap.
    Low = "low",
    /// May use 95 % of a shared cap (the default).
    Normal = "normal",
    /// May use all of it.
    High = "high",
}

choice! {
    /// What becomes of calls while those who share a limit cannot reach who counts it.
    OnOutage, "on_outage":
    /// Each instance enforces its share of every limit by itself.
    LocalShare = "local_share",
    /// They are refused until that is over.
    Closed = "closed",
    /// They pass without rate limits.
    Open = "open",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_prints_the_word_it_parses_from() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.to_string().parse(), Ok(*algorithm));
        }
        for scope in Scope::ALL {
            assert_eq!(scope.to_string().parse(), Ok(*scope));
        }
        for per in Per::ALL {
            assert_eq!(per.to_string().parse(), Ok(*per));
        }
        for mode in Mode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(*mode));
        }
        for priority in Priority::ALL {
            assert_eq!(priority.to_string().parse(), Ok(*priority));
        }
        for on_outage in OnOutage::ALL {
            assert_eq!(on_outage.to_string().parse(), Ok(*on_outage));
        }
    }

    #[test]
    fn a_misspelt_choice_names_the_value_the_choices_and_the_nearest() {
        let error = "hgih".parse::<Priority>().unwrap_err();
        assert_eq!(error.to_string(), "unknown priority `hgih`: use low, normal or high (did you mean `high`?)");
        assert_eq!(error.suggestion(), Some("high"));
    }

    #[test]
    fn a_word_far_from_every_choice_gets_no_suggestion() {
        let error = "whatever".parse::<Scope>().unwrap_err();
        assert_eq!(error.to_string(), "unknown scope `whatever`: use server, tenant, agent or tool");
        assert_eq!((error.what(), error.value()), ("scope", "whatever"));
        assert_eq!(error.choices().len(), 4);
    }
}
