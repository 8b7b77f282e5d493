//! Calls to the tools of an MCP server that back off as they should.

use std::collections::HashSet;
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{Peer, RoleClient};
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, timeout_at};

use self::reading::Reading;
use self::refusal::{LastAnswer, McpCallError};
use crate::clock::WallClock;
use crate::meta_key;
use crate::options::OptionsError;
use crate::retry::{Repeat, Retry, RetryOptions, Verdict};

mod reading;
pub(crate) mod refusal;

/// How an [`McpCaller`] calls.
#[derive(Clone, Debug)]
pub struct CallerOptions {
    /// How calls are repeated.
    pub retry: RetryOptions,
    /// How long one attempt may take; by default as long as the call.
    pub attempt_timeout: Option<Duration>,
    /// How long a call may take, waits and attempts together, if it has no earlier deadline.
    pub call_timeout: Duration,
    /// What dates in `Retry-After` are compared with.
    pub wall_clock: WallClock,
}

/// The defaults of [`RetryOptions`]; 5 min for a call, which is what servers give a tool.
impl Default for CallerOptions {
    fn default() -> Self {
        Self {
            retry: RetryOptions::default(),
            attempt_timeout: None,
            call_timeout: Duration::from_mins(5),
            wall_clock: WallClock::system(),
        }
    }
}

/// What one tool call asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToolCallOptions {
    /// When the call has to end, on tokio's clock.
    pub deadline: Option<Instant>,
    /// Whether running the tool twice does no harm. By default that is what the tool's annotations say
    /// (`readOnlyHint`, `idempotentHint`): hints, to be believed of servers that are trusted.
    pub idempotent: Option<bool>,
}

/// Calls the tools of one MCP server through an rmcp client, and takes its refusals for what they are.
///
/// * A call that a limit refused has not run. It is repeated whatever the tool does, after the wait that the server told
///   and a little jitter, or by [`Backoff`](crate::Backoff) if it told none.
/// * A call whose answer was lost, or whose tool was refused by *its* upstream, may have run. It is repeated only if the
///   tool is idempotent.
/// * All calls together are repeated no more than the budget allows.
///
/// Every attempt carries its number and the call's idempotency key in `_meta` ([`meta_key`]). The caller
/// switches no tools by itself; [`McpCallError::refusal`] says whether another one may work.
///
/// ```no_run
/// use rmcp::ServiceExt as _;
/// use rmcp::model::CallToolRequestParams;
/// use rmcp::transport::StreamableHttpClientTransport;
/// use sluicegate_resilience::{CallerOptions, McpCaller};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = ().serve(StreamableHttpClientTransport::from_uri("http://127.0.0.1:8080/mcp")).await?;
/// let caller = McpCaller::new(client.peer().clone(), CallerOptions::default())?;
/// match caller.call(CallToolRequestParams::new("export")).await {
///     Ok(result) => println!("{result:?}"),
///     Err(error) if error.refusal().is_some_and(|refusal| refusal.other_tools_may_work()) => println!("use another tool"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct McpCaller {
    peer: Peer<RoleClient>,
    retry: Retry,
    attempt_timeout: Option<Duration>,
    call_timeout: Duration,
    wall_clock: WallClock,
    /// Asked for when it first matters.
    idempotent_tools: OnceCell<HashSet<String>>,
}

