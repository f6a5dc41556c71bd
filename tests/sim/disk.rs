//! The modelled disk is two disks: what was applied, and what was flushed. A
//! crash keeps the flushed part and a random run of the unflushed, and of the commit
//! that it cuts off some entries without the meta, which is written last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate::core::id::{Epoch, Offset, SegmentId, Seq, SourceId};
use tidegate::core::reading::{Entry, Record, Value};
use tidegate::core::seam::{
    Commit, Damage, DiskFacts, Fetch, Fetched, Meta, Missing, Recovered, SegmentInfo, SourceRange,
};

use crate::rng::Rng;
use crate::source::{REPEATING, number};

/// Entries after which a segment is sealed.
const SEGMENT_ENTRIES: u64 = 60;
/// What one entry takes in the model.
const ENTRY_BYTES: u64 = 100;
/// What is free beside the data directory.
const FREE_BYTES: u64 = 1 << 30;

#[derive(Clone, Debug)]
struct Segment {
    info: SegmentInfo,
    entries: BTreeMap<Offset, Entry>,
}

#[derive(Clone, Debug, Default)]
pub struct Disk {
    segments: Vec<Segment>,
    /// Names of readings that were ever flushed.
    named: BTreeSet<(SourceId, Epoch, Seq)>,
    meta: Option<Meta>,
    /// The windows' checkpoint.
    pub checkpoint: Option<Vec<u8>>,
    /// The memory of repeats.
    pub dedupe: Option<Vec<u8>>,
    /// The numbers of all readings that were ever flushed.
    pub flushed: BTreeSet<(SourceId, i64)>,
    /// The sum of all increments that were ever flushed: what the newest total says,
    /// unless the entry that said it has rotted.
    pub total: i64,
    has_rotted: bool,
    /// Applied and not flushed, in order.
    unflushed: Vec<Commit>,
    /// Offsets whose bytes rotted, until they are reported.
    rotten: Vec<Offset>,
    next_id: u32,
}

impl Disk {
    pub fn apply(&mut self, commit: &Commit) {
        self.unflushed.push(commit.clone());
    }

    pub fn flush(&mut self) {
        for commit in std::mem::take(&mut self.unflushed) {
            self.write(commit);
        }
    }

    /// A failed commit: its leftovers may or may not be found again; the retry
    /// wins over them either way.
    pub fn fail(&mut self) {
        self.unflushed.clear();
    }

    pub fn crash(&mut self, rng: &mut Rng) {
        let keep = rng.between(0, self.unflushed.len() as u64) as usize;
        let mut unflushed = std::mem::take(&mut self.unflushed).into_iter();
        for commit in unflushed.by_ref().take(keep) {
            self.write(commit);
        }
        if let Some(cut_off) = unflushed.next() {
            let count = rng.between(0, cut_off.entries.len() as u64) as usize;
            self.put(cut_off.first, &cut_off.entries[..count]);
        }
    }

    pub fn is_flushed(&self, wanted: &Entry) -> bool {
        self.any(|entry| *entry == *wanted || self.renamed(entry) == *wanted)
    }

    /// An entry under the name that it has now.
    pub fn renamed(&self, entry: &Entry) -> Entry {
        let mut entry = entry.clone();
        if let Some(meta) = &self.meta {
            meta.renumberings.apply(&mut entry);
        }
        entry
    }

    /// Whether it was flushed once, though its segment may be gone by now.
    pub fn was_flushed(&self, record: &Record) -> bool {
        let name = (record.source.clone(), record.epoch, record.seq);
        let renumberings = self.meta.iter().flat_map(|meta| &meta.renumberings.0);
        let mut older = renumberings.filter(|one| one.to == record.epoch).map(|one| {
            let base = one.bases.get(&record.source).copied().unwrap_or_default();
            (record.source.clone(), one.from, Seq(record.seq.0 + base.0))
        });
        let is_named = self.named.contains(&name) || older.any(|name| self.named.contains(&name));
        // Held for so long that the exchange of its name is forgotten.
        let is_renamed = record.epoch.number > 1;
        let number = number(record).filter(|_| is_renamed);
        is_named || number.is_some_and(|n| self.flushed.contains(&(record.source.clone(), n)))
    }

    pub fn any(&self, is_wanted: impl Fn(&Entry) -> bool) -> bool {
        self.segments.iter().rev().any(|segment| segment.entries.values().rev().any(&is_wanted))
    }

    pub fn find<T>(&self, mut wanted: impl FnMut(Offset, &Entry) -> Option<T>) -> Option<T> {
        let segments = self.segments.iter().rev();
        let mut entries = segments.flat_map(|segment| segment.entries.iter().rev());
        entries.find_map(|(offset, entry)| wanted(*offset, entry))
    }

    pub fn flushed_meta(&self) -> Option<&Meta> {
        self.meta.as_ref()
    }

    pub fn rot(&mut self, rng: &mut Rng) {
        let sealed: Vec<Offset> = self
            .segments
            .iter()
            .filter(|segment| segment.info.is_sealed)
            .flat_map(|segment| segment.entries.iter())
            .filter(|(_, entry)| entry.reading().is_some())
            .map(|(offset, _)| *offset)
            .collect();
        if !sealed.is_empty() {
            self.has_rotted = true;
            self.rotten.push(sealed[rng.next() as usize % sealed.len()]);
        }
    }

