use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::*;

fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
}

/// Everything in quotes that looks like a key, in templates and in code.
fn keys_in_use() -> BTreeSet<String> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    files(&crate_folder.join("templates"), "html", &mut sources);
    files(&crate_folder.join("src"), "rs", &mut sources);
    let mut keys = BTreeSet::new();
    for source in sources.iter().filter(|path| !path.ends_with("language/tests.rs")) {
        let text = std::fs::read_to_string(source).expect("a text");
        keys.extend(text.split('"').filter(|piece| looks_like_a_key(piece)).map(str::to_owned));
    }
    keys
}

fn looks_like_a_key(text: &str) -> bool {
    let known = |part: &str| ENGLISH.keys().any(|key| key.split('.').next() == Some(part));
    let is_file = [".json", ".csv", ".html"].iter().any(|ending| text.ends_with(ending));
    let mut parts = text.split('.');
    let plain =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    !is_file && parts.clone().count() == 2 && parts.clone().all(plain) && parts.next().is_some_and(known)
}

#[test]
fn every_text_is_there_in_every_language() {
    let used = keys_in_use();
    for language in Language::ALL {
        let missing: Vec<_> = used.iter().filter(|key| language.find(key).is_none()).collect();
        assert!(missing.is_empty(), "{} lacks {missing:?}", language.tag());
    }
    let english: BTreeSet<_> = ENGLISH.keys().collect();
    let japanese: BTreeSet<_> = JAPANESE.keys().collect();
    assert_eq!(english, japanese, "the catalogues have different keys");
}

#[test]
fn no_text_is_left_that_nobody_shows() {
    let used = keys_in_use();
    // Keys that are put together from a word of the program.
    let made = [
        "action.",
        "role.",
        "status.",
        "scope.",
        "kind.",
        "outcome.",
        "range.",
        "rule.",
        "theme.",
        "target.",
        "per.",
        "role_text.",
        "sort.",
    ];
    let unused: BTreeSet<_> =
        ENGLISH.keys().filter(|key| !used.contains(**key) && !made.iter().any(|made| key.starts_with(made))).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn a_text_has_the_same_places_in_every_language() {
    let places =
        |text: &str| -> BTreeSet<usize> { (0..6).filter(|place| text.contains(&format!("{{{place}}}"))).collect() };
    for (key, text) in ENGLISH.iter() {
        assert_eq!(places(text), places(JAPANESE[key]), "{key}");
    }
}

#[test]
fn no_key_stands_twice_in_a_catalogue() {
    for text in [include_str!("../../locales/en.txt"), include_str!("../../locales/ja.txt")] {
        let mut seen = BTreeSet::new();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (key, _) = line.split_once(" = ").unwrap_or_else(|| panic!("{line:?} is no entry"));
            assert!(seen.insert(key.trim()), "{key} stands twice");
        }
    }
}

#[test]
fn values_are_put_in_where_the_text_says() {
    let filled = Filled { text: "{1} of {0}, {x} {", values: &[&"a", &7] };
    assert_eq!(filled.to_string(), "7 of a, {x} {");
}

#[test]
fn the_browsers_first_language_that_there_is_wins() {
    let preferred = |text: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_LANGUAGE, http::HeaderValue::from_static(text));
        Language::preferred(&headers)
    };
    assert_eq!(preferred("ja-JP,ja;q=0.9,en;q=0.8"), Language::Japanese);
    assert_eq!(preferred("de,en-GB;q=0.7,ja;q=0.3"), Language::English);
    assert_eq!(preferred("tlh"), Language::English);
}
