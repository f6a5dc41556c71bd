//! Several uplinks: each gets everything at its own pace, and the journal keeps
//! what one of them still lacks.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::agent::{DEADLINE, Plant, first_seen};
use crate::support::broker::{Log, ScriptedBroker};
use crate::support::script::Script;

/// An agent with a second uplink, whose broker is away.
async fn two(first_keys: &str, second_keys: &str) -> (Plant, ScriptedBroker) {
    let second = ScriptedBroker::start(Script::default()).await;
    second.refuse(true);
    let mut plant = Plant::new(Script::default(), first_keys, &[("in", "")]).await;
    plant.configure(&format!(
        "[[uplink]]\nname = \"second\"\nurl = \"mqtt://127.0.0.1:{}\"\n\
         reconnect_max = \"1s\"\n{second_keys}",
        second.port()
    ));
    plant.run();
    (plant, second)
}

fn all(count: u64) -> Vec<u64> {
    (1..=count).collect()
}

fn backlogs(status: &Value) -> [&Value; 2] {
    [&status["uplinks"][0]["backlog"], &status["uplinks"][1]["backlog"]]
}

/// Payloads of readings by their number.
fn contents(log: &Log) -> BTreeMap<u64, &[u8]> {
    let readings = log.publishes.iter().filter(|seen| seen.topic == "tidegate/gw/readings/in");
    readings.map(|seen| (seen.json()["value"].as_u64().unwrap(), &seen.payload[..])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_gets_everything_and_the_journal_waits_for_the_slower() {
    let (mut plant, second) = two("", "").await;
    plant.feed("in", 300).join();
    plant.wait(|log| first_seen(log, "in").len() == 300).await;
    plant.wait_for_status("the first has all", |status| backlogs(status) == [0, 300]);
    let status = plant.status();
    let names = [&status["uplinks"][0]["name"], &status["uplinks"][1]["name"]];
    assert_eq!(names, ["main", "second"]);
    assert_eq!(status["uplinks"][0]["state"], "up");
    assert_ne!(status["uplinks"][1]["state"], "up");
    assert_eq!(status["uplinks"][0]["acknowledged"], 300);
    assert_eq!(status["uplinks"][1]["acknowledged"], 0);
    let books = |status: &Value| {
        let books = &status["sources"][0];
        [&books["accepted"], &books["acknowledged"], &books["stored"]].map(|n| n.as_u64().unwrap())
    };
    assert_eq!(books(&status), [300, 0, 300], "one of two is not all");
    let metrics = plant.get("/metrics");
    for line in [
        "tidegate_uplink_connected{uplink=\"main\"} 1.0",
        "tidegate_uplink_connected{uplink=\"second\"} 0.0",
        "tidegate_uplink_backlog_readings{uplink=\"main\"} 0.0",
        "tidegate_uplink_backlog_readings{uplink=\"second\"} 300.0",
        "tidegate_readings_acknowledged_total{uplink=\"main\"} 300",
        "tidegate_readings_acknowledged_total{uplink=\"second\"} 0",
    ] {
        assert!(metrics.lines().any(|known| known == line), "{line} is not in\n{metrics}");
    }
    // What the first has acknowledged is remembered within the next commits.
    plant.kill();
    plant.run();
    plant.wait_for_status("the second lacks 300 still", |status| backlogs(status) == [0, 300]);
    assert_eq!(books(&plant.status()), [300, 0, 300]);

    second.refuse(false);
    second.wait_for(|log| first_seen(log, "in").len() == 300, DEADLINE).await;
    plant.wait_for_status("both have all", |status| backlogs(status) == [0, 0]);
    assert_eq!(books(&plant.status()), [300, 300, 0]);
    let (one, two) = (plant.broker.log(), second.log());
    assert_eq!((first_seen(&one, "in"), first_seen(&two, "in")), (all(300), all(300)));
    assert_eq!(contents(&one), contents(&two), "the same names and bytes on both");
    assert_eq!(plant.stop(), Some(0));
    plant.run();
    plant.wait_for_status("nothing comes again", |status| {
        status["uplinks"][1]["state"] == "up" && backlogs(status) == [0, 0]
    });
    assert_eq!(first_seen(&second.log(), "in"), all(300));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_neither_misses_anything() {
    let (mut plant, second) = two("", "order = \"oldest-first\"").await;
    let feeder = plant.feed("in", 3_000);
    for round in 1..=3 {
        let so_far = 600 * round;
        plant.wait(|log| first_seen(log, "in").len() >= so_far).await;
        plant.kill();
        second.refuse(round != 2);
        plant.run();
    }
    second.refuse(false);
    feeder.join();
    plant.wait_for_status("both have all", |status| {
        backlogs(status) == [0, 0] && status["sources"][0]["stored"] == 0
    });
    for log in [plant.broker.log(), second.log()] {
        let seen: std::collections::BTreeSet<u64> = first_seen(&log, "in").into_iter().collect();
        assert!(seen.into_iter().eq(1..=3_000));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uplink_that_is_taken_out_holds_nothing_back_any_more() {
    let (mut plant, second) = two("", "").await;
    plant.rewrite("[journal]\n", "[journal]\nsegment_bytes = \"64KiB\"\nmax_bytes = \"64MiB\"\n");
    plant.stop();
    plant.run();
    plant.feed("in", 30_000).join();
    plant.wait_for_status("the first has all", |status| backlogs(status) == [0, 30_000]);
    let status = plant.status();
    let kept = status["journal"]["segments"].as_u64().unwrap();
    assert!(kept >= 3, "kept for the second: {}", status["journal"]);
    assert_eq!(plant.stop(), Some(0));
    let text = std::fs::read_to_string(&plant.config).unwrap();
    let (without, _) = text.rsplit_once("[[uplink]]").unwrap();
    std::fs::write(&plant.config, without).unwrap();
    plant.run();
    plant.wait_for_status("nothing is kept", |status| {
        let books = &status["sources"][0];
        let is_settled = books["stored"] == 0 && books["acknowledged"] == 30_000;
        is_settled && status["journal"]["segments"].as_u64().unwrap() <= 2
    });
    assert_eq!(plant.status()["uplinks"].as_array().unwrap().len(), 1);
    assert!(second.publishes().is_empty());
    plant.feed("in", 10).join();
    plant.wait_for_status("it goes on", |status| status["sources"][0]["acknowledged"] == 30_010);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_added_gets_what_the_first_still_lacks_and_all_that_comes() {
    let mut plant = Plant::start(Script::default(), "", &["in"]).await;
    plant.feed("in", 100).join();
    plant.wait_for_status("all arrived", |status| status["uplink"]["backlog"] == 0);
    assert_eq!(plant.stop(), Some(0));
    let second = ScriptedBroker::start(Script::default()).await;
    plant.configure(&format!(
        "[[uplink]]\nname = \"second\"\nurl = \"mqtt://127.0.0.1:{}\"",
        second.port()
    ));
    plant.run();
    plant.feed("in", 50).join();
    let of_new = |log: &Log| log.publishes.iter().filter(|p| p.topic.contains("readings")).count();
    second.wait_for(|log| of_new(log) >= 50, DEADLINE + Duration::from_secs(1)).await;
    plant.wait_for_status("both have all", |status| backlogs(status) == [0, 0]);
    let seqs: Vec<_> = second
        .publishes()
        .iter()
        .filter(|seen| seen.topic.contains("readings"))
        .map(|seen| seen.json()["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (101..=150).collect::<Vec<_>>());
}
