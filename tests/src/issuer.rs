//! An identity provider on loopback: real keys, signed tokens, and a set of published keys that tests change, slow down
//! and take away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{self, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use sluicegate::{AuthMode, Settings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::server::START_MS;

/// What the issuer calls itself.
pub const ISSUER: &str = "https://login.example.com/";
/// What its tokens are for.
pub const AUDIENCE: &str = "https://mcp.example.com/mcp";

/// What new keys of HS256 are.
pub const SECRET: &str = "a secret of thirty-two characters";

/// A private key with a name.
#[derive(Clone)]
pub struct SigningKey {
    /// Its name, `kid`.
    pub name: String,
    /// The algorithm that it signs with.
    pub algorithm: Algorithm,
    key: EncodingKey,
    public_pem: Option<String>,
}

impl SigningKey {
    /// A new key. Makes tokens of HS256, RS256, ES256 or EdDSA.
    ///
    /// # Panics
    /// For another algorithm.
    #[must_use]
    pub fn new(name: &str, algorithm: Algorithm) -> Self {
        let random = SystemRandom::new();
        let private = |der: &[u8]| pem("PRIVATE KEY", der);
        let (key, public) = match algorithm {
            Algorithm::HS256 => return Self::secret(name, SECRET),
            Algorithm::RS256 => {
                let pair = rsa::KeyPair::generate(KeySize::Rsa2048).expect("a key");
                let der: Pkcs8V1Der<'_> = pair.as_der().expect("a key");
                let public: PublicKeyX509Der<'_> = pair.public_key().as_der().expect("a key");
                let key = EncodingKey::from_rsa_pem(private(der.as_ref()).as_bytes());
                (key, public.as_ref().to_vec())
            }
            Algorithm::ES256 => {
                let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
                let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref()).expect("a key");
                let public: PublicKeyX509Der<'_> = pair.public_key().as_der().expect("a key");
                (EncodingKey::from_ec_pem(private(der.as_ref()).as_bytes()), public.as_ref().to_vec())
            }
            Algorithm::EdDSA => {
                let der = Ed25519KeyPair::generate_pkcs8v1(&random).expect("a key");
                let pair = Ed25519KeyPair::from_pkcs8(der.as_ref()).expect("a key");
                let public: PublicKeyX509Der<'_> = pair.public_key().as_der().expect("a key");
                (EncodingKey::from_ed_pem(private(der.as_ref()).as_bytes()), public.as_ref().to_vec())
            }
            other => panic!("no keys of {other:?}"),
        };
        let public_pem = Some(pem("PUBLIC KEY", &public));
        Self { name: name.to_owned(), algorithm, key: key.expect("a key"), public_pem }
    }

    /// A key of HS256.
    ///
    /// # Panics
    /// When the secret is empty.
    #[must_use]
    pub fn secret(name: &str, secret: &str) -> Self {
        let key = EncodingKey::from_secret(secret.as_bytes()).expect("a secret");
        Self { name: name.to_owned(), algorithm: Algorithm::HS256, key, public_pem: None }
    }

    /// The same key under another name.
    #[must_use]
    pub fn named(&self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self.clone() }
    }

    /// The public key in PEM.
    ///
    /// # Panics
    /// When the key is a secret.
    #[must_use]
    pub fn public_pem(&self) -> &str {
        self.public_pem.as_deref().expect("a public key")
    }

    /// A token with these claims.
    ///
    /// # Panics
    /// When it cannot be signed.
    #[must_use]
    pub fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.name.clone()), ..Header::new(self.algorithm) };
        encode(&header, claims, &self.key).expect("it can be signed")
    }

    /// The key as it is published.
    fn published(&self) -> Value {
        let jwk = Jwk::from_encoding_key(&self.key, self.algorithm).expect("it can be published");
        let mut jwk = serde_json::to_value(jwk).expect("JSON");
        jwk["kid"] = json!(self.name);
        jwk["use"] = json!("sig");
        jwk
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// A token that nobody has signed.
#[must_use]
pub fn unsigned(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.", part(header), part(claims))
}

/// Good claims for an agent of a tenant, by the clock of tests.
#[must_use]
pub fn claims(tenant: &str, agent: &str) -> Value {
    claims_from(START_MS, tenant, agent)
}

/// Good claims for an agent of a tenant, from this time on for an hour; in epoch milliseconds.
#[must_use]
pub fn claims_from(now_ms: i64, tenant: &str, agent: &str) -> Value {
    let now = now_ms / 1_000;
    json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": agent, "tenant_id": tenant, "exp": now + 3_600, "nbf": now })
}

/// Settings of a server process that trusts tokens signed with a secret.
#[must_use]
pub fn trusting(secret: &str) -> [(&'static str, &str); 5] {
    [
        ("AUTH", "both"),
        ("JWT_ISSUER", ISSUER),
        ("JWT_AUDIENCE", AUDIENCE),
        ("JWT_ALGORITHMS", "HS256"),
        ("JWT_SECRET", secret),
    ]
}

/// How the issuer answers.
#[derive(Clone)]
enum Mood {
    Answers(String),
    /// Connections are closed without an answer.
    Down,
    /// Connections stay open without an answer.
    Slow,
}

/// An identity provider on loopback.
pub struct Issuer {
    mood: watch::Sender<Mood>,
    asked: Arc<AtomicUsize>,
    url: String,
}

impl Issuer {
    /// An issuer that publishes these keys.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(keys: &[&SigningKey]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let url = format!("http://{}/jwks", listener.local_addr().expect("an address"));
        let (mood, looks) = watch::channel(Mood::Answers(document(keys)));
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let mood = looks.borrow().clone();
                tokio::spawn(answer(stream, mood));
            }
        });
        Self { mood, asked, url }
    }

    /// Publishes these keys from now on.
    pub fn publish(&self, keys: &[&SigningKey]) {
        self.mood.send_replace(Mood::Answers(document(keys)));
    }

    /// Publishes any text.
    pub fn publish_text(&self, text: &str) {
        self.mood.send_replace(Mood::Answers(text.to_owned()));
    }

    /// Answers nobody from now on: closes every connection.
    pub fn go_down(&self) {
        self.mood.send_replace(Mood::Down);
    }

    /// Lets everybody wait from now on.
    pub fn be_slow(&self) {
        self.mood.send_replace(Mood::Slow);
    }

    /// How often it was asked.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Where the keys are.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Settings under which a server trusts this issuer.
    pub fn trust(&self, settings: &mut Settings) {
        trust(settings, "RS256");
        settings.jwt_jwks_url = self.url.clone();
    }
}

/// Settings under which a server trusts the issuer, but for the key.
pub fn trust(settings: &mut Settings, algorithms: &str) {
    settings.auth = AuthMode::Both;
    settings.jwt_issuer = ISSUER.to_owned();
    settings.jwt_audience = format!("https://other.example.com, {AUDIENCE}");
    settings.jwt_algorithms = algorithms.to_owned();
}

fn document(keys: &[&SigningKey]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| key.published()).collect();
    json!({ "keys": keys }).to_string()
}

async fn answer(mut stream: TcpStream, mood: Mood) {
    match mood {
        Mood::Down => {}
        Mood::Slow => tokio::time::sleep(Duration::from_secs(600)).await,
        Mood::Answers(body) => {
            let mut request = [0; 4_096];
            let _ = stream.read(&mut request).await;
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    }
}
