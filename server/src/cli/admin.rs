//! `admin add-user|list-users|reset-password|token|list-tokens|revoke-token`.

use std::io::BufRead as _;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use rand::RngExt as _;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use sluicegate_control::{
    AdminToken, AdminTokenId, AdminUser, MintedToken, NewToken, NewUser, Role, TenantRef, UserRef, WallClock,
};

use super::Desk;
use super::output::{optional_time, time};
use crate::pages;
use crate::settings::Span;

/// Who administers: people and the tokens of programs.
#[derive(Debug, Subcommand)]
pub(crate) enum Admin {
    /// Add somebody who may sign in to the panel.
    AddUser(AddUser),
    /// List the people who may sign in.
    ListUsers,
    /// Give somebody a new password, and end their sessions.
    ResetPassword {
        /// Their name or id.
        user: String,
        #[command(flatten)]
        password: Password,
    },
    /// Make a token for the admin API; it is printed once.
    Token(AddToken),
    /// List the tokens.
    ListTokens,
    /// End a token now.
    RevokeToken {
        /// Its id.
        token: AdminTokenId,
    },
}

/// Where a password comes from.
#[derive(Debug, Args)]
pub(crate) struct Password {
    /// Read the password from a line of standard input. Otherwise one is made up, and printed once.
    #[arg(long)]
    password_stdin: bool,
}

/// `admin add-user`.
#[derive(Debug, Args)]
pub(crate) struct AddUser {
    /// The name to sign in with.
    name: String,
    /// What they may do: `viewer`, `operator` or `owner`.
    #[arg(long, default_value = "operator")]
    role: Role,
    /// The tenant inside which they may do it; the whole server without one.
    #[arg(long)]
    tenant: Option<String>,
    #[command(flatten)]
    password: Password,
}

/// `admin token`.
#[derive(Debug, Args)]
pub(crate) struct AddToken {
    /// What it is for.
    name: String,
    /// What may be done with it: `viewer`, `operator` or `owner`.
    #[arg(long, default_value = "operator")]
    role: Role,
    /// The tenant inside which that may be done; the whole server without one.
    #[arg(long)]
    tenant: Option<String>,
    /// When it ends by itself: `30d`, `12h`.
    #[arg(long, value_name = "TIME")]
    expires_in: Option<Span>,
}

impl Admin {
    pub(crate) async fn run(self, desk: &Desk) -> anyhow::Result<()> {
        let (users, tokens) = (desk.control.users(), desk.control.admin_tokens());
        match self {
            Self::AddUser(AddUser { name, role, tenant, password }) => {
                let made_up = password.get()?;
                let tenant = tenant.as_deref().map(TenantRef::from);
                let new = NewUser { name, password: made_up.text.clone(), role, tenant };
                let user = users.create(&desk.actor, new).await?;
                print_user(desk, &user, &made_up, "added")
            }
            Self::ResetPassword { user, password } => {
                let made_up = password.get()?;
                let user = users.reset_password(&desk.actor, &UserRef::from(user.as_str()), &made_up.text).await?;
                print_user(desk, &user, &made_up, "has a new password")
            }
            Self::ListUsers => {
                let found = pages::all(async |page| users.list(&desk.actor, page).await).await?;
                desk.output.list(&found, ["NAME", "ROLE", "TENANT", "STATUS", "LAST LOGIN"], |user: &AdminUser| {
                    let tenant = user.tenant_id.map_or_else(|| "-".to_owned(), String::from);
                    let (role, status) = (user.role.to_string(), user.status.to_string());
                    [user.name.clone(), role, tenant, status, optional_time(user.last_login_at)]
                })
            }
            Self::Token(AddToken { name, role, tenant, expires_in }) => {
                let expires_at = expires_in.map(|Span(length)| {
                    WallClock::system().now_ms().saturating_add(i64::try_from(length.as_millis()).unwrap_or(i64::MAX))
                });
                let new = NewToken { name, role, tenant: tenant.as_deref().map(TenantRef::from), expires_at };
                print_token(desk, &tokens.create(&desk.actor, new).await?)
            }
            Self::ListTokens => {
                let found = pages::all(async |page| tokens.list(&desk.actor, page).await).await?;
                let now_ms = WallClock::system().now_ms();
                let headings = ["ID", "NAME", "ROLE", "STATUS", "CREATED", "EXPIRES", "LAST USED"];
                desk.output.list(&found, headings, |token: &AdminToken| {
                    [
                        token.id.to_string(),
                        token.name.clone(),
                        token.role.to_string(),
                        token.status(now_ms).to_string(),
                        time(token.created_at),
                        optional_time(token.expires_at),
                        optional_time(token.last_used_at),
                    ]
                })
            }
            Self::RevokeToken { token } => {
                let record = tokens.revoke(&desk.actor, token).await?;
                desk.output.result(&record, || format!("token {} revoked", record.id))
            }
        }
    }
}

/// A password, and whether it has to be shown because nobody knows it yet.
struct Chosen {
    text: SecretString,
    made_up: bool,
}

impl Password {
    fn get(&self) -> anyhow::Result<Chosen> {
        if !self.password_stdin {
            const LETTERS: &[u8; 54] = b"abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456";
            let mut rng = rand::rng();
            let text: String = (0..24).map(|_| char::from(LETTERS[rng.random_range(0..LETTERS.len())])).collect();
            return Ok(Chosen { text: text.into(), made_up: true });
        }
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).context("reading the password from standard input")?;
        let text = line.trim_end_matches(['\r', '\n']).to_owned();
        Ok(Chosen { text: text.into(), made_up: false })
    }
}

/// The only time that a password that was made up is printed.
fn print_user(desk: &Desk, user: &AdminUser, password: &Chosen, done: &str) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Printed<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        password: Option<&'a str>,
        #[serde(flatten)]
        user: &'a AdminUser,
    }
    let shown = password.made_up.then(|| password.text.expose_secret());
    desk.output.result(&Printed { password: shown, user }, || match shown {
        Some(password) => format!("{password}\n\nuser {} {done}: keep it now, it is not shown again", user.name),
        None => format!("user {} {done}", user.name),
    })
}

/// The only time that a token's text is printed.
fn print_token(desk: &Desk, MintedToken { token, record }: &MintedToken) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Printed<'a> {
        token: &'a str,
        #[serde(flatten)]
        record: &'a AdminToken,
    }
    let printed = Printed { token: token.expose(), record };
    desk.output
        .result(&printed, || format!("{}\n\ntoken {}: keep it now, it is not shown again", token.expose(), record.id))
}
