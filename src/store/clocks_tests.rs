//! The clock ledger: through its stored form, and through the store's door.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::commit::KeepRoom;
use super::super::store_tests::{commit, fetch, meta, open, reading, seqs};
use super::*;
use crate::core::clock::ClockState;
use crate::core::id::SegmentId;
use crate::core::reading::{Entry, Origin};
use crate::core::seam::{Commit, Meta, Recovered};
use crate::store::writes::Writes;
use crate::store::{Store, inspect};
use crate::store::{manifest, segment};

fn any_anchor() -> impl Strategy<Value = Anchor> {
    any::<(u64, i64, u64)>().prop_map(anchor)
}

fn any_suspends() -> impl Strategy<Value = Vec<Suspends>> {
    prop::collection::vec(any::<(u64, u64, u32)>().prop_map(suspends), 0..4)
}

fn any_source() -> impl Strategy<Value = ClockSource> {
    (0..8_u8).prop_map(source_of)
}

prop_compose! {
    fn any_boot()(
        (id, first_offset, wall_offset_ns) in any::<([u8; 16], u64, i64)>(),
        (set_by, source) in (any_source(), any_source()),
        stretches in prop::collection::vec([any_anchor(), any_anchor(), any_anchor()], 0..4),
        suspends in any_suspends(),
        (rate_ppb, last_up) in any::<(Option<i64>, u64)>(),
    ) -> Boot {
        let stretches = stretches.into_iter().map(|[first, best, last]| Stretch { first, best, last });
        Boot {
            id: BootId(id),
            first_offset: Offset(first_offset),
            wall_offset_ns,
            set_by,
            source,
            stretches: stretches.collect(),
            suspends,
            rate_ppb,
            last_up: Uptime::from_ns(last_up),
        }
    }
}

fn any_timeline() -> impl Strategy<Value = Timeline> {
    let anchored = (
        prop::collection::vec(any_anchor(), 1..6),
        any_suspends(),
        any::<(i64, u64)>(),
        any_source(),
    );
    let anchored = anchored.prop_map(|(anchors, suspends, (rate_ppb, rate_error_ppb), source)| {
        Timeline::Anchored(Anchored { anchors, suspends, rate_ppb, rate_error_ppb, source })
    });
    let bounded = any::<(i64, u64, i64, u64, u64, bool)>().prop_map(|parts| {
        Timeline::Bounded(Bounded {
            after_ns: parts.0,
            uptime_before_ns: parts.1,
            before_ns: parts.2,
            uptime_after_ns: parts.3,
            rate_error_ppb: parts.4,
            is_wall_plausible: parts.5,
        })
    });
    prop_oneof![anchored, bounded]
}

prop_compose! {
    fn any_seal()(
        (first, end) in any::<(u64, u64)>(),
        timelines in prop::collection::vec((any::<[u8; 16]>().prop_map(BootId), any_timeline()), 0..3),
    ) -> Seal {
        Seal { first: Offset(first), end: Offset(end), timelines }
    }
}

prop_compose! {
    fn any_sent()(
        source in "[a-z]{1,8}",
        (number, nonce, boot, timebase) in any::<(u32, u32, [u8; 16], u32)>(),
        (first_seq, last_seq, first_up, last_up) in any::<(u64, u64, u64, u64)>(),
        (wall_less_up_ns, correction) in any::<((i64, i64), Option<u64>)>(),
    ) -> SentStretch {
        SentStretch {
            source: SourceId::new(&source),
            epoch: Epoch { number, nonce },
            boot: BootId(boot),
            timebase: TimebaseId(timebase),
            first_seq: Seq(first_seq),
            last_seq: Seq(last_seq),
            first_up: Uptime::from_ns(first_up),
            last_up: Uptime::from_ns(last_up),
            wall_less_up_ns,
            correction: correction.map(Offset),
        }
    }
}

