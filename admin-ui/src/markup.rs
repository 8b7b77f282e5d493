//! Small pieces of HTML that templates put in as they are: times, numbers, badges, bars.

use std::fmt::{self, Display, Write as _};

use askama::filters::HtmlSafe;
use time::OffsetDateTime;
use time::macros::format_description;

/// HTML that is safe already.
#[derive(Clone, Debug, Default)]
pub(crate) struct Markup(String);

impl Display for Markup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Markup {}

impl Markup {
    /// `html` must have no part that came from outside, or have it [escaped](escape).
    pub(crate) const fn trusted(html: String) -> Self {
        Self(html)
    }
}

/// A text inside HTML, in elements and in quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A part of a URL: everything but unreserved characters (RFC 3986, section 2.3) is encoded.
pub(crate) fn url_part(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// The numbers that templates show, by value and by reference. What is larger than `i64` is shown as its largest.
pub(crate) trait Whole {
    fn whole(self) -> i64;
}

macro_rules! whole {
    ($($number:ty),+) => {
        $(impl Whole for $number {
            fn whole(self) -> i64 {
                i64::try_from(self).unwrap_or(i64::MAX)
            }
        }

        impl Whole for &$number {
            fn whole(self) -> i64 {
                (*self).whole()
            }
        }

        impl Whole for &&$number {
            fn whole(self) -> i64 {
                (**self).whole()
            }
        })+
    };
}

whole!(i64, u64, usize, i32, u32);

/// A whole number with a comma between thousands.
pub(crate) fn thousands(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if number < 0 {
        text.push('−');
    }
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share of a whole in percent: `0%`, `0.4%`, `37%`. What is not nothing is not shown as nothing.
pub(crate) fn percent(part: i64, whole: i64) -> String {
    if whole <= 0 || part <= 0 {
        return "0%".to_owned();
    }
    let tenths = part.saturating_mul(1_000) / whole;
    match tenths {
        0 => "<0.1%".to_owned(),
        1..100 if tenths % 10 != 0 => format!("{}.{}%", tenths / 10, tenths % 10),
        _ => format!("{}%", thousands(tenths / 10)),
    }
}

/// A length of time as people say it: `340 µs`, `12 ms`, `1.5 s`, `4 min`, `2 h`, `3 d`.
pub(crate) fn duration(micros: i64) -> String {
    let micros = micros.max(0);
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..10_000_000 => format!("{}.{} s", micros / 1_000_000, micros % 1_000_000 / 100_000),
        10_000_000..120_000_000 => format!("{} s", micros / 1_000_000),
        120_000_000..7_200_000_000 => format!("{} min", micros / 60_000_000),
        7_200_000_000..172_800_000_000 => format!("{} h", micros / 3_600_000_000),
        _ => format!("{} d", thousands(micros / 86_400_000_000)),
    }
}

fn moment(ms: i64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000).ok()
}

/// A time for machines: RFC 3339 with whole seconds.
pub(crate) fn rfc3339(ms: i64) -> String {
    let form = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    moment(ms).and_then(|moment| moment.format(form).ok()).unwrap_or_default()
}

/// A time for people: `2026-11-30 10:38 UTC`.
pub(crate) fn utc(ms: i64) -> String {
    let form = format_description!("[year]-[month]-[day] [hour]:[minute] UTC");
    moment(ms).and_then(|moment| moment.format(form).ok()).unwrap_or_default()
}

/// A time to the second, for what happens many times a minute: `2026-11-30 10:38:12 UTC`.
pub(crate) fn utc_seconds(ms: i64) -> String {
    let form = format_description!("[year]-[month]-[day] [hour]:[minute]:[second] UTC");
    moment(ms).and_then(|moment| moment.format(form).ok()).unwrap_or_default()
}

