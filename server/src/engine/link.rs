//! The connection to Redis: one for all calls, which share it without waiting for each other.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, Script, Value};
use tokio::time::timeout;

use super::leases::LeaseId;
use super::question::{Purpose, Question, SCRIPT, Timing};

/// Calls that may be on their way to the connection before others wait for a place.
const QUEUE: usize = 4_096;

/// A Redis server, or several of them.
#[derive(Clone)]
pub(crate) struct Redis {
    kind: Kind,
    /// How long an answer may take. Opening a connection may take twice as long.
    patience: Duration,
}

#[derive(Clone)]
enum Kind {
    One(Arc<Client>),
    Cluster(Arc<ClusterClient>),
}

/// An open connection. Clones use the same.
#[derive(Clone)]
pub(super) struct Link {
    connection: Connection,
    script: Arc<str>,
    patience: Duration,
}

#[derive(Clone)]
enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// Too late.
    #[error("no answer within {} ms", .0.as_millis())]
    Late(Duration),
    /// The connection or the server says so.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// It answers with something else than expected.
    #[error("{0}")]
    Strange(String),
}

impl LinkError {
    /// Whether other calls will fare no better, so that the connection is given up.
    pub(super) fn is_an_outage(&self) -> bool {
        match self {
            Self::Late(_) => true,
            Self::Strange(_) => false,
            // What a script or a single key gets wrong is one call's; everything else is everybody's.
            Self::Redis(error) => !matches!(error.code(), Some("ERR" | "WRONGTYPE" | "CROSSSLOT" | "NOSCRIPT")),
        }
    }
}

impl Redis {
    /// Reads addresses: `redis://[user:password@]host[:port][/database]`, `rediss://…` over TLS, `unix:///path`. A cluster
    /// is found through any of several, with commas between them. `patience` is how long an answer may take.
    pub(crate) fn new(urls: &str, is_cluster: bool, patience: Duration) -> Result<Self, RedisError> {
        let mut all = urls.split(',').map(str::trim).filter(|url| !url.is_empty());
        let kind = if is_cluster {
            let builder = ClusterClientBuilder::new(all.map(str::to_owned).collect::<Vec<_>>());
            let builder = builder.retries(0).connection_timeout(2 * patience).response_timeout(patience);
            Kind::Cluster(Arc::new(builder.overall_response_timeout(None).build()?))
        } else {
            Kind::One(Arc::new(Client::open(all.next().unwrap_or_default())?))
        };
        Ok(Self { kind, patience })
    }

    /// Opens a connection to a server that answers.
    pub(super) async fn connect(&self) -> Result<Link, LinkError> {
        let patience = 2 * self.patience;
        let connection = timeout(patience, self.open()).await.map_err(|_| LinkError::Late(patience))??;
        let link = Link { connection, script: Script::new(SCRIPT).get_hash().into(), patience: self.patience };
        link.send(&redis::cmd("PING")).await?;
        Ok(link)
    }

    async fn open(&self) -> Result<Connection, RedisError> {
        Ok(match &self.kind {
            Kind::One(client) => {
                // Answers are waited for here, from before a call is queued.
                let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
                let config = config.set_pipeline_buffer_size(QUEUE);
                Connection::One(client.get_multiplexed_async_connection_with_config(&config).await?)
            }
            Kind::Cluster(client) => Connection::Cluster(client.get_async_connection().await?),
        })
    }

    /// Whether what is asked answers, for `check`.
    pub(crate) async fn check(&self) -> Result<(), LinkError> {
        self.connect().await.map(drop)
    }
}

impl Link {
    /// Sends a command and waits for its answer, for as long as an answer may take.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, LinkError> {
        let mut connection = self.connection.clone();
        let answer = async {
            match &mut connection {
                Connection::One(connection) => connection.req_packed_command(command).await,
                Connection::Cluster(connection) => connection.req_packed_command(command).await,
            }
        };
        let answer = timeout(self.patience, answer).await.map_err(|_| LinkError::Late(self.patience))?;
        Ok(answer.and_then(Value::extract_error)?)
    }

    /// Asks the script. A server that does not know it, since it was restarted, is told it with the question.
    pub(super) async fn ask(
        &self,
        question: &Question,
        purpose: Purpose<'_>,
        ended: &[LeaseId],
        timing: Timing,
    ) -> Result<Value, LinkError> {
        match self.send(&question.command("EVALSHA", &self.script, purpose, ended, timing)).await {
            Err(LinkError::Redis(error)) if error.code() == Some("NOSCRIPT") => {
                self.send(&question.command("EVAL", SCRIPT, purpose, ended, timing)).await
            }
            answer => answer,
        }
    }

    /// Sets a key to a value unless it has one, and says what it has then.
    pub(super) async fn get_or_set(&self, key: &str, value: &str) -> Result<String, LinkError> {
        self.send(redis::cmd("SET").arg(key).arg(value).arg("NX")).await?;
        let found = self.send(redis::cmd("GET").arg(key)).await?;
        redis::from_redis_value(found).map_err(|error| LinkError::Strange(error.to_string()))
    }

    /// What changes when another server answers than before: after a restart or a failover.
    pub(super) async fn identity(&self) -> Result<String, LinkError> {
        let text =
            |value| redis::from_redis_value::<String>(value).map_err(|error| LinkError::Strange(error.to_string()));
        match &self.connection {
            Connection::One(_) => {
                let info = text(self.send(redis::cmd("INFO").arg("server")).await?)?;
                let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:"));
                Ok(run_id.unwrap_or_default().trim().to_owned())
            }
            Connection::Cluster(_) => {
                let nodes = text(self.send(redis::cmd("CLUSTER").arg("NODES")).await?)?;
                let masters =
                    nodes.lines().filter(|line| line.split(' ').nth(2).is_some_and(|flags| flags.contains("master")));
                let mut ids: Vec<_> = masters.filter_map(|line| line.split(' ').next()).collect();
                ids.sort_unstable();
                Ok(ids.concat())
            }
        }
    }
}
