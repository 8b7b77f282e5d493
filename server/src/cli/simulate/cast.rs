//! Who takes part in a rehearsal: agents that are made for it, or those whose keys the operator gives.

use std::path::Path;

use anyhow::Context as _;
use rand::RngExt as _;
use secrecy::SecretString;
use sluicegate_control::{Environment, KeyScopes, NewKey, TenantId, TenantRef, WallClock};

use super::super::Desk;

/// How many of the well-behaved agents share the tenant of the runaway, and how many each other tenant has.
const OF_ONE_TENANT: usize = 3;
/// Keys end by themselves should nobody be left to take them away.
const KEYS_END_AFTER_MS: i64 = 60 * 60 * 1_000;

/// Everybody in a rehearsal.
pub(super) struct Cast {
    pub(super) runaway: Member,
    pub(super) good: Vec<Member>,
    /// What was made for it.
    tenants: Vec<TenantId>,
}

/// One agent.
pub(super) struct Member {
    /// The tenant's slug, and the agent's name in it.
    pub(super) name: String,
    /// Whether it is of the runaway's tenant; `None` where that is not known.
    pub(super) beside_the_runaway: Option<bool>,
    pub(super) key: SecretString,
}

impl Cast {
    /// The owners of the keys in a file, whoever they are.
    pub(super) fn from_file(file: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
        let mut keys = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let member = |name: String, key: &str| Member { name, beside_the_runaway: None, key: key.to_owned().into() };
        let runaway = keys.next().map(|key| member("key 1".to_owned(), key));
        let good: Vec<_> = (2..).zip(keys).map(|(at, key)| member(format!("key {at}"), key)).collect();
        match runaway {
            Some(runaway) if !good.is_empty() => Ok(Self { runaway, good, tenants: Vec::new() }),
            _ => anyhow::bail!("{} needs two keys or more: the runaway's, and those of the others", file.display()),
        }
    }

    /// Makes tenants, agents and keys.
    pub(super) async fn hire(desk: &Desk, good: u16) -> anyhow::Result<Self> {
        let id: u32 = rand::rng().random();
        let mut cast = Self {
            runaway: Member { name: String::new(), beside_the_runaway: Some(true), key: String::new().into() },
            good: Vec::new(),
            tenants: Vec::new(),
        };
        let hired = cast.hire_all(desk, id, usize::from(good)).await;
        if let Err(error) = hired {
            cast.dismiss(desk).await?;
            return Err(error);
        }
        desk.tell_server().await;
        Ok(cast)
    }

    async fn hire_all(&mut self, desk: &Desk, id: u32, good: usize) -> anyhow::Result<()> {
        for at in 0..good {
            let beside = at < OF_ONE_TENANT;
            let slug = format!("rehearsal-{id:08x}-{}", at / OF_ONE_TENANT + 1);
            if at.is_multiple_of(OF_ONE_TENANT) {
                let tenant = desk.control.tenants().create(&desk.actor, &slug, "Rehearsal (simulate)").await?;
                self.tenants.push(tenant.id);
            }
            let name = format!("good-{}", at + 1);
            let key = hire_one(desk, &slug, &name).await?;
            self.good.push(Member { name: format!("{slug}/{name}"), beside_the_runaway: Some(beside), key });
        }
        let slug = format!("rehearsal-{id:08x}-1");
        let key = hire_one(desk, &slug, "runaway").await?;
        self.runaway = Member { name: format!("{slug}/runaway"), beside_the_runaway: Some(true), key };
        Ok(())
    }

    /// The tenants that were made for it; none where the keys came from a file.
    pub(super) fn tenants(&self) -> &[TenantId] {
        &self.tenants
    }

    /// Deletes what was made.
    pub(super) async fn dismiss(&self, desk: &Desk) -> anyhow::Result<()> {
        for tenant in &self.tenants {
            desk.control.tenants().delete(&desk.actor, &TenantRef::Id(*tenant)).await?;
        }
        if !self.tenants.is_empty() {
            desk.tell_server().await;
        }
        Ok(())
    }
}

async fn hire_one(desk: &Desk, tenant: &str, name: &str) -> anyhow::Result<SecretString> {
    let tenant = TenantRef::from(tenant);
    let environment: Environment = desk.settings.key_environment.parse()?;
    desk.control.agents().create(&desk.actor, &tenant, name).await?;
    let expires_at = Some(WallClock::system().now_ms() + KEYS_END_AFTER_MS);
    let new = NewKey { environment, scopes: KeyScopes::all(), expires_at, ..NewKey::named("simulate") };
    let minted = desk.control.keys().create(&desk.actor, &tenant, &name.into(), new).await?;
    Ok(minted.key.expose().to_owned().into())
}
