//! Where settings come from, and how they are read from there: once at the start, and again when a file has changed.
//!
//! The environment of the process is fixed at the start; `.env` and the configuration file may change.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use figment::providers::{Format as _, Serialized, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use super::tool_limits::{PREFIX as LIMIT_PREFIX, VariableLimit};
use super::{Overrides, Provenance, SETTINGS, Settings, SettingsError};

/// The variables that start like a setting but are none.
const OTHER_VARIABLES: &[&str] = &["SLUICEGATE_API_KEY", "SLUICEGATE_CONFIG"];

/// All sources of a process.
#[derive(Clone)]
pub(crate) struct Origin {
    default_data: Option<PathBuf>,
    /// The configuration file, and whether it was named, so that it must exist.
    file: PathBuf,
    is_named: bool,
    dotenv: PathBuf,
    environment: Vec<(String, String)>,
    overrides: Overrides,
}

/// What a file looked like: when it was changed, and how long it was. `None` when there was none.
pub(crate) type Stamp = Option<(SystemTime, u64)>;

impl Origin {
    /// The sources of this process, with its environment as it is now.
    ///
    /// # Errors
    /// Names the variable that is no text.
    pub(super) fn new(
        config: Option<&Path>,
        overrides: &Overrides,
        default_data: Option<&Path>,
    ) -> Result<Self, SettingsError> {
        // The folder that the process is in may be another one later.
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self {
            default_data: default_data.map(Path::to_owned),
            file: absolute(config.unwrap_or(Path::new("sluicegate.toml"))),
            is_named: config.is_some(),
            dotenv: absolute(Path::new(".env")),
            environment: environment()?,
            overrides: overrides.clone(),
        })
    }

    /// Reads everything anew.
    ///
    /// # Errors
    /// Names the source, the setting and the value that cannot be used.
    pub(crate) fn read(&self) -> Result<Settings, SettingsError> {
        match std::fs::read(&self.file) {
            Ok(_) => {}
            Err(error) if !self.is_named && error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(SettingsError(format!("{} cannot be read: {error}", self.file.display()))),
        }
        let default_data = self.default_data.as_deref();
        let environment = self.environment.clone();
        let mut settings = read(default_data, &self.file, dotenv(&self.dotenv)?, environment, &self.overrides)?;
        settings.provenance.origin = Some(Arc::new(self.clone()));
        Ok(settings)
    }

    /// What the files look like now, to notice when they change.
    pub(crate) fn stamps(&self) -> [Stamp; 2] {
        [&self.file, &self.dotenv].map(|path| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        })
    }

    /// The files that may be read.
    pub(crate) fn files(&self) -> [&Path; 2] {
        [&self.file, &self.dotenv]
    }
}

pub(super) fn read(
    default_data: Option<&Path>,
    file: &Path,
    dotenv: impl IntoIterator<Item = (String, String)>,
    environment: impl IntoIterator<Item = (String, String)>,
    overrides: &Overrides,
) -> Result<Settings, SettingsError> {
    let default_data = Overrides { data: default_data.map(Path::to_owned), ..Overrides::default() };
    let (dotenv, environment) = (Variables::new(".env", dotenv)?, Variables::new("environment", environment)?);
    let tool_limits = [&dotenv, &environment].into_iter().flat_map(|source| source.limits.clone()).collect();
    let figment = Figment::from(Defaults)
        .merge(Named("program", Serialized::defaults(default_data)))
        .merge(Toml::file(file))
        .merge(dotenv)
        .merge(environment)
        .merge(Named("command line", Serialized::defaults(overrides)));
    let mut settings: Settings = figment.extract().map_err(|error| SettingsError::from(&error))?;
    let sources = SETTINGS.iter().filter_map(|setting| {
        let metadata = figment.find_metadata(setting.name)?;
        // A file is known by its name; figment calls it by its format.
        let file = metadata.source.as_ref().and_then(figment::Source::file_path).and_then(Path::file_name);
        let name = file.map_or_else(|| metadata.name.to_string(), |name| name.to_string_lossy().into_owned());
        Some((setting.name, name))
    });
    let values =
        SETTINGS.iter().filter_map(|setting| Some((setting.name, text(&figment.find_value(setting.name).ok()?))));
    let (sources, values) = (sources.collect(), values.collect());
    settings.provenance = Provenance { sources, values, tool_limits, origin: None };
    settings.check()?;
    Ok(settings)
}

