//! The load: keep-alive connections that each send the same request again and again, and check every answer.

use std::error::Error;
use std::time::{Duration, Instant};

use sluicegate_tests::Era;
use sluicegate_tests::raw_call::{TEXT, raw_call};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::process::Contender;

/// One request as bytes, and what its answer must be like.
pub(crate) struct Request {
    bytes: Vec<u8>,
    status: &'static [u8],
    body_holds: &'static str,
}

impl Request {
    /// A call of `echo` that must succeed.
    pub(crate) fn echo(server: &Contender, key: Option<&str>, era: Era) -> Self {
        let bytes = raw_call(server.address, key, "echo", era);
        Self { bytes, status: b"HTTP/1.1 200 ", body_holds: TEXT }
    }

    /// A call of `limited` that must be refused, but for the very first.
    pub(crate) fn limited(server: &Contender, key: &str, era: Era) -> Self {
        let bytes = raw_call(server.address, Some(key), "limited", era);
        Self { bytes, status: b"HTTP/1.1 429 ", body_holds: "rate_limit_exceeded" }
    }
}

/// What one run came to.
pub(crate) struct Sample {
    calls: u64,
    elapsed: Duration,
    cpu: Duration,
}

impl Sample {
    #[expect(clippy::cast_precision_loss, reason = "a run has far fewer than 2^52 calls")]
    pub(crate) fn calls_per_second(&self) -> f64 {
        self.calls as f64 / self.elapsed.as_secs_f64()
    }

    #[expect(clippy::cast_precision_loss, reason = "a run has far fewer than 2^52 calls")]
    pub(crate) fn cpu_micros_per_call(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.calls as f64
    }
}

/// Sends a request over all connections for so long.
pub(crate) async fn run(
    server: &Contender,
    request: &Request,
    connections: usize,
    length: Duration,
) -> Result<Sample, Box<dyn Error>> {
    let mut streams = Vec::new();
    for _ in 0..connections {
        let stream = TcpStream::connect(server.address).await?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let (cpu, start) = (server.cpu_time()?, Instant::now());
    let end = start + length;
    let calls = futures::future::try_join_all(streams.into_iter().map(|stream| repeat(stream, request, end))).await?;
    Ok(Sample { calls: calls.iter().sum(), elapsed: start.elapsed(), cpu: server.cpu_time()? - cpu })
}

async fn repeat(mut stream: TcpStream, request: &Request, end: Instant) -> Result<u64, Box<dyn Error>> {
    let mut calls = 0;
    let mut buffer = Vec::with_capacity(4096);
    while Instant::now() < end {
        stream.write_all(&request.bytes).await?;
        buffer.clear();
        let body_at = loop {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Err("the server hung up".into());
            }
            if let Some(body_at) = complete(&buffer)? {
                break body_at;
            }
        };
        let body = std::str::from_utf8(&buffer[body_at..])?;
        // The first call of a tool that is limited to one is served.
        let first = calls == 0 && request.status != b"HTTP/1.1 200 ";
        if !first && (!buffer.starts_with(request.status) || !body.contains(request.body_holds)) {
            return Err(format!("an unexpected answer: {}", String::from_utf8_lossy(&buffer)).into());
        }
        calls += 1;
    }
    Ok(calls)
}

/// Where the body starts, once it has arrived whole.
fn complete(answer: &[u8]) -> Result<Option<usize>, Box<dyn Error>> {
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&answer[..end])?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.ok_or("an answer without a length")?;
    let body_at = end + 4;
    Ok((answer.len() >= body_at + length).then_some(body_at))
}
