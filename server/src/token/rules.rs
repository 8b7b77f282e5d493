//! What makes a token good, from the settings.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use reqwest::Url;
use secrecy::SecretString;
use sluicegate_control::ToolGlob;

use crate::gate::edge;
use crate::settings::{Settings, SettingsError, list};

/// A secret of HMAC is no shorter than its hash (RFC 7518, section 3.2).
const MIN_SECRET: usize = 32;

/// What makes a token good.
pub(crate) struct TokenRules {
    pub(super) issuer: String,
    pub(super) audiences: Vec<String>,
    pub(super) algorithms: Vec<Algorithm>,
    pub(super) key: KeySource,
    pub(super) leeway: Duration,
    pub(super) tenant_claim: String,
    pub(super) agent_claims: Vec<String>,
    /// Which tools a scope opens; `None`: every token opens all tools that ask for no scope it lacks.
    pub(crate) scope_tools: Option<Vec<ScopeTools>>,
}

/// The tools that a scope opens.
pub(crate) struct ScopeTools {
    pub(crate) scope: String,
    pub(crate) tools: Vec<ToolGlob>,
}

/// Where the key comes from that signatures are checked with.
pub(super) enum KeySource {
    Secret(SecretString),
    /// A public key, from this file.
    Public(DecodingKey),
    /// Published by the issuer.
    Jwks(Url),
}

impl TokenRules {
    /// `None` when no tokens are accepted.
    ///
    /// # Errors
    /// Names the setting that cannot be used, and what to do.
    pub(crate) fn new(settings: &Settings) -> Result<Option<Self>, SettingsError> {
        if !settings.auth.takes_tokens() {
            return refuse_unused(settings);
        }
        let required = |name: &str, text: &str| {
            let missing = || wrong(name, format_args!("auth = \"{}\" needs it", settings.auth));
            if text.is_empty() { Err(missing()) } else { Ok(text.to_owned()) }
        };
        let algorithms = algorithms(&settings.jwt_algorithms)?;
        let rules = Self {
            issuer: required("jwt_issuer", &settings.jwt_issuer)?,
            audiences: list(&required("jwt_audience", &settings.jwt_audience)?).map(str::to_owned).collect(),
            key: key_source(settings, &algorithms)?,
            algorithms,
            leeway: settings.jwt_leeway.0,
            tenant_claim: required("jwt_tenant_claim", &settings.jwt_tenant_claim)?,
            agent_claims: list(&required("jwt_agent_claims", &settings.jwt_agent_claims)?).map(str::to_owned).collect(),
            scope_tools: scope_tools(&settings.jwt_scope_tools)?,
        };
        if rules.audiences.is_empty() || rules.agent_claims.is_empty() {
            return Err(wrong("jwt_audience, jwt_agent_claims", "a list of nothing but commas"));
        }
        Ok(Some(rules))
    }
}

/// Whoever says what tokens look like means them to be accepted.
fn refuse_unused(settings: &Settings) -> Result<Option<TokenRules>, SettingsError> {
    let set = [
        ("jwt_issuer", !settings.jwt_issuer.is_empty()),
        ("jwt_audience", !settings.jwt_audience.is_empty()),
        ("jwt_jwks_url", !settings.jwt_jwks_url.is_empty()),
        ("jwt_public_key", !settings.jwt_public_key.is_empty()),
        ("jwt_secret", !settings.jwt_secret.is_empty()),
    ];
    match set.iter().find(|(_, set)| *set) {
        None => Ok(None),
        Some((name, _)) => Err(wrong(
            name,
            format_args!(
                "auth = \"{}\" accepts no tokens: set auth = \"jwt\" or \"both\", or remove it",
                settings.auth
            ),
        )),
    }
}

fn algorithms(text: &str) -> Result<Vec<Algorithm>, SettingsError> {
    let algorithm = |name: &str| match name {
        "HS256" => Ok(Algorithm::HS256),
        "RS256" => Ok(Algorithm::RS256),
        "ES256" => Ok(Algorithm::ES256),
        "EdDSA" => Ok(Algorithm::EdDSA),
        _ => Err(wrong("jwt_algorithms", format_args!("`{name}` is none of HS256, RS256, ES256 and EdDSA"))),
    };
    let algorithms = list(text).map(algorithm).collect::<Result<Vec<_>, _>>()?;
    if algorithms.is_empty() { Err(wrong("jwt_algorithms", "it names none")) } else { Ok(algorithms) }
}

