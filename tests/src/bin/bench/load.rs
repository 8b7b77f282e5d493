//! The load: keep-alive connections that send calls again and again, and check every answer.

use std::error::Error;
use std::time::{Duration, Instant};

use sluicegate_tests::Era;
use sluicegate_tests::raw_call::{TEXT, raw_call};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::process::Contender;

/// What is sent in turn, as bytes, and what every answer must be like.
pub(crate) struct Calls {
    bytes: Vec<Vec<u8>>,
    status: &'static [u8],
    body_holds: String,
}

/// How it is sent.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    pub(crate) length: Duration,
    /// Calls begin at their times, whether those before have been answered in time or not; `None` for one after the other.
    pub(crate) per_second: Option<f64>,
}

/// What one run came to.
pub(crate) struct Sample {
    calls: u64,
    elapsed: Duration,
    cpu: Duration,
    /// How long each answer took, from the time at which its call was to begin, ascending.
    latencies: Vec<Duration>,
}

impl Calls {
    /// Calls of `echo` that must succeed, with these keys in turn, or without one.
    pub(crate) fn echo(server: &Contender, keys: &[String], era: Era) -> Self {
        Self::echo_of(server, keys, era, TEXT)
    }

    /// The same with another text.
    pub(crate) fn echo_of(server: &Contender, keys: &[String], era: Era, text: &str) -> Self {
        let bytes = if keys.is_empty() {
            vec![raw_call(server.address, None, "echo", era, text)]
        } else {
            keys.iter().map(|key| raw_call(server.address, Some(key), "echo", era, text)).collect()
        };
        Self { bytes, status: b"HTTP/1.1 200 ", body_holds: text.to_owned() }
    }

    /// Calls of `limited` that must be refused, but for the very first.
    pub(crate) fn limited(server: &Contender, key: &str, era: Era) -> Self {
        let bytes = vec![raw_call(server.address, Some(key), "limited", era, TEXT)];
        Self { bytes, status: b"HTTP/1.1 429 ", body_holds: "rate_limit_exceeded".to_owned() }
    }
}

impl Load {
    /// One call after the other.
    pub(crate) fn of(connections: usize, length: Duration) -> Self {
        Self { connections, length, per_second: None }
    }
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

    /// The time within which so many of a thousand calls were answered, in milliseconds.
    pub(crate) fn within(&self, per_mille: usize) -> f64 {
        let at = (self.latencies.len() * per_mille / 1_000).min(self.latencies.len().saturating_sub(1));
        self.latencies.get(at).copied().unwrap_or_default().as_secs_f64() * 1e3
    }
}

/// Sends calls over all connections for so long.
pub(crate) async fn run(server: &Contender, calls: &Calls, load: Load) -> Result<Sample, Box<dyn Error>> {
    let mut streams = Vec::new();
    for _ in 0..load.connections {
        let stream = TcpStream::connect(server.address).await?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let (cpu, start) = (server.cpu_time()?, Instant::now());
    let sent = streams.into_iter().enumerate().map(|(number, stream)| repeat(stream, number, calls, load, start));
    let mut latencies: Vec<_> = futures::future::try_join_all(sent).await?.into_iter().flatten().collect();
    let (elapsed, cpu) = (start.elapsed(), server.cpu_time()? - cpu);
    latencies.sort_unstable();
    Ok(Sample { calls: latencies.len() as u64, elapsed, cpu, latencies })
}

/// Sends the calls of one connection; says how long each took.
#[expect(clippy::cast_precision_loss, reason = "a run has far fewer than 2^52 calls")]
async fn repeat(
    mut stream: TcpStream,
    number: usize,
    calls: &Calls,
    load: Load,
    start: Instant,
) -> Result<Vec<Duration>, Box<dyn Error>> {
    let mut latencies = Vec::new();
    let mut buffer = Vec::with_capacity(4096);
    let own = calls.bytes.iter().cycle().skip(number * calls.bytes.len() / load.connections);
    for (sent, bytes) in own.enumerate() {
        let begun = match load.per_second {
            None => Instant::now(),
            Some(per_second) => {
                // Each connection has its own phase.
                let at = (sent * load.connections + number) as f64 / per_second;
                let due = start + Duration::from_secs_f64(at);
                tokio::time::sleep_until(due.into()).await;
                due
            }
        };
        if begun >= start + load.length {
            break;
        }
        stream.write_all(bytes).await?;
        buffer.clear();
        let body_at = loop {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Err("the server hung up".into());
            }
            if let Some(body_at) = complete(&buffer)? {
                break body_at;
            }
        };
        latencies.push(begun.elapsed());
        let body = std::str::from_utf8(&buffer[body_at..])?;
        // The first call of a tool that is limited to one is served.
        let first = sent == 0 && calls.status != b"HTTP/1.1 200 ";
        if !first && (!buffer.starts_with(calls.status) || !body.contains(&calls.body_holds)) {
            return Err(format!("an unexpected answer: {}", String::from_utf8_lossy(&buffer)).into());
        }
    }
    Ok(latencies)
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
