//! Noticing that the policy has changed, whoever changed it.
//!
//! Something wakes the watch, and the watch looks at the revision; it never trusts the
//! wake-up alone. What wakes it: a change through the same [`Control`], a notification
//! of Postgres, a changed SQLite file, and, as the safety net, the time.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{ConnectOptions, PgPool, SqlitePool};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::change::CHANNEL;
use crate::control::Control;
use crate::db::Backend;
use crate::error::ControlError;
use crate::policy::{Revision, current_revision};

const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const CONNECTED_WITHIN: Duration = Duration::from_secs(2);
/// A try a second costs a database nothing, and once it is back changes are noticed as soon as before.
const LONGEST_BACKOFF: Duration = Duration::from_secs(1);

/// Tells when the policy may have changed. Work in the background ends on drop.
#[derive(Debug)]
pub struct PolicyWatch {
    revisions: watch::Receiver<Revision>,
    _tasks: JoinSet<()>,
}

impl PolicyWatch {
    pub(crate) async fn start(control: &Control) -> Result<Self, ControlError> {
        let (sender, revisions) = watch::channel(current_revision(control.db()).await?);
        let wake = Arc::new(Notify::new());
        let mut tasks = JoinSet::new();
        match control.db() {
            Backend::Postgres(pool) => {
                tasks.spawn(listen(pool.clone(), Arc::clone(&wake)));
            }
            Backend::Sqlite(pool) => {
                let every = control.options().sqlite_poll;
                tasks.spawn(poll_file(pool.clone(), every, Arc::clone(&wake)));
            }
        }
        tasks.spawn(follow(control.clone(), wake, sender));
        Ok(Self { revisions, _tasks: tasks })
    }

    /// The newest revision that was seen.
    pub fn revision(&self) -> Revision {
        *self.revisions.borrow()
    }

    /// Waits until the revision is another than when this was last called (the first
    /// time: than when the watch was made). Several changes may be one wake-up. Nothing is
    /// lost when the future is dropped.
    pub async fn changed(&mut self) -> Revision {
        if self.revisions.changed().await.is_err() {
            // The runtime is shutting down and has ended the background work.
            std::future::pending::<()>().await;
        }
        *self.revisions.borrow_and_update()
    }
}

/// Publishes the revision, whenever there is reason to look and it is another one.
async fn follow(control: Control, wake: Arc<Notify>, sender: watch::Sender<Revision>) {
    let mut committed = control.committed().subscribe();
    loop {
        tokio::select! {
            _ = committed.changed() => {}
            () = wake.notified() => {}
            () = sleep(control.options().revision_poll) => {}
        }
        match current_revision(control.db()).await {
            Ok(found) => {
                sender.send_if_modified(|known| std::mem::replace(known, found) != found);
            }
            Err(error) => {
                tracing::warn!(error = %error.inside(), "cannot read the policy revision");
            }
        }
    }
}

/// Wakes on notifications of Postgres, over a connection of its own.
async fn listen(pool: PgPool, wake: Arc<Notify>) {
    let options = pool.connect_options().as_ref().clone();
    let mut backoff = FIRST_BACKOFF;
    loop {
        let failure = match subscribe(options.clone()).await {
            Ok(mut listener) => {
                backoff = FIRST_BACKOFF;
                loop {
                    // Also after connecting: what was notified before is not repeated.
                    wake.notify_one();
                    match listener.try_recv().await {
                        Ok(Some(_)) => {}
                        Ok(None) => break None,
                        Err(error) => break Some(error),
                    }
                }
            }
            Err(error) => Some(error),
        };
        // Not a line for every try.
        if backoff == FIRST_BACKOFF {
            tracing::warn!(
                error = failure.map(tracing::field::display),
                "not listening for policy changes; they are noticed by polling until that works again"
            );
        }
        sleep(backoff).await;
        backoff = (backoff * 2).min(LONGEST_BACKOFF);
    }
}

async fn subscribe(options: sqlx::postgres::PgConnectOptions) -> Result<PgListener, sqlx::Error> {
    let own = PgPoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
    // While it is refused a connection, a pool tries again ever more seldom, for a part of this.
    let own = own.acquire_timeout(CONNECTED_WITHIN);
    let mut listener = PgListener::connect_with(&own.connect_with(options).await?).await?;
    listener.eager_reconnect(false);
    listener.listen(CHANNEL).await?;
    Ok(listener)
}

/// Wakes when another connection, of this process or another, has written to the file.
async fn poll_file(pool: SqlitePool, every: Duration, wake: Arc<Notify>) {
    let options = pool.connect_options().as_ref().clone();
    let mut backoff = FIRST_BACKOFF;
    loop {
        let failure: sqlx::Error = match options.connect().await {
            Ok(mut connection) => {
                let mut known = None;
                loop {
                    let version = sqlx::query_scalar("PRAGMA data_version").fetch_one(&mut connection);
                    match version.await {
                        Ok(version) => {
                            backoff = FIRST_BACKOFF;
                            if known.replace(version) != Some::<i64>(version) {
                                wake.notify_one();
                            }
                        }
                        Err(error) => break error,
                    }
                    sleep(every).await;
                }
            }
            Err(error) => error,
        };
        if backoff == FIRST_BACKOFF {
            tracing::warn!(error = %failure, "cannot watch the database file; changes are noticed by polling");
        }
        sleep(backoff).await;
        backoff = (backoff * 2).min(LONGEST_BACKOFF);
    }
}
