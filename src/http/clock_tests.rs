use serde_json::json;

use super::*;
use crate::core::clock::event::CLOCK_SOURCE;
use crate::core::clock::{ClockFacts, ClockReading, ClockSource, ClockState};
use crate::core::id::{BootId, SourceId};
use crate::core::reading::{self, Origin, Record};
use crate::core::time::{MaxError, TimebaseId, Uptime};
use crate::readings;
use crate::wire;

const S: i64 = 1_000_000_000;
const WALL_NS: i64 = 1_796_000_523 * S;

fn wall(ns: i64) -> IngestTime {
    IngestTime::from_unix_ns(WALL_NS + ns)
}

fn an_event(kind: ClockEventKind, before: ClockState, state: ClockState) -> ClockEvent {
    ClockEvent {
        source: SourceId::new(CLOCK_SOURCE),
        kind,
        boot: BootId([0xab; 16]),
        uptime: Uptime::from_ns(0),
        timebase: TimebaseId(3),
        at: wall(-60 * S),
        state_before: before,
        state,
        clock: ClockSource::Ntp,
        max_error: None,
    }
}

fn facts() -> ClockFacts {
    let kernel = KernelClock {
        code: 1,
        status: 0x2011,
        max_error_us: 1_250,
        est_error_us: 40,
        offset: 0,
        freq: 65_536 * 12,
        tick: 10_000,
        tai: 37,
    };
    let chrony = ChronyReport {
        ref_id: 0xC0A8_0101,
        is_refclock: false,
        stratum: 3,
        is_synchronised: true,
        reference_ns: WALL_NS - 20 * S,
        correction_ns: -12_345,
        freq_ppm: -12.0,
        skew_ppm: 0.0426,
        root_delay_ns: 1_500_000,
        root_dispersion_ns: 450_000,
        update_interval_ns: 64 * S,
    };
    let ptp = PtpReport {
        has_grandmaster: true,
        master_offset_ns: -250,
        path_delay_ns: 4_125,
        clock_class: 6,
        clock_accuracy: 0x21,
        is_utc_offset_valid: true,
        is_ptp_timescale: true,
    };
    ClockFacts {
        kernel: Some(kernel),
        chrony: Some((chrony, wall(0))),
        ptp: Some(ptp),
        timesyncd_at: Some(wall(-5 * S)),
        has_daemon: true,
    }
}

/// Nothing is missing.
fn full() -> ClockStatus {
    use ClockState::{Holdover, Stepped, Synchronized};
    let facts = facts();
    ClockStatus {
        reading: ClockReading {
            wall: wall(0),
            source: ClockSource::Ntp,
            state: Synchronized,
            max_error: Some(MaxError::from_ns(1_200_001)),
            timebase: TimebaseId(3),
            boot: BootId([0xab; 16]),
        },
        uptime: Uptime::from_ns(3_600_123_456_789),
        kernel: facts.kernel.map(|kernel| kernel.judge()),
        facts,
        synchronized_for: Some(Span::from_millis(30_500)),
        rate_ppb: Some(-12_034),
        events: vec![
            an_event(ClockEventKind::Step(Span::from_secs(-7_200)), Synchronized, Stepped),
            an_event(ClockEventKind::FastSlew { ppm: 600 }, Stepped, Stepped),
            an_event(ClockEventKind::State, Holdover, Synchronized),
        ],
        steps: (0, 1),
        open: 12,
        held_for: Some(Span::from_secs(90)),
        retimed: (100, 7),
        uncorrected: 2,
    }
}

fn bare() -> ClockStatus {
    ClockStatus {
        reading: ClockReading::unsynchronized(wall(0), BootId([0xab; 16])),
        uptime: Uptime::from_ns(5_000_000_000),
        facts: ClockFacts::default(),
        kernel: None,
        synchronized_for: None,
        rate_ppb: None,
        events: Vec::new(),
        steps: (0, 0),
        open: 0,
        held_for: None,
        retimed: (0, 0),
        uncorrected: 0,
    }
}

