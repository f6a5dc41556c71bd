//! Field cases of the buffer: its cap, its books, the space it gives back.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::agent::Plant;
use crate::ledger::Ledger;
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
