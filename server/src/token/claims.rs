//! Whom a good token speaks for.

use std::borrow::Cow;

use serde_json::{Map, Value};
use sluicegate_control::Agents;

use super::Bad;
use super::rules::TokenRules;

type Claims = Map<String, Value>;

/// Whom a token speaks for, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The tenant's slug, as the token says it. Whether there is such a tenant is another question.
    pub(crate) tenant: String,
    /// The agent's name.
    pub(crate) agent: String,
    /// The program that the agent uses: `client_id` or `azp`.
    pub(crate) client: Option<String>,
    pub(crate) scopes: Vec<String>,
    /// Until when the token is good, in epoch milliseconds, the leeway included.
    pub(crate) good_until: i64,
}

impl TokenRules {
    /// Whom a token speaks for whose signature is good.
    pub(super) fn subject(&self, claims: &Claims, now_ms: i64) -> Result<Subject, Bad> {
        let good_until = self.check_times(claims, now_ms)?;
        if text(claims, "iss") != Some(&*self.issuer) {
            return Err(Bad::Token("The token is not of the issuer that is trusted here (iss)."));
        }
        if !audiences(claims).any(|audience| self.audiences.iter().any(|ours| ours == audience)) {
            return Err(Bad::Token("The token is not meant for this server (aud)."));
        }
        let tenant = text(claims, &self.tenant_claim)
            .ok_or(Bad::NoTenant("The token names no tenant: its tenant claim is not a text, or empty."))?;
        let client = text(claims, "client_id").or_else(|| text(claims, "azp"));
        Ok(Subject {
            tenant: tenant.to_owned(),
            agent: self.agent(claims)?,
            client: client.map(str::to_owned),
            scopes: scopes(claims),
            good_until,
        })
    }

    /// `exp` must be there, `nbf` may; both are seconds, perhaps with a fraction (RFC 7519, section 2).
    fn check_times(&self, claims: &Claims, now_ms: i64) -> Result<i64, Bad> {
        let leeway_ms = i64::try_from(self.leeway.as_millis()).unwrap_or(i64::MAX);
        let good_until = match claims.get("exp").map(milliseconds) {
            Some(Some(ms)) => ms.saturating_add(leeway_ms),
            _ => return Err(Bad::Token("The token does not say when it ends (exp).")),
        };
        if good_until <= now_ms {
            return Err(Bad::Token("The token has expired."));
        }
        match claims.get("nbf").map(milliseconds) {
            Some(None) => Err(Bad::Token("The token does not say when it begins (nbf).")),
            Some(Some(ms)) if ms.saturating_sub(leeway_ms) > now_ms => Err(Bad::Token("The token is not valid yet.")),
            _ => Ok(good_until),
        }
    }

    /// One claim as it is; several so that no two lists make the same name. Where there is none of them, the program.
    fn agent(&self, claims: &Claims) -> Result<String, Bad> {
        let parts: Vec<_> = self.agent_claims.iter().map(|claim| text(claims, claim)).collect();
        let agent = match parts.as_slice() {
            [Some(only)] => Cow::Borrowed(*only),
            parts if parts.iter().all(Option::is_some) => {
                Cow::Owned(parts.iter().flatten().map(|part| escaped(part)).collect::<Vec<_>>().join(" "))
            }
            parts if parts.iter().all(Option::is_none) => text(claims, "client_id")
                .map(Cow::Borrowed)
                .ok_or(Bad::NoAgent("The token does not say who calls: it has no agent claim and no client_id."))?,
            _ => return Err(Bad::NoAgent("The token has some of the agent claims, but not all.")),
        };
        if Agents::is_name(&agent) {
            Ok(agent.into_owned())
        } else {
            Err(Bad::NoAgent("What the token says of who calls cannot be an agent's name: 1 to 256 bytes in one line."))
        }
    }
}

/// Only a text that is not empty says something.
fn text<'a>(claims: &'a Claims, claim: &str) -> Option<&'a str> {
    claims.get(claim)?.as_str().filter(|text| !text.is_empty())
}

/// `aud` is a text or a list of texts (RFC 7519, section 4.1.3).
fn audiences(claims: &Claims) -> impl Iterator<Item = &str> {
    let audience = claims.get("aud");
    let several = audience.and_then(Value::as_array).into_iter().flatten();
    audience.into_iter().chain(several).filter_map(Value::as_str)
}

/// `scope` is a text with spaces (RFC 9068, section 2.2.3); some issuers write `scp`, as a list or a text.
fn scopes(claims: &Claims) -> Vec<String> {
    let claim = claims.get("scope").or_else(|| claims.get("scp"));
    let several = claim.and_then(Value::as_array).into_iter().flatten();
    let texts = claim.into_iter().chain(several).filter_map(Value::as_str);
    texts.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

fn milliseconds(value: &Value) -> Option<i64> {
    let seconds = value.as_f64().filter(|seconds| seconds.is_finite() && *seconds >= 0.0)?;
    // The conversion saturates.
    Some((seconds * 1_000.0) as i64)
}

/// A part of a name in which spaces separate parts.
fn escaped(part: &str) -> String {
    part.replace('%', "%25").replace(' ', "%20")
}
