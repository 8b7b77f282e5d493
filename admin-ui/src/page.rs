//! What every page knows: who looks at it, in which language, and what it says around its content.

use std::fmt::Display;

use sluicegate_control::{AgentLabel, Counts, Event, EventKind, KeyRecord, KeyStatus, Reach, Role};

use crate::assets;
use crate::icons;
use crate::language::Language;
use crate::markup::{self, Markup, Whole};
use crate::visit::Me;

/// How the panel looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Theme {
    /// As the reader's system.
    #[default]
    Auto,
    Light,
    Dark,
}

impl Theme {
    pub(crate) const ALL: [Self; 3] = [Self::Auto, Self::Light, Self::Dark];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.name() == name)
    }
}

/// A line that is shown once, after something was done.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Flash {
    /// `ok`, `warn` or `bad`.
    pub(crate) tone: String,
    pub(crate) text: String,
}

/// An entry of the navigation.
pub(crate) struct Place {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) path: &'static str,
    /// The key after `g` that goes there.
    pub(crate) key: &'static str,
    /// Whether an actor that is confined to a tenant has no use for it.
    global: bool,
}

impl Place {
    const fn new(name: &'static str, label: &'static str, path: &'static str, key: &'static str) -> Self {
        Self { name, label, path, key, global: false }
    }

    const fn global(self) -> Self {
        Self { global: true, ..self }
    }
}

const WATCH: &[Place] = &[
    Place::new("overview", "nav.overview", "/admin", "o"),
    Place::new("throttling", "nav.throttling", "/admin/throttling", "h"),
    Place::new("events", "nav.events", "/admin/events", "e"),
    Place::new("alerts", "nav.alerts", "/admin/alerts", "r"),
];

const MANAGE: &[Place] = &[
    Place::new("tenants", "nav.tenants", "/admin/tenants", "t"),
    Place::new("agents", "nav.agents", "/admin/agents", "a"),
    Place::new("limits", "nav.limits", "/admin/limits", "l"),
    Place::new("plans", "nav.plans", "/admin/plans", "p").global(),
    Place::new("tools", "nav.tools", "/admin/tools", "w"),
];

const ADMINISTER: &[Place] = &[
    Place::new("audit", "nav.audit", "/admin/audit", "u"),
    Place::new("people", "nav.people", "/admin/people", "m"),
    Place::new("system", "nav.system", "/admin/system", "s").global(),
];

/// The parts of the navigation with their headings.
const NAVIGATION: &[(&str, &[Place])] = &[("nav.watch", WATCH), ("nav.manage", MANAGE), ("nav.administer", ADMINISTER)];

/// What every page knows. Templates call it `p`.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) language: Language,
    pub(crate) theme: Theme,
    pub(crate) me: Option<Me>,
    pub(crate) flash: Option<Flash>,
    /// Epoch milliseconds.
    pub(crate) now: i64,
    /// The path and query of this page, to come back to.
    pub(crate) here: String,
    /// The entry of the navigation that it belongs to.
    pub(crate) section: &'static str,
}

impl Page {
    pub(crate) fn in_section(mut self, section: &'static str) -> Self {
        self.section = section;
        self
    }

    pub(crate) fn t(&self, key: &'static str) -> &'static str {
        self.language.text(key)
    }

    pub(crate) fn f1(&self, key: &'static str, a: impl Display) -> String {
        self.language.fill(key, &[&a])
    }

    pub(crate) fn f2(&self, key: &'static str, a: impl Display, b: impl Display) -> String {
        self.language.fill(key, &[&a, &b])
    }

    /// The text for a word of the program, such as `status` and `active`; the word itself where there is none.
    pub(crate) fn word(&self, group: &str, word: impl Display) -> String {
        let word = word.to_string();
        self.language.find(&format!("{group}.{word}")).map_or(word, str::to_owned)
    }

    pub(crate) fn icon(&self, name: &str) -> Markup {
        icons::icon(name)
    }

    pub(crate) fn asset(&self, name: &str) -> &'static str {
        assets::url(name)
    }

    pub(crate) fn num(&self, number: impl Whole) -> String {
        markup::thousands(number.whole())
    }

    pub(crate) fn percent(&self, part: impl Whole, whole: impl Whole) -> String {
        markup::percent(part.whole(), whole.whole())
    }

    pub(crate) fn meter(&self, part: impl Whole, whole: impl Whole) -> Markup {
        markup::meter(part.whole(), whole.whole())
    }

    pub(crate) fn heat(&self, part: impl Whole, whole: impl Whole) -> Markup {
        markup::heat(part.whole(), whole.whole())
    }

    pub(crate) fn bar(&self, part: impl Whole, longest: impl Whole) -> Markup {
        markup::bar(part.whole(), longest.whole())
    }

    pub(crate) fn millis(&self, ms: impl Whole) -> String {
        markup::duration(ms.whole().saturating_mul(1_000))
    }

    /// A moment with its date.
    pub(crate) fn time(&self, ms: &i64) -> Markup {
        markup::time_element(*ms, "full", &markup::utc(*ms))
    }

    /// A moment to the second.
    pub(crate) fn moment(&self, ms: &i64) -> Markup {
        markup::time_element(*ms, "seconds", &markup::utc_seconds(*ms))
    }