#[test]
fn everything_that_is_known_is_said_under_its_name() {
    let said = serde_json::to_value(Clock::new(&full())).unwrap();
    let at = "2026-11-30T01:01:03.000000000Z";
    let expected = json!({
        "source": "ntp",
        "state": "synchronized",
        "max_error_us": 1_201,
        "timebase": 3,
        "boot": "abababab-abab-abab-abab-abababababab",
        "uptime_s": 3_600.123,
        "synchronized_for_s": 30.5,
        "rate_ppm": -12.034,
        "steps": { "forward": 0, "back": 1 },
        "events": [
            { "kind": "step", "delta_s": -7_200.0, "ppm": null, "at": at,
              "from": "synchronized", "to": "stepped" },
            { "kind": "fast_slew", "delta_s": null, "ppm": 600, "at": at,
              "from": "stepped", "to": "stepped" },
            { "kind": "state", "delta_s": null, "ppm": null, "at": at,
              "from": "holdover", "to": "synchronized" },
        ],
        "open_readings": 12,
        "held_for_s": 90.0,
        "restamped": 100,
        "bounded": 7,
        "corrections_waiting": 2,
        "kernel": {
            "max_error_us": 1_250,
            "est_error_us": 40,
            "status": "0x2011",
            "kind": "reported",
            "leap": "insert_pending",
            "rate_ppm": 12.0,
        },
        "chrony": {
            "ref_id": "C0A80101",
            "stratum": 3,
            "leap_ok": true,
            "correction_us": -12.345,
            "root_delay_us": 1_500.0,
            "root_dispersion_us": 450.0,
            "skew_ppm": 0.043,
            "age_s": 20.0,
            "fresh": true,
        },
        "ptp": {
            "grandmaster": true,
            "offset_us": -0.25,
            "path_delay_us": 4.125,
            "clock_class": 6,
            "clock_accuracy": "0x21",
            "utc_known": true,
        },
        "timesyncd_at": "2026-11-30T01:01:58.000000000Z",
        "words": [
            "synchronized by NTP, within 1.3 ms",
            "waits for the clock: 12 readings, at most 1m 30s more",
            "last step: back 2h 0m at 2026-11-30T01:01:03.000000000Z",
        ],
    });
    assert_eq!(said, expected);
}

#[test]
fn what_is_not_known_is_null_and_every_key_stays() {
    let (bare, full) = (Clock::new(&bare()), Clock::new(&full()));
    let keys = |clock: &Clock| -> Vec<String> {
        let value = serde_json::to_value(clock).unwrap();
        value.as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(keys(&bare), keys(&full));
    let said = serde_json::to_value(&bare).unwrap();
    for key in
        ["max_error_us", "synchronized_for_s", "rate_ppm", "held_for_s", "kernel", "chrony", "ptp"]
    {
        assert_eq!(said[key], json!(null), "{key}");
    }
}

#[test]
fn chronyd_without_a_reference_has_no_age() {
    let mut status = full();
    let (report, _) = status.facts.chrony.as_mut().unwrap();
    report.is_synchronised = false;
    let chrony = Clock::new(&status).chrony.unwrap();
    assert_eq!((chrony.age_s, chrony.fresh, chrony.leap_ok), (None, false, false));
}

#[test]
fn a_millisecond_step_keeps_its_length() {
    let step = an_event(
        ClockEventKind::Step(Span::from_ns(1_000_400)),
        ClockState::Synchronized,
        ClockState::Stepped,
    );
    assert_eq!(event(&step).delta_s, Some(0.001));
    let step = ClockEvent { kind: ClockEventKind::Step(Span::from_ns(-1_500_000)), ..step };
    assert_eq!(event(&step).delta_s, Some(-0.0015));
}

#[test]
fn a_stamp_has_the_boot_unless_the_clock_is_synchronized() {
    let synchronized = serde_json::to_string(&Clock::new(&full()).stamp()).unwrap();
    assert_eq!(
        synchronized,
        r#"{"origin":"gateway","clock":"ntp","state":"synchronized","max_error_us":1201,"timebase":3}"#
    );
    let unsynchronized = serde_json::to_string(&Clock::new(&bare()).stamp()).unwrap();
    assert_eq!(
        unsynchronized,
        r#"{"origin":"gateway","clock":"unknown","state":"unsynchronized","timebase":1,"boot":"abababab-abab-abab-abab-abababababab","uptime_ns":5000000000}"#
    );
}

/// The `time` object as the uplink writes it for a reading stamped by `status`.
fn on_the_wire(status: &ClockStatus) -> String {
    let ClockReading { wall, source, state, max_error, timebase, boot } = status.reading;
    let stamp = reading::Stamp {
        ingest_time: wall,
        uptime: status.uptime,
        boot,
        origin: Origin::Gateway,
        clock: source,
        state,
        max_error,
        timebase,
        ..readings::stamp(wall.unix_ns())
    };
    let record = Record { stamp, ..readings::record("press", 1) };
    let mut text = Vec::new();
    wire::json::reading("gw", &record, &mut text);
    let text = String::from_utf8(text).unwrap();
    let (_, from) = text.split_once(r#""time":"#).unwrap();
    from[..=from.find('}').unwrap()].to_owned()
}

#[test]
fn a_stamp_is_what_goes_up() {
    let mut stepped = bare();
    stepped.reading.state = ClockState::Stepped;
    let mut coasting = full();
    coasting.reading.state = ClockState::Holdover;
    coasting.uptime = Uptime::from_ns(3_600_123_000_000);
    for status in [full(), bare(), stepped, coasting] {
        let said = serde_json::to_string(&Clock::new(&status).stamp()).unwrap();
        assert_eq!(said, on_the_wire(&status));
    }
}
