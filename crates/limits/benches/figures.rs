//! Prints the figures that the limits crate is held to, as ratios of medians over interleaved rounds.
//!
//! `cargo bench -p sluicegate-limits --bench figures`. Ratios, not nanoseconds: both sides of each are measured in turn, in
//! one process, so a busy machine slows both.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up should stop")]
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

#[path = "support/workload.rs"]
mod workload;

use std::{
    hint::black_box,
    thread,
    time::{Duration, Instant},
};

use sluicegate_limits::{AgentId, Call, Limiter, LimiterOptions, Rules, TenantHandle, TenantIdentity};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use self::workload::{Governors, bucket_rules, race, three_limits};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

const ROUNDS: usize = 41;
const CALLS: u32 = 20_000;
/// As many as a full ring admits after a pause.
const RING_CALLS: u32 = 900;

fn main() {
    // Tests of all targets run benches too, with this flag: one look is enough then.
    let rounds = if std::env::args().any(|arg| arg == "--bench") { ROUNDS } else { 1 };
    one_thread(rounds);
    two_threads(rounds);
    allocations();
    memory_and_sweep(if rounds == 1 { 10 } else { 1_000 });
}

/// Nanoseconds per call of each contender, median over interleaved rounds.
fn medians<const N: usize>(rounds: usize, mut contenders: [&mut dyn FnMut() -> f64; N]) -> [f64; N] {
    let mut samples: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    for round in 0..=rounds {
        for (samples, contender) in samples.iter_mut().zip(&mut contenders) {
            let ns = contender();
            // The first round warms up.
            if round > 0 {
                samples.push(ns);
            }
        }
    }
    samples.map(|mut samples| {
        samples.sort_by(f64::total_cmp);
        samples[samples.len() / 2]
    })
}

/// Nanoseconds per call.
fn timed(calls: u32, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        call();
    }
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

fn one_thread(rounds: usize) {
    let clock = quanta::Clock::new();
    let limiter = Limiter::new(clock.clone(), LimiterOptions::default());
    let tool = limiter.tool("export");
    // Each its own tenant: one state under changing numbers would be converted in every round.
    let [ring, spans, refusing] = ["1000/ms", "900000000/s", "1/day"].map(|quota| {
        let tenant = limiter.tenant(TenantIdentity::Named(quota));
        (three_limits(quota), tenant.agent("u-42"), tenant)
    });
    let admit = |calls, (rules, agent, tenant): &(Rules, AgentId, TenantHandle)| {
        let call = Call { rules, tenant, agent: *agent, key: None, tool };
        timed(calls, || {
            let decision = limiter.admit(black_box(&call));
            black_box(&decision);
        })
    };
    let governors = Governors::new();
    let [read, ring, spans, refused, governor] = medians(
        rounds,
        [
            &mut || timed(CALLS, || _ = black_box(clock.now())),
            &mut || {
                // The window is a millisecond: after it, the whole ring is free again.
                thread::sleep(Duration::from_millis(2));
                admit(RING_CALLS, &ring)
            },
            &mut || admit(CALLS, &spans),
            &mut || admit(CALLS, &refusing),
            &mut || timed(CALLS, || _ = black_box(governors.check(black_box(2)))),
        ],
    );
    println!("one clock read                       {read:7.1} ns");
    println!("three keyed governor checks          {governor:7.1} ns");
    for (name, ns) in [("ring", ring), ("spans", spans), ("refused", refused)] {
        println!(
            "three limits, {name:8}               {ns:7.1} ns  {:5.2}x clock  {:5.2}x governor",
            ns / read,
            ns / governor
        );
    }
}

fn two_threads(rounds: usize) {
    let limiter = Limiter::new(quanta::Clock::new(), LimiterOptions::default());
    let tenant = limiter.tenant(TenantIdentity::Named("acme"));
    let agents = [tenant.agent("u-1"), tenant.agent("u-2")];
    let tool = limiter.tool("export");
    let rules = three_limits("900000000/s");
    let governors = Governors::new();
    let per_call = |elapsed: Duration| elapsed.as_nanos() as f64 / f64::from(CALLS);
    let [ours, governor] = medians(
        rounds,
        [
            &mut || {
                per_call(race(2, CALLS, |thread| {
                    let call = Call { rules: &rules, tenant: &tenant, agent: agents[thread as usize], key: None, tool };
                    black_box(&limiter.admit(&call));
                }))
            },
            &mut || per_call(race(2, CALLS, |thread| _ = black_box(governors.check(thread)))),
        ],
    );
    println!(
        "two threads on one tenant            {ours:7.1} ns  {:5.2}x governor ({governor:.1} ns)",
        ours / governor
    );
}

fn allocations() {
    let limiter = Limiter::new(quanta::Clock::new(), LimiterOptions::default());
    let tenant = limiter.tenant(TenantIdentity::Named("acme"));
    let rules = three_limits("100/day");
    let call =
        Call { rules: &rules, tenant: &tenant, agent: tenant.agent("u-42"), key: None, tool: limiter.tool("export") };
    (0..90).for_each(|_| drop(limiter.admit(&call)));
    let region = Region::new(ALLOCATOR);
    (0..20).for_each(|_| drop(limiter.admit(&call)));
    println!("allocations in 10 admissions and 10 refusals: {}", region.change().allocations);
}

/// A million keys: tenants x 50 agents x 20 tools.
fn memory_and_sweep(tenants: u32) {
    const AGENTS: u32 = 50;
    const TOOLS: u32 = 20;
    let (clock, mock) = quanta::Clock::mock();
    let limiter = Limiter::new(clock, LimiterOptions::default());
    let rules = bucket_rules();
    let tools: Vec<_> = (0..TOOLS).map(|i| limiter.tool(&format!("tool-{i}"))).collect();
    let handles: Vec<_> = (0..tenants).map(|i| limiter.tenant(TenantIdentity::Named(&format!("tenant-{i}")))).collect();
    let agents: Vec<Vec<_>> =
        handles.iter().map(|tenant| (0..AGENTS).map(|i| tenant.agent(&format!("agent-{i}"))).collect()).collect();

    let region = Region::new(ALLOCATOR);
    for (tenant, agents) in handles.iter().zip(&agents) {
        for (&agent, &tool) in agents.iter().flat_map(|agent| tools.iter().map(move |tool| (agent, tool))) {
            drop(limiter.admit(&Call { rules: &rules, tenant, agent, key: None, tool }));
        }
    }
    let change = region.change();
    let keys = limiter.live_keys();
    let bytes = change.bytes_allocated - change.bytes_deallocated;
    println!("{keys} live keys                       {:7.1} bytes each", bytes as f64 / keys as f64);

    mock.increment(Duration::from_secs(3_600));
    let mut steps = Vec::new();
    let mut left = keys;
    while left > 0 {
        let start = Instant::now();
        left -= limiter.sweep();
        steps.push(start.elapsed().as_secs_f64() * 1e6);
    }
    steps.sort_by(f64::total_cmp);
    let (longest, usual) = (steps[steps.len() - 1], steps[steps.len() * 999 / 1000]);
    println!(
        "sweeping them: longest step          {longest:7.1} us, 99.9 % of {} steps within {usual:.1} us",
        steps.len()
    );
}