    pub fn remove(&mut self, id: SegmentId) {
        self.segments.retain(|segment| segment.info.id != id);
    }

    pub fn facts(&self) -> DiskFacts {
        let entries: u64 = self.segments.iter().map(|segment| segment.entries.len() as u64).sum();
        DiskFacts {
            used_bytes: entries * ENTRY_BYTES,
            free_bytes: FREE_BYTES - entries * ENTRY_BYTES,
            written_bytes: 0,
        }
    }

    pub fn infos(&self) -> Vec<SegmentInfo> {
        self.segments.iter().map(|segment| segment.info.clone()).collect()
    }

    /// What a start finds. A commit without its meta never happened: what there is
    /// of it is thrown away.
    pub fn recover(&mut self) -> Recovered {
        if let Some(segment) = self.segments.last_mut() {
            segment.entries.split_off(&segment.info.next);
        }
        Recovered {
            meta: self.meta.clone(),
            next: self.segments.last().map_or(Offset(0), |segment| segment.info.next),
            segments: self.infos(),
            damaged: Vec::new(),
            checkpoint: self.checkpoint.clone(),
            dedupe: self.dedupe.clone(),
            broken_numbering: None,
            was_cut_short: false,
            disk: self.facts(),
        }
    }

    pub fn fetch(&self, fetch: &Fetch) -> Fetched {
        let none = Fetched {
            purpose: fetch.purpose,
            from: fetch.from,
            entries: vec![],
            next: fetch.from,
            damaged: vec![],
        };
        let Some(segment) = self.segments.iter().find(|segment| segment.info.next > fetch.from)
        else {
            return none;
        };
        let run = segment.entries.range(fetch.from..).take(fetch.entries_max.min(25));
        let run: Vec<(Offset, Entry)> =
            run.map(|(offset, entry)| (*offset, entry.clone())).collect();
        let next = run.last().map_or(segment.info.next, |(offset, _)| offset.plus(1));
        let (bad, good) = run.into_iter().partition(|(offset, _)| self.rotten.contains(offset));
        Fetched {
            purpose: fetch.purpose,
            from: fetch.from,
            entries: good,
            next,
            damaged: damages(bad),
        }
    }

    fn write(&mut self, commit: Commit) {
        let end = self.put(commit.first, &commit.entries);
        let Some(active) = self.segments.last_mut() else { return };
        for entry in commit.entries.iter() {
            if let Some(Record { source, epoch, seq, .. }) = entry.reading() {
                self.named.insert((source.clone(), *epoch, *seq));
            }
            note_contents(&mut active.info, entry);
            if let Some(record) = entry.reading() {
                let n = number(record);
                self.flushed.extend(n.map(|n| (record.source.clone(), n)));
                if record.source.as_str() == REPEATING {
                    self.total += n.unwrap_or_default();
                    let is_whole = record.value == Value::I64(self.total);
                    assert!(is_whole || self.has_rotted, "not {}: {record:?}", self.total);
                }
            }
        }
        // The meta comes last, and only with it the entries count.
        active.info.next = end;
        active.info.bytes = active.entries.len() as u64 * ENTRY_BYTES;
        active.info.is_sealed = active.entries.len() as u64 >= SEGMENT_ENTRIES;
        self.meta = Some(commit.meta);
    }

    /// Entries alone, behind the end of the journal; where they end.
    fn put(&mut self, first: Offset, entries: &[Entry]) -> Offset {
        if self.segments.last().is_none_or(|segment| segment.info.is_sealed) {
            self.next_id += 1;
            let info = SegmentInfo {
                id: SegmentId(self.next_id),
                first,
                next: first,
                bytes: 0,
                ahead_bytes: 0,
                is_sealed: false,
                contents: Arc::default(),
            };
            self.segments.push(Segment { info, entries: BTreeMap::new() });
        }
        let end = first.plus(entries.len() as u64);
        if let Some(active) = self.segments.last_mut() {
            assert_eq!(active.info.next, first, "a commit goes on where the journal ends");
            active.entries.extend((first.0..end.0).map(Offset).zip(entries.iter().cloned()));
        }
        end
    }
}

fn note_contents(info: &mut SegmentInfo, entry: &Entry) {
    let Some(one) = entry.numbered() else { return };
    let (seq, at) = (one.seq, one.event_time);
    let fresh = SourceRange { first: seq, last: seq, earliest: at, latest: at };
    let key = (one.source.clone(), one.epoch);
    let range = Arc::make_mut(&mut info.contents).entry(key).or_insert(fresh);
    range.first = range.first.min(seq);
    range.last = range.last.max(seq);
    range.earliest = range.earliest.min(at);
    range.latest = range.latest.max(at);
}

fn damages(bad: Vec<(Offset, Entry)>) -> Vec<Damage> {
    let readings = bad.into_iter().filter_map(|(offset, entry)| {
        let one = entry.numbered()?;
        let missing = Missing {
            source: one.source.clone(),
            epoch: one.epoch,
            first: one.seq,
            last: Some(one.seq),
            event_times: Some((one.event_time, one.event_time)),
        };
        let reason = format!("entry {offset} rotted");
        Some(Damage { first: offset, end: offset.plus(1), missing: vec![missing], reason })
    });
    readings.collect()
}
