//! Passwords, and what is kept of them.

use std::sync::LazyLock;

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Semaphore;

use crate::error::ControlError;

/// The fewest characters of a password (NIST SP 800-63B-4 asks for 15 where it is the only factor, 8 otherwise).
const SHORTEST: usize = 12;
/// The most bytes, so that nobody makes the server hash a book.
const LONGEST: usize = 256;

/// How many passwords are hashed at a time: each takes 19 MiB.
static AT_A_TIME: Semaphore = Semaphore::const_new(2);

/// What a password is compared with where there is no such user, so that both take as long.
static NOBODYS: LazyLock<String> = LazyLock::new(|| compute("a password that nobody has").unwrap_or_default());

pub(super) fn check(password: &SecretString) -> Result<(), ControlError> {
    let password = password.expose_secret();
    let message = if password.chars().count() < SHORTEST {
        format!("a password must have at least {SHORTEST} characters")
    } else if password.len() > LONGEST {
        format!("a password must have at most {LONGEST} bytes")
    } else {
        return Ok(());
    };
    Err(ControlError::invalid("password", "", &message))
}

/// Argon2id with a random salt, as a PHC string.
pub(super) async fn hash(password: &SecretString) -> Result<String, ControlError> {
    let password = password.clone();
    off_the_runtime(move || compute(password.expose_secret())).await?.ok_or_else(unavailable)
}

/// Whether this is the password of the hash; takes as long when there is none.
pub(super) async fn verify(password: &SecretString, hash: Option<String>) -> Result<bool, ControlError> {
    if password.expose_secret().len() > LONGEST {
        return Ok(false);
    }
    let password = password.clone();
    off_the_runtime(move || {
        let expected = hash.as_deref().unwrap_or(&NOBODYS);
        let matches = Argon2::default().verify_password(password.expose_secret().as_bytes(), expected).is_ok();
        matches && hash.is_some()
    })
    .await
}

fn compute(password: &str) -> Option<String> {
    Argon2::default().hash_password(password.as_bytes()).ok().map(|hash| hash.to_string())
}

async fn off_the_runtime<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ControlError> {
    let _turn = AT_A_TIME.acquire().await.map_err(|_| unavailable())?;
    tokio::task::spawn_blocking(work).await.map_err(|_| unavailable())
}

fn unavailable() -> ControlError {
    ControlError::Conflict("the password could not be hashed: try again".to_owned())
}
