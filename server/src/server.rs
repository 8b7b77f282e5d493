//! A server: tools behind a gate, started and stopped.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::any;
use futures::future::BoxFuture;
use sluicegate_control::{Actor, Control, ControlError, JsonText, ToolDefinition, WallClock};
use sluicegate_limits::{Limiter, LimiterOptions};
use sluicegate_mcp::{FreeTool, HttpEndpoint, Registry, RegistryError, ServerInfo, Tool, ToolSet};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::declared::{Declared, DeclaredText};
use crate::gate::Gate;
use crate::gate::admit::Admission;
use crate::gate::authenticate::Authenticator;
use crate::gate::edge::Edge;
use crate::last_used::LastUsed;
use crate::meter::Meter;
use crate::policy::PolicyStore;
use crate::policy::baseline::Baseline;
use crate::policy::explain::Explainer;
use crate::refusal::http::Wording;
use crate::refusal::style::CompatibilityList;
use crate::settings::{Settings, SettingsError};
use crate::{accept, cli, live};

/// How often idle limiter state is looked for. Admission sweeps as it goes; this is for quiet servers.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// Any error, as hooks return it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The data folder could not be made.
    #[error("the data folder {} could not be made", folder.display())]
    DataFolder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The database did not do what it was told.
    #[error("the database could not be {what}")]
    Database {
        /// What it was told.
        what: &'static str,
        /// Why it did not.
        source: ControlError,
    },
    /// A setting, or a limit in a tool, cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The tools do not go together.
    #[error(transparent)]
    Tools(#[from] RegistryError),
    /// The address cannot be listened on.
    #[error("{address} cannot be listened on")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The peer on stdio never spoke the protocol, or the streams broke.
    #[error("the stdio transport failed")]
    Stdio(#[source] std::io::Error),
    /// What [`Server::on_ready`] was given failed.
    #[error("the server was started, but its first work failed")]
    Ready(#[source] BoxError),
}

impl StartError {
    fn database(what: &'static str) -> impl FnOnce(ControlError) -> Self {
        move |source| Self::Database { what, source }
    }
}

/// What is called once the server serves; see [`Server::on_ready`].
type OnReady = Box<dyn FnOnce(Ready) -> BoxFuture<'static, Result<(), BoxError>> + Send>;

/// A server of tools for many tenants.
///
/// ```no_run
/// use sluicegate::prelude::*;
///
/// /// Echoes a text.
/// #[tool(rate_limit = "600/min")]
/// async fn echo(text: String) -> String {
///     text
/// }
///
/// fn main() -> std::process::ExitCode {
///     Server::new("demo").tool::<echo>().run()
/// }
/// ```
#[must_use = "a server does nothing until it is run or started"]
pub struct Server {
    info: ServerInfo,
    tools: Vec<Tool>,
    default_data: Option<PathBuf>,
    on_ready: Option<OnReady>,
    demo: Option<fn(Self) -> Self>,
    clock: WallClock,
    limiter_clock: quanta::Clock,
}

/// What [`Server::on_ready`] is told.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ready {
    /// Where MCP is served: `http://127.0.0.1:8080/mcp`.
    pub endpoint: String,
    /// The control plane, to create tenants and keys with.
    pub control: Control,
    /// The data folder.
    pub data: PathBuf,
}

impl Server {
    /// A server without tools. Its name is what peers see.
    pub fn new(name: impl Into<String>) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self {
            info: ServerInfo {
                name: name.into(),
                version,
                instructions: None,
                tools_list_ttl_ms: 0,
            },
            tools: Vec::new(),
            default_data: None,
            on_ready: None,
            demo: None,
            clock: WallClock::system(),
            limiter_clock: quanta::Clock::new(),
        }
    }

    /// The version that peers see; by default Sluicegate's.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.info.version = version.into();
        self
    }

    /// What a model should know before it uses the tools.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.info.instructions = Some(instructions.into());
        self
    }

    /// Adds all tools of a value whose impl block has `#[tools]`.
    pub fn tools(mut self, tools: impl ToolSet) -> Self {
        self.tools.extend(Arc::new(tools).tools());
        self
    }

    /// Adds a free function that has `#[tool]`: `.tool::<echo>()`.
    pub fn tool<T: FreeTool>(mut self) -> Self {
        self.tools.push(T::tool());
        self
    }

    /// The data folder where no other source names one.
    pub fn default_data(mut self, folder: impl Into<PathBuf>) -> Self {
        self.default_data = Some(folder.into());
        self
    }

    /// Called once when the server serves, for example to create a first tenant. When it fails, the server stops.
    pub fn on_ready<F>(mut self, ready: impl FnOnce(Ready) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.on_ready = Some(Box::new(move |argument| Box::pin(ready(argument))));
        self
    }

    /// What `serve --demo` adds to the server: tools to try it with.
    pub fn with_demo(mut self, demo: fn(Self) -> Self) -> Self {
        self.demo = Some(demo);
        self
    }

    /// The clocks that limits and expiry are measured by, for tests that must not sleep.
    pub fn clocks(mut self, limits: quanta::Clock, wall: WallClock) -> Self {
        self.limiter_clock = limits;
        self.clock = wall;
        self
    }

    /// Runs the command line: `serve` by default, and `migrate`, `tenant`, `key`, `limit`. See `--help`.
    pub fn run(self) -> ExitCode {
        cli::run(self)
    }

    pub(crate) fn name(&self) -> &str {
        &self.info.name
    }

    pub(crate) fn has_tools(&self) -> bool {
        !self.tools.is_empty()
    }

    /// What `serve --demo` would add.
    pub(crate) fn demo(&self) -> Option<fn(Self) -> Self> {
        self.demo
    }

    pub(crate) fn data_folder(&self) -> Option<&PathBuf> {
        self.default_data.as_ref()
    }

    /// Starts serving HTTP and returns when the port is open.
    ///
    /// # Errors
    /// What could not be started, and why: the database, a limit in the settings or in a tool, two tools of one name, or
    /// the address.
    pub async fn start(self, settings: &Settings) -> Result<Running, StartError> {
        let control = open_control(settings, self.clock.clone()).await?;
        control.migrate().await.map_err(StartError::database("migrated"))?;
        self.start_on(control, settings).await
    }

    /// Starts serving on a database that is open and migrated.
    pub(crate) async fn start_on(
        mut self,
        control: Control,
        settings: &Settings,
    ) -> Result<Running, StartError> {
        let on_ready = self.on_ready.take();
        let house = House::build(self, control, settings).await?;
        let listener = TcpListener::bind(settings.bind).await;
        let listener =
            listener.map_err(|source| StartError::Listen { address: settings.bind, source })?;
        let address = listener.local_addr().unwrap_or(settings.bind);
        let House { tasks, draining, shutdown, .. } = &house;
        let router =
            Router::new().route("/mcp", any(serve_mcp)).with_state(Arc::clone(&house.gate));
        let (header_timeout, drain) = (settings.header_timeout.0, settings.drain_timeout.0);
        let accepting =
            tokio::spawn(accept::serve(listener, router, header_timeout, drain, draining.clone()));
        tasks.spawn(live::serve(
            settings.control_socket(),
            Arc::clone(&house.explainer),
            shutdown.clone(),
        ));
        let running = Running { address, accepting, house };
        tracing::info!(endpoint = running.endpoint(), "serving");
        if let Some(on_ready) = on_ready {
            let control = running.house.control.clone();
            on_ready(Ready { endpoint: running.endpoint(), control, data: settings.data.clone() })
                .await
                .map_err(StartError::Ready)?;
        }
        Ok(running)
    }

    /// Serves the peer on standard input and output until it hangs up.
    pub(crate) async fn serve_stdio(
        self,
        control: Control,
        settings: &Settings,
        key: String,
    ) -> Result<(), StartError> {
        let info = self.info.clone();
        let house = House::build(self, control, settings).await?;
        let gate = crate::gate::stdio::Gate::new(Arc::clone(&house.gate), key);
        sluicegate_mcp::serve_stdio(
            Arc::clone(&house.registry),
            info,
            gate,
            house.draining.clone(),
        )
        .await
        .map_err(StartError::Stdio)?;
        house.close().await;
        Ok(())
    }
}

