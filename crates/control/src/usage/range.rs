//! Which time is asked about, and how finely it is counted.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use utoipa::ToSchema;

use crate::error::ControlError;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// How long one bucket of counts is. Days are those of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grain {
    /// One minute.
    Minute,
    /// One hour.
    Hour,
    /// One day.
    Day,
}

impl Grain {
    pub(crate) const ALL: [Self; 3] = [Self::Minute, Self::Hour, Self::Day];

    /// The length, in milliseconds.
    pub const fn ms(self) -> i64 {
        match self {
            Self::Minute => MINUTE,
            Self::Hour => HOUR,
            Self::Day => DAY,
        }
    }

    /// When the bucket that holds a moment begins, both in epoch milliseconds.
    pub const fn bucket_of(self, at: i64) -> i64 {
        at - at.rem_euclid(self.ms())
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// The lengths of time that pages offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub enum Period {
    /// 15 minutes.
    #[serde(rename = "15m")]
    QuarterHour,
    /// One hour.
    #[default]
    #[serde(rename = "1h")]
    Hour,
    /// Six hours.
    #[serde(rename = "6h")]
    SixHours,
    /// 24 hours.
    #[serde(rename = "24h")]
    Day,
    /// Seven days.
    #[serde(rename = "7d")]
    Week,
    /// 30 days.
    #[serde(rename = "30d")]
    Month,
}

impl Period {
    /// All of them, shortest first.
    pub const ALL: [Self; 6] = [Self::QuarterHour, Self::Hour, Self::SixHours, Self::Day, Self::Week, Self::Month];

    /// The text, as it stands in URLs: `15m`, `1h`, `6h`, `24h`, `7d`, `30d`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QuarterHour => "15m",
            Self::Hour => "1h",
            Self::SixHours => "6h",
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Month => "30d",
        }
    }

    /// The length, in milliseconds.
    pub const fn ms(self) -> i64 {
        match self {
            Self::QuarterHour => 15 * MINUTE,
            Self::Hour => HOUR,
            Self::SixHours => 6 * HOUR,
            Self::Day => DAY,
            Self::Week => 7 * DAY,
            Self::Month => 30 * DAY,
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Period {
    type Err = ControlError;

    fn from_str(text: &str) -> Result<Self, ControlError> {
        Self::ALL.into_iter().find(|period| period.as_str() == text).ok_or_else(|| {
            let message = format!("range {text:?} is none of 15m, 1h, 6h, 24h, 7d and 30d");
            ControlError::invalid("range", text, &message)
        })
    }
}

/// A stretch of whole buckets.
///
/// A chart has finer buckets than what is added up is read from, so that it shows more than a few points and a page reads
/// few rows. Both have the same ends, so they agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct UsageRange {
    from: i64,
    to: i64,
    grain: Grain,
    #[serde(skip)]
    rows: Grain,
}

/// Up to which length, in milliseconds, a chart and what is added up are read from which table.
const TABLES: [(i64, Grain, Grain); 4] = [
    (HOUR, Grain::Minute, Grain::Minute),
    (6 * HOUR, Grain::Minute, Grain::Hour),
    (2 * DAY, Grain::Hour, Grain::Hour),
    (8 * DAY, Grain::Hour, Grain::Day),
];

const MOST: i64 = 400 * DAY;

impl UsageRange {
    /// The last `period` up to now, the bucket that is still being filled included.
    pub fn last(period: Period, now_ms: i64) -> Self {
        let (grain, rows) = Self::tables(period.ms());
        let to = rows.bucket_of(now_ms) + rows.ms();
        Self { from: to - period.ms(), to, grain, rows }
    }

    /// From a moment up to another, both in epoch milliseconds, widened to whole buckets.
    ///
    /// # Errors
    /// `Invalid` when it ends before it begins, or is longer than 400 days.
    pub fn between(from: i64, to: i64) -> Result<Self, ControlError> {
        if to <= from {
            return Err(ControlError::invalid("to", &to, &format!("the range must end after it begins, at {from}")));
        }
        if to.saturating_sub(from) > MOST {
            return Err(ControlError::invalid("from", &from, &"the range must not be longer than 400 days"));
        }
        let (grain, rows) = Self::tables(to - from);
        Ok(Self { from: rows.bucket_of(from), to: rows.bucket_of(to - 1) + rows.ms(), grain, rows })
    }

    fn tables(length: i64) -> (Grain, Grain) {
        let fits = TABLES.into_iter().find(|(most, ..)| length <= *most);
        fits.map_or((Grain::Day, Grain::Day), |(_, grain, rows)| (grain, rows))
    }

    /// The range of the same length that ends where this one begins.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self { from: 2 * self.from - self.to, to: self.from, ..self }
    }

    /// When it begins, in epoch milliseconds.
    pub const fn from(self) -> i64 {
        self.from
    }

    /// When it ends, in epoch milliseconds; that moment is not part of it.
    pub const fn to(self) -> i64 {
        self.to
    }

    /// How long the buckets of a chart are.
    pub const fn grain(self) -> Grain {
        self.grain
    }

    /// Which table is added up.
    pub(crate) const fn rows(self) -> Grain {
        self.rows
    }

    /// When each bucket of a chart begins.
    pub fn buckets(self) -> impl ExactSizeIterator<Item = i64> {
        let step = self.grain.ms();
        let count = usize::try_from((self.to - self.from) / step).unwrap_or_default();
        (0..count).map(move |number| self.from + number as i64 * step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_period_reads_a_few_hundred_buckets_at_most_and_holds_the_present() {
        let now = 1_767_225_634_567;
        for period in Period::ALL {
            let range = UsageRange::last(period, now);
            assert!(range.from() <= now && now < range.to(), "{period}");
            assert!((15..=360).contains(&range.buckets().len()), "{period}");
            assert_eq!(range.to() - range.from(), period.ms(), "{period}");
            assert_eq!((range.from() % range.rows().ms(), range.to() % range.rows().ms()), (0, 0), "{period}");
            assert_eq!(range.previous().to(), range.from());
            assert_eq!(period.to_string().parse::<Period>().expect("reads back"), period);
        }
    }

    #[test]
    fn a_range_of_ones_own_is_widened_to_whole_buckets() {
        let range = UsageRange::between(90_000, 150_001).expect("a range");
        assert_eq!((range.from(), range.to(), range.grain()), (60_000, 180_000, Grain::Minute));
        let range = UsageRange::between(HOUR + 1, 5 * HOUR + 1).expect("a range");
        assert_eq!((range.from(), range.to()), (HOUR, 6 * HOUR));
        assert_eq!(range.buckets().len(), 300);
        assert!(UsageRange::between(5, 5).is_err());
        assert!(UsageRange::between(0, MOST + 1).is_err());
    }
}
