//! W-08: a reader that sends again. Every reading counts once, its sender gets
//! every receipt, and what only looks alike is no repeat.

use std::collections::BTreeSet;

use super::restart::{by_seq, kill_on_the_way};
use super::*;

/// By the reader's ids; times say nothing by when they come.
const BY_ID: &str = "[source.time]\nlive = false\n[source.dedupe]\nkey = \"id\"";
const BY_TIME: &str = "[source.time]\nlive = false\n[source.dedupe]\nkey = \"event_time\"";

/// Reading `n` of value 1.
fn numbered(n: i64, at_ms: i64) -> String {
    format!("{{\"entity\":\"a\",\"property\":\"n\",\"id\":{n},\"time\":{at_ms},\"value\":1}}\n")
}

/// Readings 1 to 60, one a second of the minute from noon; 40 and 41 share time
/// and value.
fn minute() -> Vec<String> {
    let time = |n| if n == 41 { 40 } else { n };
    (1..=60).map(|n| numbered(n, NOON + (time(n) - 1) * SECOND)).collect()
}

/// What closes the minute.
fn closing() -> String {
    numbered(61, NOON + 65 * SECOND)
}

fn ids(log: &Log) -> Vec<String> {
    let readings = by_seq(log, "readings/a");
    readings.values().map(|reading| reading["id"].as_str().unwrap().to_owned()).collect()
}

fn up_to(last: i64) -> Vec<String> {
    (1..=last).map(|n| n.to_string()).collect()
}

fn duplicates(plant: &Plant) -> Value {
    let status = plant.status();
    let sources = status["sources"].as_array().unwrap();
    sources.iter().find(|source| source["name"] == "a").unwrap()["duplicates"].clone()
}

/// The result of the minute: 60 readings of 1, nothing twice.
async fn is_whole(plant: &Plant) {
    let log = settled(plant, "w", "a", 1).await;
    let results = on(&log, "windows/w");
    assert_eq!(rows(&log, "w", "a"), ["a 2026-03-01T12:00:00 1 final 60"]);
    assert_eq!(results[0]["sum"], 60);
    assert_eq!(results[0]["coverage"]["received"], 60);
    assert_eq!(ids(&log), up_to(61));
}

