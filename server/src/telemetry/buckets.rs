//! The buckets of the histograms.

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

use super::histogram::Bounds;

/// From a microsecond, far below what deciding takes in process, to what a slow store may take. Sixty milliseconds are what
/// is left to a decision for which Redis had the fifty of `redis_timeout`.
pub(super) const DECISION: Bounds = &[
    (1_000, "0.000001"),
    (2_500, "0.0000025"),
    (5_000, "0.000005"),
    (10_000, "0.00001"),
    (25_000, "0.000025"),
    (50_000, "0.00005"),
    (100_000, "0.0001"),
    (250_000, "0.00025"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_500_000, "0.0025"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (25_000_000, "0.025"),
    (50_000_000, "0.05"),
    (60_000_000, "0.06"),
    (100_000_000, "0.1"),
];

/// From tools that only look something up to those that run for as long as they may.
pub(super) const CALL: Bounds = &[
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_500_000, "0.0025"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (25_000_000, "0.025"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (250_000_000, "0.25"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1"),
    (2_500_000_000, "2.5"),
    (5_000_000_000, "5"),
    (10_000_000_000, "10"),
    (30_000_000_000, "30"),
    (60_000_000_000, "60"),
    (120_000_000_000, "120"),
    (300_000_000_000, "300"),
];

/// Times that the toolkit and the author's own code record. In seconds.
const SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Attempts until something got through.
const ATTEMPTS: &[f64] = &[1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0];

/// Histograms with buckets, where the exporter's default would be quantiles that cannot be added up.
pub(super) fn configure(builder: PrometheusBuilder) -> PrometheusBuilder {
    let builder = builder.set_buckets(SECONDS).expect("there are buckets");
    let attempts = Matcher::Suffix("_attempts".to_owned());
    builder.set_buckets_for_metric(attempts, ATTEMPTS).expect("there are buckets")
}
