//! Files that are followed, by a source and a driver of the test's own that takes
//! batches as the agent does: each where the one before it ended.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate::config::{Config, Source};
use tidegate::core::reading::{Arrival, Refusal, Value};
use tidegate::core::seam::{Batch, Outcome};
use tidegate::core::time::{IngestTime, Span, Uptime};
use tidegate::source::health::HealthState;
use tidegate::source::{SourceHandle, SourceMessage, spawn_at};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// No fact that these tests wait for takes so long.
async fn soon<T>(fact: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60), fact).await.unwrap()
}

fn source(path: &Path, keys: &str) -> Source {
    let text = format!(
        "[gateway]\nid = 'g'\ndata_dir = '/d'\n[[uplink]]\nurl = 'mqtt://b'\n[[source]]\nname = 's'\n\
         type = 'file'\npath = '{}'\npoll = '10ms'\nentity = 'e'\n{keys}\n[source.map]\nvalues = ''\n",
        path.display()
    );
    Config::parse(&text, Path::new("t.toml")).unwrap().sources.remove(0)
}

/// What is durable, and a source that runs or does not.
struct Plant {
    folder: tempfile::TempDir,
    keys: String,
    pattern: String,
    numbers: Vec<u64>,
    refused: Vec<Refusal>,
    position: Arc<[u8]>,
    uptime_s: Arc<AtomicU64>,
    running: Option<Running>,
}

struct Running {
    handle: SourceHandle,
    messages: mpsc::Receiver<SourceMessage>,
    stop: watch::Sender<bool>,
}

impl Plant {
    fn new(pattern: &str, keys: &str) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            keys: keys.to_owned(),
            pattern: pattern.to_owned(),
            numbers: Vec::new(),
            refused: Vec::new(),
            position: Arc::default(),
            uptime_s: Arc::default(),
            running: None,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&mut self) {
        let (out, messages) = mpsc::channel(32);
        let (stop, stopped) = watch::channel(false);
        let uptime_s = Arc::clone(&self.uptime_s);
        let clock = Arc::new(move || Arrival {
            ingest: IngestTime::from_unix_ns(7),
            uptime: Uptime::from_ns(uptime_s.load(Ordering::SeqCst) * 1_000_000_000),
            half_round_trip: Span::ZERO,
        });
        let source = source(&self.path(&self.pattern), &self.keys);
        let handle = spawn_at(&source, Arc::clone(&self.position), out, clock, stopped).unwrap();
        self.running = Some(Running { handle, messages, stop });
    }

    /// The next message, whatever it holds.
    async fn next(&mut self) -> SourceMessage {
        soon(self.running.as_mut().unwrap().messages.recv()).await.unwrap()
    }

    /// Takes a batch, or turns it away where it does not go on.
    fn take(&mut self, message: SourceMessage) {
        let Batch { readings, refused, advance, .. } = message.batch;
        let advance = advance.unwrap();
        let receipt = message.receipt.unwrap();
        if advance.from != self.position {
            receipt.send(Outcome::Full).unwrap();
            return;
        }
        self.position = advance.to;
        self.refused.extend(refused);
        self.numbers.extend(readings.iter().map(|reading| match reading.value {
            Value::I64(n) => n.cast_unsigned(),
            ref other => panic!("{other:?}"),
        }));
        // A source that was killed meanwhile asks no more.
        let _ = receipt.send(Outcome::Durable);
    }

    /// Takes what comes until there are so many numbers.
    async fn take_until(&mut self, count: usize) {
        while self.numbers.len() < count {
            let message = self.next().await;
            self.take(message);
        }
    }

    /// Takes what comes until so many inputs are refused.
    async fn take_until_refused(&mut self, count: usize) {
        while self.refused.len() < count {
            let message = self.next().await;
            self.take(message);
        }
    }

    /// SIGKILL: what is not taken is as if it had never been handed in.
    async fn kill(&mut self) {
        let running = self.running.take().unwrap();
        running.handle.join.abort();
        let _ = running.handle.join.await;
    }

    async fn stop(&mut self) {
        let running = self.running.take().unwrap();
        running.stop.send(true).unwrap();
        drop(running.messages);
        soon(running.handle.join).await.unwrap();
    }
}

