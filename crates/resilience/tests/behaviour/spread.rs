//! Callers who were refused together do not come back together.

use std::time::Duration;

use sluicegate_resilience::{Backoff, Random, Repeat, Retry, RetryOptions, Verdict};
use tokio::time::Instant;

const AGENTS: u64 = 10;
const ROUNDS: u64 = 200;

/// When ten agents, each a process of its own, make their second attempts after all were refused at once.
async fn second_attempts(round: u64, told: Option<Duration>) -> Vec<Duration> {
    let start = Instant::now();
    let agents: Vec<_> = (0..AGENTS)
        .map(|agent| {
            let options = RetryOptions { random: Random::seeded(round * AGENTS + agent), ..RetryOptions::default() };
            let retry = Retry::new(options).expect("valid");
            tokio::spawn(async move {
                let refused = |_: &()| Verdict::Again { told, may_have_run: false };
                let attempt = |attempt| async move { if attempt == 1 { Err(()) } else { Ok(start.elapsed()) } };
                retry.run(None, Repeat::Always, refused, attempt).await.expect("the second succeeds")
            })
        })
        .collect();
    let mut times = Vec::new();
    for agent in agents {
        times.push(agent.await.expect("no panic"));
    }
    times
}

/// Kolmogorov-Smirnov distance of a sample from the uniform distribution on an interval.
fn distance(sample: &[Duration], from: Duration, length: Duration) -> f64 {
    let mut places: Vec<f64> = sample.iter().map(|time| (*time - from).as_secs_f64() / length.as_secs_f64()).collect();
    places.sort_by(f64::total_cmp);
    let n = places.len() as f64;
    let gaps = places
        .iter()
        .enumerate()
        .map(|(rank, place)| (place - rank as f64 / n).abs().max((place - (rank + 1) as f64 / n).abs()));
    gaps.fold(0.0, f64::max)
}

#[tokio::test(start_paused = true)]
async fn ten_agents_refused_at_once_spread_over_the_whole_interval() {
    let base = Backoff::default().base();
    for told in [None, Some(Duration::from_secs(12))] {
        let (from, mut all) = (told.unwrap_or_default(), Vec::new());
        for round in 0..ROUNDS {
            let times = second_attempts(round, told).await;
            // Tokio sleeps in whole milliseconds.
            assert!(
                times.iter().all(|time| (from..=from + base + Duration::from_millis(1)).contains(time)),
                "{times:?}"
            );
            all.extend(times);
        }
        // 1.63 / sqrt(n) is the 1 % point of the Kolmogorov-Smirnov distance.
        let (n, distance) = (all.len() as f64, distance(&all, from, base));
        assert!(distance < 1.63 / n.sqrt(), "{distance} for {n}");
    }
}

#[test]
fn each_retry_is_uniform_on_its_own_interval() {
    let (backoff, random) = (Backoff::default(), Random::seeded(5));
    for retry in 0..8 {
        let ceiling = backoff.ceiling(retry);
        let mut counts = [0_u32; 20];
        for _ in 0..20_000 {
            let place = backoff.delay(retry, &random).as_secs_f64() / ceiling.as_secs_f64();
            counts[((place * 20.0) as usize).min(19)] += 1;
        }
        let chi_square: f64 = counts.iter().map(|count| (f64::from(*count) - 1_000.0).powi(2) / 1_000.0).sum();
        // 36.2 is the 1 % point for 19 degrees of freedom.
        assert!(chi_square < 36.2, "retry {retry}: {chi_square}");
    }
}

#[test]
fn no_two_agents_are_in_step() {
    let waits = |seed| {
        let random = Random::seeded(seed);
        (0..5).map(|retry| Backoff::default().delay(retry, &random)).collect::<Vec<_>>()
    };
    let agents: Vec<_> = (0..AGENTS).map(waits).collect();
    for (place, agent) in agents.iter().enumerate() {
        for other in &agents[..place] {
            assert!(agent.iter().zip(other).all(|(mine, theirs)| mine.abs_diff(*theirs) > Duration::from_micros(10)));
        }
    }
}
