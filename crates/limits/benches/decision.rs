//! A decision on three limits against one clock read and against three keyed `governor` checks.
//!
//! The limits never refuse, except where the name says so. For ratios on a busy machine see `figures.rs`.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up should stop")]

#[path = "support/workload.rs"]
mod workload;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use sluicegate_limits::{Call, Limiter, LimiterOptions, TenantIdentity};

use self::workload::{Governors, bucket_rules, race, three_limits};

fn one_thread(c: &mut Criterion) {
    let clock = quanta::Clock::new();
    let limiter = Limiter::new(clock.clone(), LimiterOptions::default());
    let tool = limiter.tool("export");
    let governors = Governors::new();

    let mut group = c.benchmark_group("one_thread");
    group.bench_function("clock_read", |b| b.iter(|| black_box(clock.now())));
    for (name, rules) in [
        ("one_bucket", bucket_rules()),
        ("three_limits_spans", three_limits("900000000/s")),
        ("three_limits_refused", three_limits("1/day")),
    ] {
        // Each its own tenant: one state under changing numbers would be converted each time.
        let tenant = limiter.tenant(TenantIdentity::Named(name));
        let call = Call { rules: &rules, tenant: &tenant, agent: tenant.agent("u-42"), key: None, tool };
        group.bench_function(name, |b| b.iter(|| _ = black_box(&limiter.admit(black_box(&call)))));
    }
    group.bench_function("three_governor_checks", |b| b.iter(|| black_box(governors.check(black_box(2)))));
    group.finish();
}

fn two_threads(c: &mut Criterion) {
    let limiter = Limiter::new(quanta::Clock::new(), LimiterOptions::default());
    let tenant = limiter.tenant(TenantIdentity::Named("acme"));
    let agents = [tenant.agent("u-1"), tenant.agent("u-2")];
    let tool = limiter.tool("export");
    let rules = three_limits("900000000/s");
    let governors = Governors::new();

    let mut group = c.benchmark_group("two_threads_on_one_tenant");
    group.bench_function("three_limits", |b| {
        b.iter_custom(|n| {
            race(2, n as u32, |thread| {
                let call = Call { rules: &rules, tenant: &tenant, agent: agents[thread as usize], key: None, tool };
                drop(black_box(limiter.admit(&call)));
            })
        });
    });
    group.bench_function("three_governor_checks", |b| {
        b.iter_custom(|n| race(2, n as u32, |thread| _ = black_box(governors.check(thread))));
    });
    group.finish();
}

criterion_group!(benches, one_thread, two_threads);
criterion_main!(benches);
