//! The store through its door, on a real file system.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use super::commit::KeepRoom;
use super::error::OpenError;
use super::quarantine;
use super::worker;
use super::{Options, Store, inspect};
use crate::core::id::{CommitId, Epoch, Offset, SegmentId, Seq, SourceId, UplinkId};
use crate::core::reading::{Entry, Origin, Record, Refusal, Series, Stamp};
use crate::core::seam::{Commit, Fetch, Lane, Meta, Purpose, Recovered, SourceMeta, StoreEvent};
use crate::core::time::{IngestTime, Uptime};
use crate::readings;

pub(super) const EPOCH: Epoch = Epoch { number: 1, nonce: 42 };

pub(super) fn options(dir: &Path) -> Options {
    Options {
        data_dir: dir.to_path_buf(),
        segment_bytes: 1024 * 1024,
        quota_bytes: 1 << 30,
        probe_free: |_| 1 << 40,
    }
}

pub(super) fn open(dir: &Path) -> (Store, Recovered) {
    Store::open(&options(dir)).unwrap()
}

pub(super) fn reading(seq: u64) -> Entry {
    let at = 1_796_000_000_000_000_000 + seq as i64 * 1_000_000;
    let stamp =
        Stamp { origin: Origin::Gateway, uptime: Uptime::from_ns(seq), ..readings::stamp(at) };
    // As the stored journals of older formats have it.
    let series = Arc::new(Series { entity: "pump".into(), property: "p".into(), unit: None });
    Entry::Reading(Record { epoch: EPOCH, series, stamp, ..readings::record("plc", seq) })
}

pub(super) fn meta(tail: u64) -> Meta {
    let books = SourceMeta { tail: Seq(tail), accepted: tail, ..SourceMeta::default() };
    Meta { epoch: EPOCH, sources: [(SourceId::new("plc"), books)].into(), ..Meta::default() }
}

/// Readings `first..=last`, at offsets one below their numbers.
pub(super) fn commit(first: u64, last: u64) -> Commit {
    Commit {
        id: CommitId(first),
        first: Offset(first - 1),
        entries: Arc::new((first..=last).map(reading).collect()),
        refusals: Vec::new(),
        meta: meta(last),
    }
}

pub(super) fn fetch(from: u64) -> Fetch {
    Fetch {
        purpose: Purpose::Forward(UplinkId(0), Lane::Live),
        from: Offset(from),
        entries_max: 1024,
        bytes_max: 1 << 20,
    }
}

pub(super) fn seqs(entries: &[(Offset, Entry)]) -> Vec<u64> {
    entries.iter().filter_map(|(_, entry)| entry.reading()).map(|record| record.seq.0).collect()
}

#[test]
fn what_was_committed_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, recovered) = open(dir.path());
    assert_eq!((recovered.meta, recovered.next), (None, Offset(0)));
    let (segments, disk) = store.commit(&commit(1, 600)).unwrap();
    assert_eq!((segments.len(), segments[0].next), (1, Offset(600)));
    assert!(disk.used_bytes > 0 && disk.written_bytes > 0);
    store.close();
    let (mut store, recovered) = open(dir.path());
    assert_eq!(recovered.meta, Some(meta(600)));
    assert_eq!((recovered.next, &recovered.damaged), (Offset(600), &vec![]));
    assert_eq!(recovered.broken_numbering, None);
    let range = recovered.segments[0].contents[&(SourceId::new("plc"), EPOCH)];
    assert_eq!((range.first, range.last), (Seq(1), Seq(600)));
    // In the middle of a frame.
    let fetched = store.fetch(&fetch(300));
    assert_eq!(seqs(&fetched.entries), (301..=600).collect::<Vec<_>>());
    assert_eq!(fetched.entries[0], (Offset(300), reading(301)));
    assert_eq!((fetched.next, fetched.damaged), (Offset(600), vec![]));
    store.commit(&commit(601, 601)).unwrap();
    assert_eq!(seqs(&store.fetch(&fetch(599)).entries), [600, 601]);
}

