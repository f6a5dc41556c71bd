use proptest::prelude::*;

use super::*;

const HOUR_NS: i64 = 3_600 * NS_PER_S;

fn local(text: &str) -> i64 {
    text.parse::<NaiveDateTime>().unwrap().and_utc().timestamp_nanos_opt().unwrap()
}

fn zone(name: &str) -> Zone {
    name.parse().unwrap()
}

#[test]
fn zones_have_names_or_offsets_and_print_as_they_are_written() {
    for text in ["Europe/Berlin", "UTC", "Etc/GMT+2", "+02:00", "-03:30", "+14:00", "+00:00"] {
        assert_eq!(zone(text).to_string(), text);
    }
    let wrong = ["", "Berlin", "europe/berlin", "+2", "+02", "+0200", "+14:01", "+01:60", "+-1:00"];
    for text in wrong {
        assert_eq!(text.parse::<Zone>(), Err(UnknownZone), "{text}");
    }
    assert_eq!("+é:00".parse::<Zone>(), Err(UnknownZone));
    assert!(names().any(|name| name == "Australia/Lord_Howe"));
}

#[test]
fn a_fixed_offset_knows_no_summer_time() {
    let resolved = resolve(zone("+02:00"), local("2026-10-25T02:30:00"), &Hints::default());
    let at = EventTime::from_unix_ns(local("2026-10-25T00:30:00"));
    assert_eq!(resolved, Some(Resolved { at, offset_s: 7_200, kind: Kind::Unique }));
}

#[test]
fn a_zone_that_repeats_half_an_hour_is_told_apart_too() {
    let lord_howe = zone("Australia/Lord_Howe");
    let at = local("2026-04-05T01:45:00");
    let second = at - 10 * HOUR_NS - HOUR_NS / 2;
    let arrival = Some((IngestTime::from_unix_ns(second + NS_PER_S), MaxError::from_ns(1)));
    let hints = Hints { arrival, ..Hints::default() };
    let resolved = resolve(lord_howe, at, &hints).unwrap();
    assert_eq!((resolved.at.unix_ns(), resolved.offset_s), (second, 37_800));
    let alternative = EventTime::from_unix_ns(at - 11 * HOUR_NS);
    assert_eq!(resolved.kind, Kind::Fold { by: DecidedBy::Arrival, alternative });
}

#[test]
fn a_gateway_that_may_be_a_quarter_of_an_hour_off_decides_nothing() {
    let (first, second) = (local("2026-10-25T00:30:00"), local("2026-10-25T01:30:00"));
    let resolve_with = |error_ns, prefers_later| {
        let arrival = Some((IngestTime::from_unix_ns(second), MaxError::from_ns(error_ns)));
        let hints = Hints { arrival, prefers_later, ..Hints::default() };
        resolve(zone("Europe/Berlin"), local("2026-10-25T02:30:00"), &hints).unwrap()
    };
    assert_eq!(resolve_with(ARRIVAL_ERROR_MAX_NS - 1, false).at.unix_ns(), second);
    assert_eq!(resolve_with(ARRIVAL_ERROR_MAX_NS, false).at.unix_ns(), first);
    let later = resolve_with(ARRIVAL_ERROR_MAX_NS, true);
    let alternative = EventTime::from_unix_ns(first);
    assert_eq!(later.at.unix_ns(), second);
    assert_eq!(later.kind, Kind::Fold { by: DecidedBy::Default, alternative });
}

#[test]
fn an_instant_beyond_the_range_is_none() {
    assert_eq!(resolve(zone("-01:00"), i64::MAX, &Hints::default()), None);
    assert_eq!(resolve(zone("Europe/Berlin"), i64::MIN, &Hints::default()), None);
}

proptest! {
    /// What a wall clock shows at any instant leads back to that instant, or to
    /// the other pass of a repeated hour.
    #[test]
    fn what_a_clock_shows_leads_back(index in 0..TZ_VARIANTS.len(), s in 0_i64..4_102_444_800) {
        let tz = TZ_VARIANTS[index];
        let instant = DateTime::from_timestamp(s, 0).unwrap();
        let shown = instant.with_timezone(&tz).naive_local().and_utc();
        let local_ns = shown.timestamp_nanos_opt().unwrap();
        let resolved = resolve(Zone::Iana(tz), local_ns, &Hints::default()).unwrap();
        let alternative = match resolved.kind {
            Kind::Fold { alternative, .. } => Some(alternative),
            _ => None,
        };
        prop_assert!(resolved.kind != Kind::Gap, "{tz} {shown}");
        let at = EventTime::from_unix_ns(s * NS_PER_S);
        prop_assert!(resolved.at == at || alternative == Some(at), "{tz} {shown}: {resolved:?}");
    }
}
