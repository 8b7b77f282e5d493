//! A call that was repeated gets the result of its first run, if its tool is idempotent and its caller gave it a key.
//!
//! The results are kept in memory, for [`KEPT_FOR`], within [`MOST_BYTES`]: when they are full, the ones that were not
//! asked for the longest go first, and the tool simply runs again. It says of itself that this does no harm.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use rmcp::model::{CallToolResponse, CallToolResult, JsonObject};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::admitted::Admitted;
use crate::call_scope::Returned;
use crate::envelope::UnusableKey;
use crate::error::ToolError;
use crate::passage::Owner;
use crate::registry::ToolIndex;
use crate::tool::Tool;

/// How long a result is kept, and how long a run is waited for.
const KEPT_FOR: Duration = Duration::from_mins(10);
/// How much memory results may take together, about.
const MOST_BYTES: u64 = 64 << 20;
/// Larger results are not kept.
const LARGEST_RESULT: usize = 256 << 10;
/// What an entry counts beyond its result; so there are never more than 65 536.
const ENTRY: u32 = 1 << 10;

/// In a result: that the tool did not run for it.
const REPLAYED: &str = "sluicegate/replayed";

const OTHER_ARGUMENTS: &str = "this idempotency key belongs to a call with other arguments: repeat a call with the same \
                               arguments, and give every new call a new key";

const UNUSABLE_KEY: &str =
    "the tool was not run: `sluicegate/idempotencyKey` in `_meta` must be a text of 1 to 255 bytes";

/// By what the attempts of one call of a tool are known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    /// Whose key it is. The same text of another owner is another key.
    pub owner: Owner,
    /// The text that the caller chose.
    pub text: Arc<str>,
}

/// The results of calls with a key, and the runs that are under way.
pub(crate) struct Replays {
    runs: Cache<(ToolIndex, Arc<IdempotencyKey>), Arc<Run>>,
    hasher: RandomState,
}

/// A call that may be a repetition.
pub(crate) struct Keyed<'a> {
    replays: &'a Replays,
    tool: ToolIndex,
    key: Arc<IdempotencyKey>,
    arguments: u64,
}

/// All calls with one key.
struct Run {
    /// A hash of what the first of them asked.
    arguments: u64,
    begun: Instant,
    /// Whoever comes while somebody fills it waits, and runs the tool if that comes to nothing.
    recorded: OnceCell<Recorded>,
}

struct Recorded {
    result: CallToolResult,
    bytes: u32,
    at: Instant,
}

impl Replays {
    pub(crate) fn new() -> Self {
        let runs = Cache::builder()
            .max_capacity(MOST_BYTES)
            .weigher(|_, run: &Arc<Run>| run.weight())
            // Every new call deserves its place, whatever was asked for often before.
            .eviction_policy(EvictionPolicy::lru())
            .time_to_live(KEPT_FOR)
            .build();
        Self { runs, hasher: RandomState::new() }
    }

    /// The key of a call, if it has one and its tool is idempotent.
    pub(crate) fn keyed(
        &self,
        tool: &Tool,
        admitted: &Admitted,
        arguments: Option<&JsonObject>,
    ) -> Option<Result<Keyed<'_>, UnusableKey>> {
        let key = match admitted.idempotency_key().filter(|_| tool.is_idempotent())? {
            Ok(key) => Arc::clone(key),
            Err(unusable) => return Some(Err(unusable)),
        };
        let arguments = match arguments {
            Some(arguments) => self.hasher.hash_one(arguments),
            None => self.hasher.hash_one(JsonObject::new()),
        };
        Some(Ok(Keyed { replays: self, tool: admitted.tool(), key, arguments }))
    }
}

/// Does the work of a call, unless it was done before under the same key; then its result is given again.
///
/// While another call does it, this one waits. Only results of success are kept: after a failure, a question to the caller
/// or a run that was given up, the next call does the work itself.
pub(crate) async fn once<W: Future<Output = Returned>>(
    keyed: Option<Result<Keyed<'_>, UnusableKey>>,
    work: impl FnOnce() -> W,
) -> Returned {
    let Keyed { replays, tool, key, arguments } = match keyed {
        None => return work().await,
        Some(Err(UnusableKey)) => return Err(ToolError::invalid_input(UNUSABLE_KEY).into()),
        Some(Ok(keyed)) => keyed,
    };
    let (place, now) = ((tool, key), Instant::now());
    let begin = || Arc::new(Run { arguments, begun: now, recorded: OnceCell::new() });
    let run = replays.runs.entry(place.clone()).or_insert_with_if(begin, |run| run.is_over(now)).into_value();
    if run.arguments != arguments {
        return Err(ToolError::invalid_input(OTHER_ARGUMENTS).into());
    }
    let mut ran = false;
    let recorded = run.recorded.get_or_try_init(async || {
        let result = match work().await {
            Ok(CallToolResponse::Complete(result)) if result.is_error != Some(true) => result,
            other => return Err(other),
        };
        let Some(bytes) = size(&result) else { return Err(Ok(result.into())) };
        ran = true;
        Ok(Recorded { result, bytes, at: Instant::now() })
    });
    let recorded = match recorded.await {
        Ok(recorded) => recorded,
        Err(returned) => return returned,
    };
    if ran {
        // Put in again, it is weighed with its result and kept from now on.
        replays.runs.insert(place, Arc::clone(&run));
        return Ok(recorded.result.clone().into());
    }
    let mut result = recorded.result.clone();
    result.meta.get_or_insert_default().0.insert(REPLAYED.to_owned(), true.into());
    Ok(result.into())
}

/// How many bytes a result takes as JSON; `None` if it is too large to be kept.
fn size(result: &CallToolResult) -> Option<u32> {
    let mut room = Room { left: LARGEST_RESULT };
    serde_json::to_writer(&mut room, result).ok()?;
    u32::try_from(LARGEST_RESULT - room.left).ok()
}

/// Counts what is written, and fails when it is too much.
struct Room {
    left: usize,
}

impl std::io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::WriteZero)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Run {
    fn weight(&self) -> u32 {
        ENTRY + self.recorded.get().map_or(0, |recorded| recorded.bytes)
    }

    /// The cache forgets by a clock that no test can set, and this one by tokio's.
    fn is_over(&self, now: Instant) -> bool {
        let since = self.recorded.get().map_or(self.begun, |recorded| recorded.at);
        now.saturating_duration_since(since) >= KEPT_FOR
    }
}

#[cfg(test)]
mod tests;
