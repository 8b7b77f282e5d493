//! The form that sets a limit: the same beside the heat map's drill-down, in the grid and in plans.

use serde::Deserialize;
use sluicegate_control::{
    ControlError, LimitEntry, LimitKind, LimitKindName, LimitValue, Mode, NewLimit, Period, Preview, Revision, Target,
};

use crate::Shared;
use crate::fault::Fault;
use crate::form::Errors;
use crate::markup;
use crate::page::Page;
use crate::visit::Visitor;

const HOUR_MS: i64 = 60 * 60 * 1_000;

/// The fields, as they are posted and as they are shown again.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Fields {
    /// The text of a [`Target`].
    pub(crate) target: String,
    /// `rate` or `concurrency`.
    pub(crate) kind: String,
    pub(crate) value: String,
    pub(crate) burst: String,
    pub(crate) algorithm: String,
    pub(crate) per: String,
    pub(crate) mode: String,
    /// Nothing for a lasting limit, a number of hours, `at` for the moment in `ends_at`, or `keep`.
    pub(crate) ends: String,
    pub(crate) ends_at: String,
    pub(crate) note: String,
    /// The revision of what was there when the form was shown.
    pub(crate) seen: i64,
    /// Where to go when it is saved.
    pub(crate) back: String,
}

/// The form with everything around its fields.
pub(crate) struct LimitForm {
    pub(crate) fields: Fields,
    pub(crate) errors: Errors,
    pub(crate) target: Target,
    /// What the target itself has now.
    pub(crate) present: Option<LimitEntry>,
    pub(crate) preview: Option<Preview>,
}

impl LimitForm {
    /// The form for a target, filled with what it has; where it has nothing, with `otherwise`.
    pub(crate) async fn of(
        panel: &Shared,
        visitor: &Visitor,
        target: Target,
        kind: LimitKindName,
        otherwise: &str,
        back: &str,
    ) -> Result<Self, Fault> {
        let entries = panel.control.limits().of(&visitor.actor, &target, kind).await?;
        let now = panel.clock.now_ms();
        let mut fields = Fields {
            target: target.to_string(),
            kind: kind.to_string(),
            value: otherwise.to_owned(),
            seen: newest(&entries),
            back: back.to_owned(),
            ..Fields::default()
        };
        let temporary = entries.iter().position(|entry| entry.expires_at.is_some() && entry.is_in_force(now));
        let present = temporary.or_else(|| entries.iter().position(|entry| entry.expires_at.is_none()));
        let present = present.map(|at| entries[at].clone());
        if let Some(entry) = &present {
            match &entry.kind {
                LimitKind::Concurrency { cap } => fields.value = cap.to_string(),
                LimitKind::Rate { quotas, burst, algorithm, per } => {
                    fields.value = quotas.to_string();
                    fields.burst = burst.map(|burst| burst.to_string()).unwrap_or_default();
                    fields.algorithm = algorithm.map(|algorithm| algorithm.to_string()).unwrap_or_default();
                    fields.per = per.map(|per| per.to_string()).unwrap_or_default();
                }
            }
            fields.mode = entry.mode.to_string();
            fields.note.clone_from(&entry.note);
            if let Some(end) = entry.expires_at {
                fields.ends = "at".to_owned();
                fields.ends_at = markup::input_time(end);
            }
        }
        Ok(Self { fields, errors: Errors::default(), target, present, preview: None })
    }

    /// The form as it was posted, with what the target has now.
    pub(crate) async fn again(
        panel: &Shared,
        visitor: &Visitor,
        fields: Fields,
        errors: Errors,
    ) -> Result<Self, Fault> {
        let target = read_target(&fields.target).ok_or_else(|| no_target(&fields.target))?;
        let kind = fields.kind_name();
        let back = fields.back.clone();
        let form = Self::of(panel, visitor, target, kind, "", &back).await?;
        Ok(Self { fields, errors, ..form })
    }

    /// The new limit with what it would have done to the calls of the last day.
    pub(crate) async fn with_preview(mut self, panel: &Shared, visitor: &Visitor) -> Result<Self, Fault> {
        if self.fields.value.trim().is_empty() {
            return Ok(self);
        }
        match self.fields.read(panel.clock.now_ms()) {
            Ok(new) => match panel.control.limits().preview(&visitor.actor, &new, Period::Day).await {
                Ok(preview) => self.preview = Some(preview),
                Err(error) => self.errors = errors_of(error)?,
            },
            Err(errors) => self.errors = errors,
        }
        Ok(self)
    }

    pub(crate) fn is_rate(&self) -> bool {
        self.fields.kind != "concurrency"
    }

    pub(crate) fn is_for_tool(&self) -> bool {
        self.target.tool().is_some()
    }

    /// Whether saving takes something away that would otherwise hold again.
    pub(crate) fn can_remove(&self) -> bool {
        self.present.is_some()
    }

    pub(crate) fn ends(&self, choice: &str) -> bool {
        self.fields.ends == choice
    }

    pub(crate) fn observes(&self) -> bool {
        self.fields.mode == "observe"
    }

    pub(crate) fn first_error(&self) -> &str {
        self.errors.first()
    }

    /// The sentence about what is there now.
    pub(crate) fn present_text(&self, p: &Page) -> String {
        match &self.present {
            Some(entry) => p.f2("limits.present", &entry.kind, &entry.updated_by),
            None => p.t("limits.present_none").to_owned(),
        }
    }
}

impl Fields {
    pub(crate) fn kind_name(&self) -> LimitKindName {
        if self.kind == "concurrency" { LimitKindName::Concurrency } else { LimitKindName::Rate }
    }

