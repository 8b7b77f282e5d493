//! A server: tools behind a gate, started and stopped.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use futures::future::BoxFuture;
use sluicegate_control::{Control, WallClock};
use sluicegate_mcp::{FreeTool, Registry, RmcpHandler, ServerHandler, ServerInfo, Tool, ToolSet};
use tokio::net::TcpListener;

use crate::accept::Acceptor;
use crate::declared::DeclaredText;
use crate::health::{self, MetricsFor};
use crate::settings::Settings;
use crate::site::Site;
use crate::token::resource;
use crate::{api, cli, live, panel};

mod error;
mod house;
mod running;

pub use error::{BoxError, StartError};
pub(crate) use house::House;
pub use running::Running;

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
    handler: Option<RmcpHandler>,
    default_data: Option<PathBuf>,
    on_ready: Option<OnReady>,
    demo: Option<fn(Self) -> Self>,
    clock: WallClock,
    /// Set where limits are not measured by the machine's own clock, or by that of Redis.
    limiter_clock: Option<quanta::Clock>,
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
            info: ServerInfo { name: name.into(), version, instructions: None, tools_list_ttl_ms: 0 },
            tools: Vec::new(),
            handler: None,
            default_data: None,
            on_ready: None,
            demo: None,
            clock: WallClock::system(),
            limiter_clock: None,
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

    /// Adds a tool that is put together by hand, see [`Tool`].
    pub fn add_tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Puts an existing rmcp handler behind the gate: its tools get limits by their names, and its resources, prompts,
    /// completions, subscriptions and tasks are served to those whom the gate lets through. A later handler replaces an
    /// earlier one.
    ///
    /// Its tools are learnt by one `tools/list` when the server starts; one that it adds later is not served. Tools of
    /// this server may stand beside it. See docs/rmcp.md.
    pub fn rmcp(mut self, handler: impl ServerHandler) -> Self {
        self.handler = Some(RmcpHandler::new(handler));
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

    /// What `--demo` adds to the server: tools to try it with, or callers to watch.
    pub fn with_demo(mut self, demo: fn(Self) -> Self) -> Self {
        self.demo = Some(demo);
        self
    }

    /// The clocks that limits and expiry are measured by, for tests that must not sleep.
    pub fn clocks(mut self, limits: quanta::Clock, wall: WallClock) -> Self {
        self.limiter_clock = Some(limits);
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

    /// Whether there is anything to serve.
    pub(crate) fn has_tools(&self) -> bool {
        !self.tools.is_empty() || self.handler.is_some()
    }

    /// What all tools declare, those of the handler as well.
    pub(crate) async fn declared(self) -> Result<Vec<(String, DeclaredText)>, StartError> {
        let mut tools = self.tools;
        if let Some(handler) = &self.handler {
            tools.extend(handler.tools().await?);
        }
        Ok(house::declarations(&Registry::new(tools)?))
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
    pub(crate) async fn start_on(mut self, control: Control, settings: &Settings) -> Result<Running, StartError> {
        let on_ready = self.on_ready.take();
        let house = House::build(self, control, settings).await?;
        let listener = listen(settings.bind).await?;
        let address = listener.local_addr().unwrap_or(settings.bind);
        let House { tasks, draining, shutdown, health, .. } = &house;
        let metrics_address = settings.metrics_address()?;
        let metrics_for = if metrics_address.is_some() { MetricsFor::Nobody } else { MetricsFor::ThisMachine };
        let other = health::router(Arc::clone(health), metrics_for);
        let other = other.merge(api::router(house.api(settings)));
        let other = if settings.panel { other.merge(panel::router(&house, settings)) } else { other };
        let other = match &house.resource {
            Some(resource) => other.merge(resource::router(Arc::clone(resource))),
            None => other,
        };
        let site = Arc::new(Site::new(Arc::clone(&house.gate), other, settings));
        let metrics = match metrics_address {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        let metrics_address = metrics.as_ref().and_then(|listener| listener.local_addr().ok());
        if let Some(listener) = metrics {
            let site = Arc::new(Site::without_mcp(health::router(Arc::clone(health), MetricsFor::Anybody)));
            // To the end: the last calls want to be seen as well.
            tasks.spawn(Acceptor::new(settings).serve(listener, site, shutdown.clone()));
        }
        let accepting = tokio::spawn(Acceptor::new(settings).serve(listener, site, draining.clone()));
        tasks.spawn(live::serve(
            settings.control_socket(),
            Arc::clone(&house.explainer),
            draining.clone(),
            shutdown.clone(),
        ));
        let running = Running { address, metrics_address, accepting, house, panel: settings.panel };
        let metrics = running.metrics_address.map(tracing::field::display);
        tracing::info!(endpoint = running.endpoint(), metrics, "serving");
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
        let house = House::build(self, control, settings).await?;
        let gate = crate::gate::stdio::Gate::new(Arc::clone(&house.gate), key);
        let served = sluicegate_mcp::serve_stdio(&house.engine, gate, house.draining.clone()).await;
        served.map_err(StartError::Stdio)?;
        house.close().await;
        Ok(())
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|source| StartError::Listen { address, source })
}

/// Connects to the configured database; makes the data folder for the embedded one.
pub(crate) async fn open_control(settings: &Settings, clock: WallClock) -> Result<Control, StartError> {
    let folder = settings.data.as_path();
    // Whoever can read the folder can read the database in it.
    let made = tokio::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).await;
    made.map_err(|source| StartError::DataFolder { folder: folder.to_owned(), source })?;
    let mut options = sluicegate_control::Options::default();
    options.clock = clock;
    options.revision_poll = settings.reload_interval.0;
    Control::connect(&settings.database(), options).await.map_err(StartError::database("opened"))
}
