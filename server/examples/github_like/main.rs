//! Tools over a flaky service: `SLUICEGATE_AUTH=none cargo run --example github_like`, then call them as it says.
//!
//! The service runs on loopback, in the same process. See docs/resilience.md for what the tools do about it.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::Arc;

use sluicegate::{BoxError, Ready, Server};

use self::github::{GitHub, Weather};
use self::tools::Issues;

mod github;
#[cfg(test)]
mod tests;
mod tools;

/// Every fourth request goes wrong.
const WEATHER: [Weather; 20] = {
    use Weather::{Cut, Down, Fine, Hanging, Reset, Throttled};
    [
        Fine, Fine, Down, Fine, Fine, Fine, Reset, Fine, Fine, Fine, Fine, Throttled, Fine, Fine, Fine, Cut, Fine,
        Fine, Hanging, Fine,
    ]
};

fn main() -> Result<ExitCode, BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let url = format!("http://{}/issues", listener.local_addr()?);
    let folder = std::env::temp_dir().join(format!("sluicegate-github-like-{}", std::process::id()));
    let server = Server::new("github-like").tools(Issues::new(url, tools::options()?)?).default_data(folder);
    let ready = |ready: Ready| async move {
        let github = Arc::new(GitHub::new(20, WEATHER));
        tokio::spawn(github.serve(tokio::net::TcpListener::from_std(listener)?));
        greet(&ready.endpoint)?;
        Ok(())
    };
    Ok(server.on_ready(ready).run())
}

fn greet(endpoint: &str) -> std::io::Result<()> {
    let call = |tool: &str, arguments: &str| {
        format!(
            "curl -s {endpoint} -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \\\n  \
             -d '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\"arguments\":{arguments}}}}}'; echo"
        )
    };
    let text = format!(
        "\n# open issues and list them; some calls take longer, because the service fails now and then:\n\
         for i in 1 2 3 4 5 6 7 8 9; do {}; done\n{}\n",
        call("open_issue", r#"{"title":"it rains"}"#),
        call("list_issues", "{}"),
    );
    std::io::stdout().lock().write_all(text.as_bytes())
}
