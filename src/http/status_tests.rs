use std::collections::BTreeMap;

use super::*;
use crate::core::clock::{ClockFacts, ClockReading, ClockSource, ClockState};
use crate::core::id::{BootId, Epoch};
use crate::core::lateness::Quantiles;
use crate::core::order::OrderCounts;
use crate::core::seam::DiskFacts;
use crate::core::status::{ClockStatus, Counts, OrderStatus, UplinkStatus, WindowStatus};
use crate::core::time::{EventTime, MaxError, TimebaseId, Uptime};

fn at(seconds: u64) -> MonoTime {
    MonoTime::from_ns(seconds * 1_000_000_000)
}

const WALL: IngestTime = IngestTime::from_unix_ns(1_796_000_523_000_000_000);

fn now() -> Now {
    Now { mono: at(1_000), wall: WALL, ..Now::default() }
}

fn clock() -> ClockStatus {
    ClockStatus {
        reading: ClockReading {
            wall: WALL,
            source: ClockSource::Ntp,
            state: ClockState::Synchronized,
            max_error: Some(MaxError::from_ns(1_200_001)),
            timebase: TimebaseId(1),
            boot: BootId([0xab; 16]),
        },
        uptime: Uptime::from_ns(1_000_000_000_000),
        facts: ClockFacts::default(),
        kernel: None,
        synchronized_for: Some(Span::from_secs(60)),
        rate_ppb: None,
        events: Vec::new(),
        steps: (0, 0),
        open: 0,
        held_for: None,
        retimed: (0, 0),
        uncorrected: 0,
    }
}

fn about() -> About {
    About {
        gateway: "gw-07".to_owned(),
        started: (at(400), IngestTime::from_unix_ns(1_795_999_923_000_000_000)),
        quota_bytes: 1 << 30,
        reserve_bytes: 128 << 20,
    }
}

fn lateness() -> BTreeMap<SourceId, Quantiles> {
    let span = Span::from_millis;
    let quantiles = Quantiles {
        count: 1_000,
        p50: span(-3),
        p95: span(900),
        p99: span(1_500),
        p999: span(4_000),
        p9999: span(9_000),
        max: span(9_000),
    };
    BTreeMap::from([(SourceId::new("press"), quantiles)])
}

fn windows() -> BTreeMap<String, WindowStatus> {
    let pressure = WindowStatus {
        watermark: Some(EventTime::from_unix_ns(1_796_000_502_999_000_000)),
        patience: Span::from_secs(20),
        held_by: vec![SourceId::new("pump-a")],
        panes: 12,
        series: 4,
        state_bytes: 3_210,
        idle: vec![SourceId::new("pump-b")],
        waits_for: Some((SourceId::new("press"), Span::from_secs(90))),
        counts: Counts {
            fired: 9,
            revised: 3,
            finals: 5,
            retracted: 1,
            too_late: 2,
            between: 6,
            duplicates: 4,
        },
    };
    let runs = WindowStatus {
        watermark: None,
        patience: Span::from_secs(20),
        held_by: Vec::new(),
        panes: 0,
        series: 0,
        state_bytes: 0,
        idle: Vec::new(),
        waits_for: None,
        counts: Counts::default(),
    };
    BTreeMap::from([("runs".to_owned(), runs), ("pressure-10s".to_owned(), pressure)])
}

fn uplink() -> UplinkStatus {
    UplinkStatus {
        name: "main".into(),
        state: LinkState::Up { since: at(900) },
        inflight: 12,
        inflight_max: 100,
        oldest_inflight: Some(Span::from_millis(250)),
        ack_rate: 39.0,
        acknowledged: 700,
        backlog: 290,
        backfill: 0,
        held: BTreeMap::new(),
    }
}

