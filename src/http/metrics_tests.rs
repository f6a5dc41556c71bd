use std::sync::Arc;

use super::super::clock::{Clock, Steps};
use super::super::status::{Journal, Source, SourceHealth, Uplink};
use super::clock::clock_number;
use super::*;
use crate::http::config::{ConfigInForce, Reload};
use crate::http::lateness::SourceLateness;
use crate::http::orders::Ordered;
use crate::http::windows::Window;

pub(in crate::http) fn report() -> Report {
    let journal = Journal {
        readings: 290,
        results: 20,
        uncommitted: 0,
        bytes: 4_096,
        max_bytes: 1 << 30,
        free_bytes: 9_999,
        reserve_free: 0,
        written_bytes: 8_192,
        disk_written_bytes: Some(40_960),
        disk_bytes_per_day: None,
        disk_bytes_per_reading: None,
        segments: 1,
        capacity_bytes: 1 << 30,
        fill: 0.0,
        depth_s: Some(29.0),
        room_s: None,
        oldest_event_time: None,
        oldest_age_s: Some(12.5),
        full: None,
        is_committing: true,
    };
    let uplink = Uplink {
        name: "main".to_owned(),
        state: "up".to_owned(),
        for_s: Some(1.0),
        retry_in_s: None,
        reason: None,
        inflight: 7,
        inflight_max: 100,
        oldest_inflight_s: None,
        acknowledged_per_s: 0.0,
        acknowledged: 700,
        backlog: 290,
        backfill: 0,
        drain_eta_s: Some(10.0),
        held: Vec::new(),
    };
    let clock = Clock {
        source: "ntp".to_owned(),
        state: "synchronized".to_owned(),
        max_error_us: Some(1_200),
        timebase: 1,
        boot: String::new(),
        uptime_s: 0.0,
        synchronized_for_s: None,
        rate_ppm: None,
        steps: Steps { forward: 2, back: 1 },
        events: Vec::new(),
        open_readings: 12,
        held_for_s: None,
        restamped: 100,
        bounded: 7,
        corrections_waiting: 3,
        kernel: None,
        chrony: None,
        ptp: None,
        timesyncd_at: None,
        words: Vec::new(),
    };
    let press = Source {
        name: "press".to_owned(),
        accepted: 1_000,
        acknowledged: 700,
        stored: 290,
        evicted: 10,
        lost: 0,
        quarantined: 0,
        duplicates: 9,
        within_deadband: 12,
        dedupe_known: 100,
        dedupe_forgotten: 1,
        refused_full: 0,
        implausible: 0,
        last_reading_age_s: None,
        health: None,
    };
    Report {
        config: None,
        v: 1,
        gateway: "gw-07".to_owned(),
        version: String::new(),
        at: String::new(),
        started_at: String::new(),
        uptime_s: 1.0,
        epoch: String::new(),
        degraded: Vec::new(),
        accepted_per_s: 0.0,
        memory_bytes: Some(12_345_678),
        journal,
        uplinks: vec![uplink.clone()],
        uplink,
        clock,
        sources: vec![press],
        lateness: vec![SourceLateness {
            name: "press".to_owned(),
            count: 1_000,
            p50_s: 0.012,
            p95_s: 0.5,
            p99_s: 1.5,
            p999_s: 4.0,
            p9999_s: 9.0,
            max_s: 9.0,
            fast_bound_s: 2.0,
            correction_bound_s: 10.0,
            advice: String::new(),
        }],
        windows: vec![Window {
            name: "pressure-10s".to_owned(),
            watermark: None,
            watermark_lag_s: Some(20.001),
            is_behind: false,
            held_by: Vec::new(),
            panes: 12,
            series: 4,
            state_bytes: 3_210,
            waits_for: None,
            waits_until: None,
            idle_sources: vec!["press".to_owned()],
            fired: 9,
            revised: 3,
            finals: 5,
            retracted: 1,
            too_late: 2,
            between: 6,
            duplicates: 4,
        }],
        notices: Arc::default(),
        ordered: vec![Ordered {
            output: "socket 127.0.0.1:7100".to_owned(),
            watermark: None,
            watermark_lag_s: Some(20.5),
            held: 12,
            held_bytes: 3_600,
            idle_sources: Vec::new(),
            in_order: 40,
            early: 2,
            late: 1,
        }],
    }
}

fn counts() -> BTreeMap<String, ResultCounts> {
    let of_window =
        ResultCounts { provisional: 12, finals: 5, retracted: 1, refined: 3, too_late: 2 };
    BTreeMap::from([("pressure-10s".to_owned(), of_window)])
}

