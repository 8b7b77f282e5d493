use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn error(text: &str) -> QuotaError {
    text.parse::<Quota>().expect_err(text)
}

#[test]
fn every_unit_and_every_spelling_is_understood() {
    for (text, count, window_ms, canonical) in [
        ("100/min", 100, 60_000, "100/min"),
        ("10/s", 10, 1_000, "10/s"),
        ("5000/day", 5_000, 86_400_000, "5000/d"),
        ("100/60s", 100, 60_000, "100/min"),
        ("1_000/h", 1_000, 3_600_000, "1000/h"),
        ("7/250ms", 7, 250, "7/250ms"),
        ("1/sec", 1, 1_000, "1/s"),
        ("1/second", 1, 1_000, "1/s"),
        ("1/2seconds", 1, 2_000, "1/2s"),
        ("1/m", 1, 60_000, "1/min"),
        ("1/minute", 1, 60_000, "1/min"),
        ("1/90minutes", 1, 5_400_000, "1/90min"),
        ("1/hr", 1, 3_600_000, "1/h"),
        ("1/24hours", 1, 86_400_000, "1/d"),
        ("1/hour", 1, 3_600_000, "1/h"),
        ("1/366days", 1, 366 * 86_400_000, "1/366d"),
        (" 3 / 90 s ", 3, 90_000, "3/90s"),
        ("1000000000/s", 1_000_000_000, 1_000, "1000000000/s"),
    ] {
        let quota: Quota = text.parse().expect(text);
        assert_eq!((quota.count(), quota.window()), (count, Duration::from_millis(window_ms)), "{text}");
        assert_eq!(quota.to_string(), canonical, "{text}");
    }
}

#[test]
fn an_error_names_the_offending_part_and_points_at_it() {
    use QuotaErrorKind::*;
    for (text, kind, part) in [
        ("", Empty, ""),
        ("  ", Empty, ""),
        ("100", NoWindow, "100"),
        ("/min", BadCount, "/min"),
        ("ten/min", BadCount, "ten"),
        ("-5/min", BadCount, "-5"),
        ("1.5/min", BadCount, "1.5"),
        ("_1/min", BadCount, "_1"),
        ("1_/min", BadCount, "1_"),
        ("+1/min", BadCount, "+1"),
        ("0/min", ZeroCount, "0"),
        ("00/min", ZeroCount, "00"),
        ("99999999999999999999/min", TooFast, "99999999999999999999"),
        ("1000000001/s", TooFast, "1000000001/s"),
        ("1000001/ms", TooFast, "1000001/ms"),
        ("5/", NoUnit, "5/"),
        ("5/10", NoUnit, "10"),
        ("5/0s", BadWindow, "0"),
        ("5/1.5s", BadWindow, "1.5"),
        ("5/-1s", BadWindow, "-1"),
        ("5/mn", UnknownUnit, "mn"),
        ("5/min/s", UnknownUnit, "min/s"),
        ("5/ß", UnknownUnit, "ß"),
        ("5/367d", WindowOutOfRange, "367d"),
        ("5/99999999999999999999d", WindowOutOfRange, "99999999999999999999d"),
        ("5/18446744073709551615d", WindowOutOfRange, "18446744073709551615d"),
    ] {
        let error = error(text);
        assert_eq!((error.kind(), &text[error.span()]), (kind, part), "{text}: {error}");
        assert!(error.to_string().contains(&format!("in `{text}`: ")), "{error}");
    }
}

#[test]
fn errors_read_well() {
    for (text, message) in [
        ("100/mn", "unknown unit `mn` in `100/mn`: use ms, s, min, h or d (did you mean `min`?)"),
        ("100/hous", "unknown unit `hous` in `100/hous`: use ms, s, min, h or d (did you mean `hour`?)"),
        ("100/fortnight", "unknown unit `fortnight` in `100/fortnight`: use ms, s, min, h or d"),
        ("100/MIN", "unknown unit `MIN` in `100/MIN`: use ms, s, min, h or d (did you mean `min`?)"),
        ("-5/min", "negative count `-5` in `-5/min`: write a whole number of calls, like 100/min"),
        ("1.5/min", "fractional count `1.5` in `1.5/min`: write a whole number of calls, like 100/min"),
        ("2000000000/s", "rate too high in `2000000000/s`: the highest rate is 1000000000/s"),
        ("1/400d", "window `400d` too long in `1/400d`: the longest window is 366d"),
    ] {
        assert_eq!(error(text).to_string(), message);
    }
}

