//! Names, forms and numbers.

use std::collections::BTreeSet;

use super::exposition::Exposition;
use super::support::gateway::{Door, Gateway};
use super::support::process::wait;

/// What is promised: the name without its prefix, the type, the labels.
const PROMISED: [(&str, &str, &[&str]); 27] = [
    ("readings_accepted_total", "counter", &["source"]),
    ("readings_acknowledged_total", "counter", &["uplink"]),
    ("readings_evicted_total", "counter", &["reason", "source"]),
    ("readings_quarantined_total", "counter", &["reason", "source"]),
    ("readings_duplicate_total", "counter", &["source"]),
    ("journal_bytes", "gauge", &[]),
    ("journal_readings", "gauge", &[]),
    ("journal_oldest_age_seconds", "gauge", &[]),
    ("journal_written_bytes_total", "counter", &[]),
    ("commit_seconds", "histogram", &[]),
    ("uplink_connected", "gauge", &["uplink"]),
    ("uplink_inflight", "gauge", &["uplink"]),
    ("uplink_puback_seconds", "histogram", &["uplink"]),
    ("uplink_reconnects_total", "counter", &["uplink"]),
    ("uplink_backlog_readings", "gauge", &["uplink"]),
    ("uplink_drain_eta_seconds", "gauge", &["uplink"]),
    ("clock_state", "gauge", &[]),
    ("clock_max_error_seconds", "gauge", &[]),
    ("clock_steps_total", "counter", &["direction"]),
    ("event_lag_seconds", "histogram", &["source"]),
    ("future_rejected_total", "counter", &["source"]),
    ("watermark_lag_seconds", "gauge", &["window"]),
    ("source_idle", "gauge", &["source", "window"]),
    ("window_results_total", "counter", &["status", "window"]),
    ("window_state_bytes", "gauge", &["window"]),
    ("late_total", "counter", &["class", "window"]),
    ("duplicates_dropped_total", "counter", &["window"]),
];

fn scrape(gateway: &Gateway) -> Exposition {
    Exposition::plain(&gateway.get("/metrics").body)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_promised_is_there_by_name_type_and_labels() {
    let gateway = Gateway::start("").await;
    gateway.tell_story();
    let idle = [("source", "posted"), ("window", "pressure-10s")];
    wait("the source is idle", || scrape(&gateway).find("tidegate_source_idle", &idle).is_some());
    let said = scrape(&gateway);
    for (name, kind, labels) in PROMISED {
        let family = said.0.get(&format!("tidegate_{name}")).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(family.kind, kind, "{name}");
        for (sample, found, _) in &family.samples {
            let found: Vec<&str> =
                found.keys().map(String::as_str).filter(|label| *label != "le").collect();
            assert_eq!(found, labels, "{sample}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_those_of_the_story() {
    let gateway = Gateway::start("").await;
    gateway.tell_story();
    let said = scrape(&gateway);
    let posted = [("source", "posted")];
    let is = |name: &str, labels: &[(&str, &str)], value: f64| {
        assert_eq!(said.value(&format!("tidegate_{name}"), labels), value, "{name} {labels:?}");
    };
    is("readings_accepted_total", &posted, 45.0);
    is("future_rejected_total", &posted, 1.0);
    is("readings_duplicate_total", &posted, 0.0);
    is("source_up", &posted, 1.0);
    is("readings_evicted_total", &[("source", "posted"), ("reason", "evicted")], 0.0);
    is("readings_quarantined_total", &[("source", "posted"), ("reason", "syntax")], 1.0);
    is("late_total", &[("window", "pressure-10s"), ("class", "too_late")], 1.0);
    is("uplink_connected", &[("uplink", "main")], 1.0);
    is("uplink_drain_eta_seconds", &[("uplink", "main")], 0.0);
    is("journal_readings", &[], 0.0);
    is("journal_oldest_age_seconds", &[], 0.0);
    let version = env!("CARGO_PKG_VERSION");
    is("build_info", &[("gateway", "gw-07"), ("version", version)], 1.0);
    // Every reading and every result is with the broker.
    let results =
        said.value("tidegate_readings_accepted_total", &[("source", "window:pressure-10s")]);
    is("readings_acknowledged_total", &[("uplink", "main")], 45.0 + results);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_formats_say_the_same_and_neither_grows_with_the_data() {
    let gateway = Gateway::start("").await;
    gateway.tell_story();
    let open = || {
        let accept = "Accept: application/openmetrics-text;version=1.0.0\r\n";
        Exposition::open(&gateway.ask(Door::Address, "GET", "/metrics", accept).body)
    };
    // Of the readers' own: some are there only at times.
    let names = |said: Exposition| -> BTreeSet<String> {
        said.names().into_keys().filter(|name| !name.ends_with("_seconds")).collect()
    };
    assert_eq!(names(open()), names(scrape(&gateway)));
    let before = scrape(&gateway).series();
    let lines: String = (0..300)
        .map(|i| {
            format!(
                "{{\"entity\":\"e-{i}\",\"property\":\"p-{i}\",\"unit\":\"u-{i}\",\"value\":{i},\
                 \"id\":\"i-{i}\",\"quality\":\"bad\"}}\n"
            )
        })
        .collect();
    assert_eq!(gateway.post(Door::Control, "/api/v1/readings", "", &lines).status, 200);
    let after = scrape(&gateway).series();
    // Room, depth and the like come and go with the rate.
    assert!(after <= before + 4, "{before} series became {after}");
}