impl McpCaller {
    /// A caller with a budget of its own: make one per server and keep it.
    ///
    /// # Errors
    /// When an option makes no sense.
    pub fn new(peer: Peer<RoleClient>, options: CallerOptions) -> Result<Self, OptionsError> {
        let CallerOptions { retry, attempt_timeout, call_timeout, wall_clock } = options;
        for (option, timeout) in [("attempt_timeout", attempt_timeout), ("call_timeout", Some(call_timeout))] {
            let kept = timeout.is_none_or(|timeout| !timeout.is_zero() && timeout <= Duration::from_hours(24));
            OptionsError::unless(kept, option, timeout, "it must be longer than nothing and at most a day")?;
        }
        Ok(Self {
            peer,
            retry: Retry::new(retry)?,
            attempt_timeout,
            call_timeout,
            wall_clock,
            idempotent_tools: OnceCell::new(),
        })
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// When no attempt came through. A tool's own failure is a result.
    pub async fn call(&self, params: CallToolRequestParams) -> Result<CallToolResult, McpCallError> {
        self.call_with(params, ToolCallOptions::default()).await
    }

    /// Calls a tool, by a deadline or with a word on whether it is idempotent.
    ///
    /// # Errors
    /// When no attempt came through. A tool's own failure is a result.
    pub async fn call_with(
        &self,
        mut params: CallToolRequestParams,
        options: ToolCallOptions,
    ) -> Result<CallToolResult, McpCallError> {
        let latest = Instant::now() + self.call_timeout;
        let deadline = options.deadline.map_or(latest, |deadline| deadline.min(latest));
        let mut tries = self.retry.start(Some(deadline));
        let meta = &mut params.meta.get_or_insert_default().0.0;
        meta.entry(meta_key::IDEMPOTENCY_KEY).or_insert_with(|| self.retry.random().key().into());
        let mut may_have_run = false;
        loop {
            let attempt = tries.next();
            params.meta.get_or_insert_default().0.0.insert(meta_key::ATTEMPT.to_owned(), attempt.into());
            let (Reading { verdict, refusal }, last) = match self.attempt(&params, deadline).await {
                Ok(result) => {
                    tries.succeeded();
                    metrics::histogram!("sluicegate_caller_attempts").record(f64::from(attempt));
                    return Ok(result);
                }
                Err(failed) => failed,
            };
            let unclear = matches!(verdict, Verdict::Again { may_have_run: true, .. });
            may_have_run |= unclear;
            let idempotent = unclear && self.is_idempotent(&params.name, options, deadline).await;
            let repeat = if idempotent { Repeat::Always } else { Repeat::UnlessItMayHaveRun };
            match tries.failed(verdict, repeat) {
                Ok(wait) => {
                    let reason = refusal.as_ref().map_or("lost", |refusal| refusal.reason().unwrap_or("refused"));
                    tracing::info!(
                        tool = &*params.name,
                        attempt,
                        reason,
                        wait_ms = wait.as_millis(),
                        "calling again after a failed attempt"
                    );
                    metrics::counter!("sluicegate_caller_retries_total").increment(1);
                    sleep(wait).await;
                }
                Err(gave_up) => return Err(McpCallError { refusal, attempts: attempt, may_have_run, gave_up, last }),
            }
        }
    }

    async fn attempt(
        &self,
        params: &CallToolRequestParams,
        deadline: Instant,
    ) -> Result<CallToolResult, (Reading, LastAnswer)> {
        let end = self.attempt_timeout.map_or(deadline, |timeout| deadline.min(Instant::now() + timeout));
        match timeout_at(end, self.peer.call_tool(params.clone())).await {
            Ok(Ok(result)) => match reading::result(&result) {
                Some(reading) => Err((reading, LastAnswer::Result(Box::new(result)))),
                None => Ok(result),
            },
            Ok(Err(error)) => Err((reading::error(&error, || self.wall_clock.now()), LastAnswer::Error(error))),
            Err(_) => Err((reading::LOST, LastAnswer::Nothing)),
        }
    }

    /// What the call says, or what the server's list says, or no.
    async fn is_idempotent(&self, tool: &str, options: ToolCallOptions, deadline: Instant) -> bool {
        if let Some(idempotent) = options.idempotent {
            return idempotent;
        }
        let list = self.idempotent_tools.get_or_try_init(|| async {
            let tools = self.peer.list_all_tools().await?.into_iter();
            let idempotent = tools.filter(|tool| {
                tool.annotations
                    .as_ref()
                    .is_some_and(|hints| hints.is_idempotent() || hints.read_only_hint == Some(true))
            });
            Ok::<_, rmcp::ServiceError>(idempotent.map(|tool| tool.name.into_owned()).collect())
        });
        matches!(timeout_at(deadline, list).await, Ok(Ok(tools)) if tools.contains(tool))
    }
}
