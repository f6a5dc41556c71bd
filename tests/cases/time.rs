//! T-04 to T-11: times as they are met in the field. Every input goes through
//! the public door of a source and is stamped as the agent does it.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use tidegate::config::Config;
use tidegate::core::agent::SourceSettings;
use tidegate::core::clock::{ClockReading, ClockState};
use tidegate::core::id::{BootId, SourceId};
use tidegate::core::reading::{Arrival, Origin, Reading, Refusal, Stamp, Value};
use tidegate::core::skew::SourceClock;
use tidegate::core::stamp::lane::{StampLane, lane};
use tidegate::core::stamp::{Verdict, stamp};
use tidegate::core::time::{IngestTime, MaxError, Span, Uptime};
use tidegate::source::{SourceMessage, spawn_reader};
use tokio::sync::{mpsc, watch};

const S: i64 = 1_000_000_000;
/// 2026-03-01T12:00:00Z, when the gateway takes everything in.
const NOON_NS: i64 = 1_772_366_400 * S;

/// What became of the lines of a file.
struct Outcome {
    /// `v` and stamp, in the order of the lines.
    stamps: Vec<(i64, Stamp)>,
    /// Why readings went to the quarantine at stamping.
    quarantined: Vec<String>,
    /// Lines that the parser refused.
    refused: Vec<Refusal>,
}

impl Outcome {
    /// `v event time`, then the offset and the flags where there are any.
    fn shown(&self) -> Vec<String> {
        let stamps = self.stamps.iter().map(|(v, stamp)| {
            let mut text = format!("{v} {}", stamp.event_time);
            if let Some(offset_s) = stamp.utc_offset_s {
                let _ = write!(text, " {offset_s:+}");
            }
            for name in stamp.flags.names() {
                let _ = write!(text, " {name}");
            }
            text
        });
        stamps.collect()
    }

    fn reasons(&self) -> Vec<&str> {
        self.refused.iter().map(|refusal| refusal.reason.as_str()).collect()
    }
}

/// A synchronized clock.
fn good() -> ClockReading {
    ClockReading {
        state: ClockState::Synchronized,
        max_error: Some(MaxError::from_ns(10_000_000)),
        ..ClockReading::unsynchronized(IngestTime::from_unix_ns(NOON_NS), BootId::default())
    }
}

fn arrival(ingest_ns: i64, up_ns: i64) -> Arrival {
    let uptime = Uptime::from_ns(up_ns.unsigned_abs());
    Arrival { ingest: IngestTime::from_unix_ns(ingest_ns), uptime, half_round_trip: Span::ZERO }
}

/// A file of lines, taken in at [`NOON_NS`] by a source with these keys and
/// these of `[source.time]`.
fn take(keys: &str, time: &str, stream: &str) -> Outcome {
    take_at(NOON_NS, keys, time, stream)
}

fn take_at(now_ns: i64, keys: &str, time: &str, stream: &str) -> Outcome {
    let text = format!(
        "[gateway]\nid = 'g'\ndata_dir = '/d'\n[[uplink]]\nurl = 'mqtt://b'\n\
         [[source]]\nname = 's'\ntype = 'stdin'\nentity = 'e'\n{keys}\n[source.map]\n\
         values = ''\nid = ''\ntime = '/ts'\n[source.time]\n{time}\n"
    );
    let config = Config::parse(&text, Path::new("t.toml")).unwrap();
    let settings = config.agent_settings().sources[&SourceId::new("s")].clone();
    let (readings, refused) = read(&config, arrival(now_ns, 8), stream);
    let mut outcome = Outcome { stamps: Vec::new(), quarantined: Vec::new(), refused };
    let mut source_clock = SourceClock::default();
    for reading in readings {
        let Value::I64(v) = reading.value else { panic!("{reading:?}") };
        let device = reading.device_time;
        let arrival = arrival(now_ns, 8);
        match stamp(&settings, &good(), &arrival, device, &mut source_clock).verdict {
            Verdict::Stamp(stamp) => outcome.stamps.push((v, stamp)),
            Verdict::Quarantine { reason, .. } => outcome.quarantined.push(format!("{v} {reason}")),
        }
    }
    outcome
}