#[test]
fn fetches_are_bounded_by_number_and_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&commit(1, 20)).unwrap();
    let few = store.fetch(&Fetch { entries_max: 3, ..fetch(5) });
    assert_eq!((seqs(&few.entries), few.next), (vec![6, 7, 8], Offset(8)));
    let one = store.fetch(&Fetch { bytes_max: 1, ..fetch(5) });
    assert_eq!((seqs(&one.entries), one.next), (vec![6], Offset(6)));
    assert_eq!(store.fetch(&fetch(20)).next, Offset(20));
}

#[test]
fn a_damaged_frame_costs_its_own_readings_and_is_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    for n in 1..=9 {
        store.commit(&commit(n * 2 - 1, n * 2)).unwrap();
    }
    store.active.as_ref().unwrap().segment.overwrite(Offset(8), b"sixteen bytes!!!");
    let fetched = store.fetch(&fetch(0));
    assert_eq!(seqs(&fetched.entries), [1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18]);
    assert_eq!(fetched.damaged.len(), 1);
    let damage = &fetched.damaged[0];
    assert_eq!((damage.first, damage.end), (Offset(8), Offset(10)));
    let missing = &damage.missing[0];
    assert_eq!((missing.first, missing.last), (Seq(9), Some(Seq(10))));
    assert_eq!(store.fetch(&fetch(9)).damaged, []);
    assert_eq!(store.fetch(&fetch(10)).damaged, []);
    // The same again for the same range.
    assert_eq!(store.fetch(&fetch(4)).damaged, fetched.damaged);
}

#[test]
fn a_full_disk_is_refused_and_the_same_commit_works_later() {
    let dir = tempfile::tempdir().unwrap();
    let full = Options { probe_free: |_| 0, ..options(dir.path()) };
    let (mut store, _) = Store::open(&full).unwrap();
    assert!(store.commit(&commit(1, 5)).is_err());
    store.options.probe_free = |_| 1 << 40;
    store.commit(&commit(1, 5)).unwrap();
    assert_eq!(seqs(&store.fetch(&fetch(0)).entries), [1, 2, 3, 4, 5]);
}

#[test]
fn on_a_full_disk_the_segment_goes_on_within_its_slack_and_what_is_done_with_goes() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&commit(1, 5)).unwrap();
    store.close_active(KeepRoom::No);
    store.commit(&commit(6, 8)).unwrap();
    if super::slack::behind(store.active.as_ref().unwrap().segment.log()) == 0 {
        // This file system allocates nothing ahead.
        return;
    }
    store.options.probe_free = |_| 0;
    let mut done = commit(9, 10);
    done.meta.start = Offset(5);
    store.commit(&done).unwrap();
    store.remove(SegmentId(1));
    assert_eq!(store.segments().len(), 1);
    assert!(!store.folders.segment(SegmentId(1)).exists());
    assert_eq!(seqs(&store.fetch(&fetch(5)).entries), [6, 7, 8, 9, 10]);
}

#[test]
fn what_is_allocated_ahead_is_told_apart_from_what_entries_take() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&commit(1, 5)).unwrap();
    let [active] = store.segments() else { panic!("one segment") };
    let behind = super::slack::behind(store.active.as_ref().unwrap().segment.log());
    assert_eq!(active.ahead_bytes, behind);
    assert!(active.bytes - behind < 128 * 1024, "five entries took {}", active.bytes - behind);
    store.close_active(KeepRoom::No);
    assert_eq!(store.segments()[0].ahead_bytes, 0);
}

#[test]
fn a_folder_that_went_before_the_manifest_could_be_written_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&commit(1, 5)).unwrap();
    store.close_active(KeepRoom::No);
    let mut done = commit(6, 8);
    done.meta.start = Offset(5);
    store.commit(&done).unwrap();
    let manifest = super::manifest::manifest_path(&store.folders.journal);
    let listed = std::fs::read(&manifest).unwrap();
    store.remove(SegmentId(1));
    store.close();
    std::fs::write(&manifest, listed).unwrap();
    let (store, recovered) = open(dir.path());
    assert_eq!((recovered.damaged, recovered.broken_numbering), (vec![], None));
    assert_eq!((recovered.next, store.segments().len()), (Offset(8), 1));
}

