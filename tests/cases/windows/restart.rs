//! W-10: stops, kills and outages in the middle of windows, and results where
//! they are shown on site.

use std::collections::BTreeMap;

use super::*;
use crate::support::process;

/// Revised for one minute after its end.
fn revised() -> String {
    MINUTES.replace("allowed_lateness = \"0s\"", "allowed_lateness = \"1m\"")
}

/// Three minutes of readings with one late one that revises the first window and
/// one that is too late for it, and what closes all.
fn lines() -> Vec<String> {
    let mut lines = each_second("a", NOON, 180);
    lines.insert(80, line("a", NOON + 10_500, 100));
    lines.insert(140, line("a", NOON + 20_500, 1_000));
    lines.push(line("a", NOON + 5 * MINUTE + 5 * SECOND, 1));
    lines
}

/// What [`lines`] must come to.
const RESULTS: [&str; 7] = [
    "a 2026-03-01T12:00:00 1 provisional 60",
    "a 2026-03-01T12:00:00 2 provisional 61",
    "a 2026-03-01T12:00:00 2 final 61",
    "a 2026-03-01T12:01:00 1 provisional 60",
    "a 2026-03-01T12:01:00 1 final 60",
    "a 2026-03-01T12:02:00 1 provisional 60",
    "a 2026-03-01T12:02:00 1 final 60",
];

/// The publishes of a topic by their number; what came again was the same.
fn by_seq(log: &Log, topic: &str) -> BTreeMap<u64, Value> {
    let mut known: BTreeMap<u64, Value> = BTreeMap::new();
    for seen in on(log, topic) {
        let before = known.entry(seen["seq"].as_u64().unwrap()).or_insert_with(|| seen.clone());
        assert_eq!(*before, seen, "another content under the same number");
    }
    known
}

/// Without what differs from one run to the next.
fn timeless(seen: &BTreeMap<u64, Value>) -> Vec<Value> {
    let strip = |value: &Value| {
        let mut value = value.clone();
        for key in ["epoch", "materialized_at", "ingest_time", "time"] {
            value.as_object_mut().unwrap().remove(key);
        }
        value
    };
    seen.values().map(strip).collect()
}

/// Results, late readings and readings of a run that is interrupted after so
/// many lines, in turn.
async fn run(stops: &[usize], interrupt: impl Fn(&mut Plant)) -> [Vec<Value>; 3] {
    let mut plant = plant(&["a"], FILE, &revised()).await;
    let lines = lines();
    let mut from = 0;
    for stop in stops {
        feed(&plant, "a", &lines[from..*stop]);
        interrupt(&mut plant);
        plant.run();
        from = *stop;
    }
    feed(&plant, "a", &lines[from..]);
    let count = lines.len();
    plant.wait(|log| by_seq(log, "readings/a").len() == count).await;
    let log = settled(&plant, "w", "a", RESULTS.len()).await;
    assert!(!plant.log().contains("replay"), "{}", plant.log());
    ["windows/w", "late/w", "readings/a"].map(|topic| timeless(&by_seq(&log, topic)))
}

fn check(seen: &[Vec<Value>; 3]) {
    let mut told: Vec<_> = seen[0].iter().map(row).collect();
    told.sort_by_key(|row| RESULTS.iter().position(|known| known == row));
    assert_eq!(told, RESULTS);
    assert_eq!(seen[1].len(), 1);
    assert_eq!(seen[1][0]["value"], 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn w_10_sigterm_in_the_middle_of_a_window_changes_nothing() {
    let whole = run(&[], |_| ()).await;
    check(&whole);
    let stopped = run(&[30, 67, 100], |plant| assert_eq!(plant.stop(), Some(0))).await;
    assert_eq!(stopped, whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn w_10_sigkill_in_the_middle_of_a_window_changes_nothing() {
    let whole = run(&[], |_| ()).await;
    check(&whole);
    let killed = run(&[30, 66, 81, 91, 141, 182], Plant::kill).await;
    assert_eq!(killed, whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_and_the_api_show_what_the_broker_gets() {
    let mut plant = Plant::new(Script::default(), "", &[("a", FILE)]).await;
    let path = plant.folder().join("results.jsonl");
    plant.configure(&revised());
    plant.configure(&format!("[[output]]\ntype = \"jsonl\"\npath = \"{}\"", path.display()));
    plant.run();
    feed(&plant, "a", &lines());
    let log = settled(&plant, "w", "a", RESULTS.len()).await;
    let payloads = |topic: &str| {
        let of_topic = log.publishes.iter().filter(|seen| seen.topic == topic);
        let text = of_topic.map(|seen| String::from_utf8(seen.payload.clone()).unwrap());
        text.collect::<Vec<_>>()
    };
    let sent = payloads("tidegate/gw/windows/w");
    assert_eq!(sent.len(), RESULTS.len());
    let written = || std::fs::read_to_string(&path).unwrap_or_default();
    process::wait("the file has them", || written().lines().count() >= RESULTS.len());
    assert_eq!(written().lines().collect::<Vec<_>>(), sent);
    // The newest of each series, one object.
    let newest = sent.last().unwrap();
    assert_eq!(get(&plant, "/api/v1/windows"), format!("[{newest}]"));
    assert_eq!(get(&plant, "/api/v1/windows?window=w"), format!("[{newest}]"));
    assert_eq!(get(&plant, "/api/v1/windows?window=other"), "[]");
}