fn read(config: &Config, arrival: Arrival, stream: &str) -> (Vec<Reading>, Vec<Refusal>) {
    let stream = std::io::Cursor::new(stream.as_bytes().to_vec());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (out, mut messages) = mpsc::channel::<SourceMessage>(4);
        let (_stop, stopped) = watch::channel(false);
        let clock = Arc::new(move || arrival);
        let handle = spawn_reader(&config.sources[0], stream, out, clock, stopped);
        let (mut readings, mut refused) = (Vec::new(), Vec::new());
        while let Some(message) = messages.recv().await {
            readings.extend(message.batch.readings);
            refused.extend(message.batch.refused);
        }
        handle.join.await.unwrap();
        (readings, refused)
    })
}

/// A file says nothing by when it is taken in.
const FILE: &str = "live = false";

#[test]
fn t_04_the_unit_of_an_epoch_is_found_or_told() {
    let stream = r#"{"ts":1700000000,"v":1}
{"ts":1700000000123,"v":2}
{"ts":1700000000123456,"v":3}
{"ts":1700000000123456789,"v":4}
{"ts":"1700000000123","v":5}
{"ts":946684800000,"v":6}
{"ts":86400000,"v":7}
{"ts":638355968001230000,"v":8}
{"ts":0,"v":9}
{"ts":true,"v":10}
{"ts":1700000000.123,"v":11}
{"ts":"1700000000.1234567899","v":12}
"#;
    let outcome = take("", FILE, stream);
    let expected = [
        "1 2023-11-14T22:13:20.000000000Z",
        "2 2023-11-14T22:13:20.123000000Z",
        "3 2023-11-14T22:13:20.123456000Z",
        "4 2023-11-14T22:13:20.123456789Z",
        "5 2023-11-14T22:13:20.123000000Z",
        // The beginning of many RTC chips, and older than any real reading.
        "6 2000-01-01T00:00:00.000000000Z past",
        "7 1972-09-27T00:00:00.000000000Z past",
        // .NET ticks.
        "8 1990-03-25T09:06:08.001230000Z past",
        "9 1970-01-01T00:00:00.000000000Z past",
        "11 2023-11-14T22:13:20.123000000Z",
        "12 2023-11-14T22:13:20.123456789Z",
    ];
    assert_eq!(outcome.shown(), expected);
    assert_eq!(outcome.reasons(), ["line 10: time is a boolean, not text or number"]);
}

#[test]
fn t_04_an_explicit_unit_never_wraps() {
    let one = |unit: &str, ts: &str| {
        let keys = format!("time_unit = '{unit}'");
        let outcome = take(&keys, FILE, &format!("{{\"ts\":{ts},\"v\":1}}\n"));
        outcome
            .shown()
            .into_iter()
            .chain(outcome.reasons().into_iter().map(str::to_owned))
            .collect()
    };
    let check = |unit: &str, ts: &str, expected: &str| {
        let said: Vec<String> = one(unit, ts);
        assert_eq!(said, [expected], "{ts} {unit}");
    };
    check("s", "1700000000", "1 2023-11-14T22:13:20.000000000Z");
    check("ms", "1700000000123", "1 2023-11-14T22:13:20.123000000Z");
    check("us", "1700000000123456", "1 2023-11-14T22:13:20.123456000Z");
    check("ns", "1700000000123456789", "1 2023-11-14T22:13:20.123456789Z");
    check("ms", "\"1700000000123\"", "1 2023-11-14T22:13:20.123000000Z");
    let range = "is not between the years 1678 and 2262";
    for ts in ["1700000000123", "1700000000123456", "1700000000123456789"] {
        check("s", ts, &format!("line 1: time \"{ts}\" {range}"));
    }
    check("ms", "1700000000", "1 1970-01-20T16:13:20.000000000Z past");
}