#[test]
fn a_segment_given_up_ends_at_the_last_good_commit() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&commit(1, 5)).unwrap();
    // A commit that was applied but never got its answer, as after a failed flush.
    let before = store.state.clone();
    let leftover = commit(6, 9);
    let state = super::meta::State { meta: leftover.meta.clone(), next: Offset(9) };
    store.write(&state, &leftover.entries).unwrap();
    store.state = before;
    let info = store.segments.last_mut().unwrap();
    info.next = Offset(5);
    store.give_up();
    assert_eq!(seqs(&store.fetch(&fetch(0)).entries), [1, 2, 3, 4, 5]);
    let (segments, _) = store.commit(&commit(6, 7)).unwrap();
    assert_eq!(segments.iter().map(|s| s.is_sealed).collect::<Vec<_>>(), [true, false]);
    drop(store);
    let (mut store, recovered) = open(dir.path());
    assert_eq!((recovered.next, recovered.meta), (Offset(7), Some(meta(7))));
    assert_eq!(seqs(&store.fetch(&fetch(0)).entries), [1, 2, 3, 4, 5]);
    assert_eq!(seqs(&store.fetch(&fetch(5)).entries), [6, 7]);
    assert_eq!(store.fetch(&fetch(5)).damaged, []);
}

#[test]
fn a_segment_given_up_keeps_what_was_committed_without_readings() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&commit(1, 5)).unwrap();
    store.close_active(KeepRoom::No);
    let acknowledged = Meta { frontier: Offset(4), ..meta(5) };
    let without_readings =
        Commit { meta: acknowledged.clone(), entries: Arc::default(), ..commit(6, 5) };
    store.commit(&without_readings).unwrap();
    // The next one fails, and the process ends before a new segment is begun.
    store.give_up();
    drop(store);
    let (mut store, recovered) = open(dir.path());
    assert_eq!((recovered.next, recovered.meta), (Offset(5), Some(acknowledged)));
    assert_eq!(recovered.damaged, []);
    let (segments, _) = store.commit(&commit(6, 7)).unwrap();
    assert_eq!(segments.iter().map(|info| info.next.0).collect::<Vec<_>>(), [5, 5, 7]);
    assert_eq!(seqs(&store.fetch(&fetch(0)).entries), [1, 2, 3, 4, 5]);
    assert_eq!(seqs(&store.fetch(&fetch(5)).entries), [6, 7]);
}

#[test]
fn what_a_failed_commit_left_is_not_counted_when_its_segment_is_sealed_again() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&commit(1, 5)).unwrap();
    let before = store.state.clone();
    let state = super::meta::State { meta: meta(9), next: Offset(9) };
    store.write(&state, &commit(6, 9).entries).unwrap();
    store.state = before;
    store.segments.last_mut().unwrap().next = Offset(5);
    store.give_up();
    store.commit(&commit(6, 7)).unwrap();
    drop(store);
    // The disk would not take the seal either.
    std::fs::remove_file(dir.path().join("journal/000001.seal")).unwrap();
    let (mut store, recovered) = open(dir.path());
    assert_eq!((recovered.next, recovered.meta), (Offset(7), Some(meta(7))));
    let range = recovered.segments[0].contents[&(SourceId::new("plc"), EPOCH)];
    assert_eq!((range.first, range.last), (Seq(1), Seq(5)));
    assert_eq!(seqs(&store.fetch(&fetch(0)).entries), [1, 2, 3, 4, 5]);
    assert_eq!(seqs(&store.fetch(&fetch(5)).entries), [6, 7]);
}

