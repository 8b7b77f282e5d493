//! The rules of the house that no compiler knows: which crate may use which, and how the tree looks.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Who may use whom inside the house; everything else is forbidden. See docs/ARCHITECTURE.md.
const ARROWS: &[(&str, &[&str])] = &[
    ("sluicegate-limits", &[]),
    ("sluicegate-macros", &["sluicegate-limits"]),
    ("sluicegate-mcp", &[]),
    ("sluicegate-control", &["sluicegate-limits"]),
    ("sluicegate-resilience", &["sluicegate-mcp"]),
    ("sluicegate-admin-ui", &["sluicegate-control"]),
    (
        "sluicegate",
        &[
            "sluicegate-limits",
            "sluicegate-macros",
            "sluicegate-mcp",
            "sluicegate-control",
            "sluicegate-resilience",
            "sluicegate-admin-ui",
        ],
    ),
];

/// Crates from outside that only some of ours may use.
const KEPT_BACK: &[(&str, &[&str])] = &[
    ("sqlx", &["sluicegate-control"]),
    ("axum", &["sluicegate-mcp", "sluicegate-admin-ui", "sluicegate"]),
    ("rmcp", &["sluicegate-mcp", "sluicegate-resilience"]),
    ("redis", &["sluicegate"]),
    ("tokio", &["sluicegate-mcp", "sluicegate-control", "sluicegate-resilience", "sluicegate-admin-ui", "sluicegate"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// Every package that is published, with the names that it depends on, for building and running.
fn packages() -> Vec<(String, Vec<String>)> {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
    let name = |value: &Value| value["name"].as_str().expect("a name").to_owned();
    // What is not published exists for tests, which may use all of the house.
    let published =
        metadata["packages"].as_array().expect("packages").iter().filter(|package| package["publish"].is_null());
    let packages = published.map(|package| {
        let dependencies = package["dependencies"].as_array().expect("dependencies").iter();
        let used = dependencies.filter(|dependency| dependency["kind"] != "dev");
        (name(package), used.map(name).collect())
    });
    packages.collect()
}

#[test]
fn crates_of_the_house_use_only_what_the_arrows_allow() {
    for (package, dependencies) in packages() {
        let allowed = ARROWS.iter().find(|(name, _)| *name == package);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("{package} is not in the list of arrows"));
        for dependency in dependencies.iter().filter(|name| name.starts_with("sluicegate")) {
            assert!(allowed.contains(&&**dependency), "{package} may not use {dependency}");
        }
    }
}

#[test]
fn databases_http_and_the_protocol_stay_where_they_belong() {
    for (package, dependencies) in packages() {
        for (kept_back, allowed) in KEPT_BACK {
            let uses = dependencies.iter().any(|dependency| dependency == kept_back);
            assert!(!uses || allowed.contains(&&*package), "{package} may not use {kept_back}");
        }
    }
}

/// Every Rust file of the house, tests and examples included.
fn sources() -> Vec<PathBuf> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    for folder in ["admin-ui", "crates", "server", "tests"] {
        collect(&root().join(folder), &mut found);
    }
    found.retain(|path| !path.components().any(|part| part.as_os_str() == "target"));
    found
}

#[test]
fn files_have_one_subject_and_modules_have_names() {
    for path in sources() {
        let shown = path.strip_prefix(root()).expect("inside").display();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        assert!(!["mod", "utils", "util", "helpers", "common", "misc", "manager"].contains(&stem), "{shown}");
        let text = std::fs::read_to_string(&path).expect("a text");
        let code = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count();
        assert!(code <= 550, "{shown} has {code} lines without its tests and asks to be split");
    }
}

/// The methods of rmcp's handler trait, from its source.
fn methods_of_rmcp() -> Vec<String> {
    // Dependencies of other platforms need not be here.
    let version = Command::new(env!("CARGO")).args(["version", "--verbose"]).output().expect("cargo runs");
    let version = String::from_utf8(version.stdout).expect("text");
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("a platform");
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--filter-platform", host])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
    let rmcp = metadata["packages"].as_array().expect("packages").iter().find(|package| package["name"] == "rmcp");
    let manifest = rmcp.and_then(|rmcp| rmcp["manifest_path"].as_str()).expect("rmcp is used");
    let source = Path::new(manifest).with_file_name("src").join("handler/server.rs");
    let source = std::fs::read_to_string(source).expect("the source of rmcp");
    let (_, methods) = source.split_once("macro_rules! server_handler_methods").expect("the trait's methods");
    let (methods, _) = methods.split_once("pub trait ServerHandler").expect("the trait");
    let names = methods.lines().filter_map(|line| line.trim().strip_prefix("fn ")?.split_once('('));
    names.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn the_wrapper_of_rmcp_handlers_forwards_every_method() {
    let wrapper = std::fs::read_to_string(root().join("crates/mcp/src/handler.rs")).expect("the wrapper");
    let forwarded = |name: &str| {
        wrapper.lines().any(|line| {
            let line = line.trim().trim_start_matches("async ").trim_start_matches("fn ");
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with('('))
        })
    };
    let methods = methods_of_rmcp();
    assert!(methods.len() >= 32, "{methods:?}");
    for method in methods {
        assert!(forwarded(&method), "rmcp has `{method}`: forward it in crates/mcp/src/handler.rs");
    }
}

#[test]
fn three_lines_put_a_stock_rmcp_server_behind_the_gate() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("a text");
    let (before, after) = (read("server/examples/rmcp_wrap/stock.rs"), read("server/examples/rmcp_wrap/main.rs"));
    let only_in = |one: &str, other: &str| -> Vec<String> {
        let lines = one.lines().filter(|line| !other.lines().any(|theirs| theirs == *line));
        lines.map(str::to_owned).collect()
    };
    let (added, removed) = (only_in(&after, &before), only_in(&before, &after));
    assert_eq!(added.len(), 3, "{added:?}");
    let shown = read("docs/rmcp.md");
    for line in added.iter().map(|line| format!("+{line}")).chain(removed.iter().map(|line| format!("-{line}"))) {
        assert!(shown.lines().any(|shown| shown == line), "docs/rmcp.md does not show {line}");
    }
}

#[test]
fn nothing_is_left_for_later() {
    // Put together here so that this file does not find itself.
    let markers = [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["XX", "X:"].concat(), ["for ", "now"].concat()];
    for path in sources() {
        let text = std::fs::read_to_string(&path).expect("a text");
        for marker in &markers {
            assert!(!text.contains(marker), "{} says {marker}", path.display());
        }
    }
}