fn orders() -> BTreeMap<String, OrderStatus> {
    let one = OrderStatus {
        watermark: Some(EventTime::from_unix_ns(1_796_000_900_000_000_000)),
        held: 12,
        held_bytes: 3_600,
        idle: vec![SourceId::new("press")],
        counts: OrderCounts { in_order: 40, early: 2, late: 1 },
    };
    BTreeMap::from([("socket 127.0.0.1:7100".to_owned(), one)])
}

fn status() -> Status {
    let books = SourceStatus {
        accepted: 1_000,
        acknowledged: 700,
        stored: 290,
        evicted: 7,
        lost: 3,
        last_reading: Some(at(998)),
        ..SourceStatus::default()
    };
    Status {
        epoch: Epoch { number: 1, nonce: 0x9f3a_6c21 },
        clock: clock(),
        sources: BTreeMap::from([(SourceId::new("press"), books)]),
        lateness: lateness(),
        windows: windows(),
        orders: orders(),
        backlog: 290,
        unsent: 290,
        uncommitted: 4,
        oldest_event: Some(EventTime::from_unix_ns(1_796_000_423_000_000_000)),
        segments: 2,
        entry_bytes: Some(10.0),
        ahead_bytes: 0,
        capacity_bytes: 9_096,
        is_filling: false,
        disk: DiskFacts { used_bytes: 4_096, free_bytes: 9_999, written_bytes: 8_192 },
        full: None,
        is_committing: true,
        uplinks: vec![uplink()],
        accept_rate: 10.0,
    }
}

fn codes(status: &Status) -> Vec<String> {
    Report::new(&about(), status, &now()).degraded.into_iter().map(|one| one.code).collect()
}

#[test]
fn a_healthy_report_says_depth_age_rates_and_time_left() {
    let report = Report::new(&about(), &status(), &now());
    assert_eq!(report.degraded, []);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["v"], 1);
    assert_eq!(json["epoch"], "1-9f3a6c21");
    assert_eq!(json["at"], "2026-11-30T01:02:03.000000000Z");
    assert_eq!(json["uptime_s"], 600.0);
    assert_eq!(json["journal"]["readings"], 290);
    assert_eq!(json["journal"]["bytes"], 4_096);
    assert_eq!(json["journal"]["oldest_event_time"], "2026-11-30T01:00:23.000000000Z");
    assert_eq!(json["journal"]["oldest_age_s"], 100.0);
    assert_eq!(json["journal"]["capacity_bytes"], 9_096);
    assert_eq!(json["journal"]["fill"], 0.45);
    assert_eq!(json["journal"]["depth_s"], 29.0);
    // 5,000 bytes at 10 bytes an entry and 10 entries a second.
    assert_eq!(json["journal"]["room_s"], 50.0);
    assert_eq!(json["uplink"]["state"], "up");
    assert_eq!(json["uplink"]["for_s"], 100.0);
    assert_eq!(json["uplink"]["drain_eta_s"], 10.0);
    assert_eq!(json["uplink"]["oldest_inflight_s"], 0.25);
    assert_eq!(json["clock"]["state"], "synchronized");
    assert_eq!(json["clock"]["max_error_us"], 1_201);
    assert_eq!(json["clock"]["uptime_s"], 1_000.0);
    assert_eq!(json["sources"][0]["name"], "press");
    assert_eq!(json["sources"][0]["last_reading_age_s"], 2.0);
    assert_eq!(json["lateness"][0]["name"], "press");
    assert_eq!(json["lateness"][0]["p50_s"], -0.003);
    assert_eq!(json["lateness"][0]["fast_bound_s"], 2.0);
    assert_eq!(json["lateness"][0]["correction_bound_s"], 10.0);
}

#[test]
fn ordered_outputs_are_told_with_what_they_hold() {
    let report = Report::new(&about(), &status(), &now());
    let expected = serde_json::json!([{
        "output": "socket 127.0.0.1:7100",
        "watermark": "2026-11-30T01:08:20.000000000Z",
        "watermark_lag_s": -377.0,
        "held": 12,
        "held_bytes": 3_600,
        "idle_sources": ["press"],
        "in_order": 40,
        "early": 2,
        "late": 1,
    }]);
    assert_eq!(serde_json::to_value(&report.ordered).unwrap(), expected);
}

