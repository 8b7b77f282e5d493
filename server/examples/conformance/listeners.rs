//! Who listens for changes, and tools that make some.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::service::{SubscriptionContext, SubscriptionSink};
use sluicegate::prelude::*;

/// The peers that listen.
#[derive(Clone, Default)]
pub(crate) struct Listeners {
    sinks: Arc<Mutex<HashMap<u64, SubscriptionSink>>>,
    next: Arc<AtomicU64>,
}

impl Listeners {
    /// Keeps a peer informed until it hangs up.
    pub(crate) async fn listen(&self, context: SubscriptionContext) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let lock = || self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        lock().insert(id, context.sink().clone());
        context.cancelled().await;
        lock().remove(&id);
    }

    fn all(&self) -> Vec<SubscriptionSink> {
        self.sinks.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

#[tools]
impl Listeners {
    /// Tell listeners that the list of tools has changed.
    #[tool]
    async fn test_trigger_tool_change(&self) -> &'static str {
        for sink in self.all() {
            // One that does not want to know says so.
            let _ = sink.notify_tool_list_changed().await;
        }
        "Tool list change triggered"
    }

    /// Tell listeners that the list of prompts has changed.
    #[tool]
    async fn test_trigger_prompt_change(&self) -> &'static str {
        for sink in self.all() {
            let _ = sink.notify_prompt_list_changed().await;
        }
        "Prompt list change triggered"
    }
}
