use super::*;

/// The instant as printed, the offset and the names of the flags.
fn check(text: &str, expected: &str) {
    let time = parse_text(text, TimeUnit::Auto).unwrap();
    let offset = time.utc_offset_s.map_or(String::new(), |offset| format!(" {offset}"));
    let flags: String = time.flags.names().map(|name| format!(" {name}")).collect();
    assert_eq!(format!("{}{offset}{flags}", time.at), expected, "{text}");
}

fn refused(text: &str, unit: TimeUnit) -> String {
    let fault = parse_text(text, unit).unwrap_err();
    assert_eq!(fault.kind, "time");
    fault.what
}

#[test]
fn spellings_seen_in_the_field_are_taken() {
    check("2026-03-01T12:00:00Z", "2026-03-01T12:00:00.000000000Z");
    check("2026-03-01 12:00:00Z", "2026-03-01T12:00:00.000000000Z");
    check("2026-03-01t12:00:00z", "2026-03-01T12:00:00.000000000Z");
    check("2026-03-01T12:00:00.5Z", "2026-03-01T12:00:00.500000000Z");
    check("2026-03-01T12:00:00.123456789Z", "2026-03-01T12:00:00.123456789Z");
    check("2026-03-01T12:00:00.1234567891Z", "2026-03-01T12:00:00.123456789Z");
    check("2026-03-01T17:30:00+05:30", "2026-03-01T12:00:00.000000000Z 19800");
    check("2026-03-01T17:30:00+0530", "2026-03-01T12:00:00.000000000Z 19800");
    check("2026-03-01T04:00:00-08:00", "2026-03-01T12:00:00.000000000Z -28800");
    check("2026-03-01T12:00:00-00:00", "2026-03-01T12:00:00.000000000Z");
    check("2026-03-01T12:00:00+00:00", "2026-03-01T12:00:00.000000000Z 0");
    check("2026-03-01T12:00:00,250Z", "2026-03-01T12:00:00.250000000Z");
    check("2026-03-01T12:00:00", "2026-03-01T12:00:00.000000000Z no_offset");
    check("1969-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59.999999999Z");
}

#[test]
fn texts_that_are_no_time_are_refused() {
    for (text, what) in [
        ("2026-02-29T12:00:00Z", "names a day that does not exist"),
        ("2026-03-01T12:00:00.Z", "has no digits after the decimal mark"),
        ("2026-03-01T12:60:00Z", "names a time of day that does not exist"),
        ("2026-13-01T12:00:00Z", "names a day that does not exist"),
        ("2026-03-01T12:00:00+25:00", "has no valid offset at its end"),
        ("2026-03-01T12:00:00Zx", "has no valid offset at its end"),
        ("", "is not RFC 3339, like 2026-11-30T01:02:03.123Z, nor a number"),
        ("-", "is not RFC 3339, like 2026-11-30T01:02:03.123Z, nor a number"),
        ("yesterday", "is not RFC 3339, like 2026-11-30T01:02:03.123Z, nor a number"),
        ("2026-03-01", "is not RFC 3339, like 2026-11-30T01:02:03.123Z, nor a number"),
        ("1.2.3", "is not a decimal number without exponent"),
    ] {
        assert_eq!(refused(text, TimeUnit::Auto), format!("time {text:?} {what}"));
    }
}

#[test]
fn a_leap_second_is_the_last_nanosecond_before_the_next_second() {
    let last = "2016-12-31T23:59:59.999999999Z";
    check("2016-12-31T23:59:60Z", &format!("{last} leap"));
    check("2016-12-31T23:59:60.500Z", &format!("{last} leap"));
    check("2017-01-01T05:29:60+05:30", &format!("{last} 19800 leap"));
    check("2016-12-31 18:59:60,9-0500", &format!("{last} -18000 leap"));
    check("1972-06-30T23:59:60Z", "1972-06-30T23:59:59.999999999Z leap");
    // A local time may be one: its zone will tell.
    check("2017-01-01T00:59:60", "2017-01-01T00:59:59.999999999Z no_offset leap");
    let nowhere = "has second 60 where no leap second was";
    for text in [
        "2026-03-01T12:00:60Z",
        "2016-12-30T23:59:60Z",
        "2016-12-31T23:59:60+01:00",
        "2017-01-31T23:59:60Z",
        "2017-06-30T23:59:60Z",
        "2026-12-31T23:59:60Z",
        "2017-01-01T00:58:60",
        "2017-06-30T23:59:60",
    ] {
        assert_eq!(refused(text, TimeUnit::Auto), format!("time {text:?} {nowhere}"));
    }
}

#[test]
fn the_unit_of_a_number_follows_its_magnitude() {
    check("1700000000", "2023-11-14T22:13:20.000000000Z");
    check("1700000000123", "2023-11-14T22:13:20.123000000Z");
    check("1700000000123456", "2023-11-14T22:13:20.123456000Z");
    check("1700000000123456789", "2023-11-14T22:13:20.123456789Z");
    check("946684800000", "2000-01-01T00:00:00.000000000Z");
    check("86400000", "1972-09-27T00:00:00.000000000Z");
    check("0", "1970-01-01T00:00:00.000000000Z");
}

#[test]
fn decimal_fractions_stay_exact() {
    check("1764464523.123", "2025-11-30T01:02:03.123000000Z");
    check("1764464523.1234567899", "2025-11-30T01:02:03.123456789Z");
    check("1764464523123.5", "2025-11-30T01:02:03.123500000Z");
    check("-0.5", "1969-12-31T23:59:59.500000000Z");
    let ns = parse_number("1764464523123456789", TimeUnit::Nanos).unwrap().at.unix_ns();
    assert_eq!(ns, 1_764_464_523_123_456_789);
    let exponent = parse_number("1.7e9", TimeUnit::Seconds).unwrap_err().what;
    assert_eq!(exponent, "time \"1.7e9\" is not a decimal number without exponent");
}

#[test]
fn years_that_nanoseconds_cannot_hold_are_refused() {
    let last = parse_text("2262-04-11T23:47:16.854775807Z", TimeUnit::Auto).unwrap();
    assert_eq!(last.at.unix_ns(), i64::MAX);
    check("1678-01-01T00:00:00Z", "1678-01-01T00:00:00.000000000Z");
    for text in [
        "2262-04-11T23:47:16.854775808Z",
        "9999-12-31T23:59:59Z",
        "0001-01-01T00:00:00Z",
        "1601-01-01T00:00:00Z",
        "1677-12-31T23:59:59.999999999Z",
    ] {
        let what = refused(text, TimeUnit::Auto);
        assert_eq!(what, format!("time {text:?} is not between the years 1678 and 2262"));
    }
    let what = refused("1700000000123", TimeUnit::Seconds);
    assert_eq!(what, "time \"1700000000123\" is not between the years 1678 and 2262");
    let what = refused("99999999999999999999", TimeUnit::Auto);
    assert_eq!(what, "time \"99999999999999999999\" is out of range");
}
