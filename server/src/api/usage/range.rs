//! Which time is asked about.

use sluicegate_control::{Period, UsageRange};

use crate::api::Api;
use crate::api::problem::{Kind, Problem};

/// The last time up to now, or from a moment up to another.
pub(super) fn read(range: Option<&str>, from: Option<i64>, to: Option<i64>, api: &Api) -> Result<UsageRange, Problem> {
    let malformed = |pointer: &str, detail: &str| Err(Problem::at(Kind::Malformed, pointer, detail));
    match (range, from, to) {
        (Some(_), Some(_), _) | (Some(_), _, Some(_)) => malformed("?range", "Name `range`, or `from` and `to`."),
        (None, Some(_), None) => malformed("?to", "`from` needs `to`."),
        (None, None, Some(_)) => malformed("?from", "`to` needs `from`."),
        (None, Some(from), Some(to)) => {
            // What is counted lies between these, and arithmetic on days stays within its type.
            const EARLIEST: i64 = 0;
            const LATEST: i64 = 253_402_300_799_999;
            for (pointer, moment) in [("?from", from), ("?to", to)] {
                if !(EARLIEST..=LATEST).contains(&moment) {
                    return malformed(pointer, "A time must lie between the years 1970 and 9999, in milliseconds.");
                }
            }
            Ok(UsageRange::between(from, to)?)
        }
        (range, None, None) => {
            let period = range.map(str::parse).transpose()?.unwrap_or(Period::Hour);
            Ok(UsageRange::last(period, api.clock.now_ms()))
        }
    }
}