    /// A moment by its distance from now.
    pub(crate) fn ago(&self, ms: &i64) -> Markup {
        let distance = self.now - ms;
        let seconds = distance.unsigned_abs() / 1_000;
        let length = match seconds {
            0..5 if distance >= 0 => return markup::time_element(*ms, "ago", self.t("time.now")),
            0..90 => self.f1("time.seconds", seconds),
            90..5_400 => self.f1("time.minutes", seconds / 60),
            5_400..172_800 => self.f1("time.hours", seconds / 3_600),
            _ => self.f1("time.days", seconds / 86_400),
        };
        let key = if distance < 0 { "time.in" } else { "time.ago" };
        markup::time_element(*ms, "ago", &self.f1(key, length))
    }

    /// A coloured word. `tone` is `ok`, `warn`, `bad`, `info` or nothing; the text says it as well.
    pub(crate) fn badge(&self, tone: &str, text: impl Display) -> Markup {
        Markup::trusted(format!("<span class=\"badge {tone}\">{}</span>", markup::escape(&text.to_string())))
    }

    /// The badge of a tenant, an agent or a person.
    pub(crate) fn status(&self, status: &sluicegate_control::Status) -> Markup {
        let tone = if status.is_active() { "ok" } else { "bad" };
        self.badge(tone, self.word("status", status))
    }

    /// The parts of the navigation that this reader has a use for.
    pub(crate) fn navigation(&self) -> Vec<(&'static str, Vec<&'static Place>)> {
        let everywhere = self.is_global();
        let parts = NAVIGATION.iter().map(|(heading, places)| {
            (self.t(heading), places.iter().filter(|place| everywhere || !place.global).collect())
        });
        parts.collect()
    }

    /// The time that a share (in percent) of the served calls did not exceed.
    pub(crate) fn quantile(&self, counts: &Counts, percent: u8) -> String {
        match counts.latency_quantile_ms(f64::from(percent) / 100.0) {
            Some(ms) => markup::duration((ms * 1_000.0) as i64),
            None => "–".to_owned(),
        }
    }

    /// Whether a key opens anything, and whether it soon will not.
    pub(crate) fn key_status(&self, key: &KeyRecord) -> Markup {
        const SOON_MS: i64 = 14 * 24 * 60 * 60 * 1_000;
        let status = key.status(self.now);
        match status {
            KeyStatus::Active if key.expires_at.is_some_and(|end| end - self.now < SOON_MS) => {
                self.badge("warn", self.t("keys.expiring"))
            }
            KeyStatus::Active => self.badge("ok", self.word("status", status)),
            KeyStatus::Expired | KeyStatus::Revoked => self.badge("", self.word("status", status)),
        }
    }

    pub(crate) fn opens(&self, key: &KeyRecord) -> bool {
        key.status(self.now) == KeyStatus::Active
    }

    /// An agent with its tenant, as a link while both exist.
    pub(crate) fn caller_link(&self, caller: &AgentLabel) -> Markup {
        let name = self.caller(caller);
        match (&caller.tenant_slug, caller.agent) {
            (Some(tenant), Some(agent)) if caller.agent_name.is_some() => Markup::trusted(format!(
                "<a href=\"/admin/tenants/{tenant}/agents/{agent}\">{}</a><span class=\"sub\">{}</span>",
                markup::escape(&name),
                markup::escape(tenant),
            )),
            (tenant, _) => Markup::trusted(format!(
                "{}<span class=\"sub\">{}</span>",
                markup::escape(&name),
                markup::escape(tenant.as_deref().unwrap_or_default()),
            )),
        }
    }

    /// What to call whoever called.
    pub(crate) fn caller(&self, caller: &AgentLabel) -> String {
        match (&caller.agent_name, caller.agent) {
            (Some(name), _) => name.clone(),
            (None, Some(_)) => self.t("agents.deleted").to_owned(),
            (None, None) => self.t("agents.nobody").to_owned(),
        }
    }

    /// Whom an event is about, as a link while they exist.
    pub(crate) fn event_agent(&self, event: &Event) -> Markup {
        let caller = AgentLabel {
            tenant: event.tenant_id,
            tenant_slug: event.tenant_slug.clone(),
            agent: event.agent_id,
            agent_name: event.agent_name.clone(),
        };
        match event.kind {
            EventKind::State if event.agent_id.is_none() => Markup::default(),
            _ => self.caller_link(&caller),
        }
    }

    pub(crate) fn event_kind(&self, event: &Event) -> Markup {
        let tone = match event.kind {
            EventKind::Throttled => "warn",
            EventKind::Denied => "bad",
            EventKind::State => "info",
        };
        self.badge(tone, self.word("kind", event.kind))
    }

    /// A part of a URL.
    pub(crate) fn url(&self, text: &str) -> String {
        markup::url_part(text)
    }

    /// Whether the reader may change things.
    pub(crate) fn can_edit(&self) -> bool {
        self.me.as_ref().is_some_and(|me| me.role >= Role::Operator)
    }

    /// Whether the reader may change things in the whole server.
    pub(crate) fn can_edit_server(&self) -> bool {
        self.can_edit() && self.is_global()
    }

    /// Whether the reader may do everything, where their role holds.
    pub(crate) fn is_owner(&self) -> bool {
        self.me.as_ref().is_some_and(|me| me.role >= Role::Owner)
    }

    /// Whether the reader's role holds in the whole server.
    pub(crate) fn is_global(&self) -> bool {
        self.me.as_ref().is_some_and(|me| me.reach == Reach::Global)
    }

    pub(crate) fn themes(&self) -> [Theme; 3] {
        Theme::ALL
    }

    pub(crate) fn languages(&self) -> [Language; 2] {
        Language::ALL
    }
}
