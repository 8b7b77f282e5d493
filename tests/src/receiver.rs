//! A receiver of webhooks: it notes what it is sent, and answers as it is told.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

/// What a request is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// This status.
    Status(u16),
    /// 302 to another path.
    Redirect,
    /// Nothing, for longer than anybody waits.
    Silence,
}

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    /// The path that was asked for.
    pub path: String,
    /// The header fields, in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
}

/// A receiver on a free port of loopback. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Receiver {
    address: SocketAddr,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    /// Gives these replies, and 204 afterwards.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start(replies: &[Reply]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let replies = Arc::new(Mutex::new(replies.iter().copied().collect()));
        let receiver = Self { address, replies, received: Arc::default() };
        let serving = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let receiver = serving.clone();
                tokio::spawn(async move { receiver.serve(stream).await });
            }
        });
        receiver
    }

    /// Where it is, by address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Where it is, by name.
    #[must_use]
    pub fn named_url(&self) -> String {
        format!("http://localhost:{}/hook", self.address.port())
    }

    /// What has come so far.
    pub async fn received(&self) -> Vec<Received> {
        self.received.lock().await.clone()
    }

    /// Waits until so many requests have come.
    ///
    /// # Panics
    /// When they do not come within ten seconds.
    pub async fn wait_for(&self, count: usize) -> Vec<Received> {
        for _ in 0..500 {
            let received = self.received().await;
            if received.len() >= count {
                return received;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{} requests came, not {count}", self.received().await.len())
    }

    async fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut headers = BTreeMap::new();
        line.clear();
        while stream.read_line(&mut line).await? > 2 {
            if let Some((name, value)) = line.split_once(':') {
                headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            }
            line.clear();
        }
        let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or_default();
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let body = String::from_utf8_lossy(&body).into_owned();
        self.received.lock().await.push(Received { path, headers, body });
        let reply = self.replies.lock().await.pop_front().unwrap_or(Reply::Status(204));
        let head = match reply {
            Reply::Status(status) => format!("HTTP/1.1 {status} x\r\n"),
            Reply::Redirect => "HTTP/1.1 302 x\r\nlocation: /elsewhere\r\n".to_owned(),
            Reply::Silence => return std::future::pending().await,
        };
        stream.write_all(format!("{head}content-length: 0\r\nconnection: close\r\n\r\n").as_bytes()).await?;
        stream.shutdown().await
    }
}

impl Received {
    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    /// A header field; empty when it is missing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value)
    }

    /// Whether it is signed with this secret, as the Standard Webhooks specification has receivers look.
    #[must_use]
    pub fn is_signed_with(&self, secret: &str) -> bool {
        let key = secret.strip_prefix("whsec_").and_then(|key| STANDARD.decode(key).ok());
        let Some(mut mac) = key.and_then(|key| Hmac::<Sha256>::new_from_slice(&key).ok()) else { return false };
        let (id, at) = (self.header("webhook-id"), self.header("webhook-timestamp"));
        mac.update(format!("{id}.{at}.{}", self.body).as_bytes());
        let signature =
            self.header("webhook-signature").strip_prefix("v1,").and_then(|text| STANDARD.decode(text).ok());
        signature.is_some_and(|signature| mac.verify_slice(&signature).is_ok())
    }
}