/// The value of an `<input type="datetime-local">`, in UTC.
pub(crate) fn input_time(ms: i64) -> String {
    let form = format_description!("[year]-[month]-[day]T[hour]:[minute]");
    moment(ms).and_then(|moment| moment.format(form).ok()).unwrap_or_default()
}

/// Reads the value of an `<input type="datetime-local">` as UTC, into epoch milliseconds.
pub(crate) fn read_input_time(text: &str) -> Option<i64> {
    let long = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]");
    let short = format_description!("[year]-[month]-[day]T[hour]:[minute]");
    let parsed = time::PrimitiveDateTime::parse(text, long).or_else(|_| time::PrimitiveDateTime::parse(text, short));
    parsed.ok().map(|moment| moment.assume_utc().unix_timestamp() * 1_000)
}

/// A `<time>`: the script shows it in the reader's zone and keeps UTC in the title.
pub(crate) fn time_element(ms: i64, form: &str, shown: &str) -> Markup {
    Markup(format!(
        "<time datetime=\"{}\" data-form=\"{form}\" title=\"{}\">{}</time>",
        rfc3339(ms),
        utc(ms),
        escape(shown)
    ))
}

/// A bar as long as its share of the longest, without a judgement.
pub(crate) fn bar(part: i64, longest: i64) -> Markup {
    let share = if longest > 0 { (part.saturating_mul(100) / longest).clamp(0, 100) } else { 0 };
    Markup(format!(
        "<svg class=\"meter\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect width=\"{share}\" height=\"6\"/></svg>"
    ))
}

/// A bar of how much of a whole was refused, as hot as the map's cells. What is not nothing can be seen.
pub(crate) fn heat(part: i64, whole: i64) -> Markup {
    let share = if whole > 0 { (part.saturating_mul(100) / whole).clamp(i64::from(part > 0), 100) } else { 0 };
    Markup(format!(
        "<svg class=\"meter heat-bar\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect width=\"{share}\" height=\"6\"/></svg>"
    ))
}

/// A bar that is filled by `part` of `whole`.
pub(crate) fn meter(part: i64, whole: i64) -> Markup {
    let share = if whole > 0 { (part.saturating_mul(100) / whole).clamp(0, 100) } else { 0 };
    let class = match share {
        0..70 => "",
        70..95 => " warn",
        _ => " bad",
    };
    Markup(format!(
        "<svg class=\"meter{class}\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect width=\"{share}\" height=\"6\"/></svg>"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas_between_thousands() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(thousands(-45_000), "−45,000");
    }

    #[test]
    fn a_small_share_is_not_shown_as_nothing() {
        assert_eq!(percent(0, 10), "0%");
        assert_eq!(percent(1, 10_000), "<0.1%");
        assert_eq!(percent(4, 1_000), "0.4%");
        assert_eq!(percent(37, 100), "37%");
        assert_eq!(percent(5, 0), "0%");
    }

    #[test]
    fn times_are_written_and_read_in_utc() {
        let ms = 1_767_225_600_000;
        assert_eq!(rfc3339(ms), "2026-01-01T00:00:00Z");
        assert_eq!(utc(ms), "2026-01-01 00:00 UTC");
        assert_eq!(read_input_time(&input_time(ms)), Some(ms));
        assert_eq!(read_input_time("tomorrow"), None);
    }

    #[test]
    fn what_comes_from_outside_cannot_leave_its_place() {
        assert_eq!(escape("<a href=\"x\" onclick='y'>&"), "&lt;a href=&quot;x&quot; onclick=&#39;y&#39;&gt;&amp;");
        assert_eq!(url_part("a/b ?&=é"), "a%2Fb%20%3F%26%3D%C3%A9");
    }

    #[test]
    fn lengths_of_time_are_said_in_one_unit() {
        assert_eq!(duration(340), "340 µs");
        assert_eq!(duration(12_400), "12 ms");
        assert_eq!(duration(1_530_000), "1.5 s");
        assert_eq!(duration(300_000_000), "5 min");
    }
}
