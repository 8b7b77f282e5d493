//! The buckets of the histograms.

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

/// From a microsecond, far below what deciding takes in process, to what a slow store may take. In seconds.
const DECISION: &[f64] =
    &[1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 1e-1];

/// From tools that only look something up to those that run for as long as they may. In seconds.
const CALL: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Attempts until something got through.
const ATTEMPTS: &[f64] = &[1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0];

/// Histograms with buckets, where the exporter's default would be quantiles that cannot be added up.
pub(super) fn configure(builder: PrometheusBuilder) -> PrometheusBuilder {
    let sets = [
        (Matcher::Full("sluicegate_admission_seconds".to_owned()), DECISION),
        (Matcher::Suffix("_attempts".to_owned()), ATTEMPTS),
    ];
    let builder = builder.set_buckets(CALL).expect("there are buckets");
    sets.into_iter().fold(builder, |builder, (matcher, buckets)| {
        builder.set_buckets_for_metric(matcher, buckets).expect("there are buckets")
    })
}
