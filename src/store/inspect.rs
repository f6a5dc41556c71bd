//! Looking at a journal that no agent has open: a data directory, a copy of one or
//! of its `journal` folder, or one segment that was set aside. sled locks its
//! files: beside a running agent these answer [`StoreError::Busy`].

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::audit::{self, Outline};
use super::error::{OpenError, StoreError, at};
use super::fetch::head_of;
use super::manifest::{self, Listed, Seal};
use super::meta::{Contents, State};
use super::open;
use super::recover;
use super::segment::{Piece, Segment};
use super::{Folders, segment_bytes};
use crate::core::id::{Epoch, Offset, SegmentId, Seq, SourceId};
use crate::core::reading::Entry;
use crate::core::seam::{ClockLedger, Damage, Meta};

/// What a journal holds, by its books.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Segments, oldest first.
    pub segments: Vec<SegmentStats>,
    /// Entries in them.
    pub entries: u64,
    /// What they take on disk, in bytes.
    pub bytes: u64,
    /// The numbers that were given, per source and epoch.
    pub numbers: Vec<Numbering>,
}

/// The numbers of one source in one epoch: 1 to `last` were given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbering {
    /// The source.
    pub source: String,
    /// The epoch.
    pub epoch: String,
    /// The newest number.
    pub last: u64,
    /// Every number up to here was acknowledged by the broker or is in a gap record.
    pub through: u64,
}

impl Numbering {
    /// All numberings that the state and the segments know of. For an epoch before the
    /// present one, `last` is a lower bound.
    pub(super) fn all<'a>(
        meta: &Meta,
        contents: impl Iterator<Item = &'a Contents>,
    ) -> Vec<Numbering> {
        let mut last: BTreeMap<(SourceId, Epoch), Seq> = BTreeMap::new();
        let mut raise = |source: &SourceId, epoch: Epoch, seq: Seq| {
            let known = last.entry((source.clone(), epoch)).or_default();
            *known = seq.max(*known);
        };
        for (source, books) in &meta.sources {
            raise(source, meta.epoch, books.tail);
        }
        for ((source, epoch), set) in &meta.handed {
            raise(source, *epoch, set.ranges.last().map_or(set.through, |(_, end)| *end));
        }
        for ((source, epoch), range) in contents.flatten() {
            raise(source, *epoch, range.last);
        }
        let given = last.into_iter().filter(|(_, seq)| *seq > Seq(0));
        let numbering = |((source, epoch), seq): ((SourceId, Epoch), Seq)| Numbering {
            source: source.to_string(),
            epoch: epoch.to_string(),
            last: seq.0,
            through: meta.handed.get(&(source, epoch)).map_or(0, |set| set.through.0),
        };
        given.map(numbering).collect()
    }
}

