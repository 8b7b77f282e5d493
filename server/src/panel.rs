//! The panel beside the gate.

use std::sync::Arc;

use axum::Router;
use sluicegate_admin_ui::Panel;
use sluicegate_control::LiveView;

use crate::server::House;
use crate::settings::Settings;

/// The pages under `/admin`.
pub(crate) fn router(house: &House, settings: &Settings) -> Router {
    let live: Arc<dyn LiveView> = Arc::<crate::live_view::Live>::clone(&house.live);
    sluicegate_admin_ui::router(Panel {
        control: house.control.clone(),
        live,
        clock: house.clock.clone(),
        settings: settings.shown(),
        metrics: match settings.metrics_address() {
            Ok(Some(address)) => format!("http://{address}/metrics"),
            _ => "/metrics".to_owned(),
        },
    })
}
