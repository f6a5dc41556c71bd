//! Field cases of the buffer: its cap, its books, the space it gives back.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::agent::{Plant, first_seen};
use crate::ledger::Ledger;
use crate::support::limit::MemoryLimit;
use crate::support::script::Script;

const CAP: u64 = 20_000_000;

/// What a folder takes on disk, as `du` counts.
fn du(path: &Path) -> u64 {
    let Ok(facts) = path.symlink_metadata() else { return 0 };
    let inside = std::fs::read_dir(path).into_iter().flatten().flatten();
    facts.blocks() * 512 + inside.map(|entry| du(&entry.path())).sum::<u64>()
}

/// Looks at a folder all the time, and keeps the most it ever took.
struct Watch {
    most: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Watch {
    fn on(folder: &Path) -> Self {
        let (most, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (folder, shared, over) = (folder.to_owned(), Arc::clone(&most), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                shared.fetch_max(du(&folder), Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        Self { most, is_over, thread }
    }

    fn most(self) -> u64 {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.join().unwrap();
        self.most.load(Ordering::SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b_04_the_cap_is_real_and_the_loss_is_accounted_for_to_the_record() {
    // Three times 67,000 readings of some 300 bytes: 60 MB.
    const COUNT: u64 = 67_000;
    const SOURCES: [&str; 3] = ["a", "b", "c"];
    let mut plant = Plant::new(Script::default(), "", &SOURCES.map(|name| (name, ""))).await;
    let cap = format!("max_bytes = \"{CAP}B\"\nsegment_bytes = \"1MiB\"");
    plant.rewrite("commit_interval = \"50ms\"", &format!("commit_interval = \"50ms\"\n{cap}"));
    plant.broker.refuse(true);
    plant.run();
    plant.status();
    let watch = Watch::on(&plant.folder().join("data"));
    let resident = plant.kernel_says("status", "VmHWM");
    let feeders = SOURCES.map(|source| plant.feed_heavy(source, source, COUNT, 256));
    feeders.into_iter().for_each(|feeder| feeder.join());
    let kept = plant.status()["journal"]["bytes"].as_u64().unwrap();
    let most = watch.most();
    assert!(most <= CAP / 10 * 11, "{most} bytes on disk");
    assert!(kept >= CAP / 10 * 6, "{kept} bytes kept");
    let grown = plant.kernel_says("status", "VmHWM") - resident;
    assert!(grown < 64 * 1024, "resident memory has grown by {grown} KiB");

    plant.broker.refuse(false);
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let (log, status) = (plant.broker.log(), plant.status());
    let metrics = plant.page("/metrics");
    for (at, source) in SOURCES.into_iter().enumerate() {
        let ledger = Ledger::of(&log, source);
        ledger.assert_complete(COUNT);
        let gone = ledger.missing.len() as u64;
        assert!(gone > 0 && ledger.missing.keys().copied().eq(1..=gone), "{source}: the oldest");
        assert!(ledger.missing.values().all(|reason| reason == "evicted"));
        let books = &status["sources"][at];
        assert_eq!((&books["accepted"], &books["stored"]), (&COUNT.into(), &0.into()));
        assert_eq!((&books["evicted"], &books["lost"]), (&gone.into(), &0.into()));
        assert_eq!(books["acknowledged"], COUNT - gone);
        let counted =
            format!("readings_evicted_total{{source=\"{source}\",reason=\"evicted\"}} {gone}\n");
        assert!(metrics.contains(&counted), "{counted}");
    }
    let said = plant.log();
    let count = |text: &str| said.lines().filter(|line| line.contains(text)).count();
    assert_eq!(count("the buffer is full"), 1, "{said}");
    assert!(count("readings will not arrive") <= 6, "once a source, then summarized: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn b_03_disk_space_comes_back_after_each_drain() {
    const COUNT: u64 = 30_000;
    let mut plant = Plant::new(Script::default(), "", &[("in", "")]).await;
    plant.rewrite("50ms\"", "50ms\"\nsegment_bytes = \"1MiB\"");
    plant.run();
    let data = plant.folder().join("data");
    let mut after = Vec::new();
    for cycle in 0..5 {
        plant.broker.refuse(true);
        plant.broker.close_all();
        plant.feed_heavy("in", &format!("cycle-{cycle}"), COUNT, 256).join();
        let peak = du(&data);
        plant.broker.refuse(false);
        plant.wait_for_status("drained, and only the newest segment is left", |status| {
            status["uplink"]["backlog"] == 0 && status["journal"]["segments"] == 1
        });
        let left = du(&data);
        assert!(left * 10 <= peak * 3, "cycle {cycle}: {left} of {peak} bytes");
        after.push(left);
    }
    // Within one segment: where in it a cycle ends is chance.
    assert!(after[4] <= after[0] / 4 * 5 + (1 << 20), "{after:?}");
}

/// 200,000 readings: `tests/soak.rs` takes as many as wanted.
#[tokio::test(flavor = "multi_thread")]
async fn b_07_a_backlog_is_drained_within_little_memory() {
    const COUNT: u64 = 200_000;
    let mut plant = Plant::new(Script::default(), "", &[("in", ""), ("live", "")]).await;
    plant.broker.refuse(true);
    plant.run();
    plant.feed("in", COUNT).join();
    plant.kill();
    let limit = MemoryLimit::of(192, "b_07");
    plant.broker.refuse(false);
    plant.run_within(&limit);
    let uptime_s = plant.status()["uptime_s"].as_f64().unwrap();
    assert!(uptime_s <= 60.0, "ready after {uptime_s} s");
    let live = plant.feed("live", 1_000);
    plant.wait_for_status("live readings are taken while it drains", |_| live.acked() == 1_000);
    live.join();
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    for (source, count) in [("in", COUNT), ("live", 1_000)] {
        let ledger = Ledger::of(&plant.broker.log(), source);
        ledger.assert_complete(count);
        assert_eq!(ledger.missing, [].into(), "{source}");
    }
    assert_eq!(limit.kills(), 0);
    assert!(!plant.log().contains("bug"), "{}", plant.log());
    assert_eq!(plant.stop(), Some(0));
}

/// The newest segment of a journal, as its engine has it.
fn open_newest(plant: &Plant) -> sled::Db {
    let entries = std::fs::read_dir(plant.folder().join("data/journal")).unwrap();
    let folders = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    sled::Config::new().path(folders.max().unwrap()).open().unwrap()
}

/// The keys of all frames, in the order of the journal.
fn frames(db: &sled::Db) -> Vec<sled::IVec> {
    db.scan_prefix(b"f").keys().map(Result::unwrap).collect()
}

fn damage(db: &sled::Db, key: &sled::IVec) {
    let noise: Vec<u8> = (0..16_u8).map(|n| n.wrapping_mul(151) ^ 0x5a).collect();
    db.insert(key, noise).unwrap();
    db.flush().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn b_08_a_record_that_cannot_be_read_costs_itself() {
    let mut plant = Plant::new(Script::default(), "", &[("in", "")]).await;
    plant.broker.refuse(true);
    plant.run();
    // The 500th alone in its frame, by a commit of its own.
    let mut stream = plant.connect("in");
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let mut acked = 0;
    for numbers in [1..=499, 500..=500, 501..=1_000] {
        let (last, mut lines) = (*numbers.end(), String::new());
        for n in numbers {
            let _ = writeln!(lines, "{{\"entity\":\"e\",\"property\":\"p\",\"value\":{n}}}");
        }
        stream.write_all(lines.as_bytes()).unwrap();
        while acked < last {
            let mut answer = String::new();
            answers.read_line(&mut answer).unwrap();
            let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
            acked = answer["acked"].as_u64().unwrap();
        }
    }
    plant.kill();
    let db = open_newest(&plant);
    let keys = frames(&db);
    let at = |key: &sled::IVec| u64::from_be_bytes(key[1..9].try_into().unwrap());
    // What happens to the clock has offsets too, so that the 500th is not at 499.
    let alone = keys.windows(2).find(|two| at(&two[0]) >= 499 && at(&two[1]) == at(&two[0]) + 1);
    damage(&db, &alone.unwrap()[0]);
    drop(db);

    plant.broker.refuse(false);
    plant.run();
    plant.wait_for_status("nothing waits", |status| {
        status["uplink"]["backlog"] == 0 && status["sources"][0]["lost"] == 1
    });
    let sent = first_seen(&plant.broker.log(), "in");
    assert!(sent.into_iter().eq((1..=499).chain(501..=1_000)), "the others, in their order");
    let ledger = Ledger::of(&plant.broker.log(), "in");
    ledger.assert_complete(1_000);
    assert_eq!(ledger.missing, [(500, "corrupt".to_owned())].into());
    let books = plant.status()["sources"][0].clone();
    assert_eq!((&books["accepted"], &books["acknowledged"]), (&1_000.into(), &999.into()));
    assert_eq!(plant.stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn b_08_the_loss_of_a_damaged_frame_is_bounded_and_reported() {
    const COUNT: u64 = 5_000;
    let mut plant = Plant::new(Script::default(), "", &[("in", "")]).await;
    plant.broker.refuse(true);
    plant.run();
    plant.feed("in", COUNT).join();
    plant.kill();
    let db = open_newest(&plant);
    let keys = frames(&db);
    damage(&db, &keys[keys.len() / 2]);
    drop(db);

    plant.broker.refuse(false);
    plant.run();
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let sent = first_seen(&plant.broker.log(), "in");
    assert!(sent.is_sorted(), "the others, in their order");
    let ledger = Ledger::of(&plant.broker.log(), "in");
    ledger.assert_complete(COUNT);
    let lost = ledger.missing.len() as u64;
    assert!((1..=256).contains(&lost), "{lost} lost with one frame");
    assert!(ledger.missing.values().all(|reason| reason == "corrupt"));
    assert_eq!(plant.status()["sources"][0]["lost"], lost);
    assert_eq!(plant.stop(), Some(0));
}
