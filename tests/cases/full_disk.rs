//! A small file system, filled by the agent and by somebody else, and emptied
//! again.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::agent::Plant;
use crate::ledger::Ledger;
use crate::support::mount::Tmpfs;
use crate::support::script::Script;
use crate::support::shim::{Ailment, BadDisk};

/// Readings of one round, and characters of each one's id: twice what fits.
const ROUND: u64 = 40_000;
const ID_CHARS: usize = 256;

struct Small {
    plant: Plant,
    disk: Tmpfs,
}

/// An agent with all of a file system of 16 MiB but the least reserve, 8 MiB.
async fn small(when_full: &str, test: &str) -> Option<Small> {
    let plant = Plant::new(Script::default(), "", &[("in", "")]).await;
    let disk = Tmpfs::mount(&plant.folder().join("data"), 16, test)?;
    let journal = format!(
        "commit_interval = \"50ms\"\nsegment_bytes = \"1MiB\"\nreserve_free = \"0B\"\n\
         when_full = \"{when_full}\""
    );
    plant.rewrite("commit_interval = \"50ms\"", &journal);
    Some(Small { plant, disk })
}

fn says(status: &Value, code: &str) -> bool {
    status["degraded"].as_array().unwrap().iter().any(|one| one["code"] == code)
}

fn is_well(status: &Value) -> bool {
    let is_clean = !["full", "store_failing"].iter().any(|code| says(status, code));
    is_clean && status["journal"]["full"].is_null() && status["journal"]["is_committing"] == true
}

/// Three rounds: the broker goes, the agent fills the disk up to its reserve,
/// somebody else takes the rest and gives it back, the broker comes again.
async fn three_rounds(when_full: &str) -> Option<Small> {
    let mut small = small(when_full, when_full).await?;
    let plant = &mut small.plant;
    plant.run();
    for round in 0..3 {
        plant.broker.refuse(true);
        plant.broker.close_all();
        let feeder = plant.feed_heavy("in", &format!("round-{round}"), ROUND, ID_CHARS);
        plant.wait_for_status("the reserve is reached", |status| {
            status["journal"]["full"] == "reserve" && says(status, "full")
        });
        let before = evicted(&plant.status());
        let filler = small.disk.fill();
        plant.wait_for_status("the disk is full, or older readings make room", |status| {
            status["journal"]["free_bytes"] == 0 || evicted(status) > before
        });
        drop(filler);
        plant.broker.refuse(false);
        plant.wait_for_status("all is well and nothing waits", |status| {
            is_well(status) && status["uplink"]["backlog"] == 0 && feeder.acked() == ROUND
        });
        feeder.join();
    }
    Some(small)
}

fn evicted(status: &Value) -> u64 {
    status["sources"][0]["evicted"].as_u64().unwrap()
}

fn accepted(status: &Value) -> u64 {
    let books = &status["sources"][0];
    let part = |name: &str| books[name].as_u64().unwrap();
    assert_eq!(part("stored"), 0, "{books}");
    let gone = part("acknowledged") + part("evicted") + part("lost");
    assert_eq!(part("accepted"), gone, "{books}");
    part("accepted")
}

