//! Places for frames, seen from the journal that they are in.

use std::path::Path;
use std::sync::Arc;

use super::store_tests::{commit, fetch, open, options, seqs};
use super::{Options, Store, inspect};
use crate::core::id::Offset;
use crate::core::seam::Commit;

/// Commits of those sizes, one after the other; the number of the last reading.
fn write(store: &mut Store, from: u64, sizes: &[u64]) -> u64 {
    sizes.iter().fold(from, |tail, size| {
        store.commit(&commit(tail + 1, tail + size)).unwrap();
        tail + size
    })
}

fn read_all(store: &mut Store) -> Vec<u64> {
    let (mut at, mut read) = (0, Vec::new());
    loop {
        let fetched = store.fetch(&fetch(at));
        assert_eq!(fetched.damaged, []);
        read.extend(seqs(&fetched.entries));
        if fetched.next == Offset(at) {
            return read;
        }
        at = fetched.next.0;
    }
}

/// Keys of frames in the first segment: how many have a value and how many have none.
fn keys(dir: &Path) -> (usize, usize) {
    let db = sled::open(dir.join("journal/000001")).unwrap();
    let is_empty = |item: sled::Result<(_, sled::IVec)>| item.unwrap().1.is_empty();
    let empty = db.scan_prefix(b"f").filter_map(|item| is_empty(item).then_some(())).count();
    (db.scan_prefix(b"f").count() - empty, empty)
}

const SIZES: [u64; 12] = [4_096, 4_096, 1, 2_000, 255, 256, 257, 8_000, 3, 1_024, 1_025, 5_000];

#[test]
fn commits_of_any_size_are_read_as_they_were_written() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    let mut tail = 0;
    for size in SIZES {
        tail = write(&mut store, tail, &[size]);
        assert_eq!(read_all(&mut store), (1..=tail).collect::<Vec<_>>(), "after {size}");
    }
    store.close();
    let frames: u64 = SIZES.iter().map(|size| size.div_ceil(256)).sum();
    let [report] = &inspect::verify(dir.path(), |_| ()).unwrap()[..] else { panic!() };
    assert_eq!((report.frames, report.entries), (frames, tail));
    assert_eq!(report.damage, Vec::<String>::new());
    assert_eq!(keys(dir.path()), (frames as usize, 0));
}

#[test]
fn places_that_a_crash_left_are_gone_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    let tail = write(&mut store, 0, &[4_096, 3_000]);
    drop(store);
    assert_eq!(keys(dir.path()), (28, 12));
    let (mut store, recovered) = open(dir.path());
    assert_eq!((recovered.next, recovered.damaged), (Offset(tail), vec![]));
    let tail = write(&mut store, tail, &[100, 100]);
    assert_eq!(read_all(&mut store), (1..=tail).collect::<Vec<_>>());
    drop(store);
    assert_eq!(keys(dir.path()), (30, 0));
}

#[test]
fn a_commit_without_readings_leaves_the_places() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    let tail = write(&mut store, 0, &[4_096]);
    store.commit(&Commit { entries: Arc::default(), ..commit(tail + 1, tail) }).unwrap();
    drop(store);
    assert_eq!(keys(dir.path()), (16, 16));
}

#[test]
fn frames_of_large_commits_are_written_once() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) =
        Store::open(&Options { segment_bytes: 1 << 30, ..options(dir.path()) }).unwrap();
    write(&mut store, 0, &[4_096; 60]);
    let written = store.disk().written_bytes;
    let log = dir.path().join("journal/000001/db");
    let log = log.metadata().unwrap().len();
    assert!(log < 2 * written, "{log} bytes of log for {written}");
}
