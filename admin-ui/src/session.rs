//! The panel's sessions, for what stands beside it: the admin API takes them as well.

use http::HeaderMap;
use secrecy::{ExposeSecret as _, SecretString};
use sluicegate_control::{AdminUser, Control, ControlError, SessionState, WallClock};
use tower_sessions::SessionStore as _;
use tower_sessions::session::Id;

pub use crate::same_origin::comes_from_here;
use crate::sessions::{COOKIE, Store};
use crate::visit::cookie;

/// Who has signed in with the session cookie that was sent, and the cookie's secret. This is a use of the session.
///
/// # Errors
/// `Database`.
pub async fn signed_in(
    control: &Control,
    clock: &WallClock,
    headers: &HeaderMap,
) -> Result<Option<(AdminUser, SecretString)>, ControlError> {
    let Some(id) = cookie(headers, COOKIE).and_then(|text| text.parse::<Id>().ok()) else { return Ok(None) };
    let secret = SecretString::from(id.to_string());
    let Some(user) = user(control, &secret).await? else { return Ok(None) };
    let store = Store::new(control.clone(), clock.clone());
    if let Err(error) = store.load(&id).await {
        tracing::warn!(%error, "the use of a session could not be noted");
    }
    Ok(Some((user, secret)))
}

/// Whether a session would still let somebody in. This is no use of it.
///
/// # Errors
/// `Database`.
pub async fn still_holds(control: &Control, secret: &SecretString) -> Result<bool, ControlError> {
    Ok(user(control, secret).await?.is_some())
}

async fn user(control: &Control, secret: &SecretString) -> Result<Option<AdminUser>, ControlError> {
    let found = control.sessions().load(secret.expose_secret()).await?;
    let Some(SessionState { user: Some(user), .. }) = found else { return Ok(None) };
    control.users().active(user).await
}