#[test]
fn windows_are_told_by_name_with_their_lag_and_counts() {
    let report = Report::new(&about(), &status(), &now());
    let json = serde_json::to_value(&report.windows).unwrap();
    let expected = serde_json::json!([
        {
            "name": "pressure-10s",
            "watermark": "2026-11-30T01:01:42.999000000Z",
            "watermark_lag_s": 20.001,
            "is_behind": true,
            "held_by": ["pump-a"],
            "panes": 12,
            "series": 4,
            "state_bytes": 3_210,
            "idle_sources": ["pump-b"],
            "waits_for": "press",
            "waits_until": "2026-11-30T01:03:33.000000000Z",
            "fired": 9,
            "revised": 3,
            "finals": 5,
            "retracted": 1,
            "too_late": 2,
            "between": 6,
            "duplicates": 4,
        },
        {
            "name": "runs",
            "watermark": null,
            "watermark_lag_s": null,
            "is_behind": false,
            "held_by": [],
            "panes": 0,
            "series": 0,
            "state_bytes": 0,
            "idle_sources": [],
            "waits_for": null,
            "waits_until": null,
            "fired": 0,
            "revised": 0,
            "finals": 0,
            "retracted": 0,
            "too_late": 0,
            "between": 0,
            "duplicates": 0,
        },
    ]);
    assert_eq!(json, expected);
}

#[test]
fn a_report_survives_its_json() {
    let report = Report::new(&about(), &status(), &now());
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
}

#[test]
fn what_sources_say_of_themselves_is_in_their_books_and_among_the_troubles() {
    let say = |name: &str, state: &str| {
        let detail = Some("10.0.0.10:502 does not answer".to_owned());
        let health =
            SourceHealth { state: state.to_owned(), detail, errors: 4, ..Default::default() };
        (name.to_owned(), health)
    };
    let all = [say("press", "up"), say("meters", "down"), say("valves", "degraded")];
    let report = Report::new(&about(), &status(), &now()).with_health(all);
    let names: Vec<&str> = report.sources.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["meters", "press", "valves"]);
    let expected = serde_json::json!({
        "state": "down", "detail": "10.0.0.10:502 does not answer", "errors": 4, "retry_in_s": null,
        "missed_polls": 0,
    });
    assert_eq!(serde_json::to_value(&report.sources[0].health).unwrap(), expected);
    assert_eq!(report.sources[0].accepted, 0);
    let troubles: Vec<(&str, &str)> =
        report.degraded.iter().map(|one| (one.code.as_str(), one.detail.as_str())).collect();
    let expected = [
        ("source_down", "source meters is down: 10.0.0.10:502 does not answer"),
        ("source_degraded", "source valves is degraded: 10.0.0.10:502 does not answer"),
    ];
    assert_eq!(troubles, expected);
}

#[test]
fn each_trouble_is_named_once() {
    let mut troubled = status();
    troubled.uplinks[0].state =
        LinkState::Down { since: at(940), retry_at: at(1_003), reason: "refused".to_owned() };
    troubled.is_committing = false;
    troubled.full = Some(FullCause::Reserve);
    troubled.uplinks[0].held.insert(SourceId::new("press"), 0x87);
    assert_eq!(codes(&troubled), ["uplink_down", "store_failing", "full", "source_held"]);
    let report = Report::new(&about(), &troubled, &now());
    assert_eq!(report.degraded[0].detail, "uplink main is down for 1m 0s: refused");
    assert_eq!(
        report.degraded[3].detail,
        "the broker of uplink main refuses press: not authorized (0x87)"
    );
    assert_eq!(report.uplink.retry_in_s, Some(3.0));
    assert_eq!(report.uplink.drain_eta_s, None, "nothing drains while it is down");
    assert_eq!(report.journal.full.as_deref(), Some("reserve"));
}

