//! What the script answers.

use redis::Value;
use sluicegate_limits::{RefusedRule, RuleRef, RuleSet, Rules, Standing, Wait};

/// The decision about one call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All rates and caps were charged.
    Admitted { nearest: Option<Standing>, would_throttle: RuleSet },
    /// None was. Caps come without a wait.
    Refused { by: Vec<RefusedRule>, would_throttle: RuleSet },
}

/// How a rule stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) rule: RuleRef,
    pub(super) used: u64,
    /// How long a call would have to wait, of a rate.
    pub(super) wait: u64,
}

/// An answer that is none: of another version of the script, or of something that is no Redis.
#[derive(Debug, thiserror::Error)]
#[error("not an answer of the script: {0:?}")]
pub(super) struct NoVerdict(Value);

impl Verdict {
    /// Reads the answer to `admit` about a call of `rules`.
    pub(super) fn read(answer: Value, rules: &Rules, tick: u64) -> Result<Self, NoVerdict> {
        numbers(&answer).and_then(|numbers| Self::of(&numbers, rules, tick)).ok_or(NoVerdict(answer))
    }

    fn of(numbers: &[u64], rules: &Rules, tick: u64) -> Option<Self> {
        let observing =
            |rest: &[u64]| rest.iter().try_fold(RuleSet::default(), |all, index| Some(all.with(rate(*index, rules)?)));
        match numbers {
            [1, nearest, used, reset, rest @ ..] => {
                let nearest = match *nearest {
                    NONE => None,
                    index => {
                        let rule = rate(index, rules)?;
                        let limit = rules.rates()[usize::try_from(index).ok()?].limit.capacity();
                        let (remaining, reset) = (limit.saturating_sub(*used), Wait::exact(reset.saturating_mul(tick)));
                        Some(Standing { rule, limit, used: *used, remaining, reset })
                    }
                };
                Some(Self::Admitted { nearest, would_throttle: observing(rest)? })
            }
            [0, caps, rates, rest @ ..] => {
                let (caps, rest) = rest.split_at_checked(usize::try_from(*caps).ok()?.checked_mul(2)?)?;
                let (rates, rest) = rest.split_at_checked(usize::try_from(*rates).ok()?.checked_mul(3)?)?;
                let caps = caps
                    .chunks_exact(2)
                    .map(|one| Some(RefusedRule { rule: cap(one[0], rules)?, used: one[1], wait: None }));
                let rates = rates.chunks_exact(3).map(|one| {
                    let wait = Some(Wait::exact(one[2].saturating_mul(tick)));
                    Some(RefusedRule { rule: rate(one[0], rules)?, used: one[1], wait })
                });
                let by: Vec<_> = caps.chain(rates).collect::<Option<_>>()?;
                (!by.is_empty()).then_some(Self::Refused { by, would_throttle: observing(rest)? })
            }
            _ => None,
        }
    }
}

/// Reads the answer to `look` about a call of `rules`, of which `caps` were asked about.
pub(super) fn read_look(answer: Value, rules: &Rules, caps: &[u8], tick: u64) -> Result<Vec<Look>, NoVerdict> {
    let looks = numbers(&answer).and_then(|numbers| {
        let (used, rates) = numbers.split_at_checked(caps.len())?;
        let caps = caps
            .iter()
            .zip(used)
            .map(|(index, used)| Some(Look { rule: cap(u64::from(*index), rules)?, used: *used, wait: 0 }));
        let rates = rates.chunks(3).map(|one| {
            let [index, used, wait] = one else { return None };
            Some(Look { rule: rate(*index, rules)?, used: *used, wait: wait.saturating_mul(tick) })
        });
        caps.chain(rates).collect()
    });
    looks.ok_or(NoVerdict(answer))
}

fn rate(index: u64, rules: &Rules) -> Option<RuleRef> {
    let index = u8::try_from(index).ok()?;
    rules.rates().get(usize::from(index)).map(|_| RuleRef::Rate(index))
}

fn cap(index: u64, rules: &Rules) -> Option<RuleRef> {
    let index = u8::try_from(index).ok()?;
    rules.caps().get(usize::from(index)).map(|_| RuleRef::Cap(index))
}

/// Stands for no rate.
const NONE: u64 = u64::MAX;

fn numbers(answer: &Value) -> Option<Vec<u64>> {
    let Value::Array(values) = answer else { return None };
    let number = |value: &Value| match value {
        Value::Int(-1) => Some(NONE),
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    values.iter().map(number).collect()
}
