//! How often the server allocates for a call: printed with `--nocapture`, and kept from growing.
//!
//! A binary of its own, since it counts what the whole process allocates.

use std::alloc::System;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use sluicegate::prelude::*;
use sluicegate_tests::raw_call::{TEXT, raw_call};
use sluicegate_tests::{Database, Era, TestServer};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What is called, the status of the answer, and the most allocations of a call, as they were measured. Two names of headers
/// that the modern era has besides are two allocations of hyper's.
const MOST: [(Era, &str, &str, usize); 4] = [
    (Era::Legacy, "repeat", "200", 19),
    (Era::Legacy, "limited", "429", 11),
    (Era::Modern, "repeat", "200", 21),
    (Era::Modern, "limited", "429", 13),
];

/// How many calls are counted together, and how often: what the server does beside falls into few of these.
const CALLS: usize = 100;
const ROUNDS: usize = 20;

/// Repeat a text.
#[tool(rate_limit = "1000000000/min", concurrency = 1000)]
async fn repeat(text: String) -> String {
    text
}

/// Repeat a text, hardly ever.
#[tool(rate_limit = "1/day")]
async fn limited(text: String) -> String {
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_allocates_no_more_than_it_did() {
    let server = TestServer::start_as(
        &Database::sqlite().await,
        |server| server.tool::<repeat>().tool::<limited>(),
        |settings| {
            settings.limit_tenant = "1000000000/min".to_owned();
            settings.limit_agent = "1000000000/min".to_owned();
            settings.agent_concurrency = 1000;
        },
    )
    .await;
    let client = server.client("acme", "u-42").await;
    for (era, tool, status, most) in MOST {
        let (address, request) = (server.address(), raw_call(server.address(), Some(client.key()), tool, era, TEXT));
        let counted = tokio::task::spawn_blocking(move || allocations(address, &request, status));
        let counted = counted.await.expect("it is counted");
        println!("{tool}, {era:?}: {counted} allocations a call");
        assert!(counted <= most, "a call of {tool} ({era:?}) allocates {counted} times, and did {most} times");
    }
    server.stop().await;
}

/// The allocations of a call. The smallest of the rounds counts: only the server's work beside can add to one.
fn allocations(address: SocketAddr, request: &[u8], status: &str) -> usize {
    let mut stream = TcpStream::connect(address).expect("it connects");
    // The first call of the limited tool is served.
    call(&mut stream, request, "");
    (0..CALLS).for_each(|_| call(&mut stream, request, status));
    let round = |_| {
        let region = Region::new(ALLOCATOR);
        (0..CALLS).for_each(|_| call(&mut stream, request, status));
        let change = region.change();
        (change.allocations + change.reallocations).div_ceil(CALLS)
    };
    (0..ROUNDS).map(round).min().expect("there are rounds")
}

/// One call, without any allocation of its own.
fn call(stream: &mut TcpStream, request: &[u8], status: &str) {
    let mut answer = [0; 4096];
    stream.write_all(request).expect("it is sent");
    let mut len = 0;
    // Nothing follows the object that is the body.
    while !answer[..len].ends_with(b"}}") {
        let read = stream.read(&mut answer[len..]).expect("an answer");
        assert!(read > 0, "the server hung up");
        len += read;
    }
    assert_eq!(&answer[9..9 + status.len()], status.as_bytes(), "{}", String::from_utf8_lossy(&answer[..len]));
}