fn key_source(settings: &Settings, algorithms: &[Algorithm]) -> Result<KeySource, SettingsError> {
    let Settings { jwt_secret: secret, jwt_public_key: file, jwt_jwks_url: url, .. } = settings;
    let symmetric = algorithms.iter().any(|algorithm| algorithm.family() == AlgorithmFamily::Hmac);
    match (secret.is_empty(), file.is_empty(), url.is_empty()) {
        (false, true, true) if algorithms != [Algorithm::HS256] => {
            Err(wrong("jwt_secret", "a secret is for jwt_algorithms = \"HS256\" alone"))
        }
        (false, true, true) if secret.len() < MIN_SECRET => {
            Err(wrong("jwt_secret", format_args!("it is shorter than {MIN_SECRET} characters")))
        }
        (false, true, true) => Ok(KeySource::Secret(secret.clone().into())),
        (true, false, true) | (true, true, false) if symmetric => Err(wrong(
            "jwt_algorithms",
            "HS256 is for jwt_secret: with public keys it would let everybody sign who knows them",
        )),
        (true, false, true) => public_key(PathBuf::from(file), algorithms).map(KeySource::Public),
        (true, true, false) => jwks_url(url).map(KeySource::Jwks),
        (true, true, true) => Err(wrong(
            "jwt_jwks_url",
            "tokens need a key to be checked with: set jwt_jwks_url, jwt_public_key or jwt_secret",
        )),
        _ => Err(wrong("jwt_jwks_url, jwt_public_key, jwt_secret", "set one of them, not several")),
    }
}

fn public_key(file: PathBuf, algorithms: &[Algorithm]) -> Result<DecodingKey, SettingsError> {
    let &[algorithm] = algorithms else {
        return Err(wrong("jwt_algorithms", "jwt_public_key is one key: name the one algorithm that it is for"));
    };
    let shown = file.display();
    let pem = std::fs::read(&file)
        .map_err(|error| wrong("jwt_public_key", format_args!("{shown} cannot be read: {error}")))?;
    let key = match algorithm.family() {
        AlgorithmFamily::Ec => DecodingKey::from_ec_pem(&pem),
        AlgorithmFamily::Ed => DecodingKey::from_ed_pem(&pem),
        _ => DecodingKey::from_rsa_pem(&pem),
    };
    key.map_err(|_| wrong("jwt_public_key", format_args!("{shown} holds no public key for {algorithm:?} in PEM")))
}

/// Over http whoever is on the way could put keys of their own in.
fn jwks_url(text: &str) -> Result<Url, SettingsError> {
    let url = Url::parse(text).ok();
    let good = url.filter(|url| match url.scheme() {
        "https" => url.has_host(),
        "http" => url.host_str().is_some_and(edge::names_loopback),
        _ => false,
    });
    good.ok_or_else(|| wrong("jwt_jwks_url", format_args!("`{text}` is no https URL (http only on this machine)")))
}

/// `reports:read=get_* list_*, admin=*`.
fn scope_tools(text: &str) -> Result<Option<Vec<ScopeTools>>, SettingsError> {
    let entry = |text: &str| {
        let (scope, globs) = text.split_once('=').map(|(scope, globs)| (scope.trim(), globs)).unwrap_or_default();
        let tools: Result<Vec<ToolGlob>, _> = globs.split_whitespace().map(str::parse).collect();
        match tools {
            Ok(tools) if !scope.is_empty() && !tools.is_empty() => Ok(ScopeTools { scope: scope.to_owned(), tools }),
            Ok(_) => {
                Err(wrong("jwt_scope_tools", format_args!("`{text}` is not like `reports:read=get_* list_reports`")))
            }
            Err(error) => Err(wrong("jwt_scope_tools", format_args!("`{text}`: {error}"))),
        }
    };
    let entries = list(text).map(entry).collect::<Result<Vec<_>, _>>()?;
    Ok((!entries.is_empty()).then_some(entries))
}