#[test]
fn t_06_spellings_of_rfc_3339_are_taken() {
    let stream = r#"{"ts":"2026-03-01T12:00:00Z","v":1}
{"ts":"2026-03-01 12:00:00Z","v":2}
{"ts":"2026-03-01t12:00:00z","v":3}
{"ts":"2026-03-01T12:00:00.5Z","v":4}
{"ts":"2026-03-01T12:00:00.123456789Z","v":5}
{"ts":"2026-03-01T12:00:00.1234567891Z","v":6}
{"ts":"2026-03-01T17:30:00+05:30","v":7}
{"ts":"2026-03-01T17:30:00+0530","v":8}
{"ts":"2026-03-01T12:00:00-00:00","v":9}
{"ts":"2026-03-01T12:00:00,250Z","v":10}
"#;
    let outcome = take("", "", stream);
    let expected = [
        "1 2026-03-01T12:00:00.000000000Z",
        "2 2026-03-01T12:00:00.000000000Z",
        "3 2026-03-01T12:00:00.000000000Z",
        "4 2026-03-01T12:00:00.500000000Z",
        "5 2026-03-01T12:00:00.123456789Z",
        "6 2026-03-01T12:00:00.123456789Z",
        "7 2026-03-01T12:00:00.000000000Z +19800",
        "8 2026-03-01T12:00:00.000000000Z +19800",
        "9 2026-03-01T12:00:00.000000000Z",
        "10 2026-03-01T12:00:00.250000000Z",
    ];
    assert_eq!(outcome.shown(), expected);
    assert_eq!(outcome.reasons(), Vec::<&str>::new());
    assert!(outcome.stamps.iter().all(|(_, stamp)| stamp.origin == Origin::Device));
}

#[test]
fn t_06_what_is_no_time_is_refused_with_its_reason_and_its_text() {
    let lines = [
        r#"{"ts":"2026-02-29T12:00:00Z","v":21}"#,
        r#"{"ts":"2026-03-01T12:00:00.Z","v":22}"#,
        r#"{"ts":"2026-03-01T12:60:00Z","v":23}"#,
        r#"{"ts":"2026-13-01T12:00:00Z","v":24}"#,
        r#"{"ts":"2026-03-01T12:00:00+25:00","v":25}"#,
        r#"{"ts":"","v":26}"#,
        r#"{"ts":"yesterday","v":27}"#,
    ];
    let outcome = take("", "", &lines.join("\n"));
    assert_eq!(outcome.shown(), Vec::<String>::new());
    let form = "is not RFC 3339, like 2026-11-30T01:02:03.123Z, nor a number";
    let expected = [
        "line 1: time \"2026-02-29T12:00:00Z\" names a day that does not exist".to_owned(),
        "line 2: time \"2026-03-01T12:00:00.Z\" has no digits after the decimal mark".to_owned(),
        "line 3: time \"2026-03-01T12:60:00Z\" names a time of day that does not exist".to_owned(),
        "line 4: time \"2026-13-01T12:00:00Z\" names a day that does not exist".to_owned(),
        "line 5: time \"2026-03-01T12:00:00+25:00\" has no valid offset at its end".to_owned(),
        format!("line 6: time \"\" {form}"),
        format!("line 7: time \"yesterday\" {form}"),
    ];
    assert_eq!(outcome.reasons(), expected);
    let kept: Vec<&[u8]> = outcome.refused.iter().map(|one| one.content.as_slice()).collect();
    assert_eq!(kept, lines.map(str::as_bytes));
    assert!(outcome.refused.iter().all(|one| one.kind == "time"));
}

#[test]
fn t_07_a_leap_second_is_where_one_was_and_keeps_the_order() {
    let stream = r#"{"ts":"2016-12-31T23:59:59.900Z","v":1}
{"ts":"2016-12-31T23:59:60Z","v":2}
{"ts":"2016-12-31T23:59:60.500Z","v":3}
{"ts":"2017-01-01T00:00:00.100Z","v":4}
{"ts":"2026-03-01T12:00:60Z","v":5}
{"ts":"2017-01-01T05:29:60+05:30","v":6}
"#;
    let outcome = take("", FILE, stream);
    let expected = [
        "1 2016-12-31T23:59:59.900000000Z",
        "2 2016-12-31T23:59:59.999999999Z leap",
        "3 2016-12-31T23:59:59.999999999Z leap",
        "4 2017-01-01T00:00:00.100000000Z",
        "6 2016-12-31T23:59:59.999999999Z +19800 leap",
    ];
    assert_eq!(outcome.shown(), expected);
    let reason = "line 5: time \"2026-03-01T12:00:60Z\" has second 60 where no leap second was";
    assert_eq!(outcome.reasons(), [reason]);
}

