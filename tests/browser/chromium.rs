//! A chromedriver and a Chromium of one test, both gone when the test is.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::process::Stdio;
use std::time::Duration;

use fantoccini::ClientBuilder;
use fantoccini::wd::Capabilities;
use futures::FutureExt as _;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::json;
use sluicegate_tests::TestServer;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::browser::Browser;

/// The variable that turns a skipped test into a failed one.
const STRICT: &str = "SLUICEGATE_TEST_STRICT";

/// Whether the browser runs scripts of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scripts {
    On,
    Off,
}

/// Whether tests that cannot run may be skipped. Says on standard error what is missing.
pub(crate) fn skip(missing: &str) {
    assert!(std::env::var_os(STRICT).is_none(), "{missing}, and {STRICT} forbids to skip");
    let _ = writeln!(std::io::stderr(), "skipped: {missing}");
}

/// Runs a test in a browser of its own. However the test ends, the browser is closed.
pub(crate) async fn in_chromium(server: &TestServer, scripts: Scripts, test: impl AsyncFnOnce(&Browser)) {
    let Some((mut driver, port)) = start_driver().await else {
        return skip("chromedriver is not installed");
    };
    let connected = ClientBuilder::new(HttpConnector::new())
        .capabilities(capabilities(scripts))
        .connect(&format!("http://127.0.0.1:{port}"))
        .await;
    let client = connected.expect("Chromium starts");
    let session = client.session_id().await.expect("the driver answers").expect("a session");
    let driven = format!("http://127.0.0.1:{port}/session/{session}");
    let browser = Browser::new(client.clone(), driven, format!("http://{}", server.address()), scripts);
    let test = async {
        test(&browser).await;
        browser.assert_quiet().await;
    };
    let ended = AssertUnwindSafe(test).catch_unwind().await;
    if ended.is_err() {
        browser.tell_where_it_stands().await;
    }
    // The driver takes its browser with it only when the session is closed.
    let closed = client.close().await;
    driver.kill().await.expect("the driver ends");
    ended.unwrap_or_else(|panic| resume_unwind(panic));
    closed.expect("Chromium ends");
}

/// Starts chromedriver on a free port; `None` where it is not installed.
async fn start_driver() -> Option<(Child, u16)> {
    let mut command = Command::new("chromedriver");
    command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut driver = match command.spawn() {
        Ok(driver) => driver,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("chromedriver does not start: {error}"),
    };
    let mut lines = BufReader::new(driver.stdout.take().expect("an output")).lines();
    let port = async {
        while let Some(line) = lines.next_line().await.expect("a line") {
            if let Some((_, port)) = line.split_once("successfully on port ") {
                return port.trim_end_matches('.').parse().expect("a port");
            }
        }
        panic!("chromedriver ended without a port");
    };
    let port = tokio::time::timeout(Duration::from_secs(20), port).await.expect("chromedriver says its port");
    // Whoever stops reading stops the writer.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Some((driver, port))
}

fn capabilities(scripts: Scripts) -> Capabilities {
    let arguments = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        "--force-prefers-reduced-motion",
        "--hide-scrollbars",
        "--lang=en-US",
        "--window-size=1280,900",
    ];
    let scripts = if scripts == Scripts::On { 1 } else { 2 };
    let capabilities = json!({
        "goog:loggingPrefs": { "browser": "ALL" },
        "goog:chromeOptions": {
            "args": arguments,
            "prefs": {
                "profile.default_content_setting_values.javascript": scripts,
                "intl.accept_languages": "en-US,en",
                "credentials_enable_service": false,
            },
        },
    });
    let serde_json::Value::Object(capabilities) = capabilities else { unreachable!("it is an object") };
    capabilities
}