/// A value as it would be written in `.env`.
fn text(value: &Value) -> String {
    let number = value.to_i128().map(|number| number.to_string());
    let text = value.as_str().map(str::to_owned).or_else(|| value.to_bool().map(|flag| flag.to_string()));
    text.or(number).unwrap_or_else(|| format!("{value:?}"))
}

/// A provider under the name that people know.
struct Named<P>(&'static str, P);

impl<P: Provider> Provider for Named<P> {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.0)
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        self.1.data()
    }
}

pub(super) struct Defaults;

impl Provider for Defaults {
    fn metadata(&self) -> Metadata {
        Metadata::named("default")
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let dict = SETTINGS.iter().map(|setting| (setting.name.to_owned(), setting.value(setting.default))).collect();
        Ok(Profile::Default.collect(dict))
    }
}

/// The pairs of a `.env` file, if there is one. Its lines may hold secrets, so errors do not repeat them.
pub(super) fn dotenv(path: &Path) -> Result<Vec<(String, String)>, SettingsError> {
    let unreadable = |error: &dotenvy::Error| match error {
        dotenvy::Error::LineParse(_, at) => {
            SettingsError(format!(".env: a value makes no sense from its character {at} on; quote values with spaces"))
        }
        error => SettingsError(format!(".env: {error}")),
    };
    match dotenvy::from_path_iter(path) {
        Ok(pairs) => pairs.collect::<Result<_, _>>().map_err(|error| unreadable(&error)),
        Err(error) if error.not_found() => Ok(Vec::new()),
        Err(error) => Err(unreadable(&error)),
    }
}

/// The variables of the process that are texts; of the others only ours matter.
fn environment() -> Result<Vec<(String, String)>, SettingsError> {
    let ours = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with("SLUICEGATE_"))?;
        Some((name, value))
    });
    ours.map(|(name, value)| match value.into_string() {
        Ok(value) => Ok((name, value)),
        Err(_) => Err(SettingsError(format!("{name} (environment) is not UTF-8"))),
    })
    .collect()
}

/// Variables of the form `SLUICEGATE_<SETTING>`, from `.env` or the process.
struct Variables {
    source: &'static str,
    values: Dict,
    limits: Vec<VariableLimit>,
}

impl Variables {
    /// Takes the settings among the pairs. One that only looks like a setting is an error: it was meant to be one.
    fn new(source: &'static str, pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, SettingsError> {
        let (mut values, mut limits) = (Dict::new(), Vec::new());
        for (variable, text) in pairs.into_iter().filter(|(name, _)| name.starts_with("SLUICEGATE_")) {
            if OTHER_VARIABLES.contains(&&*variable) || variable.starts_with("SLUICEGATE_TEST_") {
                continue;
            }
            if let Some(name) = variable.strip_prefix(LIMIT_PREFIX) {
                limits.push(VariableLimit::new(source, name, text));
                continue;
            }
            let setting = SETTINGS.iter().find(|setting| setting.variable() == variable);
            let setting = setting.ok_or_else(|| {
                SettingsError(format!("{variable} ({source}) is not a setting; .env.example lists all of them"))
            })?;
            values.insert(setting.name.to_owned(), setting.value(&text));
        }
        Ok(Self { source, values, limits })
    }
}

impl Provider for Variables {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.source)
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.values.clone()))
    }
}