#[test]
fn t_08_dates_that_nanoseconds_cannot_hold_are_refused() {
    let stream = r#"{"ts":"2262-04-11T23:47:16.854775807Z","v":1}
{"ts":"2262-04-11T23:47:16.854775808Z","v":2}
{"ts":"9999-12-31T23:59:59Z","v":3}
{"ts":"0001-01-01T00:00:00Z","v":4}
{"ts":"1601-01-01T00:00:00Z","v":5}
{"ts":"1677-09-21T00:12:43.145224191Z","v":6}
{"ts":99999999999999999999,"v":7}
{"ts":"2026-03-01T12:00:00Z","v":8}
"#;
    let outcome = take("", "", stream);
    let expected = ["1 2262-04-11T23:47:16.854775807Z future", "8 2026-03-01T12:00:00.000000000Z"];
    assert_eq!(outcome.shown(), expected);
    assert_eq!(outcome.stamps[0].1.event_time.unix_ns(), i64::MAX);
    let now = IngestTime::from_unix_ns(NOON_NS);
    let at = |i: usize| lane(&outcome.stamps[i].1, now, MaxError::from_ns(0));
    assert_eq!(at(0), StampLane::Quarantine, "it moves no watermark");
    let range = "is not between the years 1678 and 2262";
    let expected = [
        format!("line 2: time \"2262-04-11T23:47:16.854775808Z\" {range}"),
        format!("line 3: time \"9999-12-31T23:59:59Z\" {range}"),
        format!("line 4: time \"0001-01-01T00:00:00Z\" {range}"),
        format!("line 5: time \"1601-01-01T00:00:00Z\" {range}"),
        format!("line 6: time \"1677-09-21T00:12:43.145224191Z\" {range}"),
        "line 7: time \"99999999999999999999\" is out of range".to_owned(),
    ];
    assert_eq!(outcome.reasons(), expected);
}

/// The part of the case that is a file; the other needs the clock of a machine.
#[test]
fn t_09_no_time_ends_in_2038() {
    let before_ns = 2_147_483_640 * S;
    let stream = r#"{"ts":2147483647,"v":1}
{"ts":2147483648,"v":2}
{"ts":4102444800,"v":3}
"#;
    let outcome = take_at(before_ns, "", FILE, stream);
    let expected = [
        "1 2038-01-19T03:14:07.000000000Z",
        "2 2038-01-19T03:14:08.000000000Z",
        "3 2100-01-01T00:00:00.000000000Z future",
    ];
    assert_eq!(outcome.shown(), expected);
    let mut source_clock = SourceClock::default();
    for second in 0..20 {
        let arrival = arrival(before_ns + second * S, second * S);
        let stamped = stamp(&SourceSettings::DEFAULT, &good(), &arrival, None, &mut source_clock);
        let Verdict::Stamp(stamp) = stamped.verdict else { panic!("{stamped:?}") };
        let said = (stamp.event_time.unix_ns(), stamp.flags.bits());
        assert_eq!(said, (before_ns + second * S, 0));
    }
}

const LOCAL: &str = r#"{"ts":"2026-07-01T12:00:00","v":1}
{"ts":"2026-01-15T12:00:00","v":2}
{"ts":"2026-03-29T02:30:00","v":3}
{"ts":"2026-10-25T02:30:00","v":4}
{"ts":"2026-10-25T03:30:00","v":5}
"#;
/// 2026-11-30T12:00:00Z: after all of them.
const AFTER_NS: i64 = 1_796_040_000 * S;