async fn serve_mcp(
    State(gate): State<Arc<Gate>>,
    request: axum::extract::Request,
) -> axum::response::Response {
    gate.serve(request).await
}

/// Connects to the configured database; makes the data folder for the embedded one.
pub(crate) async fn open_control(
    settings: &Settings,
    clock: WallClock,
) -> Result<Control, StartError> {
    let folder = settings.data.as_path();
    let made = tokio::fs::create_dir_all(folder).await;
    made.map_err(|source| StartError::DataFolder { folder: folder.to_owned(), source })?;
    let mut options = sluicegate_control::Options::default();
    options.clock = clock;
    options.revision_poll = settings.reload_interval.0;
    Control::connect(&settings.database(), options).await.map_err(StartError::database("opened"))
}

/// Everything behind the transports, with the work that goes on in the background.
struct House {
    gate: Arc<Gate>,
    registry: Arc<Registry>,
    explainer: Arc<Explainer>,
    control: Control,
    /// Cancelled first: nobody new is served.
    draining: CancellationToken,
    /// Cancelled last: streams end, background work writes its rest.
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

impl House {
    async fn build(
        server: Server,
        control: Control,
        settings: &Settings,
    ) -> Result<Self, StartError> {
        let Server { mut info, tools, clock, limiter_clock, .. } = server;
        info.tools_list_ttl_ms = settings.tools_list_ttl_ms;
        let registry = Arc::new(Registry::new(tools)?);
        let declared = registry.iter().map(|(_, tool)| (tool.name().to_owned(), declared(tool)));
        let baseline = Arc::new(Baseline::new(settings, declared)?);
        register_tools(&control, &registry)
            .await
            .map_err(StartError::database("told of the tools"))?;

        let options = LimiterOptions {
            max_live_keys_per_tenant: settings.max_live_keys_per_tenant,
            ..LimiterOptions::default()
        };
        let limiter = Limiter::new(limiter_clock, options);
        let watch = control.watch().await.map_err(StartError::database("watched"))?;
        let policy = PolicyStore::load(control.clone(), clock.clone()).await;
        let policy = Arc::new(policy.map_err(StartError::database("read"))?);
        let last_used = Arc::new(LastUsed::default());
        let (draining, shutdown) = (CancellationToken::new(), CancellationToken::new());

        let gate = Gate {
            edge: Edge::new(settings),
            authenticator: Authenticator::new(
                settings.auth,
                control.clone(),
                limiter.clone(),
                Arc::clone(&policy),
                clock.clone(),
                Arc::clone(&last_used),
            ),
            admission: Admission::new(
                limiter.clone(),
                Arc::clone(&policy),
                Arc::clone(&baseline),
                Arc::clone(&registry),
                settings.retry_jitter,
            ),
            endpoint: HttpEndpoint::new(Arc::clone(&registry), info, shutdown.clone()),
            wording: Wording {
                style: settings.refusal_style,
                code: settings.rate_limit_error_code,
                compatibility: CompatibilityList::new(&settings.compatibility),
            },
            meter: Arc::new(Meter::new()),
            draining: draining.clone(),
        };
        let explainer = Explainer {
            control: control.clone(),
            policy: Arc::clone(&policy),
            baseline,
            limiter: Some(limiter.clone()),
        };

        let tasks = TaskTracker::new();
        let follow = {
            let shutdown = shutdown.clone();
            async move { policy.follow(watch, shutdown).await }
        };
        tasks.spawn(follow);
        let write = {
            let (control, shutdown) = (control.clone(), shutdown.clone());
            async move { last_used.write(control, shutdown).await }
        };
        tasks.spawn(write);
        tasks.spawn(sweep(limiter, shutdown.clone()));
        Ok(Self {
            gate: Arc::new(gate),
            registry,
            explainer: Arc::new(explainer),
            control,
            draining,
            shutdown,
            tasks,
        })
    }