prop_compose! {
    fn any_ledger()(
        timebase: u32,
        boots in prop::collection::vec(any_boot(), 0..4),
        seals in prop::collection::vec(any_seal(), 0..4),
        sent in prop::collection::vec(any_sent(), 0..4),
    ) -> ClockLedger {
        ClockLedger { timebase: TimebaseId(timebase), boots, seals, sent }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_ledger_comes_back_as_it_went(ledger in any_ledger()) {
        let bytes = postcard::to_stdvec(&StoredLedger::of(&ledger)).unwrap();
        let back: StoredLedger = postcard::from_bytes(&bytes).unwrap();
        prop_assert_eq!(back.into_ledger(), ledger);
    }

    #[test]
    fn arbitrary_bytes_are_no_ledger_or_a_small_one(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = postcard::from_bytes::<StoredLedger>(&bytes).map(StoredLedger::into_ledger);
    }
}

/// A ledger of so many boots.
fn ledger(boots: u8) -> Arc<ClockLedger> {
    let boot = |n| Boot {
        id: BootId([n; 16]),
        first_offset: Offset(0),
        wall_offset_ns: -5,
        set_by: ClockSource::Saved,
        source: ClockSource::Ntp,
        stretches: Vec::new(),
        suspends: Vec::new(),
        rate_ppb: None,
        last_up: Uptime::from_ns(9),
    };
    Arc::new(ClockLedger {
        timebase: TimebaseId(u32::from(boots)),
        boots: (1..=boots).map(boot).collect(),
        ..ClockLedger::default()
    })
}

/// Readings `first..=last`, sealed up to `first`, with that ledger.
fn with(first: u64, last: u64, clock: &Arc<ClockLedger>) -> Commit {
    let alive = Some((BootId([1; 16]), Uptime::from_ns(last)));
    let clock = Arc::clone(clock);
    let meta = Meta { sealed: Offset(first), alive, clock, ..meta(last) };
    Commit { meta, ..commit(first, last) }
}

fn meta_of(recovered: &Recovered) -> (u64, Option<u64>, Arc<ClockLedger>) {
    let meta = recovered.meta.as_ref().unwrap();
    (meta.sealed.0, meta.alive.map(|(_, up)| up.ns()), Arc::clone(&meta.clock))
}

fn written_by(store: &mut Store, commit: &Commit) -> u64 {
    let before = store.disk().written_bytes;
    store.commit(commit).unwrap().1.written_bytes - before
}

#[test]
fn it_survives_a_kill_and_a_clean_end() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&with(1, 2, &ledger(1))).unwrap();
    store.commit(&with(3, 4, &ledger(2))).unwrap();
    drop(store);
    let (mut store, recovered) = open(dir.path());
    assert_eq!(meta_of(&recovered), (3, Some(4), ledger(2)));
    store.commit(&with(5, 6, &ledger(2))).unwrap();
    store.close();
    let (_, recovered) = open(dir.path());
    assert_eq!(meta_of(&recovered), (5, Some(6), ledger(2)));
}

#[test]
fn it_is_written_only_when_it_changed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    let at = |n: u64, clock: &Arc<ClockLedger>| with(n, n, clock);
    store.commit(&at(1, &ledger(9))).unwrap();
    let same = ledger(9);
    let plain = written_by(&mut store, &at(2, &same));
    assert_eq!(written_by(&mut store, &at(3, &same)), plain);
    // Equal, but another one.
    assert_eq!(written_by(&mut store, &at(4, &ledger(9))), plain);
    let length = segment::pack_ledger(&ledger(10)).unwrap().len() as u64;
    assert!(length > 200, "{length}");
    assert_eq!(written_by(&mut store, &at(5, &ledger(10))), plain + length);
    assert_eq!(written_by(&mut store, &at(6, &ledger(10))), plain);
    drop(store);
    // Known after a start too.
    let (mut store, _) = open(dir.path());
    assert_eq!(written_by(&mut store, &at(7, &ledger(10))), plain);
}

#[test]
fn a_new_segment_has_it_before_its_first_commit() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&with(1, 2, &ledger(3))).unwrap();
    store.close_active(KeepRoom::No);
    store.commit(&with(3, 4, &ledger(3))).unwrap();
    drop(store);
    // The older segment, its seal included, is not needed for it.
    std::fs::remove_dir_all(dir.path().join("journal/000001")).unwrap();
    std::fs::remove_file(dir.path().join("journal/000001.seal")).unwrap();
    let (_, recovered) = open(dir.path());
    assert_eq!(meta_of(&recovered), (3, Some(4), ledger(3)));
}

#[test]
fn with_the_newest_segment_lost_the_one_before_it_has_the_word() {
    for has_head in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = open(dir.path());
        store.commit(&with(1, 2, &ledger(3))).unwrap();
        store.close_active(KeepRoom::No);
        store.commit(&with(3, 4, &ledger(4))).unwrap();
        drop(store);
        std::fs::write(dir.path().join("journal/000002/db"), b"").unwrap();
        if !has_head {
            std::fs::remove_file(dir.path().join("journal/000002.head")).unwrap();
        }
        let (_, recovered) = open(dir.path());
        assert!(recovered.broken_numbering.is_some());
        assert_eq!(meta_of(&recovered), (1, Some(2), ledger(3)), "{has_head}");
    }
}