#[test]
fn an_emptied_active_segment_breaks_the_numbering_until_a_new_epoch_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&commit(1, 5)).unwrap();
    store.close();
    std::fs::write(dir.path().join("journal/000001/db"), b"").unwrap();
    for _ in 0..2 {
        let (_, recovered) = open(dir.path());
        assert!(recovered.broken_numbering.is_some());
        assert_eq!(recovered.next, Offset(5));
        assert_eq!((recovered.damaged[0].first, recovered.damaged[0].end), (Offset(0), Offset(5)));
    }
    let (mut store, _) = open(dir.path());
    let epoch = Epoch { number: 2, nonce: 1 };
    let fresh = Commit {
        first: Offset(5),
        entries: Arc::default(),
        meta: Meta { epoch, frontier: Offset(5), ..Meta::default() },
        ..commit(6, 6)
    };
    store.commit(&fresh).unwrap();
    drop(store);
    let (_, recovered) = open(dir.path());
    assert_eq!((recovered.broken_numbering, recovered.damaged), (None, vec![]));
}

#[test]
fn an_active_segment_that_cannot_be_read_makes_way_and_the_numbering_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&commit(1, 5)).unwrap();
    let info = store.segments[0].clone();
    store.options.probe_free = |_| 0;
    assert!(!store.is_state_elsewhere(&info));
    store.options.probe_free = |_| 1 << 40;
    assert!(store.is_state_elsewhere(&info));
    let damage = store.set_aside(&store.segments[0].clone(), "page 7 is gone");
    assert_eq!((damage.first, damage.end), (Offset(0), Offset(5)));
    let missing = &damage.missing[0];
    assert_eq!((missing.first, missing.last), (Seq(1), Some(Seq(5))));
    // Killed before another commit.
    drop(store);
    let (mut store, recovered) = open(dir.path());
    assert_eq!((recovered.next, recovered.meta), (Offset(5), Some(meta(5))));
    assert_eq!((recovered.broken_numbering, recovered.damaged), (None, vec![damage]));
    store.commit(&commit(6, 7)).unwrap();
    assert_eq!(seqs(&store.fetch(&fetch(5)).entries), [6, 7]);
}

#[test]
fn removed_segments_are_gone_and_the_active_one_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&commit(1, 3)).unwrap();
    store.close_active(KeepRoom::No);
    store.commit(&commit(4, 6)).unwrap();
    let used = store.disk().used_bytes;
    assert!(store.remove(SegmentId(1)).used_bytes < used);
    store.remove(SegmentId(2));
    assert_eq!(store.segments.len(), 1);
    assert_eq!(seqs(&store.fetch(&fetch(0)).entries), [4, 5, 6]);
    assert!(!dir.path().join("journal/000001").exists());
}

#[test]
fn refusals_are_kept_with_all_their_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    assert!(!dir.path().join("state").exists());
    let content: Vec<u8> = (0..20_000_u32).map(|n| n as u8).collect();
    let refusal = Refusal {
        source: SourceId::new("plc"),
        at: IngestTime::from_unix_ns(5),
        kind: "syntax",
        reason: "line 7: expected a number".into(),
        content: content.clone(),
        length: 20_000,
        reading: None,
    };
    let with = Commit { refusals: vec![refusal], ..commit(1, 1) };
    store.commit(&with).unwrap();
    // Tried again: kept once.
    store.refusals.keep(&with.refusals, 1 << 40).unwrap();
    store.close();
    let mut kept = quarantine::open(dir.path());
    let all = quarantine::Filter::default();
    let listed = kept.list(&all, 10, |refused, _| refused.reason).unwrap();
    assert_eq!(listed, ["line 7: expected a number"]);
    assert_eq!(kept.show(1).unwrap().unwrap().1, quarantine::Content::Bytes(content));
}