    /// Ends the background work and closes the database.
    async fn close(self) {
        self.draining.cancel();
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.control.close().await;
    }
}

fn declared(tool: &Tool) -> DeclaredText {
    tool.extensions().get::<Declared>().map(DeclaredText::from).unwrap_or_default()
}

/// Tells the database which tools there are, so that other processes know their names.
async fn register_tools(control: &Control, registry: &Registry) -> Result<(), ControlError> {
    let definitions = registry.iter().map(|(_, tool)| ToolDefinition {
        name: tool.name().to_owned(),
        title: tool.title().map(str::to_owned),
        description: tool.description().map(str::to_owned),
        input_schema: JsonText::from(serde_json::Value::Object((**tool.input_schema()).clone())),
        declared_limits: JsonText::from(declared(tool).to_json()),
    });
    control.tools().register(&Actor::system("registry"), &definitions.collect::<Vec<_>>()).await
}

async fn sweep(limiter: Limiter, shutdown: CancellationToken) {
    while tokio::time::timeout(SWEEP_EVERY, shutdown.cancelled()).await.is_err() {
        limiter.sweep();
    }
}

/// A server that is serving.
#[must_use = "a server that is dropped goes on serving; stop it or wait for it"]
pub struct Running {
    address: SocketAddr,
    accepting: JoinHandle<()>,
    house: House,
}

impl Running {
    /// The address that is listened on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where MCP is served.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The control plane of this server.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.house.control
    }

    /// The revision of the policy in force.
    #[must_use]
    pub fn policy_revision(&self) -> i64 {
        self.house.explainer.policy.current().revision.get()
    }

    /// Stops: new calls are refused, running ones may end within `drain_timeout`, then everything is closed.
    pub async fn stop(self) {
        let Self { accepting, house, .. } = self;
        house.draining.cancel();
        if let Err(error) = accepting.await {
            tracing::error!(%error, "the accept loop failed");
        }
        house.close().await;
    }

    /// Serves until the process is told to stop (SIGTERM, Ctrl-C), then [stops](Self::stop).
    ///
    /// # Errors
    /// When the signals cannot be listened for.
    pub async fn until_signal(self) -> std::io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            _ = terminate.recv() => {}
            interrupted = tokio::signal::ctrl_c() => interrupted?,
        }
        tracing::info!("stopping");
        self.stop().await;
        Ok(())
    }
}
