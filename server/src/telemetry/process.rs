//! Metrics of the process: what the resilience toolkit and the author's own code count with the crate `metrics`.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::buckets;

static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// Collects the metrics of the process, unless the program has set up a recorder of its own: then that one has them.
pub(crate) fn collect() {
    let builder = buckets::configure(PrometheusBuilder::new());
    if let Ok(handle) = builder.install_recorder() {
        let _ = RECORDER.set(handle);
        ::metrics::describe_counter!("sluicegate_circuit_open_total", "Times a breaker towards an upstream opened.");
        ::metrics::describe_gauge!("sluicegate_circuit_state", "State of a breaker: 0 closed, 1 half-open, 2 open.");
        ::metrics::describe_counter!("sluicegate_upstream_calls_total", "Calls of an upstream by how they ended.");
        ::metrics::describe_counter!("sluicegate_upstream_retries_total", "Repeated requests to an upstream.");
        ::metrics::describe_histogram!("sluicegate_upstream_attempts", "Requests that a call of an upstream took.");
    }
}

/// What was collected; nothing when nobody collects.
pub(super) fn render() -> String {
    RECORDER.get().map(PrometheusHandle::render).unwrap_or_default()
}

/// See [`Telemetry::upkeep`](super::Telemetry::upkeep).
pub(crate) fn upkeep() {
    if let Some(recorder) = RECORDER.get() {
        recorder.run_upkeep();
    }
}