impl Stats {
    pub(super) fn new(segments: Vec<SegmentStats>, numbers: Vec<Numbering>) -> Self {
        Self {
            entries: segments.iter().map(|one| one.next - one.first).sum(),
            bytes: segments.iter().map(|one| one.bytes).sum(),
            segments,
            numbers,
        }
    }
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// Sums up a journal.
///
/// # Errors
/// It is in use, or cannot be read.
pub fn stats(place: &Path) -> Result<Stats, StoreError> {
    let (folders, all) = place_of(place)?;
    let mut segments = Vec::new();
    let mut contents = Vec::new();
    for listed in &all {
        let outlined = Outlined::of(&folders, *listed)?;
        segments.push(SegmentStats {
            id: listed.id,
            first: outlined.first.0,
            next: outlined.next.0,
            bytes: segment_bytes(&folders, SegmentId(listed.id)),
            is_sealed: listed.is_sealed,
        });
        contents.push(outlined.contents);
    }
    let newest = newest_state(&folders, &all, |_| true)?.unwrap_or_default();
    Ok(Stats::new(segments, Numbering::all(&newest.meta, contents.iter())))
}

/// Hands every readable entry from `from` on to `show`, readings with the time that they
/// are sent with. Once no entry of a seal waits any more the seal is forgotten: readings
/// acknowledged long ago may have their first stamp here.
///
/// # Errors
/// The journal is in use, or cannot be read.
pub fn cat(
    place: &Path,
    from: Offset,
    mut show: impl FnMut(Offset, Entry),
) -> Result<(), StoreError> {
    let (folders, all) = place_of(place)?;
    let has_ledger = |state: &State| *state.meta.clock != ClockLedger::default();
    let newest = newest_state(&folders, &all, has_ledger)?;
    let clock = newest.map(|state| state.meta.clock).unwrap_or_default();
    for listed in all {
        let end = match listed.next {
            Some(next) => next,
            // Whatever it has, where no journal says what counts.
            None if folders.lone.is_some() => u64::MAX,
            None => Outlined::of(&folders, listed)?.next.0,
        };
        if end <= from.0 {
            continue;
        }
        let mut segment = Segment::open(&folders.segment(SegmentId(listed.id)))?;
        let mut walk = segment.walk(from)?;
        while let Some(piece) = segment.step(&mut walk)? {
            let Piece::Frame { first, entries } = piece else { continue };
            let entries = (first.0..end).map(Offset).zip(entries);
            for (offset, mut entry) in entries.skip_while(|(offset, _)| *offset < from) {
                time(&clock, offset, &mut entry);
                show(offset, entry);
            }
        }
        segment.close();
    }
    Ok(())
}

/// Gives a reading the time that it is sent with.
pub(super) fn time(clock: &ClockLedger, offset: Offset, entry: &mut Entry) {
    let seal = clock.seals.iter().find(|seal| seal.covers(offset));
    if let (Entry::Reading(record), Some(seal)) = (entry, seal) {
        seal.apply(record);
    }
}

/// The newest state that can be read.
fn newest_state(
    folders: &Folders,
    all: &[Listed],
    is_of_use: impl Fn(&State) -> bool,
) -> Result<Option<State>, StoreError> {
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
        if let Some(state) = found.filter(&is_of_use) {
            return Ok(Some(state));
        }
    }
    Ok(None)
}

/// Checks every frame of every segment. `progress` gets each report as it is made. Nothing
/// is moved or repaired.
///
/// # Errors
/// The journal is in use, or cannot be read.
pub fn verify(
    place: &Path,
    mut progress: impl FnMut(&SegmentReport),
) -> Result<Vec<SegmentReport>, StoreError> {
    let (folders, all) = place_of(place)?;
    let mut reports = Vec::new();
    for listed in all {
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

pub(super) fn in_words(damage: &Damage) -> String {
    let mut text = damage.reason.clone();
    for missing in &damage.missing {
        let last = missing.last.map_or("?".to_owned(), |seq| seq.to_string());
        text += &format!("; {} {}: {} to {last}", missing.source, missing.epoch, missing.first);
    }
    text
}

/// Where the segments are, and which they are.
fn place_of(place: &Path) -> Result<(Folders, Vec<Listed>), StoreError> {
    let mut folders = Folders::of(place);
    if !folders.journal.is_dir() {
        folders.journal = place.to_path_buf();
        if place.join("db").is_file() {
            return lone(place);
        }
        if !manifest::manifest_path(place).is_file() {
            let absent = "holds no journal: neither a folder `journal`, nor a MANIFEST, nor a db";
            return Err(StoreError::Damaged(format!("{} {absent}", place.display())));
        }
    }
    match open::load(&folders.journal) {
        Ok((manifest, _)) => Ok((folders, manifest.segments)),
        Err(OpenError::Io { path, source, .. }) => Err(StoreError::Io(path, source)),
        Err(error) => Err(StoreError::Damaged(error.to_string())),
    }
}

/// A single segment, as in the quarantine: its folder has its old name, perhaps followed by
/// a number.
fn lone(place: &Path) -> Result<(Folders, Vec<Listed>), StoreError> {
    let nameless = || StoreError::Damaged(format!("{} is no segment's name", place.display()));
    let place = place.canonicalize().map_err(at(place))?;
    let name = place.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let id = name.split('-').next().and_then(|id| id.parse().ok()).ok_or_else(nameless)?;
    let mut folders = Folders::of(&place);
    folders.journal = place.parent().map(Path::to_path_buf).unwrap_or_default();
    folders.lone = Some(place);
    Ok((folders, vec![Listed { id, first: 0, next: None, is_sealed: false }]))
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
        let found = recover::read_segment(&mut segment, &folders.journal, listed, None);
        segment.close();
        let found = found?;
        let first = first.max(found.head.next);
        Ok(Self { first, next: found.state.next, contents: found.contents })
    }
}
