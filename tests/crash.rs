//! The real journal under real accidents: killed while it writes, and opened
//! again after its files were flipped, cut, zeroed or removed.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "crash/cut.rs"]
mod cut;
#[path = "crash/full.rs"]
mod full;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use tidegate::core::id::{CommitId, Epoch, Offset, Seq, SourceId, UplinkId};
use tidegate::core::reading::{Entry, Origin, Record, Refusal, Series, Stamp, Value};
use tidegate::core::seam::{Commit, Damage, Fetch, Lane, Meta, Purpose, Recovered};
use tidegate::core::time::{IngestTime, Uptime};
use tidegate::store::{Options, Store};

#[path = "support/readings.rs"]
mod readings;

const EPOCH: Epoch = Epoch { number: 1, nonce: 0xfeed };
const SOURCES: [&str; 2] = ["plc", "meter"];
const CHILD_DIR: &str = "TIDEGATE_CRASH_DIR";
const CHILD_SEED: &str = "TIDEGATE_CRASH_SEED";

/// SplitMix64: the next number of a seeded sequence.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn open(dir: &Path) -> (Store, Recovered) {
    open_with(dir, 1024 * 1024)
}

fn open_with(dir: &Path, segment_bytes: u64) -> (Store, Recovered) {
    let options = Options {
        data_dir: dir.to_path_buf(),
        segment_bytes,
        quota_bytes: 1 << 30,
        probe_free: |_| 1 << 40,
    };
    Store::open(&options).unwrap()
}

/// Writes as the agent does: one number after the other, one commit at a time.
struct Writer {
    store: Store,
    meta: Meta,
    next: Offset,
    draws: u64,
    series: Vec<Arc<Series>>,
    /// What every commit brings besides.
    refusals: Vec<Refusal>,
}

fn series(n: usize) -> Arc<Series> {
    let property = format!("p{n}");
    Arc::new(Series { entity: "pump-7".into(), property: property.into(), unit: None })
}

impl Writer {
    fn open(dir: &Path, seed: u64) -> Self {
        let (store, recovered) = open(dir);
        assert_eq!(recovered.broken_numbering, None);
        Self::of(store, recovered, seed)
    }

    /// Goes on with the numbering, or begins a new one if it is broken.
    fn of(store: Store, recovered: Recovered, seed: u64) -> Self {
        let mut meta = recovered.meta.unwrap_or(Meta { epoch: EPOCH, ..Meta::default() });
        if recovered.broken_numbering.is_some() {
            meta.epoch = Epoch { number: meta.epoch.number + 1, nonce: 0xbeef };
            meta.sources.values_mut().for_each(|books| books.tail = Seq(0));
        }
        Self {
            store,
            meta,
            next: recovered.next,
            draws: seed,
            series: vec![series(0)],
            refusals: Vec::new(),
        }
    }

    /// Commits that many readings, their values drawn.
    fn commit(&mut self, count: u64) {
        let entries: Vec<Entry> = (0..count).map(|_| self.reading()).collect();
        let commit = Commit {
            id: CommitId(1),
            first: self.next,
            entries: Arc::new(entries),
            refusals: self.refusals.clone(),
            meta: self.meta.clone(),
        };
        self.store.commit(&commit).unwrap();
        self.next = self.next.plus(count);
    }

    /// The same, spread over that many series.
    fn commit_of(&mut self, count: u64, series_count: usize) {
        let known = self.series.len();
        self.series.extend((known..series_count).map(series));
        self.commit(count);
    }

    fn reading(&mut self) -> Entry {
        let source = SourceId::new(SOURCES[(draw(&mut self.draws) % 2) as usize]);
        let books = self.meta.sources.entry(source.clone()).or_default();
        books.tail = books.tail.next();
        books.accepted += 1;
        let at = 1_796_000_000_000_000_000 + books.tail.0 as i64;
        let uptime = Uptime::from_ns(at as u64);
        Entry::Reading(Record {
            source,
            epoch: self.meta.epoch,
            series: Arc::clone(&self.series[books.tail.0 as usize % self.series.len()]),
            value: Value::U64(draw(&mut self.draws)),
            stamp: Stamp { origin: Origin::Gateway, uptime, ..readings::stamp(at) },
            ..readings::record("", books.tail.0)
        })
    }
}

type Seen = BTreeMap<(SourceId, u64), Value>;