fn lines(metrics: &Metrics, report: &Report) -> Vec<String> {
    metrics.text(report, &counts()).lines().map(str::to_owned).collect()
}

#[track_caller]
fn has(lines: &[String], line: &str) {
    assert!(lines.iter().any(|one| one == line), "{line} is not in\n{}", lines.join("\n"));
}

#[test]
fn depth_and_room_in_time_are_there_where_they_are_known() {
    let metrics = Metrics::new(vec!["main".to_owned()]);
    let mut report = report();
    (report.uptime_s, report.journal.room_s) = (61.5, Some(86_400.0));
    let known = lines(&metrics, &report);
    has(&known, "tidegate_uptime_seconds 61.5");
    has(&known, "tidegate_journal_capacity_bytes 1073741824.0");
    has(&known, "tidegate_journal_depth_seconds 29.0");
    has(&known, "tidegate_journal_room_seconds 86400.0");
    (report.journal.room_s, report.journal.depth_s) = (None, None);
    let unknown = lines(&metrics, &report);
    for name in ["tidegate_journal_depth_seconds ", "tidegate_journal_room_seconds "] {
        assert!(!unknown.iter().any(|line| line.starts_with(name)), "{name}");
    }
}

#[test]
fn books_and_counts_have_the_names_of_the_contract() {
    let metrics = Metrics::new(vec!["main".to_owned()]);
    metrics.evicted("press", "evicted", 10);
    metrics.quarantined("press", "syntax", 2);
    metrics.quarantined("press", "syntax", 1);
    metrics.implausible("press", 4);
    metrics.reconnected(UplinkId(0));
    let lines = lines(&metrics, &report());
    has(&lines, r#"tidegate_readings_accepted_total{source="press"} 1000"#);
    has(&lines, r#"tidegate_readings_acknowledged_total{uplink="main"} 700"#);
    has(&lines, r#"tidegate_readings_evicted_total{source="press",reason="evicted"} 10"#);
    has(&lines, r#"tidegate_readings_quarantined_total{source="press",reason="syntax"} 3"#);
    has(&lines, r#"tidegate_readings_duplicate_total{source="press"} 9"#);
    has(&lines, r#"tidegate_readings_deadband_total{source="press"} 12"#);
    has(&lines, r#"tidegate_duplicates_dropped_total{window="pressure-10s"} 4"#);
    has(&lines, r#"tidegate_future_rejected_total{source="press"} 4"#);
    has(&lines, r#"tidegate_uplink_reconnects_total{uplink="main"} 1"#);
    has(&lines, "tidegate_journal_written_bytes_total 8192");
    has(&lines, "tidegate_disk_written_bytes_total 40960");
    has(&lines, "tidegate_journal_bytes 4096.0");
    has(&lines, "tidegate_journal_readings 290.0");
    has(&lines, "tidegate_journal_oldest_age_seconds 12.5");
    has(&lines, r#"tidegate_uplink_connected{uplink="main"} 1.0"#);
    has(&lines, r#"tidegate_uplink_inflight{uplink="main"} 7.0"#);
    has(&lines, r#"tidegate_uplink_drain_eta_seconds{uplink="main"} 10.0"#);
    has(&lines, r#"tidegate_uplink_held_sources{uplink="main"} 0.0"#);
    has(&lines, "tidegate_journal_results 20.0");
    has(&lines, "tidegate_resident_memory_bytes 12345678.0");
    has(&lines, "tidegate_journal_committing 1.0");
    has(&lines, "tidegate_clock_state 3.0");
    has(&lines, "tidegate_clock_max_error_seconds 0.0012");
    has(&lines, r#"tidegate_clock_source{source="ntp"} 1.0"#);
    has(&lines, r#"tidegate_clock_steps_total{direction="forward"} 2"#);
    has(&lines, r#"tidegate_clock_steps_total{direction="back"} 1"#);
    has(&lines, "tidegate_clock_open_readings 12.0");
    has(&lines, "tidegate_clock_corrections_waiting 3.0");
    has(&lines, r#"tidegate_readings_retimed_total{origin="restamped"} 100"#);
    has(&lines, r#"tidegate_readings_retimed_total{origin="bounded"} 7"#);
    assert_eq!(lines.last().unwrap(), "# EOF");
}

#[test]
fn histograms_count_into_fixed_buckets() {
    let metrics = Metrics::new(vec!["main".to_owned()]);
    metrics.committed(Span::from_millis(3));
    metrics.committed(Span::from_secs(60));
    metrics.acknowledged(UplinkId(0), Span::from_millis(20));
    metrics.lag("press", Span::from_millis(-5_000), Span::from_secs(2), 9);
    let lines = lines(&metrics, &report());
    has(&lines, r#"tidegate_commit_seconds_bucket{le="0.002"} 0"#);
    has(&lines, r#"tidegate_commit_seconds_bucket{le="0.005"} 1"#);
    has(&lines, r#"tidegate_commit_seconds_bucket{le="+Inf"} 2"#);
    has(&lines, r#"tidegate_uplink_puback_seconds_bucket{le="0.025",uplink="main"} 1"#);
    has(&lines, r#"tidegate_event_lag_seconds_bucket{le="-1.0",source="press"} 1"#);
    has(&lines, r#"tidegate_event_lag_seconds_count{source="press"} 2"#);
}

#[test]
fn what_is_not_known_is_absent() {
    let metrics = Metrics::new(vec!["main".to_owned()]);
    metrics.text(&report(), &counts());
    let mut unknown = report();
    unknown.uplinks[0].drain_eta_s = None;
    unknown.clock.max_error_us = None;
    unknown.clock.state = "unsynchronized".to_owned();
    let lines = lines(&metrics, &unknown);
    has(&lines, "tidegate_clock_state 0.0");
    let names = ["tidegate_uplink_drain_eta_seconds{", "tidegate_clock_max_error_seconds "];
    for name in names {
        assert!(!lines.iter().any(|line| line.starts_with(name)), "{name}");
    }
}

#[test]
fn one_source_disciplines_the_clock_at_a_time() {
    let metrics = Metrics::new(vec!["main".to_owned()]);
    metrics.text(&report(), &counts());
    let mut other = report();
    other.clock.source = "manual".to_owned();
    other.clock.state = "holdover".to_owned();
    let lines = lines(&metrics, &other);
    let is_source = |line: &&String| line.starts_with("tidegate_clock_source{");
    let sources: Vec<&String> = lines.iter().filter(is_source).collect();
    assert_eq!(sources, [r#"tidegate_clock_source{source="manual"} 1.0"#]);
    has(&lines, "tidegate_clock_state 2.0");
}

#[test]
fn windows_say_how_far_they_are_and_what_they_said() {
    let metrics = Metrics::new(vec!["main".to_owned()]);
    let said = lines(&metrics, &report());
    has(&said, r#"tidegate_watermark_lag_seconds{window="pressure-10s"} 20.001"#);
    has(&said, r#"tidegate_source_idle{window="pressure-10s",source="press"} 1.0"#);
    let results = |status: &str, count: u64| {
        let labels = format!(r#"window="pressure-10s",status="{status}""#);
        has(&said, &format!("tidegate_window_results_total{{{labels}}} {count}"));
    };
    results("provisional", 12);
    results("final", 5);
    results("retracted", 1);
    has(&said, r#"tidegate_window_state_bytes{window="pressure-10s"} 3210.0"#);
    has(&said, r#"tidegate_late_total{window="pressure-10s",class="refined"} 3"#);
    has(&said, r#"tidegate_late_total{window="pressure-10s",class="too_late"} 2"#);
    let mut awake = report();
    awake.windows[0].idle_sources.clear();
    let said = lines(&metrics, &awake);
    assert!(!said.iter().any(|line| line.starts_with("tidegate_source_idle{")), "it came back");
}

#[test]
fn ordered_outputs_count_what_came_out_by_its_place() {
    let said = lines(&Metrics::new(vec!["main".to_owned()]), &report());
    let label = r#"output="socket 127.0.0.1:7100""#;
    has(&said, &format!("tidegate_ordered_watermark_lag_seconds{{{label}}} 20.5"));
    has(&said, &format!("tidegate_ordered_held_readings{{{label}}} 12.0"));
    for (place, count) in [("in_order", 40), ("early", 2), ("late", 1)] {
        let labels = format!(r#"{label},place="{place}""#);
        has(&said, &format!("tidegate_ordered_readings_total{{{labels}}} {count}"));
    }
}

#[test]
fn a_window_that_said_nothing_counts_zero() {
    let mut quiet = report();
    quiet.windows[0].watermark_lag_s = None;
    let text = Metrics::new(vec!["main".to_owned()]).text(&quiet, &BTreeMap::new());
    let said: Vec<String> = text.lines().map(str::to_owned).collect();
    has(&said, r#"tidegate_window_results_total{window="pressure-10s",status="final"} 0"#);
    has(&said, r#"tidegate_late_total{window="pressure-10s",class="too_late"} 0"#);
    assert!(!said.iter().any(|line| line.starts_with("tidegate_watermark_lag_seconds{")));
}

#[test]
fn sources_say_how_they_fare() {
    let health = SourceHealth { state: "up".to_owned(), errors: 3, ..SourceHealth::default() };
    let mut fine = report().with_health([("press".to_owned(), health.clone())]);
    fine.sources[0].last_reading_age_s = Some(2.5);
    fine.sources[0].refused_full = 6;
    let metrics = Metrics::new(vec!["main".to_owned()]);
    let said = lines(&metrics, &fine);
    has(&said, r#"tidegate_source_up{source="press"} 1.0"#);
    has(&said, r#"tidegate_source_errors_total{source="press"} 3"#);
    has(&said, r#"tidegate_source_missed_polls_total{source="press"} 0"#);
    has(&said, r#"tidegate_source_last_reading_age_seconds{source="press"} 2.5"#);
    has(&said, r#"tidegate_readings_refused_full_total{source="press"} 6"#);
    for state in ["starting", "degraded", "down", "stopped"] {
        let health = SourceHealth { state: state.to_owned(), ..health.clone() };
        let said = lines(&metrics, &report().with_health([("press".to_owned(), health)]));
        has(&said, r#"tidegate_source_up{source="press"} 0.0"#);
    }
    // One that is configured no more says nothing.
    let said = lines(&metrics, &report());
    assert!(!said.iter().any(|line| line.starts_with("tidegate_source_up{")));
}

#[test]
fn what_has_not_happened_yet_counts_zero() {
    let said = lines(&Metrics::new(vec!["main".to_owned()]), &report());
    for reason in ["evicted", "corrupt", "refused_by_broker"] {
        let labels = format!(r#"source="press",reason="{reason}""#);
        has(&said, &format!("tidegate_readings_evicted_total{{{labels}}} 0"));
    }
    has(&said, r#"tidegate_future_rejected_total{source="press"} 0"#);
    has(&said, r#"tidegate_uplink_reconnects_total{uplink="main"} 0"#);
    has(&said, r#"tidegate_uplink_puback_seconds_count{uplink="main"} 0"#);
}

#[test]
fn a_store_in_trouble_is_seen() {
    let mut bad = report();
    bad.journal.is_committing = false;
    bad.journal.full = Some("reserve".to_owned());
    let refused = Reload { at: String::new(), ok: false, detail: String::new() };
    let (file, loaded_at) = (String::new(), String::new());
    bad.config = Some(ConfigInForce { file, loaded_at, last_reload: Some(refused) });
    let said = lines(&Metrics::new(vec!["main".to_owned()]), &bad);
    has(&said, "tidegate_journal_committing 0.0");
    has(&said, "tidegate_config_refused 1.0");
    has(&said, r#"tidegate_journal_full{limit="reserve"} 1.0"#);
    has(&said, r#"tidegate_journal_full{limit="quota"} 0.0"#);
}

#[test]
fn a_name_cannot_break_out_of_its_label() {
    let mut odd = report();
    odd.windows[0].name = "a\"b\\c\nd".to_owned();
    let said = lines(&Metrics::new(vec!["main".to_owned()]), &odd);
    has(&said, r#"tidegate_window_state_bytes{window="a\"b\\c\nd"} 3210.0"#);
}

#[test]
fn a_reader_gets_the_format_that_it_asks_for() {
    let metrics = Metrics::new(vec!["main".to_owned()]);
    let asked = "application/openmetrics-text;version=1.0.0,text/plain;q=0.1";
    let (content_type, text) = metrics.text_for(asked, &report(), &counts());
    assert_eq!(content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(text.contains("# TYPE tidegate_readings_accepted counter\n"));
    assert!(text.ends_with("# EOF\n"));
    for other in ["", "*/*", "text/plain"] {
        let (content_type, text) = metrics.text_for(other, &report(), &counts());
        assert_eq!(content_type, "text/plain; version=0.0.4; charset=utf-8");
        assert!(text.contains("# TYPE tidegate_readings_accepted_total counter\n"));
        assert!(!text.contains("# EOF"));
    }
}

#[test]
fn states_count_upwards_with_trust() {
    let words = ["unsynchronized", "stepped", "holdover", "synchronized"];
    assert_eq!(words.map(clock_number), [0.0, 1.0, 2.0, 3.0]);
}
