//! Field cases of operation: stops, kills, gauges, a second agent.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::agent::{Plant, first_seen};
use crate::support::process::wait;
use crate::support::script::{Acks, Script};

#[tokio::test(flavor = "multi_thread")]
async fn o_01_sigterm_while_nothing_is_acknowledged_ends_in_time_and_loses_nothing() {
    let script = Script { acks: Acks::None, ..Script::default() };
    let mut plant = Plant::start(script, "", &["in"]).await;
    plant.feed("in", 1_000).join();
    plant.wait(|log| log.publishes.len() > 50).await;
    #[expect(clippy::disallowed_methods, reason = "the deadline of systemd is real time")]
    let started = Instant::now();
    assert_eq!(plant.stop(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(60), "TimeoutStopSec would have struck");
    plant.broker.set_script(Script::default());
    plant.run();
    plant.wait(|log| first_seen(log, "in").len() == 1_000).await;
    assert_eq!(first_seen(&plant.broker.log(), "in"), (1..=1_000).collect::<Vec<_>>());
}

/// The first waits for PUBACKs that do not come; the second does not wait for that.
#[tokio::test(flavor = "multi_thread")]
async fn o_01_a_second_sigterm_ends_at_once_with_0_and_loses_nothing() {
    let script = Script { acks: Acks::None, ..Script::default() };
    let mut plant = Plant::start(script, "", &["in"]).await;
    plant.feed("in", 1_000).join();
    plant.wait(|log| log.publishes.len() > 50).await;
    plant.signal("-TERM");
    wait("it is stopping", || plant.log().contains("stopping"));
    plant.signal("-TERM");
    assert_eq!(plant.ended(), Some(0));
    let log = plant.log();
    assert!(log.contains("asked twice: stopping at once"), "{log}");
    assert!(!log.contains("stopped: "), "it did not wait: {log}");
    plant.broker.set_script(Script::default());
    plant.run();
    plant.wait(|log| first_seen(log, "in").len() == 1_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o_05_the_depth_is_right_after_sigkill_and_after_the_drain() {
    let mut plant = Plant::start(Script::default(), "", &["in"]).await;
    plant.broker.refuse(true);
    plant.broker.close_all();
    plant.feed("in", 1_000).join();
    plant.wait_for_status("a thousand wait", |status| status["uplink"]["backlog"] == 1_000);
    plant.kill();
    plant.run();
    let status = plant.status();
    assert_eq!(status["uplink"]["backlog"], 1_000);
    let books = &status["sources"][0];
    assert_eq!((&books["accepted"], &books["stored"]), (&1_000.into(), &1_000.into()));
    plant.broker.refuse(false);
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let books = plant.status()["sources"][0].clone();
    assert_eq!((&books["acknowledged"], &books["stored"]), (&1_000.into(), &0.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_agent_ends_with_75_and_says_who_holds_the_directory() {
    let plant = Plant::start(Script::default(), "", &["in"]).await;
    plant.status();
    let second = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["run", "-c"])
        .arg(&plant.config)
        .output()
        .unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(75), "{said}");
    assert!(said.contains("process"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn o_04_an_outage_is_said_at_its_start_and_its_end() {
    let plant = Plant::start(Script::default(), "", &["in"]).await;
    plant.wait_for_status("the uplink is up", |status| status["uplink"]["state"] == "up");
    plant.broker.refuse(true);
    plant.broker.close_all();
    plant.feed("in", 2_000).join();
    plant.wait_for_status("they wait", |status| status["uplink"]["backlog"] == 2_000);
    plant.broker.refuse(false);
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let log = plant.log();
    let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!(count("the uplink is down"), 1, "{log}");
    assert_eq!(count("the uplink is up"), 2, "{log}");
    assert_eq!(count("the backlog is drained"), 1, "{log}");
    assert!(log.lines().count() < 15, "no line a record:\n{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn o_05_b_04_at_the_quota_the_oldest_go_and_gap_records_name_every_one() {
    const COUNT: u64 = 150_000;
    let mut plant = Plant::start(Script::default(), "", &["in"]).await;
    plant.status();
    assert_eq!(plant.stop(), Some(0));
    plant.broker.refuse(true);
    let config = std::fs::read_to_string(&plant.config).unwrap();
    let small = "commit_interval = \"50ms\"\nmax_bytes = \"1MiB\"\nsegment_bytes = \"128KiB\"";
    let config = config.replace("commit_interval = \"50ms\"", small);
    std::fs::write(&plant.config, config).unwrap();
    plant.run();
    plant.feed("in", COUNT).join();
    let books = plant.status()["sources"][0].clone();
    assert!(books["evicted"].as_u64().unwrap() > 0, "{books}");
    plant.broker.refuse(false);
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let log = plant.broker.log();
    let mut covered = std::collections::BTreeSet::new();
    for seen in log.publishes.iter().filter(|seen| seen.topic == "tidegate/gw/readings/in") {
        assert!(covered.insert(seen.json()["seq"].as_u64().unwrap()), "sent twice");
    }
    let mut evicted = std::collections::BTreeSet::new();
    for gap in log.publishes.iter().filter(|seen| seen.topic == "tidegate/gw/gaps/in") {
        let gap = gap.json();
        assert_eq!(gap["reason"], "evicted");
        let (first, last) = (gap["first_seq"].as_u64().unwrap(), gap["last_seq"].as_u64().unwrap());
        evicted.extend(first..=last);
    }
    assert!(covered.is_disjoint(&evicted), "delivered and written off");
    assert_eq!(evicted.first(), Some(&1), "the oldest go first");
    let books = plant.status()["sources"][0].clone();
    assert_eq!(books["evicted"].as_u64(), Some(evicted.len() as u64));
    covered.extend(evicted);
    assert_eq!(covered, (1..=COUNT).collect());
}