/// Everything that can be read, and the damage told on the way.
fn read_all(store: &mut Store, end: Offset) -> (Seen, Vec<Damage>) {
    let (mut seen, mut damaged) = (Seen::new(), Vec::new());
    let mut from = Offset(0);
    while from < end {
        let fetched = store.fetch(&Fetch {
            purpose: Purpose::Forward(UplinkId(0), Lane::Live),
            from,
            entries_max: 1024,
            bytes_max: 1 << 20,
        });
        for (offset, entry) in fetched.entries {
            assert!(offset >= from && offset < fetched.next);
            let record = entry.reading().unwrap();
            let old = seen.insert((record.source.clone(), record.seq.0), record.value.clone());
            assert_eq!(old, None, "{} {} twice", record.source, record.seq);
        }
        damaged.extend(fetched.damaged);
        if fetched.next <= from {
            break;
        }
        from = fetched.next;
    }
    (seen, damaged)
}

/// Not a test: what the child process of [`killed_at_any_moment`] runs.
#[test]
#[ignore = "run by killed_at_any_moment in a process of its own"]
#[expect(clippy::disallowed_methods, reason = "the parent tells the child where to write")]
fn child() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let seed: u64 = std::env::var(CHILD_SEED).unwrap().parse().unwrap();
    let mut writer = Writer::open(Path::new(&dir), seed);
    // The parent may hold the other end of the pipe closed already: then end.
    for _ in 0..100_000 {
        let count = 1 + draw(&mut writer.draws) % 700;
        writer.commit(count);
        if writeln!(std::io::stderr(), "receipt {}", writer.next.0).is_err() {
            return;
        }
    }
}

/// Lets the child write until it has reported that many commits, kills it, and
/// gives back the last offset it had a receipt for.
fn run_child(dir: &Path, seed: u64, receipts: u64) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(CHILD_DIR, dir)
        .env(CHILD_SEED, seed.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let offset = |line: &str| line.strip_prefix("receipt ").and_then(|n| n.parse::<u64>().ok());
    let (mut last, mut count) = (0, 0);
    while count < receipts {
        let line = lines.next().expect("the child ended by itself").unwrap();
        if let Some(next) = offset(&line) {
            (last, count) = (next, count + 1);
        }
    }
    // SIGKILL, wherever the child is by now.
    child.kill().unwrap();
    child.wait().unwrap();
    let rest = lines.map_while(Result::ok).filter_map(|line| offset(&line));
    rest.fold(last, u64::max)
}