#[test]
fn people_read_seconds_up_to_an_hour_and_then_hours_and_days() {
    for (text, described) in [
        ("10/min", "10 requests / 60s"),
        ("5000/day", "5000 requests / 1d"),
        ("1/h", "1 request / 1h"),
        ("9/90min", "9 requests / 5400s"),
        ("2/250ms", "2 requests / 250ms"),
    ] {
        assert_eq!(text.parse::<Quota>().expect(text).describe(), described);
    }
}

#[test]
fn a_list_points_at_the_quota_that_is_wrong() {
    let text = "10/s, 5/mn, 3/h";
    let error = text.parse::<Quotas>().expect_err(text);
    assert_eq!(&text[error.span()], "mn");
    assert_eq!("10/s,".parse::<Quotas>().expect_err("a gap").kind(), QuotaErrorKind::Empty);
}

#[test]
fn a_list_holds_one_to_eight_quotas() {
    assert_eq!("1/s, 2/s".parse::<Quotas>().map(|quotas| quotas.to_string()), Ok("1/s, 2/s".to_owned()));
    let nine = ["1/s"; 9].join(",");
    assert_eq!(nine.parse::<Quotas>().expect_err("nine").kind(), QuotaErrorKind::TooMany);
    assert_eq!(Quotas::new(vec![]).expect_err("none").kind(), QuotaErrorKind::Empty);
    let one: Quota = "1/s".parse().expect("a quota");
    assert_eq!(Quotas::new(vec![one; 9]).expect_err("nine").kind(), QuotaErrorKind::TooMany);
    assert_eq!(Quotas::from(one).len(), 1);
}

#[test]
fn a_quota_made_of_numbers_obeys_the_same_rules() {
    let second = Duration::from_secs(1);
    let kind = |count, window| Quota::new(count, window).map_err(|error| error.kind());
    assert_eq!(kind(10, second).map(|quota| quota.to_string()), Ok("10/s".to_owned()));
    assert_eq!(kind(0, second), Err(QuotaErrorKind::ZeroCount));
    assert_eq!(kind(1, Duration::ZERO), Err(QuotaErrorKind::WindowOutOfRange));
    assert_eq!(kind(1, Duration::from_micros(1_500)), Err(QuotaErrorKind::WindowOutOfRange));
    assert_eq!(kind(1, Quota::MAX_WINDOW + second), Err(QuotaErrorKind::WindowOutOfRange));
    assert_eq!(kind(u64::MAX, second), Err(QuotaErrorKind::TooFast));
    assert_eq!(kind(1, Duration::MAX), Err(QuotaErrorKind::WindowOutOfRange));
}

proptest! {
    #[test]
    fn what_is_printed_parses_back_to_the_same_value(count in 1..2_000_000_u64, ms in 1..366 * 86_400_000_u64) {
        if let Ok(quota) = Quota::new(count, Duration::from_millis(ms)) {
            prop_assert_eq!(quota.to_string().parse::<Quota>(), Ok(quota));
        }
    }

    #[test]
    fn whole_units_print_and_parse_back(count in 1..1_000_u64, n in 1..366_u64, unit in prop::sample::select(vec!["s", "min", "h", "d"])) {
        let quota: Quota = format!("{count}/{n}{unit}").parse().expect("a quota");
        prop_assert_eq!(quota.to_string().parse::<Quota>(), Ok(quota));
    }

    #[test]
    fn no_text_panics_and_every_span_lies_on_character_boundaries(text in "\\PC{0,12}|[0-9_,./ a-zß-]{0,16}") {
        if let Err(error) = text.parse::<Quotas>() {
            prop_assert!(text.get(error.span()).is_some(), "{:?}", error);
        }
    }
}