#[test]
fn a_newer_format_is_refused_and_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&commit(1, 1)).unwrap();
    store.close();
    let path = dir.path().join("journal/MANIFEST");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[0] = 9;
    let check = crc32c::crc32c_append(crc32c::crc32c(&bytes[..6]), &bytes[10..]);
    bytes[6..10].copy_from_slice(&check.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let error = Store::open(&options(dir.path())).unwrap_err();
    assert!(matches!(error, OpenError::NewerSchema { found: 9, known: 4, .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert!(dir.path().join("journal/000001/db").is_file());
}

#[test]
fn a_lost_manifest_is_made_up_from_the_folders() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&commit(1, 3)).unwrap();
    store.close_active(KeepRoom::No);
    store.commit(&commit(4, 6)).unwrap();
    store.close();
    std::fs::remove_file(dir.path().join("journal/MANIFEST")).unwrap();
    let (mut store, recovered) = open(dir.path());
    assert_eq!((recovered.next, recovered.damaged), (Offset(6), vec![]));
    assert_eq!(recovered.broken_numbering, None);
    assert_eq!(seqs(&store.fetch(&fetch(0)).entries), [1, 2, 3]);
    assert_eq!(seqs(&store.fetch(&fetch(3)).entries), [4, 5, 6]);
}

/// As sled's own threads do it: the lock goes a little after the close.
#[test]
fn a_lock_that_is_about_to_go_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&commit(1, 1)).unwrap();
    store.close();
    let held = sled::open(dir.path().join("journal/000001")).unwrap();
    let begin = Arc::new(std::sync::Barrier::new(2));
    let begun = Arc::clone(&begin);
    let holder = std::thread::spawn(move || {
        begun.wait();
        drop(held);
    });
    begin.wait();
    let (_, recovered) = open(dir.path());
    holder.join().unwrap();
    assert_eq!((recovered.next, recovered.damaged), (Offset(1), vec![]));
}

#[test]
fn offline_tools_say_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&commit(1, 3)).unwrap();
    assert!(inspect::verify(dir.path(), |_| ()).unwrap_err().to_string().contains("in use"));
    store.close_active(KeepRoom::No);
    store.commit(&commit(4, 6)).unwrap();
    store.commit(&commit(7, 8)).unwrap();
    store.active.as_ref().unwrap().segment.overwrite(Offset(3), b"nothing");
    store.close();
    let stats = inspect::stats(dir.path()).unwrap();
    assert_eq!((stats.entries, stats.segments.len()), (8, 2));
    let mut shown = Vec::new();
    inspect::cat(dir.path(), Offset(1), |offset, _| shown.push(offset.0)).unwrap();
    assert_eq!(shown, [1, 2, 6, 7]);
    let reports = inspect::verify(dir.path(), |_| ()).unwrap();
    assert_eq!((reports[0].entries, reports[0].damage.len()), (3, 0));
    assert_eq!((reports[1].entries, reports[1].damage.len()), (2, 1));
    assert!(reports[1].damage[0].contains("plc 1-0000002a: 4 to 6"), "{:?}", reports[1].damage);
}

#[test]
fn the_worker_answers_in_order_and_closes() {
    let dir = tempfile::tempdir().unwrap();
    let (events, inbox) = mpsc::channel();
    let (worker, recovered) =
        worker::spawn(options(dir.path()), Box::new(move |event| events.send(event).unwrap()))
            .unwrap();
    assert_eq!(recovered.next, Offset(0));
    worker.commit(commit(1, 2)).unwrap();
    worker.fetch(fetch(0)).unwrap();
    worker.remove(SegmentId(1)).unwrap();
    worker.ping();
    let heartbeat = worker.heartbeat();
    worker.close_and_join();
    let answers: Vec<StoreEvent> = inbox.iter().collect();
    assert!(matches!(&answers[0], StoreEvent::Committed { id: CommitId(1), .. }));
    assert!(matches!(&answers[1], StoreEvent::Fetched(f) if seqs(&f.entries) == [1, 2]));
    assert!(matches!(&answers[2], StoreEvent::Removed { id: SegmentId(1), .. }));
    assert!(matches!(&answers[3], StoreEvent::Measured(disk) if disk.free_bytes == 1 << 40));
    assert_eq!(answers.len(), 4);
    assert_eq!(heartbeat.load(std::sync::atomic::Ordering::Relaxed), 4);
}
