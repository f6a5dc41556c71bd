//! Looking at a journal that no agent has open. sled locks its files: beside a
//! running agent these answer [`StoreError::Busy`].

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::audit::{self, Outline};
use super::error::{OpenError, StoreError};
use super::fetch::head_of;
use super::manifest::{self, Listed, Seal};
use super::meta::Contents;
use super::open;
use super::recover;
use super::segment::{Piece, Segment};
use super::{Folders, segment_bytes};
use crate::core::id::{Offset, SegmentId};
use crate::core::reading::Entry;
use crate::core::seam::{ClockLedger, Damage};

/// What a journal holds, by its books.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Segments, oldest first.
    pub segments: Vec<SegmentStats>,
    /// Entries in them.
    pub entries: u64,
    /// What they take on disk, in bytes.
    pub bytes: u64,
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentStats {
    /// Its name.
    pub id: u32,
    /// First offset.
    pub first: u64,
    /// One past the last offset.
    pub next: u64,
    /// What it takes on disk, in bytes.
    pub bytes: u64,
    /// Whether it is closed for writing.
    pub is_sealed: bool,
}

/// What a check of one segment found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentReport {
    /// Its name.
    pub id: u32,
    /// Frames that are good.
    pub frames: u64,
    /// Entries in them.
    pub entries: u64,
    /// What is damaged, for people; empty when all is well.
    pub damage: Vec<String>,
}

/// Sums up the journal in a data directory.
pub fn stats(data_dir: &Path) -> Result<Stats, StoreError> {
    let mut stats = Stats { segments: Vec::new(), entries: 0, bytes: 0 };
    let folders = Folders::of(data_dir);
    for listed in listed(&folders)? {
        let outlined = Outlined::of(&folders, listed)?;
        let segment = SegmentStats {
            id: listed.id,
            first: outlined.first.0,
            next: outlined.next.0,
            bytes: segment_bytes(&folders, SegmentId(listed.id)),
            is_sealed: listed.is_sealed,
        };
        stats.entries += segment.next - segment.first;
        stats.bytes += segment.bytes;
        stats.segments.push(segment);
    }
    Ok(stats)
}

/// Hands every readable entry from `from` on to `show`, readings with the time
/// that they are sent with. A seal is forgotten with the last of its entries that
/// waited: readings acknowledged long ago may show their first stamp.
pub fn cat(
    data_dir: &Path,
    from: Offset,
    mut show: impl FnMut(Offset, Entry),
) -> Result<(), StoreError> {
    let folders = Folders::of(data_dir);
    let all = listed(&folders)?;
    let clock = newest_ledger(&folders, &all)?;
    for listed in all {
        let end = listed.next.unwrap_or(u64::MAX);
        if end <= from.0 {
            continue;
        }
        let mut segment = Segment::open(&folders.segment(SegmentId(listed.id)))?;
        let mut walk = segment.walk(from)?;
        while let Some(piece) = segment.step(&mut walk)? {
            let Piece::Frame { first, entries } = piece else { continue };
            let entries = (first.0..end).map(Offset).zip(entries);
            for (offset, mut entry) in entries.skip_while(|(offset, _)| *offset < from) {
                let seal = clock.seals.iter().find(|seal| seal.covers(offset));
                if let (Entry::Reading(record), Some(seal)) = (&mut entry, seal) {
                    seal.apply(record);
                }
                show(offset, entry);
            }
        }
        segment.close();
    }
    Ok(())
}

/// The clock ledger after the last commit that can be read.
fn newest_ledger(folders: &Folders, all: &[Listed]) -> Result<Arc<ClockLedger>, StoreError> {
    for listed in all.iter().rev() {
        let id = SegmentId(listed.id);
        let found = match Seal::read(&folders.journal, id) {
            Ok(seal) => Some(seal.last),
            Err(_) => match Segment::open(&folders.segment(id)) {
                Ok(segment) => {
                    let state = segment.state(b'm');
                    segment.close();
                    state?.and_then(Result::ok)
                }
                Err(busy @ StoreError::Busy(_)) => return Err(busy),
                Err(_) => None,
            },
        };
        let found = found.or_else(|| manifest::read_head(&folders.journal, id));
        if let Some(state) = found.filter(|state| *state.meta.clock != ClockLedger::default()) {
            return Ok(state.meta.clock);
        }
    }
    Ok(Arc::default())
}

/// Checks every frame of every segment. `progress` hears of each report as it is
/// made. Nothing is moved or repaired.
pub fn verify(
    data_dir: &Path,
    mut progress: impl FnMut(&SegmentReport),
) -> Result<Vec<SegmentReport>, StoreError> {
    let folders = Folders::of(data_dir);
    let mut reports = Vec::new();
    for listed in listed(&folders)? {
        let mut report = SegmentReport { id: listed.id, frames: 0, entries: 0, damage: Vec::new() };
        match check(&folders, listed) {
            Ok(audit) => {
                report.frames = audit.frames;
                report.entries = audit.entries;
                report.damage = audit.damages.iter().map(in_words).collect();
            }
            Err(error @ StoreError::Busy(_)) => return Err(error),
            Err(error) => report.damage.push(error.to_string()),
        }
        progress(&report);
        reports.push(report);
    }
    Ok(reports)
}

fn check(folders: &Folders, listed: Listed) -> Result<audit::Audit, StoreError> {
    let id = SegmentId(listed.id);
    let outlined = Outlined::of(folders, listed)?;
    let mut segment = Segment::open(&folders.segment(id))?;
    let head = head_of(&segment, &folders.journal, id)?;
    let outline = Outline {
        first: outlined.first,
        next: outlined.next,
        head: &head.meta,
        contents: &outlined.contents,
    };
    let audit = audit::audit(&mut segment, &outline);
    segment.close();
    audit
}

fn in_words(damage: &Damage) -> String {
    let mut text = damage.reason.clone();
    for missing in &damage.missing {
        let last = missing.last.map_or("?".to_owned(), |seq| seq.to_string());
        text += &format!("; {} {}: {} to {last}", missing.source, missing.epoch, missing.first);
    }
    text
}

fn listed(folders: &Folders) -> Result<Vec<Listed>, StoreError> {
    match open::load(&folders.journal) {
        Ok((manifest, _)) => Ok(manifest.segments),
        Err(OpenError::Io { path, source, .. }) => Err(StoreError::Io(path, source)),
        Err(error) => Err(StoreError::Damaged(error.to_string())),
    }
}

/// What a segment holds, by its seal or by reading it.
struct Outlined {
    first: Offset,
    next: Offset,
    contents: Contents,
}

impl Outlined {
    fn of(folders: &Folders, listed: Listed) -> Result<Self, StoreError> {
        let id = SegmentId(listed.id);
        let first = Offset(listed.first);
        if let Ok(seal) = Seal::read(&folders.journal, id)
            && listed.is_sealed
        {
            return Ok(Self { first, next: seal.next, contents: seal.contents });
        }
        let mut segment = Segment::open(&folders.segment(id))?;
        let found = recover::read_segment(&mut segment, &folders.journal, id, first);
        segment.close();
        let found = found?;
        Ok(Self { first, next: found.state.next, contents: found.contents })
    }
}