fn wrong(setting: &str, what: impl fmt::Display) -> SettingsError {
    SettingsError(format!("{setting}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::AuthMode;

    fn settings(change: impl FnOnce(&mut Settings)) -> Settings {
        let mut settings = Settings::defaults();
        settings.auth = AuthMode::Jwt;
        settings.jwt_issuer = "https://login.example.com/".to_owned();
        settings.jwt_audience = "https://mcp.example.com/mcp".to_owned();
        change(&mut settings);
        settings
    }

    fn problem(change: impl FnOnce(&mut Settings)) -> String {
        let rules = TokenRules::new(&settings(change));
        rules.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn settings_that_would_accept_what_they_should_not_are_refused_with_what_to_do() {
        type Change = fn(&mut Settings);
        let cases: &[(Change, &[&str])] = &[
            (|_| {}, &["jwt_jwks_url", "jwt_public_key or jwt_secret"]),
            (|s| s.jwt_jwks_url = "http://login.example.com/jwks".into(), &["jwt_jwks_url", "no https URL"]),
            (|s| s.jwt_jwks_url = "http://127.0.0.1@evil.example/jwks".into(), &["no https URL"]),
            (|s| s.jwt_jwks_url = "file:///etc/jwks".into(), &["no https URL"]),
            (|s| s.jwt_secret = "x".repeat(32), &["jwt_secret", "jwt_algorithms = \"HS256\""]),
            (
                |s| (s.jwt_algorithms, s.jwt_secret) = ("HS256, RS256".into(), "x".repeat(32)),
                &["jwt_secret", "HS256\" alone"],
            ),
            (|s| (s.jwt_algorithms, s.jwt_secret) = ("HS256".into(), "short".into()), &["shorter than 32"]),
            (
                |s| (s.jwt_algorithms, s.jwt_jwks_url) = ("RS256, HS256".into(), "https://x.example/jwks".into()),
                &["jwt_algorithms", "everybody sign"],
            ),
            (|s| s.jwt_algorithms = "none".into(), &["`none`"]),
            (|s| s.jwt_algorithms = "rs256".into(), &["`rs256`"]),
            (|s| s.jwt_algorithms = " , ".into(), &["jwt_algorithms", "names none"]),
            (|s| s.jwt_public_key = "/nowhere.pem".into(), &["jwt_public_key", "/nowhere.pem"]),
            (
                |s| (s.jwt_algorithms, s.jwt_public_key) = ("RS256, ES256".into(), "/nowhere.pem".into()),
                &["the one algorithm"],
            ),
            (
                |s| (s.jwt_jwks_url, s.jwt_secret) = ("https://x.example/jwks".into(), "x".repeat(32)),
                &["set one of them"],
            ),
            (|s| s.jwt_issuer.clear(), &["jwt_issuer", "auth = \"jwt\" needs it"]),
            (|s| s.jwt_audience.clear(), &["jwt_audience"]),
            (
                |s| (s.jwt_jwks_url, s.jwt_tenant_claim) = ("https://x.example/jwks".into(), String::new()),
                &["jwt_tenant_claim", "needs it"],
            ),
            (|s| s.auth = AuthMode::Keys, &["jwt_issuer", "auth = \"keys\" accepts no tokens"]),
        ];
        for (change, parts) in cases {
            let problem = problem(change);
            for part in *parts {
                assert!(problem.contains(part), "{part} is not in: {problem}");
            }
        }
    }

    #[test]
    fn scopes_and_the_tools_that_they_open_are_read() {
        let read = |text: &str| scope_tools(text).map_err(|error| error.to_string());
        assert!(read("").expect("nothing").is_none());
        let entries = read("reports:read=get_* list, admin = *").expect("two").expect("two");
        let texts: Vec<_> = entries.iter().map(|entry| (entry.scope.as_str(), entry.tools.len())).collect();
        assert_eq!(texts, [("reports:read", 2), ("admin", 1)]);
        for wrong in ["read", "=x", "read=", "read=get_*, write"] {
            assert!(read(wrong).is_err_and(|error| error.contains("jwt_scope_tools")), "{wrong}");
        }
    }

    #[test]
    fn keys_are_fetched_over_https_or_from_this_machine() {
        let good = |url: &str| TokenRules::new(&settings(|settings| settings.jwt_jwks_url = url.to_owned())).is_ok();
        for url in
            ["https://login.example.com/jwks", "http://127.0.0.1:9/jwks", "http://[::1]/jwks", "http://localhost/jwks"]
        {
            assert!(good(url), "{url}");
        }
    }
}
