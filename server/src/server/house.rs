//! Everything behind the transports: built once, closed in order.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use sluicegate_control::{Actor, Control, ControlError, JsonText, LiveView, ToolDefinition, WallClock};
use sluicegate_limits::{Limiter, LimiterOptions};
use sluicegate_mcp::{Engine, HttpEndpoint, Registry, SessionOptions, Tool};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Server, StartError};
use crate::api::Api;
use crate::declared::{Declared, DeclaredText};
use crate::engine::{Keyspace, LimitEngine, SharedOptions, Upkeep};
use crate::gate::Gate;
use crate::gate::admit::Admission;
use crate::gate::authenticate::{Authenticator, Surroundings};
use crate::gate::edge::Edge;
use crate::gate::escalation::Escalation;
use crate::gate::proxies::Proxies;
use crate::gate::strangers::Strangers;
use crate::gate::streams::Streams;
use crate::health::{self, Health};
use crate::keeping;
use crate::last_used::LastUsed;
use crate::live_view::Live;
use crate::meter::Meter;
use crate::policy::PolicyStore;
use crate::policy::baseline::Baseline;
use crate::policy::explain::Explainer;
use crate::policy::settings::SettingsReload;
use crate::refusal::http::Wording;
use crate::refusal::style::CompatibilityList;
use crate::settings::{SessionMode, Settings, SettingsError};
use crate::sightings::Sightings;
use crate::telemetry::{Telemetry, process};
use crate::token::Verifier;
use crate::token::resource::Resource;
use crate::usage::{self, Usage};
use crate::webhooks::Webhooks;

/// How often idle limiter state is looked for. Admission sweeps as it goes; this is for quiet servers.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// How often the metrics count what was recorded.
const UPKEEP_EVERY: Duration = Duration::from_secs(1);
/// How long work that has answered may take to let go of what it holds, so that the last usage has all of it.
const SETTLE: Duration = Duration::from_secs(1);
const SETTLE_LOOK: Duration = Duration::from_millis(2);

