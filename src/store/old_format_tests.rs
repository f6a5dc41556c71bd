//! Journals as formats 1, 2 and 3 wrote them: `tests/data/journal-v1.lz4`, `-v2` and
//! `-v3` hold their files (postcard of names and contents, lz4 around them), each
//! written by the last build of its format. Segment 1 is sealed, with 20
//! readings and a gap record; segment 2 was active, with 10, when the process was
//! killed.

use std::path::Path;
use std::sync::Arc;

use super::envelope::SCHEMA;
use super::store_tests::{EPOCH, commit, fetch, open, options, reading};
use super::{Store, inspect};
use crate::core::clock::{Boot, ClockSource, ClockState};
use crate::core::id::{BootId, Epoch, Offset, Seq, SourceId};
use crate::core::reading::{Entry, GapReason, GapRecord};
use crate::core::renumber::{Renumbering, Renumberings};
use crate::core::seam::{ClockLedger, Commit, Fetch, Meta, SeqSet, SourceMeta, UplinkMeta};
use crate::core::time::{EventTime, IngestTime, TimebaseId, Uptime};

fn unpack_journal(format: u8, dir: &Path) {
    let name = format!("tests/data/journal-v{format}.lz4");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let packed = std::fs::read(path).unwrap();
    let files = lz4_flex::block::decompress_size_prepended(&packed).unwrap();
    let files: Vec<(String, Vec<u8>)> = postcard::from_bytes(&files).unwrap();
    for (name, content) in files {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

fn gap() -> GapRecord {
    GapRecord {
        source: SourceId::new("plc"),
        epoch: EPOCH,
        first_seq: Seq(1),
        last_seq: Some(Seq(3)),
        reason: GapReason::Evicted,
        first_event_time: Some(EventTime::from_unix_ns(5)),
        last_event_time: None,
        at: IngestTime::from_unix_ns(1_796_000_000_000_000_000),
    }
}

fn old_reading(seq: u64) -> Entry {
    let Entry::Reading(mut record) = reading(seq) else { unreachable!() };
    if seq.is_multiple_of(4) {
        record.stamp.state = ClockState::Unsynchronized;
        record.stamp.clock = ClockSource::FreeRunning;
    }
    Entry::Reading(record)
}

fn entries() -> Vec<(Offset, Entry)> {
    let first = (1..=20).map(old_reading);
    let all = first.chain([Entry::Gap(gap())]).chain((21..=30).map(old_reading));
    (0..).map(Offset).zip(all).collect()
}

/// As it was, and all of it sent as stamped.
fn meta() -> Meta {
    let books = SourceMeta {
        tail: Seq(30),
        vouched: Seq(30),
        accepted: 30,
        acknowledged: 6,
        newest_event: Some(EventTime::from_unix_ns(7)),
        ..SourceMeta::default()
    };
    let set = SeqSet { through: Seq(4), ranges: vec![(Seq(6), Seq(7))] };
    Meta {
        epoch: EPOCH,
        start: Offset(2),
        frontier: Offset(4),
        done: vec![(Offset(6), Offset(8))],
        sources: [(SourceId::new("plc"), books)].into(),
        handed: [((SourceId::new("plc"), EPOCH), set)].into(),
        positions: Default::default(),
        gaps: vec![(Offset(20), gap())],
        sealed: Offset(31),
        retimed: Vec::new(),
        uplinks: Default::default(),
        renumberings: Default::default(),
        alive: None,
        clock: Arc::default(),
        totals: Arc::default(),
    }
}

/// What format 2 knew besides: what waits for its final time, and the clocks.
fn meta_2() -> Meta {
    let boot = |n| Boot {
        id: BootId([n; 16]),
        first_offset: Offset(u64::from(n)),
        wall_offset_ns: -5,
        set_by: ClockSource::Saved,
        source: ClockSource::Ntp,
        stretches: Vec::new(),
        suspends: Vec::new(),
        rate_ppb: Some(1_200),
        last_up: Uptime::from_ns(9),
    };
    let ledger = ClockLedger {
        timebase: TimebaseId(2),
        boots: (1..=2).map(boot).collect(),
        ..ClockLedger::default()
    };
    Meta {
        sealed: Offset(20),
        retimed: vec![(Offset(0), Offset(3))],
        alive: Some((BootId([1; 16]), Uptime::from_ns(30))),
        clock: Arc::new(ledger),
        ..meta()
    }
}

/// What format 3 knew besides: a second uplink, positions, renumberings.
fn meta_3() -> Meta {
    let plc = SourceId::new("plc");
    let set = SeqSet { through: Seq(2), ranges: Vec::new() };
    let backup = UplinkMeta {
        frontier: Offset(2),
        done: vec![(Offset(3), Offset(4))],
        handed: [((plc.clone(), EPOCH), set)].into(),
        refused: None,
    };
    let renumbering = Renumbering {
        from: Epoch { number: EPOCH.number - 1, nonce: 9 },
        to: EPOCH,
        bases: [(plc.clone(), Seq(2))].into(),
        until: Offset(5),
    };
    Meta {
        positions: [(plc, Arc::from(&b"line 30"[..]))].into(),
        uplinks: [("backup".into(), backup)].into(),
        renumberings: Renumberings(vec![renumbering]),
        ..meta_2()
    }
}

fn all_of(store: &mut Store) -> Vec<(Offset, Entry)> {
    let mut entries = store.fetch(&fetch(0));
    assert_eq!(entries.damaged, []);
    let rest = store.fetch(&Fetch { from: entries.next, ..fetch(0) });
    assert_eq!(rest.damaged, []);
    entries.entries.extend(rest.entries);
    entries.entries
}

#[test]
fn a_journal_of_an_older_format_is_read_and_goes_on() {
    for (format, meta) in [(1, meta()), (2, meta_2()), (3, meta_3())] {
        let dir = tempfile::tempdir().unwrap();
        unpack_journal(format, dir.path());
        let (mut store, recovered) = open(dir.path());
        assert_eq!((recovered.next, &recovered.damaged), (Offset(31), &vec![]));
        assert_eq!(recovered.broken_numbering, None);
        assert_eq!(recovered.meta.as_ref(), Some(&meta), "format {format}");
        let range = recovered.segments[0].contents[&(SourceId::new("plc"), EPOCH)];
        assert_eq!((range.first, range.last), (Seq(1), Seq(20)));
        assert_eq!(all_of(&mut store), entries());
        // From here on a program that knows the older format alone refuses, by the
        // first file that it reads.
        let manifest = std::fs::read(dir.path().join("journal/MANIFEST")).unwrap();
        assert_eq!(manifest[0], SCHEMA);
        // The new format beside the old, in one segment.
        let next = Meta { sealed: Offset(32), ..meta };
        let more = Commit { first: Offset(31), meta: next.clone(), ..commit(31, 31) };
        store.commit(&more).unwrap();
        drop(store);
        let (mut store, recovered) = open(dir.path());
        assert_eq!(recovered.meta, Some(next));
        assert_eq!(all_of(&mut store), [entries(), vec![(Offset(31), reading(31))]].concat());
    }
}

#[test]
fn offline_tools_read_older_formats() {
    for format in [1, 2, 3] {
        let dir = tempfile::tempdir().unwrap();
        unpack_journal(format, dir.path());
        let stats = inspect::stats(dir.path()).unwrap();
        assert_eq!((stats.entries, stats.segments.len()), (31, 2));
        let mut shown = Vec::new();
        inspect::cat(dir.path(), Offset(0), |offset, entry| shown.push((offset, entry))).unwrap();
        assert_eq!(shown, entries());
        let reports = inspect::verify(dir.path(), |_| ()).unwrap();
        assert!(reports.iter().all(|report| report.damage.is_empty()), "{reports:?}");
    }
}

#[test]
fn with_its_newest_segment_lost_the_head_and_the_seal_are_read() {
    for (format, sealed, is_head_there) in
        [(1, 21, true), (1, 21, false), (2, 9, true), (2, 9, false), (3, 9, true), (3, 9, false)]
    {
        let dir = tempfile::tempdir().unwrap();
        unpack_journal(format, dir.path());
        std::fs::write(dir.path().join("journal/000002/db"), b"").unwrap();
        if !is_head_there {
            std::fs::remove_file(dir.path().join("journal/000002.head")).unwrap();
        }
        let (_, recovered) = Store::open(&options(dir.path())).unwrap();
        let kept = recovered.meta.unwrap();
        assert_eq!(
            (kept.sources[&SourceId::new("plc")].tail, kept.sealed),
            (Seq(20), Offset(sealed))
        );
    }
}
