//! The types of settings that are more than a number or a text.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use sluicegate_control::RefusalStyle;
use sluicegate_limits::{ChoiceError, OnOutage};

/// How callers are identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthMode {
    /// By an API key in `Authorization: Bearer …` or `X-API-Key`.
    Keys,
    /// By a token of an identity provider in `Authorization: Bearer …`.
    Jwt,
    /// By either.
    Both,
    /// Not at all: everybody is one anonymous caller.
    None,
}

impl AuthMode {
    /// Whether API keys are accepted.
    pub(crate) const fn takes_keys(self) -> bool {
        matches!(self, Self::Keys | Self::Both)
    }

    /// Whether tokens are accepted.
    pub(crate) const fn takes_tokens(self) -> bool {
        matches!(self, Self::Jwt | Self::Both)
    }
}

impl fmt::Display for AuthMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keys => "keys",
            Self::Jwt => "jwt",
            Self::Both => "both",
            Self::None => "none",
        })
    }
}

/// Who counts what limits allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// This process alone.
    Memory,
    /// All instances together, by way of Redis or Valkey.
    Redis,
}

/// What becomes of calls while Redis does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct OutageRule(pub OnOutage);

impl TryFrom<String> for OutageRule {
    type Error = ChoiceError;

    fn try_from(word: String) -> Result<Self, ChoiceError> {
        word.parse().map(Self)
    }
}

/// Whether peers before 2026-07-28 get sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionMode {
    /// Every request stands alone.
    Off,
    /// Sessions are kept by this process, each bound to the agent that opened it.
    Memory,
}

/// The field in which proxies say whom they speak for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyHeader {
    /// `X-Forwarded-For`, the custom of most proxies.
    XForwardedFor,
    /// `Forwarded`, RFC 7239.
    Forwarded,
}

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// One JSON object a line.
    Json,
}

/// The JSON-RPC error code of a refused call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalCode {
    /// By the peer's protocol version.
    Auto,
    /// Always this one.
    Fixed(i32),
}

impl<'de> Deserialize<'de> for RefusalCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Code;
        impl Visitor<'_> for Code {
            type Value = RefusalCode;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`auto` or an integer")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RefusalCode, E> {
                match text {
                    "auto" => Ok(RefusalCode::Auto),
                    _ => text
                        .parse()
                        .map(RefusalCode::Fixed)
                        .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_i64<E: de::Error>(self, code: i64) -> Result<RefusalCode, E> {
                i32::try_from(code)
                    .map(RefusalCode::Fixed)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(code), &self))
            }

            fn visit_u64<E: de::Error>(self, code: u64) -> Result<RefusalCode, E> {
                i32::try_from(code)
                    .map(RefusalCode::Fixed)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(code), &self))
            }
        }
        deserializer.deserialize_any(Code)
    }
}

/// One line of the compatibility list: clients that need another style than `http`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompatibilityEntry {
    /// What the `User-Agent` starts with.
    pub user_agent: String,
    /// The entry holds for protocol versions older than this one (`2026-07-28`); without it for all.
    #[serde(default)]
    pub older_than: Option<String>,
    /// The style for such clients.
    pub style: RefusalStyle,
}

/// A length of time as people write it: `500ms`, `10s`, `5min`, `1h`, `1d`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl fmt::Debug for Span {
    /// As it is written, for whoever looks at settings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&humantime::format_duration(self.0), f)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        humantime::parse_duration(text)
            .map(Self)
            .map_err(|error| format!("`{text}` is not a length of time such as 500ms, 30s or 5min: {error}"))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
