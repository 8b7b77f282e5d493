use super::*;

fn read(file: &str, dotenv: &[(&str, &str)], environment: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("sluicegate.toml");
    std::fs::write(&path, file).expect("the file is written");
    let owned =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<Vec<_>>();
    sources::read(None, &path, owned(dotenv), owned(environment), &Overrides::default())
}

#[test]
fn the_defaults_are_valid_and_pass_the_checks() {
    Settings::defaults().check().expect("the defaults hold together");
}

#[test]
fn later_sources_win() {
    let file = "limit_tenant = \"1/s\"\nlimit_agent = \"1/s\"\nlimit_tool = \"1/s\"";
    let dotenv = [("SLUICEGATE_LIMIT_AGENT", "2/s"), ("SLUICEGATE_LIMIT_TOOL", "2/s")];
    let settings = read(file, &dotenv, &[("SLUICEGATE_LIMIT_TOOL", "3/s")]).expect("all valid");
    assert_eq!((&*settings.limit_tenant, &*settings.limit_agent, &*settings.limit_tool), ("1/s", "2/s", "3/s"));
}

#[test]
fn a_wrong_value_is_refused_with_its_name_value_and_source() {
    let error = read("", &[], &[("SLUICEGATE_MAX_IN_FLIGHT", "many")]).expect_err("not a number").to_string();
    for part in ["max_in_flight", "many", "environment"] {
        assert!(error.contains(part), "{error}");
    }
    let error = read("call_timeout = \"5 parsecs\"", &[], &[]).expect_err("not a time").to_string();
    assert!(error.contains("call_timeout") && error.contains("5 parsecs"), "{error}");
}

#[test]
fn an_unknown_key_of_the_file_is_refused() {
    let error = read("limit_tennant = \"1/s\"", &[], &[]).expect_err("unknown").to_string();
    assert!(error.contains("limit_tennant"), "{error}");
}

#[test]
fn a_misspelt_variable_is_refused() {
    let error = read("", &[("SLUICEGATE_LIMIT_TENNANT", "1/s")], &[]).expect_err("unknown").to_string();
    assert!(error.contains("SLUICEGATE_LIMIT_TENNANT (.env)"), "{error}");
    read("", &[], &[("SLUICEGATE_API_KEY", "x"), ("OTHER", "y")]).expect("these are not meant to be settings");
}

#[test]
fn values_are_read_as_what_the_setting_is() {
    let environment = [
        ("SLUICEGATE_KEY_ENVIRONMENT", "1"),
        ("SLUICEGATE_DATA", "2024"),
        ("SLUICEGATE_RATE_LIMIT_ERROR_CODE", "-32023"),
        ("SLUICEGATE_RETRY_JITTER", "true"),
    ];
    let settings = read("", &[], &environment).expect("all valid");
    assert_eq!((&*settings.key_environment, settings.data.as_path()), ("1", Path::new("2024")));
    assert_eq!(settings.rate_limit_error_code, RefusalCode::Fixed(-32023));
    assert!(settings.retry_jitter);
    let error = read("", &[], &[("SLUICEGATE_BODY_TIMEOUT", "30")]).expect_err("no unit").to_string();
    assert!(error.contains("`30` is not a length of time"), "{error}");
}

#[test]
fn values_that_would_serve_nobody_are_refused() {
    for (variable, value) in [("SLUICEGATE_BODY_TIMEOUT", "0s"), ("SLUICEGATE_MAX_BODY_BYTES", "0")] {
        let error = read("", &[], &[(variable, value)]).expect_err("nobody").to_string();
        assert!(error.contains("would let nobody be served"), "{error}");
    }
}

#[test]
fn an_error_in_dotenv_does_not_repeat_the_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(".env");
    std::fs::write(&path, "SLUICEGATE_DATABASE_URL=postgres://u:hunter2@x y z\n").expect("the file is written");
    let error = sources::dotenv(&path).expect_err("unquoted spaces").to_string();
    assert!(error.contains("quote values") && !error.contains("hunter2"), "{error}");
    assert!(sources::dotenv(&folder.path().join("none")).expect("no file is no error").is_empty());
}

#[test]
fn strangers_are_not_let_in_by_accident() {
    let open = [("SLUICEGATE_AUTH", "none"), ("SLUICEGATE_BIND", "0.0.0.0:1")];
    let error = read("", &[], &open).expect_err("not a loopback address").to_string();
    assert!(error.contains("auth_none_anywhere"), "{error}");
    read("", &[("SLUICEGATE_AUTH_NONE_ANYWHERE", "true")], &open).expect("forced");
}

/// The methods by which some settings are read.
const ACCESSORS: &[(&str, &str)] = &[
    ("allowed_hosts", "hosts"),
    ("allowed_origins", "origins"),
    ("trusted_proxies", "proxies"),
    ("metrics_bind", "metrics_address"),
    ("database_url", "database"),
    ("auth_none_anywhere", "check"),
    ("public_url", "public_url"),
    ("failed_logins_per_address", "failures_per_address"),
    ("keep_usage_minutes", "keep"),
    ("keep_usage_hours", "keep"),
    ("keep_usage_days", "keep"),
    ("keep_events", "keep"),
    ("keep_events_most", "keep"),
    ("engine", "redis"),
    ("redis_url", "redis"),
    ("redis_timeout", "redis"),
];

#[test]
fn every_setting_is_used_by_something() {
    fn read(folder: &Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                read(&path, text);
            } else if !path.ends_with("tests.rs") {
                text.push_str(&std::fs::read_to_string(&path).expect("a text"));
            }
        }
    }
    let mut sources = String::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut sources);
    let uses = |of: &str, name: &str| {
        sources
            .split(&format!("{of}.{name}"))
            .skip(1)
            .any(|rest| !rest.starts_with(|c: char| c == '_' || c.is_alphanumeric()))
    };
    for setting in SETTINGS {
        let accessor = ACCESSORS.iter().find(|(name, _)| *name == setting.name).map(|(_, accessor)| *accessor);
        let used = match accessor {
            Some(accessor) => uses("self", setting.name) && uses("settings", accessor),
            None => uses("settings", setting.name),
        };
        assert!(used, "nothing reads the setting {}", setting.name);
    }
}

#[test]
fn env_example_lists_every_setting_with_its_default() {
    assert_generated("/../.env.example", |_| env_example());
}

#[test]
fn the_guide_lists_every_setting_with_its_default() {
    assert_generated("/../docs/configuration.md", |shipped| {
        let (before, rest) = shipped.split_once("<!-- settings -->\n").expect("a marker");
        let (_, after) = rest.split_once("<!-- end of settings -->").expect("a marker");
        format!("{before}<!-- settings -->\n{}<!-- end of settings -->{after}", configuration_table())
    });
}

/// A file that is made from the list of settings is as it would be made now.
fn assert_generated(path: &str, make: impl FnOnce(&str) -> String) {
    let path = format!("{}{path}", env!("CARGO_MANIFEST_DIR"));
    let shipped = std::fs::read_to_string(&path).expect("the file exists");
    let made = make(&shipped);
    if std::env::var_os("SLUICEGATE_TEST_BLESS").is_some() {
        std::fs::write(&path, &made).expect("the file is written");
    } else {
        let first = shipped.lines().zip(made.lines()).find(|(shipped, made)| shipped != made);
        assert!(
            shipped == made,
            "{path} is stale at {first:?}: run this test with SLUICEGATE_TEST_BLESS=1 to renew it"
        );
    }
}