#[tokio::test(flavor = "multi_thread")]
async fn w_08_redelivered_readings_count_once_and_alike_ones_all() {
    let plant = plant(&["a"], BY_ID, MINUTES).await;
    let lines = minute();
    let mut first = lines[..45].to_vec();
    first.insert(10, lines[9].clone());
    feed(&plant, "a", &first);
    // A connection of its own, as after a break.
    feed(&plant, "a", &lines[29..35]);
    feed(&plant, "a", &lines[45..]);
    feed(&plant, "a", &[closing()]);
    is_whole(&plant).await;
    assert_eq!(duplicates(&plant), 7);
    let metrics = get(&plant, "/metrics");
    for line in [
        "tidegate_readings_duplicate_total{source=\"a\"} 7",
        "tidegate_readings_accepted_total{source=\"a\"} 61",
        "tidegate_duplicates_dropped_total{window=\"w\"} 7",
    ] {
        assert!(metrics.lines().any(|known| known == line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn w_08_what_was_durable_before_a_kill_or_a_stop_is_a_repeat_after_it() {
    let mut plant = plant(&["a"], BY_ID, MINUTES).await;
    let lines = minute();
    feed(&plant, "a", &lines[..30]);
    plant.kill();
    plant.run();
    feed(&plant, "a", &lines[..45]);
    assert_eq!(duplicates(&plant), 30);
    plant.kill();
    plant.run();
    feed(&plant, "a", &lines[..50]);
    assert_eq!(duplicates(&plant), 45);
    assert_eq!(plant.stop(), Some(0));
    plant.run();
    feed(&plant, "a", &lines);
    assert_eq!(duplicates(&plant), 50);
    feed(&plant, "a", &[closing()]);
    is_whole(&plant).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w_08_without_its_checkpoint_the_memory_comes_from_the_journal() {
    let mut plant = plant(&["a"], BY_ID, MINUTES).await;
    let lines = minute();
    feed(&plant, "a", &lines[..50]);
    let checkpoint = plant.folder().join("data/state/dedupe");
    assert_eq!(plant.stop(), Some(0));
    std::fs::remove_file(&checkpoint).unwrap();
    plant.run();
    feed(&plant, "a", &lines[..55]);
    assert_eq!(duplicates(&plant), 50);
    assert!(!plant.log().contains("may not all be known"), "{}", plant.log());
    assert_eq!(plant.stop(), Some(0));
    std::fs::write(&checkpoint, "of no use").unwrap();
    plant.run();
    feed(&plant, "a", &lines);
    assert_eq!(duplicates(&plant), 55);
    assert!(plant.log().contains("may not all be known"), "{}", plant.log());
    feed(&plant, "a", &[closing()]);
    is_whole(&plant).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w_08_a_reader_that_begins_anew_after_every_kill_under_way_counts_once() {
    let mut plant = plant(&["a"], BY_ID, "").await;
    let lines: Vec<_> = (1..=12_000).map(|n| numbered(n, NOON + n)).collect();
    for at in [2_000, 4_000, 6_000] {
        kill_on_the_way(&mut plant, &lines, at);
        plant.run();
    }
    feed(&plant, "a", &lines);
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    assert_eq!(ids(&plant.broker.log()), up_to(12_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn properties_of_one_line_share_its_id_and_are_readings_of_their_own() {
    let plant = plant(&["a"], BY_ID, "").await;
    let line = |id: &str| {
        format!("{{\"entity\":\"a\",{id}\"time\":{NOON},\"values\":{{\"p\":1,\"q\":1}}}}\n")
    };
    feed(&plant, "a", &[line("\"id\":\"x\","), line("\"id\":\"y\",")]);
    feed(&plant, "a", &[line("\"id\":\"x\",")]);
    // Without an id nothing is a repeat.
    feed(&plant, "a", &[line(""), line("")]);
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let seen = by_seq(&plant.broker.log(), "readings/a");
    let told: Vec<_> = seen.values().map(|r| (r["property"].clone(), r["id"].clone())).collect();
    let told: Vec<_> = told.iter().map(|(p, id)| (p.as_str().unwrap(), id.as_str())).collect();
    let (x, y) = (Some("x"), Some("y"));
    let expected = [("p", x), ("q", x), ("p", y), ("q", y)];
    let without = [("p", None), ("q", None)].repeat(2);
    assert_eq!(told, [expected.to_vec(), without].concat());
    assert_eq!(duplicates(&plant), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn by_event_time_a_series_has_one_reading_at_an_instant() {
    let mut plant = plant(&["a"], BY_TIME, "").await;
    let sent = |plant: &Plant| {
        let readings = by_seq(&plant.broker.log(), "readings/a");
        readings.values().map(|r| r["value"].as_i64().unwrap()).collect::<BTreeSet<_>>()
    };
    feed(&plant, "a", &[line("a", NOON, 1), line("a", NOON + 1, 2), line("b", NOON, 3)]);
    plant.kill();
    plant.run();
    let timeless = "{\"entity\":\"a\",\"property\":\"n\",\"value\":6}\n".to_owned();
    feed(&plant, "a", &[line("a", NOON, 1), line("a", NOON, 4), line("a", NOON + 2, 5)]);
    feed(&plant, "a", &[timeless.clone(), timeless]);
    // A device whose clock is not set says so with each reading.
    feed(&plant, "a", &[line("c", 0, 7), line("c", 0, 8)]);
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    assert_eq!(sent(&plant), BTreeSet::from([1, 2, 3, 5, 6, 7, 8]));
    assert_eq!(duplicates(&plant), 2);
    let status = plant.status();
    assert_eq!(status["sources"][0]["accepted"], 8);
    assert_eq!(status["sources"][0]["dedupe_known"], 4);
}
