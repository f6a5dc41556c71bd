use super::super::tests::{HEAD, check_source, parse};
use super::*;
use crate::core::id::SourceId;
use crate::core::length::bound_text;

#[test]
fn zones_are_names_or_offsets_and_near_ones_are_suggested() {
    let zone = |zone: &str, said: &str| {
        let lines = format!("address = '127.0.0.1:1'\n[source.time]\nzone = '{zone}'");
        let what = format!("t.toml:11: source.time.zone: {zone:?} is no time zone; {said}");
        check_source(&lines, &what);
    };
    zone("Europe/Berln", "did you mean \"Europe/Berlin\"?");
    zone("Berlin", "did you mean \"Europe/Berlin\"?");
    zone("europe/berlin", "did you mean \"Europe/Berlin\"?");
    zone("Asia/Sydney", "did you mean \"Australia/Sydney\"?");
    let form = "write a name of the IANA database like \"Europe/Berlin\", \
                or an offset like \"+02:00\"";
    zone("somewhere in the workshop", form);
    zone("+25:00", form);
}

#[test]
fn times_of_sources_are_printed_as_they_are_read() {
    let text = format!(
        "{HEAD}[[source]]\nname = 'p'\ntype = 'stdin'\n[source.time]\nzone = 'Europe/Berlin'\n\
         ambiguous = 'later'\nnonexistent = 'quarantine'\nlive = false\nlatency_max = '3s'\n\
         latency_typical = '250ms'\nmanufactured = 2019-05-01\non_bad_time = 'correct'\n\
         [[source]]\nname = 'q'\ntype = 'http'\n[source.time]\nzone = '-03:30'\n\
         manufactured = '2012-02-03T04:05:06Z'\n"
    );
    let config = parse(&text);
    assert_eq!(parse(&config.print()), config);
    let settings = config.agent_settings();
    let expected = SourceSettings {
        zone: "Europe/Berlin".parse().ok(),
        on_ambiguous_time: OnAmbiguousTime::Later,
        on_nonexistent_time: OnNonexistentTime::Quarantine,
        is_live: false,
        latency_max: Span::from_secs(3),
        latency_typical: Span::from_millis(250),
        earliest: EventTime::from_unix_ns(1_556_668_800_000_000_000),
        on_bad_time: OnBadTime::Correct,
        ..SourceSettings::DEFAULT
    };
    assert_eq!(settings.sources[&SourceId::new("p")], expected);
    // What is older than `earliest` stays implausible.
    let expected = SourceSettings { zone: "-03:30".parse().ok(), ..SourceSettings::DEFAULT };
    assert_eq!(settings.sources[&SourceId::new("q")], expected);
    check_source(
        "address = '127.0.0.1:1'\n[source.time]\nmanufactured = '2019'",
        "t.toml:11: source.time.manufactured: \"2019\" is not a time between 1678 and 2262; \
         write it like \"2019-05-01\" or \"2019-05-01T00:00:00Z\"",
    );
    check_source(
        "address = '127.0.0.1:1'\n[source.time]\nlatency_typical = '5s'",
        "t.toml:11: source.time.latency_typical: is more than latency_max; lower it",
    );
}

#[test]
fn a_bound_can_be_written_as_it_is_shown() {
    for ms in [0, 250, 17_200, 45_000, 60_000, 90_000, 7_200_000, 7_500_000, 360_000_000] {
        let shown = bound_text(Span::from_millis(ms));
        let source = "[[source]]\nname = 'p'\ntype = 'stdin'\n[source.time]";
        let config = parse(&format!("{HEAD}{source}\nbound = '{shown}'\n"));
        assert_eq!(Span::from_std(config.sources[0].time.bound), Span::from_millis(ms), "{shown}");
    }
}
