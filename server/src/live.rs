//! The control socket: how the command line, another process, asks the running server.
//!
//! A Unix socket in the data folder that only its owner may open. One JSON line is the question, one is the answer.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sluicegate_control::{Actor, Explanation, Question};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use crate::accept::ACCEPT_PAUSE;
use crate::policy::explain::Explainer;

/// The longest question.
const MAX_QUESTION: u64 = 64 * 1024;
/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);

/// What can be asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
enum Ask {
    /// Which limits hold, and how they stand.
    Explain(Question),
    /// Take over what has changed in the database now, and say at which revision the policy is.
    Reload,
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Explanation(Explanation),
    Revision(i64),
    Error(String),
}

/// Answers on `path` until `shutdown` is cancelled. A server that cannot open its socket serves without it.
pub(crate) async fn serve(path: PathBuf, explainer: Arc<Explainer>, shutdown: CancellationToken) {
    let listener = match listen(&path).await {
        Ok(listener) => listener,
        Err(error) => {
            let error = format!("{error:#}");
            tracing::warn!(error, "the control socket is not available: the command line cannot ask this server");
            return;
        }
    };
    loop {
        let stream = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection to the control socket could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let explainer = Arc::clone(&explainer);
        tokio::spawn(async move {
            match tokio::time::timeout(PATIENCE, answer(stream, &explainer)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::debug!(?error, "a question on the control socket was not answered");
                }
                Err(_) => tracing::debug!("a question on the control socket took too long"),
            }
        });
    }
    let _ = tokio::fs::remove_file(&path).await;
}

/// Opens the socket. One that nobody answers on any more is replaced; one that is in use is left alone.
async fn listen(path: &Path) -> anyhow::Result<UnixListener> {
    if UnixStream::connect(path).await.is_ok() {
        anyhow::bail!("another server uses the data folder of {}", path.display());
    }
    if path.exists() {
        tokio::fs::remove_file(path).await.with_context(|| format!("removing {}", path.display()))?;
    }
    let listener = UnixListener::bind(path).with_context(|| format!("opening {}", path.display()))?;
    tokio::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).await?;
    Ok(listener)
}

async fn answer(stream: UnixStream, explainer: &Explainer) -> anyhow::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    BufReader::new(reader.take(MAX_QUESTION)).read_line(&mut line).await?;
    // Whoever may open the socket may open the database file as well.
    let actor = Actor::cli("control-socket");
    let answer = match serde_json::from_str(&line) {
        Err(error) => Answer::Error(format!("not a question: {error}")),
        Ok(Ask::Explain(question)) => match explainer.explain(&actor, question).await {
            Ok(explanation) => Answer::Explanation(explanation),
            Err(error) => Answer::Error(error.to_string()),
        },
        Ok(Ask::Reload) => match explainer.policy.refresh().await {
            Ok(()) => Answer::Revision(explainer.policy.current().revision.get()),
            Err(error) => Answer::Error(error.to_string()),
        },
    };
    let mut text = serde_json::to_vec(&answer)?;
    text.push(b'\n');
    writer.write_all(&text).await?;
    Ok(())
}

/// Asks the running server to explain. `None` when no server runs on this data folder.
///
/// # Errors
/// What the server answered instead.
pub(crate) async fn explain(socket: &Path, question: Question) -> anyhow::Result<Option<Explanation>> {
    match ask(socket, &Ask::Explain(question)).await? {
        None => Ok(None),
        Some(Answer::Explanation(explanation)) => Ok(Some(explanation)),
        Some(Answer::Error(error)) => anyhow::bail!(error),
        Some(Answer::Revision(_)) => anyhow::bail!("the server answered another question"),
    }
}

/// Asks the running server to take over changes now, and gives the revision it is at. `None` when no server runs.
///
/// # Errors
/// What the server answered instead.
pub(crate) async fn reload(socket: &Path) -> anyhow::Result<Option<i64>> {
    match ask(socket, &Ask::Reload).await? {
        None => Ok(None),
        Some(Answer::Revision(revision)) => Ok(Some(revision)),
        Some(Answer::Error(error)) => anyhow::bail!(error),
        Some(Answer::Explanation(_)) => anyhow::bail!("the server answered another question"),
    }
}

async fn ask(socket: &Path, question: &Ask) -> anyhow::Result<Option<Answer>> {
    let Ok(stream) = UnixStream::connect(socket).await else { return Ok(None) };
    let exchange = async {
        let (reader, mut writer) = stream.into_split();
        let mut text = serde_json::to_vec(question)?;
        text.push(b'\n');
        writer.write_all(&text).await?;
        let mut line = String::new();
        BufReader::new(reader).read_line(&mut line).await?;
        anyhow::Ok(serde_json::from_str(&line)?)
    };
    tokio::time::timeout(PATIENCE, exchange)
        .await
        .context("the running server does not answer on its control socket")?
        .map(Some)
}
