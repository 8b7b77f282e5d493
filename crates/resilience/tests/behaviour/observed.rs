//! What an operator sees.

use std::time::Duration;

use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use sluicegate_resilience::UpstreamRequest as _;

use crate::scripted::{Answer, Scripted, upstream};

/// What was recorded, as `name{label=value} = number`.
fn recorded(snapshotter: &Snapshotter) -> Vec<String> {
    let entries = snapshotter.snapshot().into_vec().into_iter().map(|(key, _, _, value)| {
        assert!(matches!(key.kind(), MetricKind::Counter | MetricKind::Gauge | MetricKind::Histogram));
        let labels: Vec<_> = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let value = match value {
            DebugValue::Counter(count) => count.to_string(),
            DebugValue::Gauge(value) => value.to_string(),
            DebugValue::Histogram(values) => {
                format!("{:?}", values.into_iter().map(f64::from).collect::<Vec<_>>())
            }
        };
        format!("{}{{{}}} = {value}", key.key().name(), labels.join(","))
    });
    let mut entries: Vec<_> = entries.collect();
    entries.sort();
    entries
}

#[test]
fn retries_calls_and_the_breaker_are_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            // Two failures and a success, then six failures of which the fifth in a row opens the breaker.
            let upstream = upstream(Default::default());
            let scripted = Scripted::new(|before| Answer::status(if before == 2 { 200 } else { 503 }));
            let client = scripted.client(&upstream);
            client.get("http://github.test/").call().await.expect("the third succeeds");
            client.get("http://github.test/").call().await.expect_err("it fails");
            assert_eq!(scripted.count(), 8);
            tokio::time::sleep(Duration::from_secs(1)).await;
        });
    });
    let expected = [
        "sluicegate_circuit_open_total{upstream=github} = 1",
        "sluicegate_circuit_state{upstream=github} = 2",
        "sluicegate_upstream_attempts{upstream=github} = [3.0, 5.0]",
        "sluicegate_upstream_calls_total{upstream=github,outcome=circuit_open} = 1",
        "sluicegate_upstream_calls_total{upstream=github,outcome=ok} = 1",
        "sluicegate_upstream_retries_total{upstream=github,reason=failed} = 7",
    ];
    assert_eq!(recorded(&snapshotter), expected);
}
