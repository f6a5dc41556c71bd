//! The dashboard and the alerts name what there is.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::exposition::Exposition;
use super::promql::parse;
use super::support::gateway::{Door, Gateway};
use super::support::process::wait;

const RULES: &str = include_str!("../../config/prometheus/tidegate.rules.yml");
const DASHBOARD: &str = include_str!("../../config/grafana/tidegate.json");

/// Labels that Prometheus adds, and the one metric that it makes itself.
const ADDED: [&str; 2] = ["instance", "job"];
const UP: &str = "up";

/// Every value of that key, wherever it is.
fn values<'v>(value: &'v Value, key: &str) -> Vec<&'v Value> {
    match value {
        Value::Object(fields) => {
            let inner =
                fields.iter().flat_map(
                    |(name, inner)| {
                        if name == key { vec![inner] } else { values(inner, key) }
                    },
                );
            inner.collect()
        }
        Value::Array(items) => items.iter().flat_map(|item| values(item, key)).collect(),
        _ => Vec::new(),
    }
}

/// The queries of the alerts: each is one line.
fn alerts() -> Vec<&'static str> {
    RULES.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect()
}

fn panels() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let queries = values(&dashboard, "expr").into_iter().map(|query| query.as_str().unwrap());
    queries.map(|query| query.replace("$__rate_interval", "1m")).collect()
}

/// What is named and not there.
fn missing(seen: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let mut missing = BTreeSet::new();
    let queries = alerts().into_iter().map(str::to_owned).chain(panels());
    let shown = RULES
        .split("printf `")
        .skip(1)
        .map(|rest| rest.split('`').next().unwrap().replace("'%s'", "\"\""));
    for (name, labels) in queries.chain(shown).flat_map(|query| parse(&query)) {
        let own = |label: &String| !ADDED.contains(&label.as_str());
        match seen.get(&name) {
            _ if name == UP => {}
            None => drop(missing.insert(name)),
            Some(known) => {
                let unknown = labels.into_iter().filter(own).filter(|label| !known.contains(label));
                missing.extend(unknown.map(|label| format!("{name} by {label}")));
            }
        }
    }
    missing
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_they_read_is_there() {
    assert!(alerts().len() >= 10 && panels().len() >= 30);
    let gateway = Gateway::start("").await;
    gateway.tell_story();
    // How long the room lasts is there once a segment holds enough.
    for post in 0..40_u64 {
        let line = |i: u64| {
            let text: String = (1..16)
                .map(|k| {
                    format!(
                        "{:016x}",
                        (post * 50 + i + 1).wrapping_mul(k << 59 | 0x9e37_79b9_7f4a_7c15 ^ k)
                    )
                })
                .collect();
            format!("{{\"entity\":\"agv-3\",\"property\":\"note\",\"value\":\"{text}\"}}\n")
        };
        let body: String = (0..50).map(line).collect();
        assert_eq!(gateway.post(Door::Control, "/api/v1/readings", "", &body).status, 200);
    }
    let seen = RefCell::new(BTreeMap::new());
    let seen_all = || {
        // Rates and times left are there only while something comes in.
        let line = "{\"entity\":\"agv-3\",\"property\":\"speed\",\"value\":1}\n";
        assert_eq!(gateway.post(Door::Control, "/api/v1/readings", "", line).status, 200);
        let said = Exposition::plain(&gateway.get("/metrics").body);
        seen.borrow_mut().append(&mut said.names());
        missing(&seen.borrow()).is_empty()
    };
    for _ in 0..200 {
        if seen_all() {
            return;
        }
    }
    assert_eq!(missing(&seen.borrow()), BTreeSet::new());
}

#[test]
fn alerts_have_all_that_people_need() {
    let rules: Vec<&str> = RULES.split("- alert: ").skip(1).collect();
    assert_eq!(rules.len(), alerts().len());
    let names: BTreeSet<&str> = rules.iter().map(|rule| rule.lines().next().unwrap()).collect();
    assert_eq!(names.len(), rules.len(), "a name comes twice");
    for rule in rules {
        for part in ["expr: ", "severity: ", "summary: \"", "description: \""] {
            assert_eq!(rule.matches(part).count(), 1, "{part} in {rule}");
        }
        // Only labels that the query leaves, or that come with its metric.
        let query = rule.lines().find_map(|line| line.trim().strip_prefix("expr: ")).unwrap();
        assert!(!query.contains(": ") && !query.contains(" #"), "no plain YAML: {query}");
    }
}

#[test]
fn panels_say_what_they_show() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let has = |key: &str| panel[key].as_str().is_some_and(|text| !text.is_empty());
        assert!(has("title") && has("description"), "{panel}");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{panel}");
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let labels = parse(&query.replace("$__rate_interval", "1m"));
            assert!(labels.iter().all(|(_, labels)| labels.contains("instance")), "{query}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_seen_by_the_alerts() {
    let gateway = Gateway::start("").await;
    gateway.cut();
    wait("the uplink is down", || gateway.status()["uplinks"][0]["state"] == "down");
    let lines = "{\"entity\":\"agv-3\",\"property\":\"speed\",\"value\":1}\n".repeat(10);
    assert_eq!(gateway.post(Door::Control, "/api/v1/readings", "", &lines).status, 200);
    let said = Exposition::open(&{
        let accept = "Accept: application/openmetrics-text\r\n";
        gateway.ask(Door::Address, "GET", "/metrics", accept).body
    });
    assert_eq!(said.value("tidegate_uplink_connected", &[("uplink", "main")]), 0.0);
    assert_eq!(said.value("tidegate_journal_readings", &[]), 10.0);
    assert_eq!(said.value("tidegate_journal_results", &[]), 0.0);
    assert_eq!(said.value("tidegate_uplink_backlog_readings", &[("uplink", "main")]), 10.0);
    assert_eq!(said.find("tidegate_uplink_drain_eta_seconds", &[("uplink", "main")]), None);
    assert_eq!(said.value("tidegate_journal_committing", &[]), 1.0);
}
