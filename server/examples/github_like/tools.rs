//! Two tools over a service that they do not trust to answer.

use sluicegate::prelude::*;
use sluicegate::resilience::reqwest::{self, Response};
use sluicegate::resilience::reqwest_middleware::ClientWithMiddleware;
use sluicegate::resilience::{OptionsError, Quota, Upstream, UpstreamOptions, UpstreamRequest as _};

/// How the service wants to be called: it takes twenty requests a second, so we send a few less.
pub(crate) fn options() -> Result<UpstreamOptions, OptionsError> {
    Ok(UpstreamOptions { quotas: vec![Quota::per_second(18)?, Quota::per_hour(5_000)?], ..UpstreamOptions::default() })
}

/// The tools. They share one upstream, and with it quotas, retries and circuit breaker.
pub(crate) struct Issues {
    github: ClientWithMiddleware,
    url: String,
}

impl Issues {
    pub(crate) fn new(url: String, options: UpstreamOptions) -> Result<Self, OptionsError> {
        Ok(Self { github: Upstream::new("github", options)?.client(reqwest::Client::new()), url })
    }
}

#[tools]
impl Issues {
    /// List the open issues.
    #[tool(rate_limit = "600/min", timeout = "30s")]
    async fn list_issues(&self, ctx: CallContext) -> Result<String, ToolError> {
        let answer = self.github.get(&self.url).with_deadline(ctx.deadline()).call().await?;
        text(answer).await
    }

    /// Open an issue.
    #[tool(rate_limit = "600/min", timeout = "30s")]
    async fn open_issue(
        &self,
        /// What it is about.
        title: String,
        ctx: CallContext,
    ) -> Result<String, ToolError> {
        // The service knows repeated requests by their key, so none opens a second issue.
        let request = self.github.post(&self.url).body(title).with_idempotency_key();
        text(request.with_deadline(ctx.deadline()).call().await?).await
    }
}

/// The body of a success; 429 and 5xx are errors before this.
async fn text(answer: Response) -> Result<String, ToolError> {
    let status = answer.status();
    if !status.is_success() {
        return Err(ToolError::new(format!("github answered {status}")));
    }
    answer.text().await.or_tool_error("github's answer is unreadable")
}
