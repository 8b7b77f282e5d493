//! The tools that test servers serve.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sluicegate::prelude::*;

/// What the tools did, seen from outside.
#[derive(Clone, Debug, Default)]
pub struct Ran(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    exports: AtomicUsize,
    sleeping: AtomicUsize,
    settled: AtomicUsize,
}

impl Ran {
    /// How often `export` ran.
    #[must_use]
    pub fn exports(&self) -> usize {
        self.0.exports.load(Ordering::SeqCst)
    }

    /// How often `settle` and `settle_aloud` ran.
    #[must_use]
    pub fn settled(&self) -> usize {
        self.0.settled.load(Ordering::SeqCst)
    }

    /// How many calls of `slow` are running.
    #[must_use]
    pub fn sleeping(&self) -> usize {
        self.0.sleeping.load(Ordering::SeqCst)
    }
}

impl Ran {
    async fn settle(&self, invoice: &str) -> String {
        let run = self.0.settled.fetch_add(1, Ordering::SeqCst) + 1;
        // Others come meanwhile.
        tokio::time::sleep(Duration::from_millis(20)).await;
        format!("{invoice} by run {run}")
    }
}

/// The tools of the quickstart, and some that misbehave.
#[derive(Debug)]
pub struct TestTools(pub Ran);

#[tools]
impl TestTools {
    /// Repeat a text.
    #[tool(rate_limit = "600/min")]
    async fn echo(&self, text: String) -> String {
        text
    }

    /// Export a dataset.
    #[tool(rate_limit = "5/min")]
    async fn export(&self, dataset: String) -> String {
        self.0.0.exports.fetch_add(1, Ordering::SeqCst);
        dataset
    }

    /// Sleep for some milliseconds.
    #[tool(concurrency = 2, rate_limit = "1000/min")]
    async fn slow(&self, ms: u64) -> String {
        let _sleeping = Sleeping::start(&self.0);
        tokio::time::sleep(Duration::from_millis(ms)).await;
        "slept".to_owned()
    }

    /// Report progress for some milliseconds.
    #[tool(concurrency = 1, rate_limit = "1000/min")]
    async fn narrate(&self, ms: u64, progress: Progress) -> String {
        let _sleeping = Sleeping::start(&self.0);
        let ends = tokio::time::Instant::now() + Duration::from_millis(ms);
        let mut steps = 0.0;
        while tokio::time::Instant::now() < ends {
            progress.report(steps, None).await;
            steps += 1.0;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        "told".to_owned()
    }

    /// Delete a dataset if a person agrees.
    #[tool(concurrency = 1, rate_limit = "1000/min", destructive = true, icons = "https://example.com/bin.svg")]
    async fn confirm(&self, dataset: String, ask: Ask) -> Result<String, ToolError> {
        let agreed = ask.question().form::<Agreed>("agree", format!("Delete {dataset}?")).keep(&dataset);
        let agreed = agreed.ask().await?.form::<Agreed>("agree")?;
        let kept = if agreed.is_some_and(|agreed| agreed.really) { "deleted" } else { "kept" };
        Ok(format!("{dataset} is {kept}"))
    }

    /// Settle an invoice; once it is, nothing more happens.
    #[tool(idempotent = true, rate_limit = "1000/min")]
    async fn settle(&self, invoice: String) -> String {
        self.0.settle(&invoice).await
    }

    /// Settle an invoice and tell how it goes.
    #[tool(idempotent = true, rate_limit = "1000/min")]
    async fn settle_aloud(&self, invoice: String, progress: Progress) -> String {
        progress.report(0.0, None).await;
        self.0.settle(&invoice).await
    }

    /// Say who calls.
    #[tool]
    async fn whoami(&self, caller: Caller) -> String {
        let key = if caller.key_id().is_some() { "with" } else { "without" };
        format!("{} of {} {key} a key", caller.agent(), caller.tenant().unwrap_or("nobody"))
    }

    /// Panic.
    #[tool]
    async fn broken(&self) -> String {
        panic!("the secret reason")
    }

    /// Never end, as far as the deadline lets it.
    #[tool(timeout = "150ms")]
    async fn endless(&self) -> String {
        std::future::pending::<()>().await;
        unreachable!("nothing wakes it")
    }

    /// Needs a scope.
    #[tool(scopes = ["reports:write"])]
    async fn restricted(&self) -> &'static str {
        "written"
    }

    /// Costs a lot.
    #[tool(rate_limit = "10/min", cost = 4)]
    async fn costly(&self) -> &'static str {
        "done"
    }
}

/// What a person fills in.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Agreed {
    really: bool,
}

struct Sleeping(Ran);

impl Sleeping {
    fn start(ran: &Ran) -> Self {
        ran.0.sleeping.fetch_add(1, Ordering::SeqCst);
        Self(ran.clone())
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        self.0.0.sleeping.fetch_sub(1, Ordering::SeqCst);
    }
}
