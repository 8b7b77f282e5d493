//! The handle on the control plane.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::actor::Actor;
use crate::admins::{AdminTokens, Sessions, Setup, Users};
use crate::agents::Agents;
use crate::alerts::Alerts;
use crate::audit::Audit;
use crate::change::Change;
use crate::clock::WallClock;
use crate::credentials::Credentials;
use crate::db::{Db, Transaction};
use crate::error::ControlError;
use crate::events::Events;
use crate::instances::Instances;
use crate::keys::Keys;
use crate::limits::Limits;
use crate::migrations::MigrationStatus;
use crate::plans::Plans;
use crate::policy::{Policy, Revision};
use crate::tenants::Tenants;
use crate::tools::Tools;
use crate::transfer::Transfer;
use crate::usage::Usage;
use crate::watch::PolicyWatch;

/// How a [`Control`] behaves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Where times come from.
    pub clock: WallClock,
    /// The most connections to Postgres. SQLite never has more than four.
    pub max_connections: u32,
    /// How many agents of one tenant may come into being by being seen, so that invented
    /// names cannot fill the database. Agents that an operator creates are not refused.
    pub max_agents_per_tenant: u32,
    /// How often [`PolicyWatch`] asks SQLite whether somebody has written to the file.
    pub sqlite_poll: Duration,
    /// How often [`PolicyWatch`] looks at the revision, whatever it was told.
    pub revision_poll: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: WallClock::system(),
            max_connections: 10,
            max_agents_per_tenant: 10_000,
            sqlite_poll: Duration::from_millis(250),
            revision_poll: Duration::from_secs(5),
        }
    }
}

/// The control plane of one database. Clones are cheap and share its connections.
#[derive(Clone)]
pub struct Control {
    db: Db,
    options: Arc<Options>,
    /// The revision of this process's latest change, to wake the watches in it at once.
    committed: watch::Sender<Revision>,
}

impl Control {
    /// Connects to `sqlite:PATH`, `sqlite::memory:` or `postgres://…`. A SQLite file is
    /// created when it is missing; its folder is not. Follow with [`Control::migrate`].
    ///
    /// # Errors
    /// [`ControlError::Address`] for another kind of address, [`ControlError::Database`]
    /// when nobody answers there.
    pub async fn connect(url: &str, options: Options) -> Result<Self, ControlError> {
        let db = Db::connect(url, options.max_connections).await?;
        let committed = watch::Sender::new(Revision::START);
        Ok(Self { db, options: Arc::new(options), committed })
    }

    /// Brings the schema up to date. Any number of processes may do so at once: one
    /// works, the others wait.
    ///
    /// # Errors
    /// [`ControlError::Migration`] when one fails; what it did is rolled back.
    pub async fn migrate(&self) -> Result<(), ControlError> {
        self.db.migrate().await
    }

    /// Which migrations are applied and which are pending; changes nothing.
    ///
    /// # Errors
    /// [`ControlError::Database`] or [`ControlError::Migration`].
    pub async fn migration_status(&self) -> Result<MigrationStatus, ControlError> {
        self.db.migration_status().await
    }

    /// Use cases on tenants.
    pub const fn tenants(&self) -> Tenants<'_> {
        Tenants { control: self }
    }

    /// Use cases on agents.
    pub const fn agents(&self) -> Agents<'_> {
        Agents { control: self }
    }

    /// Use cases on API keys.
    pub const fn keys(&self) -> Keys<'_> {
        Keys { control: self }
    }

    /// What authentication asks.
    pub const fn credentials(&self) -> Credentials<'_> {
        Credentials { control: self }
    }

    /// Use cases on plans.
    pub const fn plans(&self) -> Plans<'_> {
        Plans { control: self }
    }

    /// Use cases on limits.
    pub const fn limits(&self) -> Limits<'_> {
        Limits { control: self }
    }

    /// Use cases on the registry of tools.
    pub const fn tools(&self) -> Tools<'_> {
        Tools { control: self }
    }

    /// Use cases on usage.
    pub const fn usage(&self) -> Usage<'_> {
        Usage { control: self }
    }

    /// Use cases on events.
    pub const fn events(&self) -> Events<'_> {
        Events { control: self }
    }

    /// Use cases on people who administer.
    pub const fn users(&self) -> Users<'_> {
        Users { control: self }
    }

    /// Use cases on admin tokens.
    pub const fn admin_tokens(&self) -> AdminTokens<'_> {
        AdminTokens { control: self }
    }

    /// Use cases on sessions.
    pub const fn sessions(&self) -> Sessions<'_> {
        Sessions { control: self }
    }

    /// Use cases on the first set-up.
    pub const fn setup(&self) -> Setup<'_> {
        Setup { control: self }
    }

    /// Use cases on alerts and their rules.
    pub const fn alerts(&self) -> Alerts<'_> {
        Alerts { control: self }
    }

    /// Use cases on the servers that run on the database.
    pub const fn instances(&self) -> Instances<'_> {
        Instances { control: self }
    }

    /// Which database it is: `sqlite` or `postgres`.
    pub const fn database(&self) -> &'static str {
        self.db.name()
    }

    /// Use cases on the policy as a document.
    pub const fn transfer(&self) -> Transfer<'_> {
        Transfer { control: self }
    }

    /// Use cases on the audit log.
    pub const fn audit(&self) -> Audit<'_> {
        Audit { control: self }
    }

    /// The policy in force, whole or what changed in it.
    pub const fn policy(&self) -> Policy<'_> {
        Policy { control: self }
    }

    /// Watches for changes of the policy, by this process or any other. Must be called
    /// inside a tokio runtime; the work ends when the watch is dropped.
    ///
    /// # Errors
    /// [`ControlError::Database`] when the present revision cannot be read.
    pub async fn watch(&self) -> Result<PolicyWatch, ControlError> {
        PolicyWatch::start(self).await
    }

    /// Closes the connections, once what they are doing is done.
    pub async fn close(&self) {
        self.db.close().await;
    }

    pub(crate) const fn db(&self) -> &Db {
        &self.db
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) const fn committed(&self) -> &watch::Sender<Revision> {
        &self.committed
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.options.clock.now_ms()
    }

    pub(crate) async fn read(&self) -> Result<Transaction, ControlError> {
        Ok(self.db.read().await?)
    }

    pub(crate) async fn change<'a>(&'a self, actor: &'a Actor) -> Result<Change<'a>, ControlError> {
        Change::begin(self, actor).await
    }
}

impl fmt::Debug for Control {
    /// Without the address: it may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("options", &self.options).finish_non_exhaustive()
    }
}