fn lines(numbers: std::ops::RangeInclusive<u64>) -> String {
    numbers.map(|n| format!("{{\"n\":{n}}}\n")).collect()
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn up_to(count: u64) -> Vec<u64> {
    (1..=count).collect()
}

#[tokio::test]
async fn every_line_is_taken_once_however_often_the_source_is_killed() {
    let mut plant = Plant::new("*.jsonl", "");
    append(&plant.path("a.jsonl"), &lines(1..=20_000));
    append(&plant.path("b.jsonl"), &lines(20_001..=25_000));
    for round in 0..25 {
        plant.run();
        plant.take_until(round * 1_000 + 1).await;
        // Some are handed in, and nobody will ever know of them.
        plant.next().await;
        plant.kill().await;
    }
    plant.run();
    plant.take_until(25_000).await;
    assert_eq!(plant.numbers, up_to(25_000));
    plant.stop().await;
}

#[tokio::test]
async fn a_half_written_line_is_waited_for() {
    let mut plant = Plant::new("data", "");
    let path = plant.path("data");
    append(&path, "{\"n\":1}\n{\"n\":");
    plant.run();
    plant.take_until(1).await;
    append(&path, "2");
    plant.kill().await;
    plant.run();
    append(&path, "}\n");
    plant.take_until(2).await;
    assert_eq!((&plant.numbers, plant.refused.len()), (&up_to(2), 0));
}

#[tokio::test]
async fn a_last_line_without_an_end_counts_once_the_file_is_quiet() {
    let mut plant = Plant::new("data", "complete_after = '60s'");
    let path = plant.path("data");
    append(&path, "{\"n\":1}\n{\"n\":2}");
    plant.run();
    plant.take_until(1).await;
    plant.uptime_s.store(60, Ordering::SeqCst);
    plant.take_until(2).await;
    append(&path, "\n{\"n\":3}\n");
    plant.take_until(3).await;
    assert_eq!((&plant.numbers, plant.refused.len()), (&up_to(3), 0));
}

#[tokio::test]
async fn j_10_renamed_and_created_anew_also_while_nobody_looks() {
    let mut plant = Plant::new("data", "");
    let path = plant.path("data");
    let mut old = File::create(&path).unwrap();
    old.write_all(lines(1..=10).as_bytes()).unwrap();
    plant.run();
    plant.take_until(10).await;
    fs::rename(&path, plant.path("data.1")).unwrap();
    // Its writer has not noticed yet.
    old.write_all(lines(11..=12).as_bytes()).unwrap();
    plant.take_until(12).await;
    append(&path, &lines(13..=20));
    plant.take_until(20).await;
    // The same while the source is down.
    plant.stop().await;
    append(&path, &lines(21..=30));
    fs::rename(&path, plant.path("data.2")).unwrap();
    append(&path, &lines(31..=40));
    plant.run();
    plant.take_until(40).await;
    plant.numbers.sort_unstable();
    assert_eq!(plant.numbers, up_to(40));
}

#[tokio::test]
async fn j_10_a_renamed_file_that_matches_still_is_no_new_one() {
    let mut plant = Plant::new("data*", "");
    append(&plant.path("data"), &lines(1..=10));
    plant.run();
    plant.take_until(10).await;
    fs::rename(plant.path("data"), plant.path("data.1")).unwrap();
    append(&plant.path("data"), &lines(11..=20));
    plant.take_until(20).await;
    plant.kill().await;
    plant.run();
    append(&plant.path("data.1"), &lines(21..=21));
    plant.take_until(21).await;
    assert_eq!(plant.numbers, up_to(21));
}

#[tokio::test]
async fn j_10_copied_and_cut() {
    let mut plant = Plant::new("data", "");
    let path = plant.path("data");
    append(&path, &lines(1..=50));
    plant.run();
    plant.take_until(50).await;
    fs::copy(&path, plant.path("data.2")).unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    append(&path, &lines(51..=55));
    plant.take_until(55).await;
    // Grown beyond the old place before anybody looks again.
    plant.kill().await;
    OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    append(&path, &lines(56..=200));
    plant.run();
    plant.take_until(200).await;
    assert_eq!((&plant.numbers, plant.refused.len()), (&up_to(200), 0));
}

#[tokio::test]
async fn j_10_an_inode_that_is_used_again_is_another_file() {
    let mut plant = Plant::new("data", "");
    let path = plant.path("data");
    append(&path, &lines(1..=50));
    let inode = fs::metadata(&path).unwrap().ino();
    plant.run();
    plant.take_until(50).await;
    plant.stop().await;
    fs::remove_file(&path).unwrap();
    // Most file systems give it at once; whether or not, no line is missed.
    for at in 0..1_000 {
        append(&path, &lines(51..=200));
        if fs::metadata(&path).unwrap().ino() == inode {
            break;
        }
        fs::rename(&path, plant.path(&format!("other-{at}"))).unwrap();
    }
    append(&path, "");
    if fs::metadata(&path).unwrap().len() == 0 {
        append(&path, &lines(51..=200));
    }
    plant.run();
    plant.take_until(200).await;
    assert_eq!(plant.numbers, up_to(200));
}

#[tokio::test]
async fn j_10_a_hole_at_the_beginning_is_one_bad_input() {
    let mut plant = Plant::new("data", "");
    let path = plant.path("data");
    let writer = File::create(&path).unwrap();
    let first = lines(1..=30_000);
    writer.write_all_at(first.as_bytes(), 0).unwrap();
    plant.run();
    plant.take_until(30_000).await;
    // Somebody cuts the file, and the writer goes on where it was. Done under a
    // source that runs, it may be so quick that there is no hole to be seen.
    plant.kill().await;
    writer.set_len(0).unwrap();
    writer.write_all_at(lines(30_001..=30_005).as_bytes(), first.len() as u64).unwrap();
    plant.run();
    plant.take_until(30_005).await;
    assert_eq!(plant.numbers, up_to(30_005));
    let reasons: Vec<&str> = plant.refused.iter().map(|one| one.reason.as_str()).collect();
    let expected = format!("{}: {} NUL bytes in front of a line", path.display(), first.len());
    assert_eq!(reasons, [expected]);
    plant.kill().await;
    plant.run();
    append(&path, &lines(30_006..=30_006));
    plant.take_until(30_006).await;
    assert_eq!(plant.refused.len(), 1);
}

#[tokio::test]
async fn what_is_turned_away_comes_again_from_there_and_in_order() {
    let mut plant = Plant::new("data", "");
    append(&plant.path("data"), &lines(1..=3_000));
    plant.run();
    plant.take_until(1_000).await;
    let turned_away = plant.next().await;
    turned_away.receipt.unwrap().send(Outcome::Full).unwrap();
    // Those on their way do not go on from the last one taken.
    plant.take_until(3_000).await;
    assert_eq!(plant.numbers, up_to(3_000));
}

#[tokio::test]
async fn from_the_end_only_what_comes_is_read_and_later_files_whole() {
    let mut plant = Plant::new("*.log", "from = 'end'");
    append(&plant.path("a.log"), "{\"n\":98}\n{\"n\":");
    plant.run();
    // Where the end was becomes durable.
    let message = plant.next().await;
    assert!(message.batch.readings.is_empty());
    plant.take(message);
    plant.kill().await;
    append(&plant.path("a.log"), "1}\n");
    append(&plant.path("b.log"), &lines(2..=3));
    plant.run();
    plant.take_until(3).await;
    assert_eq!(plant.numbers, up_to(3));
}

#[tokio::test]
async fn a_bad_line_is_refused_once_with_its_place_and_crlf_and_bom_are_none() {
    let mut plant = Plant::new("data", "");
    let path = plant.path("data");
    append(&path, "\u{feff}{\"n\":1}\r\n\r\nbroken\n{\"n\":2}\n");
    plant.run();
    plant.take_until(2).await;
    plant.kill().await;
    append(&path, "worse\n{\"n\":3}\n");
    plant.run();
    plant.take_until(3).await;
    let places: Vec<&str> =
        plant.refused.iter().map(|one| one.reason.split(':').next().unwrap()).collect();
    assert_eq!(places, ["data, byte 14", "data, byte 29"]);
}

#[tokio::test]
async fn what_is_wrong_with_files_is_said_and_heals() {
    let mut plant = Plant::new("later/data", "");
    plant.run();
    let health = Arc::clone(&plant.running.as_ref().unwrap().handle.health);
    let is = |state| {
        let health = Arc::clone(&health);
        soon(async move {
            while health.view().state != state {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    };
    is(HealthState::Down).await;
    let said = health.view().detail.unwrap();
    assert!(said.contains("later: No such file or directory"), "{said}");
    fs::create_dir(plant.path("later")).unwrap();
    append(&plant.path("later/data"), &lines(1..=1));
    plant.take_until(1).await;
    is(HealthState::Up).await;
    assert_eq!(health.view().errors, 1);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_keeps_none_waiting() {
    let mut plant = Plant::new("*.jsonl", "");
    // Nothing is mapped at its beginning: reading there fails with EIO.
    std::os::unix::fs::symlink("/proc/self/mem", plant.path("a.jsonl")).unwrap();
    append(&plant.path("b.jsonl"), &lines(1..=3));
    plant.run();
    plant.take_until(3).await;
    let health = Arc::clone(&plant.running.as_ref().unwrap().handle.health);
    while health.view().state != HealthState::Degraded {
        soon(tokio::time::sleep(Duration::from_millis(5))).await;
    }
    let said = health.view().detail.unwrap();
    assert_eq!(
        said,
        format!("{}: Input/output error (os error 5)", plant.path("a.jsonl").display())
    );
    append(&plant.path("b.jsonl"), &lines(4..=5));
    plant.take_until(5).await;
    assert_eq!(plant.numbers, up_to(5));
    assert_eq!((health.view().state, health.view().errors), (HealthState::Degraded, 1));
}

#[tokio::test]
async fn a_file_that_is_gone_is_forgotten_after_its_last_line() {
    let mut plant = Plant::new("data", "");
    let path = plant.path("data");
    append(&path, "{\"n\":1}\n{\"n\":2}");
    plant.run();
    plant.take_until(1).await;
    fs::remove_file(&path).unwrap();
    let with_it = plant.position.len();
    plant.uptime_s.store(31, Ordering::SeqCst);
    plant.take_until(2).await;
    plant.uptime_s.store(120, Ordering::SeqCst);
    while plant.position.len() >= with_it {
        let message = plant.next().await;
        plant.take(message);
    }
    assert_eq!((&plant.numbers, plant.refused.len()), (&up_to(2), 0));
}

#[tokio::test]
async fn line_protocol_in_files_keeps_its_points_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.lp");
    append(&path, "m s=\"one\ntwo\",v=1i 5\nm v=2i 6\nm v=3i");
    let text = format!(
        "[gateway]\nid = 'g'\ndata_dir = '/d'\n[[uplink]]\nurl = 'mqtt://b'\n[[source]]\nname = 's'\n\
         type = 'file'\npath = '{}'\npoll = '10ms'\nformat = 'influx'\n",
        path.display()
    );
    let source = Config::parse(&text, Path::new("t.toml")).unwrap().sources.remove(0);
    let (out, mut messages) = mpsc::channel(32);
    let (_stop, stopped) = watch::channel(false);
    let arrival = Arrival {
        ingest: IngestTime::from_unix_ns(7),
        uptime: Uptime::from_ns(0),
        half_round_trip: Span::ZERO,
    };
    let clock = Arc::new(move || arrival);
    let _handle = spawn_at(&source, Arc::default(), out, clock, stopped).unwrap();
    let batch = soon(messages.recv()).await.unwrap().batch;
    assert_eq!((batch.readings.len(), batch.refused.len()), (3, 0));
    assert_eq!(batch.readings[0].value, Value::Text("one\ntwo".into()));
}

#[tokio::test]
async fn nul_bytes_alone_are_waited_behind() {
    let mut plant = Plant::new("data", "");
    let path = plant.path("data");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    plant.run();
    append(&path, &lines(1..=1));
    plant.take_until(1).await;
    plant.take_until_refused(1).await;
    assert_eq!(plant.refused[0].length, 1 << 20);
}