fn spoil(store: &Store, value: &[u8]) {
    let mut writes = Writes::default();
    writes.value(b'l', value);
    let segment = &store.active.as_ref().unwrap().segment;
    segment.write(writes).and_then(|()| segment.sync()).unwrap();
}

#[test]
fn an_unreadable_one_gives_way_to_an_older_one_or_to_none() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&with(1, 2, &ledger(3))).unwrap();
    spoil(&store, b"no ledger");
    drop(store);
    let (mut store, recovered) = open(dir.path());
    // The segment began without any.
    assert_eq!(meta_of(&recovered), (1, Some(2), ledger(0)));
    assert_eq!((recovered.next, recovered.broken_numbering), (Offset(2), None));
    store.commit(&with(3, 4, &ledger(5))).unwrap();
    store.close_active(KeepRoom::No);
    store.commit(&with(5, 6, &ledger(6))).unwrap();
    // Announces more than there is.
    spoil(&store, &[2, 0, 255, 255, 255, 255, 0, 0, 0, 0, 1]);
    drop(store);
    let (mut store, recovered) = open(dir.path());
    assert_eq!(meta_of(&recovered), (5, Some(6), ledger(5)));
    // The next commit puts it right.
    store.commit(&with(7, 7, &ledger(5))).unwrap();
    drop(store);
    let (mut store, recovered) = open(dir.path());
    assert_eq!(meta_of(&recovered), (7, Some(7), ledger(5)));
    assert_eq!(seqs(&store.fetch(&fetch(4)).entries), [5, 6, 7]);
}

#[test]
fn a_large_one_goes_in_parts_and_a_smaller_one_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    let mut large = (*ledger(64)).clone();
    let anchor = Anchor { up: Uptime::from_ns(1 << 50), utc_ns: 1 << 60, error_ns: 1 << 40 };
    for boot in &mut large.boots {
        boot.stretches = vec![Stretch { first: anchor, best: anchor, last: anchor }; 20];
    }
    let large = Arc::new(large);
    assert!(segment::pack_ledger(&large).unwrap().len() > 64 * 1024);
    store.commit(&with(1, 2, &large)).unwrap();
    drop(store);
    let (mut store, recovered) = open(dir.path());
    assert_eq!(meta_of(&recovered).2, large);
    store.commit(&with(3, 4, &ledger(1))).unwrap();
    drop(store);
    assert_eq!(meta_of(&open(dir.path()).1).2, ledger(1));
}

fn unsynchronized(seq: u64) -> Entry {
    let Entry::Reading(mut record) = reading(seq) else { unreachable!() };
    record.stamp.state = ClockState::Unsynchronized;
    record.stamp.clock = ClockSource::FreeRunning;
    Entry::Reading(record)
}

fn shown(dir: &Path) -> Vec<(u64, Origin, i64)> {
    let mut shown = Vec::new();
    inspect::cat(dir, Offset(0), |offset, entry| {
        let stamp = entry.reading().unwrap().stamp;
        shown.push((offset.0, stamp.origin, stamp.event_time.unix_ns()));
    })
    .unwrap();
    shown
}

#[test]
fn cat_shows_what_a_seal_covers_as_it_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    // At uptime 3 ns it was 1000 ns, exactly.
    let anchor = Anchor { up: Uptime::from_ns(3), utc_ns: 1_000, error_ns: 0 };
    let known = Anchored { anchors: vec![anchor], ..Anchored::default() };
    let timelines = vec![(BootId([1; 16]), Timeline::Anchored(known))];
    let seal = Seal { first: Offset(1), end: Offset(3), timelines };
    let clock = Arc::new(ClockLedger { seals: vec![seal], ..ClockLedger::default() });
    let first = Commit { entries: Arc::new((1..=4).map(unsynchronized).collect()), ..commit(1, 4) };
    store.commit(&first).unwrap();
    store.close_active(KeepRoom::No);
    store.commit(&with(5, 5, &clock)).unwrap();
    drop(store);
    let at = |seq: i64| 1_796_000_000_000_000_000 + seq * 1_000_000;
    let expected = [
        (0, Origin::Gateway, at(1)),
        (1, Origin::Restamped, 999),
        (2, Origin::Restamped, 1_000),
        (3, Origin::Gateway, at(4)),
        (4, Origin::Gateway, at(5)),
    ];
    assert_eq!(shown(dir.path()), expected);
    // The same after a clean end, from the seal of the segment.
    let (store, _) = open(dir.path());
    store.close();
    assert!(manifest::sidecar(&dir.path().join("journal"), SegmentId(2), "seal").is_file());
    assert_eq!(shown(dir.path()), expected);
}
