//! Styles and scripts: part of the program, served under names that change with their content.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use sha2::{Digest, Sha256};

/// One file, under the name that pages link to.
struct Asset {
    name: &'static str,
    kind: &'static str,
    body: &'static [u8],
    url: String,
}

const CSS: &str = concat!(
    include_str!("../assets/css/1-tokens.css"),
    include_str!("../assets/css/2-base.css"),
    include_str!("../assets/css/3-layout.css"),
    include_str!("../assets/css/4-components.css"),
    include_str!("../assets/css/5-heat.css"),
);

const SCRIPT: &str = "text/javascript; charset=utf-8";

static ASSETS: LazyLock<[Asset; 4]> = LazyLock::new(|| {
    [
        Asset::new("panel.css", "text/css; charset=utf-8", CSS.as_bytes()),
        Asset::new("panel.js", SCRIPT, include_bytes!("../assets/app.js")),
        Asset::new("htmx.js", SCRIPT, include_bytes!("../assets/vendor/htmx.min.js")),
        Asset::new("icon.svg", "image/svg+xml", include_bytes!("../assets/favicon.svg")),
    ]
});

impl Asset {
    fn new(name: &'static str, kind: &'static str, body: &'static [u8]) -> Self {
        let hash = hex::encode(&Sha256::digest(body)[..6]);
        Self { name, kind, body, url: format!("/admin/assets/{hash}/{name}") }
    }
}

/// Where a file is served. Its content never changes under this address.
///
/// # Panics
/// For a name that is not in the list, which every page's test would show.
pub(crate) fn url(name: &str) -> &'static str {
    let asset = ASSETS.iter().find(|asset| asset.name == name);
    asset.map(|asset| asset.url.as_str()).unwrap_or_else(|| panic!("there is no asset {name:?}"))
}

/// `GET /admin/assets/{hash}/{name}`
pub(crate) async fn serve(Path((hash, name)): Path<(String, String)>) -> Response {
    let wanted = format!("/admin/assets/{hash}/{name}");
    let Some(asset) = ASSETS.iter().find(|asset| asset.url == wanted) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(asset.kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
    ];
    (headers, asset.body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendored_files_are_what_the_lock_says() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let lock = std::fs::read_to_string(folder.join("vendor.lock")).expect("the lock");
        let mut listed = Vec::new();
        for line in lock.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let fields: Vec<_> = line.split('|').map(str::trim).collect();
            let [file, _package, _version, _path, licence, hash] = fields[..] else { panic!("{line}") };
            let body = std::fs::read(folder.join(file)).expect("the file");
            assert_eq!(hex::encode(Sha256::digest(body)), hash, "{file} was changed");
            assert!(!licence.is_empty());
            listed.push(file.to_owned());
        }
        for entry in std::fs::read_dir(folder.join("vendor")).expect("the folder") {
            let name = entry.expect("an entry").file_name().into_string().expect("a name");
            assert!(
                name.ends_with(".LICENSE") || listed.contains(&format!("vendor/{name}")),
                "{name} is not in vendor.lock"
            );
        }
    }

    #[test]
    fn styles_name_no_other_host_and_no_inline_script_is_needed() {
        assert!(!CSS.contains("http:") && !CSS.contains("https:") && !CSS.contains("@import"));
    }
}