fn assert_said_once(plant: &Plant) {
    let log = plant.log();
    let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert!((1..=3).contains(&count("the buffer is full")), "{log}");
    assert!((1..=3).contains(&count("the buffer has room again")), "{log}");
    assert!(count("a commit failed") <= 3, "{log}");
    assert_eq!(count(" ready: version="), 1, "started once: {log}");
    assert!(log.lines().count() < 60, "no line a record:\n{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_under_drop_oldest_costs_the_oldest_and_heals() {
    let Some(small) = three_rounds("drop-oldest").await else { return };
    let plant = small.plant;
    let ledger = Ledger::of(&plant.broker.log(), "in");
    ledger.assert_complete(accepted(&plant.status()));
    assert!(ledger.missing.values().all(|reason| reason == "evicted"));
    assert!(!ledger.missing.is_empty());
    assert_said_once(&plant);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_under_drop_newest_refuses_and_heals() {
    let Some(small) = three_rounds("drop-newest").await else { return };
    whole(&small.plant);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_under_block_makes_senders_wait_and_heals() {
    let Some(small) = three_rounds("block").await else { return };
    whole(&small.plant);
}

/// Nothing was given up: every reading that has a receipt arrived.
fn whole(plant: &Plant) {
    let ledger = Ledger::of(&plant.broker.log(), "in");
    ledger.assert_complete(accepted(&plant.status()));
    assert_eq!(ledger.missing, [].into());
    for round in 0..3 {
        let values = ledger.values(&format!("round-{round}"));
        assert!(values.iter().copied().eq(1..=ROUND), "round {round}");
    }
    assert_said_once(plant);
}

/// Sends lines that are refused, a few in every commit, until it is told to end.
fn send_bad_lines(plant: &Plant) -> impl FnOnce() + use<> {
    let mut stream = plant.connect("in");
    let is_over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_over);
    let thread = std::thread::spawn(move || {
        while !told.load(Ordering::SeqCst) && stream.write_all(b"oops\n").is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    move || {
        is_over.store(true, Ordering::SeqCst);
        thread.join().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_refused_lines_nor_a_restart_on_a_full_disk_hold_up_the_eviction() {
    let Some(mut small) = small("drop-oldest", "refused lines on a full disk").await else {
        return;
    };
    let plant = &mut small.plant;
    plant.broker.refuse(true);
    plant.run();
    let is_reached = |status: &Value| status["journal"]["full"] == "reserve";
    let feeder = plant.feed_heavy("in", "first", ROUND, ID_CHARS);
    let end_bad_lines = send_bad_lines(plant);
    plant.wait_for_status("the reserve is reached", is_reached);
    let before = evicted(&plant.status());
    let filler = small.disk.fill();
    plant.wait_for_status("older readings make room", |status| evicted(status) > before);
    end_bad_lines();
    drop(filler);
    plant.wait_for_status("all is taken", |_| feeder.acked() == ROUND);
    feeder.join();

    let feeder = plant.feed_heavy("in", "second", ROUND, ID_CHARS);
    plant.wait_for_status("the reserve is reached", is_reached);
    let before = evicted(&plant.status());
    assert_eq!(plant.stop(), Some(0), "{}", plant.log());
    let filler = small.disk.fill();
    plant.run();
    plant.wait_for_status("older readings make room", |status| evicted(status) > before);
    drop(filler);
    plant.wait_for_status("all is taken", |_| feeder.acked() == ROUND);
    feeder.join();
    plant.broker.refuse(false);
    plant.wait_for_status("all is well and nothing waits", |status| {
        is_well(status) && status["uplink"]["backlog"] == 0
    });
    let ledger = Ledger::of(&plant.broker.log(), "in");
    ledger.assert_complete(accepted(&plant.status()));
    assert!(ledger.missing.values().all(|reason| reason == "evicted"));
}

/// An agent on a disk that can be made bad.
async fn on_bad_disk(journal: &str, test: &str) -> Option<(Plant, BadDisk)> {
    let mut plant = Plant::new(Script::default(), "", &[("in", "")]).await;
    let disk = BadDisk::build(plant.folder(), &plant.folder().join("data"), test)?;
    plant.rewrite("commit_interval = \"50ms\"", &format!("commit_interval = \"50ms\"\n{journal}"));
    plant.run_on(&disk);
    Some((plant, disk))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_hangs_ends_the_agent_and_the_next_start_goes_on() {
    let Some((mut plant, disk)) = on_bad_disk("stuck_after = \"5s\"", "a hung store").await else {
        return;
    };
    plant.feed("in", 1_000).join();
    disk.set(Ailment::Hang);
    let feeder = plant.feed_heavy("in", "more", 1_000, 0);
    assert_eq!(plant.ended(), Some(74), "{}", plant.log());
    let log = plant.log();
    assert!(log.contains("the store has not answered for 5s: the disk of"), "{log}");
    assert_eq!(feeder.acked(), 0, "no receipt without a sync");
    disk.set(Ailment::None);
    plant.run_on(&disk);
    feeder.join();
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let ledger = Ledger::of(&plant.broker.log(), "in");
    ledger.assert_complete(accepted(&plant.status()));
    assert_eq!(ledger.missing, [].into());
    assert!(ledger.values("in").into_iter().eq(1..=1_000));
    assert!(ledger.values("more").into_iter().eq(1..=1_000));
}

/// The configuration lies on the same disk: a pipe that nobody writes to stands for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_hangs_ends_the_agent_also_while_a_reload_hangs_on_the_same_disk() {
    let test = "a hung store and a hung reload";
    let Some((mut plant, disk)) = on_bad_disk("stuck_after = \"5s\"", test).await else {
        return;
    };
    plant.feed("in", 10).join();
    disk.set(Ailment::Hang);
    let feeder = plant.feed_heavy("in", "more", 1_000, 0);
    std::fs::remove_file(&plant.config).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&plant.config).status().unwrap().success());
    plant.signal("-HUP");
    assert_eq!(plant.ended(), Some(74), "{}", plant.log());
    let log = plant.log();
    assert!(log.contains("the store has not answered for 5s"), "{log}");
    assert!(!log.contains("the old one stays"), "it ended before the reload did: {log}");
    drop(feeder);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_turns_read_only_or_fails_heals_without_a_restart() {
    let Some((mut plant, disk)) = on_bad_disk("segment_bytes = \"1MiB\"", "a bad disk").await
    else {
        return;
    };
    for (round, ailment) in [Ailment::ReadOnly, Ailment::Error, Ailment::ReadOnly, Ailment::Error]
        .into_iter()
        .enumerate()
    {
        let before = plant.feed_heavy("in", &format!("before-{round}"), 5_000, 0);
        plant.wait_for_status("it works", |_| before.acked() > 0);
        disk.set(ailment);
        let during = plant.feed_heavy("in", &format!("during-{round}"), 1_000, 0);
        plant.wait_for_status("it says so", |status| says(status, "store_failing"));
        assert_eq!(during.acked(), 0, "no receipt");
        disk.set(Ailment::None);
        before.join();
        during.join();
        plant.wait_for_status("all is well and nothing waits", |status| {
            is_well(status) && status["uplink"]["backlog"] == 0
        });
    }
    let ledger = Ledger::of(&plant.broker.log(), "in");
    ledger.assert_complete(accepted(&plant.status()));
    assert_eq!(ledger.missing, [].into());
    for round in 0..4 {
        assert!(ledger.values(&format!("before-{round}")).into_iter().eq(1..=5_000));
        assert!(ledger.values(&format!("during-{round}")).into_iter().eq(1..=1_000));
    }
    let log = plant.log();
    let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!(count("a commit failed"), 4, "{log}");
    assert_eq!(count("the store works again"), 4, "{log}");
    assert_eq!(plant.stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_read_only_disk_the_agent_does_not_start_and_says_what_to_do() {
    let Some((mut plant, disk)) = on_bad_disk("", "a read-only disk").await else { return };
    plant.feed("in", 10).join();
    assert_eq!(plant.stop(), Some(0));
    disk.set(Ailment::ReadOnly);
    plant.run_on(&disk);
    assert_eq!(plant.ended(), Some(74));
    let log = plant.log();
    assert!(log.contains("Read-only file system"), "{log}");
}

/// The kernel lets nobody take writing away while files are open for it, so a disk
/// that turns read-only beneath a running agent is the shim's work, above. Here the
/// mount is real.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_read_only_mount_keeps_the_agent_from_starting_until_it_is_writable() {
    let Some(Small { mut plant, disk }) = small("drop-oldest", "a read-only mount").await else {
        return;
    };
    plant.broker.refuse(true);
    plant.run();
    plant.feed("in", 1_000).join();
    assert!(!disk.remount("ro"), "with files open for writing");
    plant.feed_heavy("in", "after", 1_000, 0).join();
    plant.kill();
    assert!(disk.remount("ro"));
    plant.run();
    assert_eq!(plant.ended(), Some(74), "{}", plant.log());
    assert!(plant.log().contains("Read-only file system"), "{}", plant.log());
    assert!(disk.remount("rw"));
    plant.broker.refuse(false);
    plant.run();
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let ledger = Ledger::of(&plant.broker.log(), "in");
    ledger.assert_complete(accepted(&plant.status()));
    assert_eq!(ledger.missing, [].into());
    for entity in ["in", "after"] {
        assert!(ledger.values(entity).into_iter().eq(1..=1_000), "{entity}");
    }
    assert_eq!(plant.stop(), Some(0));
}