#[test]
fn t_10_without_a_zone_local_times_are_flagged_and_nothing_bounds_them() {
    let outcome = take_at(AFTER_NS, "", FILE, LOCAL);
    let expected = [
        "1 2026-07-01T12:00:00.000000000Z no_offset",
        "2 2026-01-15T12:00:00.000000000Z no_offset",
        "3 2026-03-29T02:30:00.000000000Z no_offset",
        "4 2026-10-25T02:30:00.000000000Z no_offset",
        "5 2026-10-25T03:30:00.000000000Z no_offset",
    ];
    assert_eq!(outcome.shown(), expected);
    assert!(outcome.stamps.iter().all(|(_, stamp)| stamp.max_error.is_none()));
}

#[test]
fn t_10_with_a_zone_local_times_are_resolved_and_the_two_nights_flagged() {
    let outcome = take_at(AFTER_NS, "", "live = false\nzone = 'Europe/Berlin'", LOCAL);
    let expected = [
        "1 2026-07-01T10:00:00.000000000Z +7200 no_offset",
        "2 2026-01-15T11:00:00.000000000Z +3600 no_offset",
        "3 2026-03-29T01:30:00.000000000Z +3600 dst_gap no_offset",
        "4 2026-10-25T00:30:00.000000000Z +7200 dst_fold no_offset",
        "5 2026-10-25T02:30:00.000000000Z +3600 no_offset",
    ];
    assert_eq!(outcome.shown(), expected);
    let strict = "live = false\nzone = 'Europe/Berlin'\nambiguous = 'quarantine'\n\
                  nonexistent = 'quarantine'";
    let outcome = take_at(AFTER_NS, "", strict, LOCAL);
    assert_eq!(outcome.stamps.iter().map(|(v, _)| *v).collect::<Vec<_>>(), [1, 2, 5]);
    let reasons = [
        "3 local time 2026-03-29T02:30:00.000000000 does not exist: the clocks of Europe/Berlin \
         skip it",
        "4 local time 2026-10-25T02:30:00.000000000 comes twice in Europe/Berlin, at \
         2026-10-25T00:30:00.000000000Z and at 2026-10-25T01:30:00.000000000Z, and nothing tells \
         which it is",
    ];
    assert_eq!(outcome.quarantined, reasons);
    let later =
        take_at(AFTER_NS, "", "live = false\nzone = 'Europe/Berlin'\nambiguous = 'later'", LOCAL);
    assert_eq!(later.shown()[3], "4 2026-10-25T01:30:00.000000000Z +3600 dst_fold no_offset");
    let fixed = take_at(AFTER_NS, "", "live = false\nzone = '+01:00'", LOCAL);
    assert_eq!(fixed.shown()[3], "4 2026-10-25T01:30:00.000000000Z +3600 no_offset");
}

#[test]
fn t_11_a_gps_week_rollover_is_flagged_and_never_shifted() {
    let stream = r#"{"ts":"2006-07-16T12:00:00Z","v":1}
{"ts":"2006-07-16T12:00:01Z","v":2}
"#;
    for policy in ["flag", "correct"] {
        let outcome = take("", &format!("on_bad_time = '{policy}'"), stream);
        let expected = [
            "1 2006-07-16T12:00:00.000000000Z past skewed gps_wnro",
            "2 2006-07-16T12:00:01.000000000Z past skewed gps_wnro",
        ];
        assert_eq!(outcome.shown(), expected);
        assert_eq!(NOON_NS - outcome.stamps[0].1.event_time.unix_ns(), 7_168 * 86_400 * S);
        assert!(outcome.stamps.iter().all(|(_, stamp)| stamp.max_error.is_none()));
    }
    let outcome = take("", "on_bad_time = 'substitute'", stream);
    let (_, stamp) = &outcome.stamps[0];
    assert_eq!((stamp.event_time.unix_ns(), stamp.origin), (NOON_NS, Origin::Substituted));
    assert_eq!(stamp.first_event_time.map(|at| at.unix_ns()), Some(1_153_051_200 * S));
    let outcome = take("", "on_bad_time = 'quarantine'", stream);
    assert_eq!(outcome.stamps, []);
    let reason = "1 device time 2006-07-16T12:00:00.000000000Z is implausible \
                  (past, skewed, gps_wnro)";
    assert_eq!(outcome.quarantined[0], reason);
}