#[test]
fn a_buffer_that_runs_full_is_trouble_until_it_is_full() {
    let mut filling = status();
    (filling.is_filling, filling.disk.used_bytes) = (true, 7_500);
    assert_eq!(codes(&filling), ["filling"]);
    let detail = &Report::new(&about(), &filling, &now()).degraded[0].detail;
    assert_eq!(detail, "the buffer runs full: 82 % are taken");
    filling.full = Some(FullCause::Quota);
    assert_eq!(codes(&filling), ["full"]);
}

#[test]
fn without_a_rate_nobody_knows_how_long() {
    let mut silent = status();
    silent.accept_rate = 0.0;
    let journal = Report::new(&about(), &silent, &now()).journal;
    assert_eq!((journal.depth_s, journal.room_s), (None, None));
    let mut fresh = status();
    fresh.entry_bytes = None;
    assert_eq!(Report::new(&about(), &fresh, &now()).journal.room_s, None);
}

#[test]
fn room_that_is_allocated_ahead_is_room() {
    // 4 MiB lie ready for entries to come.
    let mut ahead = status();
    ahead.ahead_bytes = 4 << 20;
    ahead.disk.used_bytes += ahead.ahead_bytes;
    ahead.capacity_bytes += ahead.ahead_bytes;
    let said = |status: &Status| Report::new(&about(), status, &now()).journal.room_s.unwrap();
    let more = ahead.ahead_bytes as f64 / 10.0 / ahead.accept_rate;
    assert!((said(&ahead) - said(&status()) - more).abs() < 0.01);
}

#[test]
fn silence_of_the_broker_counts_from_sixty_seconds() {
    let mut silent = status();
    silent.uplinks[0].oldest_inflight = Some(Span::from_secs(60));
    assert_eq!(codes(&silent), Vec::<String>::new());
    silent.uplinks[0].oldest_inflight = Some(Span::from_millis(60_001));
    assert_eq!(codes(&silent), ["puback_overdue"]);
}

#[test]
fn a_backlog_that_grows_has_no_end() {
    let mut growing = status();
    growing.accept_rate = 40.0;
    assert_eq!(Report::new(&about(), &growing, &now()).uplink.drain_eta_s, None);
    growing.uplinks[0].backlog = 0;
    assert_eq!(Report::new(&about(), &growing, &now()).uplink.drain_eta_s, Some(0.0));
}

#[test]
fn what_the_disk_got_is_told_a_day_and_a_reading() {
    let report = Report::new(&about(), &status(), &now());
    assert_eq!(report.journal.disk_written_bytes, None);
    let mut wear = Wear::default();
    wear.saw(at(0), 30_000_000, 0);
    wear.saw(at(300), 38_000_000, 100);
    let journal = report.clone().with_disk_written(Some(38_000_000), &wear).journal;
    assert_eq!(journal.disk_written_bytes, Some(38_000_000));
    assert_eq!((journal.disk_bytes_per_day, journal.disk_bytes_per_reading), (None, None));
    wear.saw(at(700), 38_400_000, 300);
    let journal = report.with_disk_written(Some(38_400_000), &wear).journal;
    assert_eq!(journal.disk_bytes_per_day, Some(86_400_000));
    assert_eq!(journal.disk_bytes_per_reading, Some(2_000.0));
}

#[test]
fn a_clock_that_nobody_vouches_for_is_trouble_once_nothing_waits_for_it() {
    let mut lost = status();
    lost.clock.reading.state = ClockState::Unsynchronized;
    lost.clock.held_for = Some(Span::from_secs(20));
    assert_eq!(codes(&lost), Vec::<String>::new());
    lost.clock.held_for = None;
    assert_eq!(codes(&lost), ["clock_untrusted"]);
    let detail = &Report::new(&about(), &lost, &now()).degraded[0].detail;
    assert!(detail.ends_with("run chronyd, or `tidegate clock set now --error 2s`"), "{detail}");
}