/// Everything behind the transports, with the work that goes on in the background.
pub(crate) struct House {
    pub(crate) gate: Arc<Gate>,
    pub(crate) engine: Engine,
    pub(crate) explainer: Arc<Explainer>,
    pub(crate) health: Arc<Health>,
    /// What the panel and the admin API ask.
    pub(crate) live: Arc<Live>,
    /// Where tokens are accepted: what is said of where to get one.
    pub(crate) resource: Option<Arc<Resource>>,
    /// `None` where the settings come from no files.
    pub(crate) settings_reload: Option<Arc<SettingsReload>>,
    pub(crate) control: Control,
    pub(crate) clock: WallClock,
    /// Cancelled first: nobody new is served.
    pub(crate) draining: CancellationToken,
    /// Cancelled last: streams end, background work writes its rest.
    pub(crate) shutdown: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl House {
    pub(crate) async fn build(server: Server, control: Control, settings: &Settings) -> Result<Self, StartError> {
        let Server { mut info, mut tools, handler, clock, limiter_clock, .. } = server;
        info.tools_list_ttl_ms = settings.tools_list_ttl_ms;
        if let Some(handler) = &handler {
            tools.extend(handler.tools().await?);
        }
        let registry = Arc::new(Registry::new(tools)?);
        let declared = declarations(&registry);
        let baseline = Arc::new(Baseline::new(settings, declared.iter().cloned())?);
        register_tools(&control, &registry).await.map_err(StartError::database("told of the tools"))?;

        let options = LimiterOptions {
            max_live_keys_per_tenant: settings.max_live_keys_per_tenant,
            fair_share: settings.fair_share,
            ..LimiterOptions::default()
        };
        let measured_by = limiter_clock.clone().unwrap_or_default();
        let limiter = Limiter::new(measured_by.clone(), options);
        let instance = rand::rng().random::<u64>();
        let (limits, upkeep) = limit_engine(limiter.clone(), limiter_clock, settings, instance).await?;
        let telemetry = Arc::new(Telemetry::new(&registry, settings.metrics_series));
        let watch = control.watch().await.map_err(StartError::database("watched"))?;
        let policy = PolicyStore::load(control.clone(), clock.clone(), baseline).await;
        let policy = Arc::new(policy.map_err(StartError::database("read"))?);
        let settings_reload = SettingsReload::new(settings, declared, Arc::clone(&policy));
        let last_used = Arc::new(LastUsed::default());
        let (draining, shutdown) = (CancellationToken::new(), CancellationToken::new());

        let sightings = Arc::new(Sightings::default());
        let strangers = Arc::new(Strangers::new(settings, measured_by.clone())?);
        let tokens = Verifier::new(settings, measured_by, clock.clone())?.map(Arc::new);
        let asked = asked_scopes(&policy);
        let resource = tokens.as_ref().map(|verifier| {
            let asked = asked.iter().map(ToString::to_string);
            Arc::new(Resource::new(settings, verifier.rules(), &info.name, asked))
        });

        let streams = Streams::new(settings, draining.clone());
        let state_key = (!settings.state_key.is_empty()).then_some(&*settings.state_key);
        let engine = Engine::new(Arc::clone(&registry), info, handler.unwrap_or_default(), state_key)
            .map_err(|error| SettingsError(format!("state_key: {error}")))?;
        let tools = registry.iter().map(|(_, tool)| tool.name().into());
        let around = Surroundings {
            control: control.clone(),
            limiter: limiter.clone(),
            policy: Arc::clone(&policy),
            clock: clock.clone(),
            reading: settings.agent_concurrency as usize,
            last_used: Arc::clone(&last_used),
            sightings: Arc::clone(&sightings),
            strangers: Arc::clone(&strangers),
        };
        let usage = Arc::new(Usage::new(settings.usage_series, tools, clock.clone()));
        let gate = Gate {
            edge: Edge::new(settings),
            proxies: Proxies::new(settings)?,
            authenticator: Authenticator::new(settings.auth, around, tokens.clone(), asked),
            admission: Admission::new(
                limits.clone(),
                Arc::clone(&policy),
                registry,
                settings.retry_jitter,
                Escalation::up_to(settings.escalate_waits_to.0),
                clock.clone(),
                Arc::clone(&telemetry),
            ),
            endpoint: HttpEndpoint::new(&engine, session_options(settings), shutdown.clone()),
            wording: Wording {
                style: settings.refusal_style,
                code: settings.rate_limit_error_code,
                compatibility: CompatibilityList::new(&settings.compatibility),
                resource: resource.clone(),
            },
            streams: Arc::clone(&streams),
            strangers,
            meter: Arc::new(Meter::new(Arc::clone(&usage), Arc::clone(&telemetry))),
            draining: draining.clone(),
        };
        let explainer =
            Explainer { control: control.clone(), policy: Arc::clone(&policy), engine: Some(limits.clone()) };
        let health = Health {
            telemetry: Arc::clone(&telemetry),
            policy: Arc::clone(&policy),
            engine: limits.clone(),
            issuer: tokens.as_ref().and_then(|verifier| verifier.jwks()).cloned(),
            streams,
            draining: draining.clone(),
            patience: health::patience(settings),
        };

        let webhooks = Webhooks::new(control.clone(), settings, clock.clone(), Arc::clone(&telemetry));
        let webhooks = Arc::new(webhooks.map_err(|error| SettingsError(error.to_string()))?);
        let tasks = TaskTracker::new();
        tasks.spawn(policy.follow(watch, settings.reload_interval.0, shutdown.clone()));
        if let Some(reload) = &settings_reload {
            tasks.spawn(Arc::clone(reload).follow(shutdown.clone()));
        }
        tasks.spawn(last_used.write(control.clone(), shutdown.clone()));
        tasks.spawn(sightings.write(control.clone(), shutdown.clone()));
        if let Some(jwks) = tokens.as_ref().and_then(|verifier| verifier.jwks()) {
            tasks.spawn(Arc::clone(jwks).follow(shutdown.clone()));
        }
        tasks.spawn(usage::write(Arc::clone(&usage), control.clone(), settings.keep(), shutdown.clone()));
        tasks.spawn(sweep(limiter, shutdown.clone()));
        tasks.spawn(keep_up(telemetry, shutdown.clone()));
        let (gate, explainer, health) = (Arc::new(gate), Arc::new(explainer), Arc::new(health));
        let live = Arc::new(Live {
            explainer: Arc::clone(&explainer),
            usage,
            webhooks: Arc::clone(&webhooks),
            draining: draining.clone(),
            started_at: clock.now_ms(),
        });
        if let Some(upkeep) = upkeep {
            tasks.spawn(upkeep.work(shutdown.clone()));
        }
        let id = format!("{instance:016x}");
        let bind = settings.bind.to_string();
        tasks.spawn(keeping::keep(id, bind, control.clone(), Arc::clone(&live), limits.shared, shutdown.clone()));
        tasks.spawn(webhooks.deliver(shutdown.clone()));
        tasks.spawn(Arc::clone(&gate).watch_streams(shutdown.clone()));
        Ok(Self {
            gate,
            engine,
            explainer,
            health,
            live,
            resource,
            settings_reload,
            control,
            clock,
            draining,
            shutdown,
            tasks,
        })
    }

    /// What the admin API works with.
    pub(crate) fn api(&self, settings: &Settings) -> Api {
        let live = Arc::clone(&self.live) as Arc<dyn LiveView>;
        Api::new(self.control.clone(), live, self.clock.clone(), settings.panel, self.draining.clone())
    }

    /// Ends the background work and closes the database.
    pub(crate) async fn close(self) {
        self.draining.cancel();
        let settled = async {
            while self.explainer.in_flight() > 0 {
                tokio::time::sleep(SETTLE_LOOK).await;
            }
        };
        if tokio::time::timeout(SETTLE, settled).await.is_err() {
            tracing::warn!(calls = self.explainer.in_flight(), "calls were cut off; they are not in the usage");
        }
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.control.close().await;
    }
}

/// What decides about calls, and the work that belongs to it.
async fn limit_engine(
    limiter: Limiter,
    clock: Option<quanta::Clock>,
    settings: &Settings,
    instance: u64,
) -> Result<(LimitEngine, Option<Upkeep>), SettingsError> {
    let Some(redis) = settings.redis()? else { return Ok((LimitEngine::in_memory(limiter), None)) };
    let keyspace = Keyspace::new(settings.redis_prefix.clone(), settings.redis_cluster);
    let (engine, upkeep) = LimitEngine::shared(limiter, SharedOptions { redis, keyspace, clock, instance }).await;
    Ok((engine, Some(upkeep)))
}

fn session_options(settings: &Settings) -> Option<SessionOptions> {
    match settings.sessions {
        SessionMode::Off => None,
        SessionMode::Memory => Some(SessionOptions {
            most_per_group: usize::try_from(settings.sessions_per_tenant).unwrap_or(usize::MAX),
            idle: settings.session_idle.0,
        }),
    }
}

/// The scopes that tools ask for, each once.
fn asked_scopes(policy: &PolicyStore) -> Box<[Arc<str>]> {
    let snapshot = policy.current();
    let asked: BTreeSet<&str> =
        snapshot.baseline.tools().flat_map(|(_, declaration)| declaration.scopes.iter().map(String::as_str)).collect();
    asked.into_iter().map(Arc::from).collect()
}

/// What every tool declares, by name in the registry's order.
pub(super) fn declarations(registry: &Registry) -> Vec<(String, DeclaredText)> {
    registry.iter().map(|(_, tool)| (tool.name().to_owned(), declared(tool))).collect()
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

/// Histograms collect what was recorded until somebody counts it.
async fn keep_up(telemetry: Arc<Telemetry>, shutdown: CancellationToken) {
    while tokio::time::timeout(UPKEEP_EVERY, shutdown.cancelled()).await.is_err() {
        telemetry.upkeep();
        process::upkeep();
    }
}

async fn sweep(limiter: Limiter, shutdown: CancellationToken) {
    while tokio::time::timeout(SWEEP_EVERY, shutdown.cancelled()).await.is_err() {
        limiter.sweep();
    }
}
