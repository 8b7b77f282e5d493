use super::*;
use crate::declared::DeclaredText;
use crate::settings::{Overrides, sources};

const DECLARED: &str = r#"{"rate_limit":["5/min"],"concurrency":3}"#;

fn tools(names: &[&str]) -> Vec<(Box<str>, Declaration)> {
    let declared = || serde_json::from_str::<DeclaredText>(DECLARED).expect("a declaration").read().expect("limits");
    names.iter().map(|name| ((*name).into(), declared())).collect()
}

fn resolved(
    file: &str,
    dotenv: &[(&str, &str)],
    environment: &[(&str, &str)],
    names: &[&str],
) -> Result<Vec<Configured>, SettingsError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("sluicegate.toml");
    std::fs::write(&path, file).expect("the file is written");
    let owned = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect::<Vec<_>>()
    };
    let settings = sources::read(None, &path, owned(dotenv), owned(environment), &Overrides::default())?;
    resolve(&settings, &tools(names))
}

/// The first rate of the first tool, with its burst and its setting.
fn rate(configured: &[Configured]) -> (String, u64, String) {
    let (rates, by) = configured[0].rates.as_ref().expect("a rate");
    (rates[0].quota().to_string(), rates[0].capacity(), by.to_string())
}

#[test]
fn a_variable_sets_the_limit_of_the_tool_that_it_names() {
    for variable in
        ["SLUICEGATE_LIMIT__EXPORT_CSV", "SLUICEGATE_LIMIT__TOOL__EXPORT_CSV", "SLUICEGATE_LIMIT__export_csv"]
    {
        let configured = resolved("", &[(variable, "2/min")], &[], &["export.csv", "echo"]).expect("it is understood");
        assert_eq!(rate(&configured), ("2/min".to_owned(), 2, format!("{variable} (.env)")));
        assert_eq!(configured[1], Configured::default());
    }
}

#[test]
fn burst_and_concurrency_have_variables_of_their_own() {
    let variables = [("SLUICEGATE_LIMIT__EXPORT__BURST", "9"), ("SLUICEGATE_LIMIT__EXPORT__CONCURRENCY", "7")];
    let configured = resolved("", &variables, &[], &["export"]).expect("they are understood");
    assert_eq!(rate(&configured), ("5/min".to_owned(), 9, "SLUICEGATE_LIMIT__EXPORT__BURST (.env)".to_owned()));
    assert_eq!(configured[0].concurrency.as_ref().map(|(cap, _)| cap.get()), Some(7));
}

#[test]
fn what_becomes_of_calls_in_an_outage_is_said_in_the_file_or_by_a_variable() {
    let file = "[limits.export]\non_outage = \"open\"";
    let of =
        |environment: &[_]| resolved(file, &[], environment, &["export"]).expect("they are understood")[0].on_outage;
    assert_eq!(of(&[]), Some(OnOutage::Open));
    assert_eq!(of(&[("SLUICEGATE_LIMIT__EXPORT__ON_OUTAGE", "closed")]), Some(OnOutage::Closed));
}

#[test]
fn the_environment_wins_over_dotenv_and_that_over_the_file() {
    let file = "[limits.export]\nrate = \"1/min\"\nburst = 4\nconcurrency = 1";
    let of =
        |dotenv: &[_], environment: &[_]| rate(&resolved(file, dotenv, environment, &["export"]).expect("all valid"));
    assert_eq!(of(&[], &[]), ("1/min".to_owned(), 4, "limits.export.rate (sluicegate.toml)".to_owned()));
    let (dotenv, environment) = ([("SLUICEGATE_LIMIT__EXPORT", "2/min")], [("SLUICEGATE_LIMIT__EXPORT", "3/min")]);
    assert_eq!(of(&dotenv, &[]).0, "2/min");
    let (quota, burst, by) = of(&dotenv, &environment);
    assert_eq!((&*quota, burst, &*by), ("3/min", 4, "SLUICEGATE_LIMIT__EXPORT (environment)"));
}

#[test]
fn what_means_no_tool_or_several_or_no_limit_is_refused_with_its_name() {
    for (variable, text, names, part) in [
        ("SLUICEGATE_LIMIT__EXPROT", "2/min", &["export"][..], "the tools are EXPORT"),
        ("SLUICEGATE_LIMIT__EXPORT_CSV", "2/min", &["export.csv", "export_csv"], "`export.csv` and"),
        ("SLUICEGATE_LIMIT__EXPORT__BURST", "2", &["export", "export__burst"], "may mean"),
        ("SLUICEGATE_LIMIT__EXPORT", "2/mn", &["export"], "unknown unit `mn`"),
        ("SLUICEGATE_LIMIT__EXPORT__BURST", "many", &["export"], "`many`"),
        ("SLUICEGATE_LIMIT__EXPORT__CONCURRENCY", "0", &["export"], "0"),
        ("SLUICEGATE_LIMIT__EXPORT__ON_OUTAGE", "close", &["export"], "did you mean `closed`?"),
    ] {
        let error = resolved("", &[(variable, text)], &[], names).expect_err(variable).to_string();
        assert!(error.starts_with(&format!("{variable} (.env)")) && error.contains(part), "{error}");
    }
    let error = resolved("[limits.exprot]\nrate = \"1/s\"", &[], &[], &["export"]).expect_err("misspelt").to_string();
    assert!(error.contains("limits.exprot"), "{error}");
}