#[test]
fn killed_at_any_moment() {
    let dir = tempfile::tempdir().unwrap();
    let mut draws = 7;
    let mut before = Seen::new();
    for round in 0..20 {
        let receipted = run_child(dir.path(), 1_000 + round, 1 + draw(&mut draws) % 12);
        let (mut store, recovered) = open(dir.path());
        assert_eq!(recovered.broken_numbering, None, "round {round}");
        assert_eq!(recovered.damaged, [], "round {round}");
        assert!(recovered.next.0 >= receipted, "round {round}: {} {receipted}", recovered.next);
        let (seen, damaged) = read_all(&mut store, recovered.next);
        assert_eq!(damaged, [], "round {round}");
        assert_eq!(seen.len() as u64, recovered.next.0, "round {round}");
        let meta = recovered.meta.unwrap();
        for (source, books) in &meta.sources {
            // Each number once, up to the tail, without holes.
            let seqs = seen.keys().filter(|(s, _)| s == source).map(|(_, seq)| *seq);
            assert!(seqs.eq(1..=books.tail.0), "round {round} {source}");
            assert_eq!(books.accepted, books.tail.0);
        }
        for (name, value) in &before {
            assert_eq!(seen.get(name), Some(value), "round {round} {name:?}");
        }
        before = seen;
        store.close();
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

/// Damages one file; what was done, for the message of a failing test.
fn damage(file: &Path, draws: &mut u64) -> String {
    let mut bytes = fs::read(file).unwrap();
    let place = (draw(draws) as usize) % bytes.len().max(1);
    let what = draw(draws) % 4;
    match what {
        0 => {
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= 1 << (draw(draws) % 8);
            }
            fs::write(file, &bytes).unwrap();
        }
        1 => fs::write(file, &bytes[..place.min(bytes.len())]).unwrap(),
        2 => {
            let end = (place + 4096).min(bytes.len());
            bytes[place.min(end)..end].fill(0);
            fs::write(file, &bytes).unwrap();
        }
        _ => fs::remove_file(file).unwrap(),
    }
    let what = ["flipped", "cut", "zeroed", "removed"][what as usize];
    format!("{what} {} at {place}", file.display())
}

/// A folder where a sync costs nothing: what a sync is for is not the question here.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// So many are damaged in the suite, each in a copy of a small journal.
const DAMAGES: u32 = 520;
const DAMAGE_SEGMENT_BYTES: u64 = 128 * 1024;

/// New readings are taken, and none of them has a name that was given before.
fn collects(store: Store, recovered: Recovered, whole: &Seen, what: &str) {
    let from = recovered.next;
    let mut writer = Writer::of(store, recovered, 77);
    writer.commit(20);
    let fetched = writer.store.fetch(&Fetch {
        purpose: Purpose::Forward(UplinkId(0), Lane::Live),
        from,
        entries_max: 1024,
        bytes_max: 1 << 20,
    });
    assert_eq!(fetched.entries.len(), 20, "{what}");
    for (_, entry) in &fetched.entries {
        let record = entry.reading().unwrap();
        let is_new = !whole.contains_key(&(record.source.clone(), record.seq.0));
        assert!(record.epoch != EPOCH || is_new, "{what}: {} again", record.seq);
    }
    writer.store.close();
}

/// What counts as accepted can be read, or is missing by its own number: an open
/// end says nothing of how many there were.
fn assert_books_add_up(meta: Option<&Meta>, seen: &Seen, damaged: &[Damage], what: &str) {
    for (source, books) in meta.iter().flat_map(|meta| &meta.sources) {
        let all = 1..=books.tail.0;
        let unread = all.filter(|seq| !seen.contains_key(&(source.clone(), *seq)));
        let missing = || damaged.iter().flat_map(|damage| &damage.missing);
        let unsaid = unread.filter(|seq| {
            !missing().any(|one| {
                let is_inside = one.first.0 <= *seq && one.last.is_some_and(|last| *seq <= last.0);
                one.source == *source && one.epoch == EPOCH && is_inside
            })
        });
        assert_eq!(unsaid.count(), 0, "{what}: {source} counts more than is accounted for");
        assert_eq!(books.accepted, books.tail.0, "{what}: {source}");
    }
}

#[test]
fn damaged_files_cost_no_more_than_their_segment() {
    let base = tempfile::tempdir().unwrap();
    let (store, recovered) = open_with(base.path(), DAMAGE_SEGMENT_BYTES);
    let mut writer = Writer::of(store, recovered, 3);
    while writer.next.0 < 12_000 {
        writer.commit(300);
    }
    let meta = writer.meta.clone();
    let next = writer.next;
    writer.store.close();
    let (mut store, recovered) = open_with(base.path(), DAMAGE_SEGMENT_BYTES);
    assert!(recovered.segments.len() >= 3, "{}", recovered.segments.len());
    let (whole, _) = read_all(&mut store, next);
    let segments = recovered.segments;
    store.close();

    let mut draws = 11;
    let (mut losses, mut new_epochs) = (0, 0);
    for case in 0..DAMAGES {
        let dir = in_memory();
        copy_folder(base.path(), dir.path());
        // Every other time a sled log, the rest whatever there is.
        let mut files = files_below(&dir.path().join("journal"));
        if case % 2 == 0 {
            files.retain(|file| file.ends_with("db"));
        }
        let file = files[draw(&mut draws) as usize % files.len()].clone();
        let what = format!("case {case}: {}", damage(&file, &mut draws));
        let name = file.strip_prefix(dir.path().join("journal")).unwrap().to_path_buf();
        let hit =
            segments.iter().find(|info| name.to_string_lossy().starts_with(&info.id.to_string()));

        let (mut store, recovered) = open_with(dir.path(), DAMAGE_SEGMENT_BYTES);
        let (seen, mut damaged) = read_all(&mut store, recovered.next);
        damaged.extend(recovered.damaged.clone());
        let is_missing = |source: &SourceId, seq: u64| {
            damaged.iter().flat_map(|damage| &damage.missing).any(|missing| {
                missing.source == *source
                    && missing.epoch == EPOCH
                    && missing.first.0 <= seq
                    && missing.last.is_none_or(|last| seq <= last.0)
            })
        };
        for (source, books) in &meta.sources {
            for seq in 1..=books.tail.0 {
                let key = (source.clone(), seq);
                match seen.get(&key) {
                    Some(value) => assert_eq!(Some(value), whole.get(&key), "{what}"),
                    None => {
                        assert!(is_missing(source, seq), "{what}: {source} {seq} vanished");
                        let range =
                            hit.and_then(|info| info.contents.get(&(source.clone(), EPOCH)));
                        let is_inside = range.is_some_and(|r| r.first.0 <= seq && seq <= r.last.0);
                        assert!(is_inside, "{what}: {source} {seq} lost outside its segment");
                    }
                }
            }
        }
        assert_books_add_up(recovered.meta.as_ref(), &seen, &damaged, &what);
        losses += u32::from(seen.len() < whole.len());
        new_epochs += u32::from(recovered.broken_numbering.is_some());
        // If anything of the tail is gone, its numbers must not be given again.
        let tails = recovered.meta.clone().map(|meta| meta.sources).unwrap_or_default();
        if tails.iter().map(|(s, b)| (s, b.tail)).ne(meta.sources.iter().map(|(s, b)| (s, b.tail)))
        {
            assert!(recovered.broken_numbering.is_some(), "{what}: numbers may be given again");
        }
        collects(store, recovered, &whole, &what);
    }
    // The damage was real: some of it cost readings, some of it the numbering.
    println!("{losses} cases lost readings, {new_epochs} need a new numbering");
    assert!(losses >= 80 && new_epochs >= 5, "{losses} {new_epochs}");
}

#[test]
fn b_08_one_undecodable_record() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), 5);
    for _ in 0..1_000 {
        writer.commit(1);
    }
    let tails = writer.meta.sources.clone();
    writer.store.close();

    let db = sled::Config::new()
        .path(dir.path().join("journal/000001"))
        .flush_every_ms(None)
        .open()
        .unwrap();
    let mut key = vec![b'f'];
    key.extend_from_slice(&499_u64.to_be_bytes());
    key.extend_from_slice(&[0, 0]);
    let mut draws = 99;
    let junk: Vec<u8> = (0..16).map(|_| draw(&mut draws) as u8).collect();
    assert!(db.insert(key, junk).unwrap().is_some());
    db.flush().unwrap();
    drop(db);

    let (mut store, recovered) = open(dir.path());
    assert_eq!((recovered.next, recovered.broken_numbering), (Offset(1_000), None));
    let (seen, damaged) = read_all(&mut store, recovered.next);
    assert_eq!(seen.len(), 999);
    assert_eq!(damaged.len(), 1);
    assert_eq!((damaged[0].first, damaged[0].end), (Offset(499), Offset(500)));
    let missing: Vec<_> = damaged[0].missing.iter().map(|m| (&m.source, m.first, m.last)).collect();
    let all = tails.iter().flat_map(|(source, books)| (1..=books.tail.0).map(move |n| (source, n)));
    let unseen: BTreeSet<_> =
        all.filter(|(s, n)| !seen.contains_key(&((*s).clone(), *n))).collect();
    assert_eq!(unseen.len(), 1);
    let (source, seq) = unseen.into_iter().next().unwrap();
    assert_eq!(missing, [(source, Seq(seq), Some(Seq(seq)))]);
    // Reading on from behind the stretch does not tell it again.
    let after = store.fetch(&Fetch {
        purpose: Purpose::Forward(UplinkId(0), Lane::Live),
        from: Offset(500),
        entries_max: 1024,
        bytes_max: 1 << 20,
    });
    assert_eq!((after.damaged, after.entries.len()), (vec![], 500));
}

#[test]
fn b_03_disk_space_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), 9);
    for cycle in 0..4 {
        let mut peak = 0;
        for _ in 0..200 {
            writer.commit(4_096);
            peak = peak.max(writer.store.disk().used_bytes);
        }
        let (_, damaged) = read_all(&mut writer.store, writer.next);
        assert_eq!(damaged, [], "cycle {cycle}");
        writer.meta.frontier = writer.next;
        writer.meta.start = writer.next;
        let segments = writer.store.segments().to_vec();
        for info in segments.iter().filter(|info| info.is_sealed) {
            writer.store.remove(info.id);
        }
        let used = writer.store.disk().used_bytes;
        assert!(used * 10 <= peak * 3, "cycle {cycle}: {used} of {peak} after the drain");
        // The books agree with the file system.
        let on_disk: u64 = files_below(dir.path())
            .iter()
            .map(|file| std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap()) * 512)
            .sum();
        assert!(used.abs_diff(on_disk) < 256 * 1024, "cycle {cycle}: {used} {on_disk}");
    }
}