    /// The limit that the fields ask for, at a time in epoch milliseconds.
    pub(crate) fn read(&self, now_ms: i64) -> Result<NewLimit, Errors> {
        let mut errors = Errors::default();
        let Some(target) = read_target(&self.target) else {
            return Err(Errors::at("", no_target(&self.target).to_string()));
        };
        let value = match self.kind_name() {
            LimitKindName::Concurrency => LimitValue::Concurrency { cap: self.value.trim().to_owned() },
            LimitKindName::Rate => LimitValue::Rate {
                quotas: self.value.trim().to_owned(),
                burst: optional(&self.burst, "burst", &mut errors),
                algorithm: optional(&self.algorithm, "algorithm", &mut errors),
                per: optional(&self.per, "per", &mut errors).filter(|_| target.tool().is_some()),
            },
        };
        let expires_at = match self.ends.as_str() {
            "" => None,
            "at" => {
                let end = markup::read_input_time(&self.ends_at);
                if end.is_none() {
                    errors.add("ends_at", "2026-12-31T18:00");
                }
                end
            }
            hours => optional::<i64>(hours, "ends", &mut errors).map(|hours| now_ms + hours.clamp(1, 8_760) * HOUR_MS),
        };
        let mode = if self.mode == "observe" { Mode::Observe } else { Mode::Enforce };
        let note = self.note.trim().to_owned();
        if errors.is_empty() {
            return Ok(NewLimit { target, value, mode, expires_at, note, allow_unknown_tool: false });
        }
        Err(errors)
    }

    /// What was there when the form was shown.
    pub(crate) fn seen(&self, entries: &[LimitEntry]) -> Revision {
        let same = entries.iter().map(|entry| entry.revision).find(|revision| revision.get() == self.seen);
        same.unwrap_or(Revision::START)
    }
}

fn optional<T: std::str::FromStr>(text: &str, field: &'static str, errors: &mut Errors) -> Option<T>
where
    T::Err: std::fmt::Display,
{
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    text.parse().map_err(|error: T::Err| errors.add(field, format!("{text:?}: {error}"))).ok()
}

/// The newest revision among the entries of a target; 0 when there are none.
pub(crate) fn newest(entries: &[LimitEntry]) -> i64 {
    entries.iter().map(|entry| entry.revision.get()).max().unwrap_or_default()
}

/// The errors of a use case, at the fields of this form.
pub(crate) fn errors_of(error: ControlError) -> Result<Errors, Fault> {
    let errors = Errors::from_control(error)?;
    Ok(errors.renamed("rate", "value").renamed("concurrency", "value").renamed("expires_at", "ends_at"))
}

fn no_target(text: &str) -> ControlError {
    ControlError::NotFound { what: "limit target", name: text.to_owned() }
}

/// Reads the text that [`Target`] prints.
pub(crate) fn read_target(text: &str) -> Option<Target> {
    let (scope, rest) = text.split_once('/').unwrap_or((text, ""));
    // The tool comes last and may have slashes in it.
    let mut one = rest.splitn(2, '/');
    let mut two = rest.splitn(3, '/');
    Some(match scope {
        "server" if rest.is_empty() => Target::Server,
        "tenant" => Target::Tenant { tenant: rest.parse().ok()? },
        "agent" => Target::Agent { tenant: one.next()?.parse().ok()?, agent: one.next()?.parse().ok()? },
        "key" => Target::Key {
            tenant: two.next()?.parse().ok()?,
            agent: two.next()?.parse().ok()?,
            key: two.next()?.parse().ok()?,
        },
        "tool" if !rest.is_empty() => Target::Tool { tool: rest.to_owned() },
        "tenant_tool" => Target::TenantTool { tenant: one.next()?.parse().ok()?, tool: one.next()?.to_owned() },
        "agent_tool" => Target::AgentTool {
            tenant: two.next()?.parse().ok()?,
            agent: two.next()?.parse().ok()?,
            tool: two.next()?.to_owned(),
        },
        "plan" => Target::Plan { plan: rest.parse().ok()? },
        "plan_agent" => Target::PlanAgent { plan: rest.parse().ok()? },
        "plan_tool" => Target::PlanTool { plan: one.next()?.parse().ok()?, tool: one.next()?.to_owned() },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_reads_back_from_the_text_it_prints() {
        let (tenant, agent) = ("ten_0198f0c0a1b27c3d8e4f5a6b7c8d9e0f", "agt_0198f0c0a1b27c3d8e4f5a6b7c8d9e0f");
        let (key, plan) = ("key_0198f0c0a1b27c3d8e4f5a6b7c8d9e0f", "pln_0198f0c0a1b27c3d8e4f5a6b7c8d9e0f");
        for text in [
            "server".to_owned(),
            format!("tenant/{tenant}"),
            format!("agent/{tenant}/{agent}"),
            format!("key/{tenant}/{agent}/{key}"),
            "tool/files/read".to_owned(),
            format!("tenant_tool/{tenant}/files/read"),
            format!("agent_tool/{tenant}/{agent}/files/read"),
            format!("plan/{plan}"),
            format!("plan_agent/{plan}"),
            format!("plan_tool/{plan}/export"),
        ] {
            assert_eq!(read_target(&text).map(|target| target.to_string()), Some(text));
        }
    }

    #[test]
    fn what_is_no_target_is_refused() {
        for text in ["", "server/x", "tool/", "tenant/acme", "agent/ten_1", "galaxy/1"] {
            assert!(read_target(text).is_none(), "{text}");
        }
    }
}
