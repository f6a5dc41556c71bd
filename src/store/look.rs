//! Looking at the open journal while it is in use: a page at a time, with an open segment
//! of its own, so that neither commits nor the forwarder wait for long. Changes nothing
//! and sets nothing aside.

use std::sync::Arc;

use super::audit::Pass;
use super::error::StoreError;
use super::fetch::{head_of, read};
use super::inspect::{Numbering, SegmentReport, SegmentStats, Stats, in_words};
use super::meta::Contents;
use super::segment::{Piece, Segment};
use super::{Store, inspect, segment};
use crate::core::id::{Offset, SegmentId, UplinkId};
use crate::core::limits::{FETCH_BYTES_MAX, FETCH_ENTRIES_MAX};
use crate::core::reading::Entry;
use crate::core::seam::{Fetch, Lane, Purpose, SegmentInfo};

/// Frames that are checked in one go; takes some milliseconds.
const FRAMES_AT_ONCE: usize = 64;

/// One page of the journal.
#[derive(Clone, Debug)]
pub struct Page {
    /// Entries with their offsets, readings with the time they are sent with.
    pub entries: Vec<(Offset, Entry)>,
    /// Where the next page begins; `end` when there is none.
    pub next: Offset,
    /// Where the journal ends now.
    pub end: Offset,
    /// What could not be read on the way.
    pub damage: Option<String>,
}

/// A check of one segment that is under way.
#[derive(Debug)]
pub struct Checking {
    id: SegmentId,
    next: Offset,
    contents: Arc<Contents>,
    pass: Pass,
    /// Frames below are done with.
    resume: Offset,
    report: Option<SegmentReport>,
}

impl Checking {
    /// The report, once the check has come to its end.
    pub fn report(&self) -> Option<&SegmentReport> {
        self.report.as_ref()
    }
}

impl Store {
    /// One page of entries from `from` on, within one segment.
    ///
    /// # Errors
    /// The disk does not answer for the moment.
    pub fn look(&mut self, from: Offset) -> Result<Page, StoreError> {
        let end = self.state.next;
        let nothing = |next, damage| Page { entries: Vec::new(), next, end, damage };
        let Some(info) = self.segments.iter().find(|info| from < info.next).cloned() else {
            return Ok(nothing(end, None));
        };
        let from = from.max(info.first);
        let fetch = Fetch {
            purpose: Purpose::Forward(UplinkId(0), Lane::Live),
            from,
            entries_max: FETCH_ENTRIES_MAX,
            bytes_max: FETCH_BYTES_MAX,
        };
        let read = self.segment_to_look(&info).and_then(|one| read(one, from, info.next, &fetch));
        let stretch = match read {
            Ok(stretch) => stretch,
            Err(error) if segment::is_damage(&error) => {
                let what = format!("segment {} cannot be read: {error}", info.id);
                return Ok(nothing(info.next, Some(what)));
            }
            Err(error) => return Err(error),
        };
        let clock = Arc::clone(&self.state.meta.clock);
        let mut entries = stretch.entries;
        entries.iter_mut().for_each(|(offset, entry)| inspect::time(&clock, *offset, entry));
        let damage = stretch.has_holes.then(|| {
            format!("segment {}: entries before offset {} are damaged", info.id, stretch.next)
        });
        Ok(Page { entries, next: stretch.next, end, damage })
    }

    /// Closes the segment that was open for looking.
    pub fn look_away(&mut self) {
        if let Some((_, segment)) = self.looker.take() {
            segment.close();
        }
    }

    /// What the journal holds, by its books.
    pub fn stats(&self) -> Stats {
        let segments = self.segments.iter().map(|info| SegmentStats {
            id: info.id.0,
            first: info.first.0,
            next: info.next.0,
            bytes: info.bytes,
            is_sealed: info.is_sealed,
        });
        let contents = self.segments.iter().map(|info| &*info.contents);
        Stats::new(segments.collect(), Numbering::all(&self.state.meta, contents))
    }

    /// Begins to check a segment; `None` when it is gone.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn begin_check(&mut self, id: u32) -> Result<Option<Checking>, StoreError> {
        let journal = self.folders.journal.clone();
        let found = self.segments.iter().find(|info| info.id.0 == id).cloned();
        let Some(info) = found else { return Ok(None) };
        let head = head_of(self.segment_to_look(&info)?, &journal, info.id)?;
        Ok(Some(Checking {
            id: info.id,
            next: info.next,
            pass: Pass::new(info.first, &head.meta, &info.contents),
            contents: info.contents,
            resume: info.first,
            report: None,
        }))
    }

    /// Goes on with a check. If the segment was done with and deleted meanwhile, the check
    /// ends without damage.
    ///
    /// # Errors
    /// The disk does not answer.
    pub fn check_on(&mut self, checking: &mut Checking) -> Result<(), StoreError> {
        let info = self.segments.iter().find(|info| info.id == checking.id).cloned();
        if let Some(info) = info {
            let segment = self.segment_to_look(&info)?;
            if !step(segment, checking)? {
                return Ok(());
            }
            checking.pass.finish(checking.next, &checking.contents);
        }
        let audit = checking.pass.audit();
        checking.report = Some(SegmentReport {
            id: checking.id.0,
            frames: audit.frames,
            entries: audit.entries,
            damage: audit.damages.iter().map(in_words).collect(),
        });
        Ok(())
    }

    /// The segment to look at, opened apart from the forwarder's: the two are seldom at the
    /// same segment, and each would close the other's.
    fn segment_to_look(&mut self, info: &SegmentInfo) -> Result<&mut Segment, StoreError> {
        let is_open = |slot: &Option<(SegmentId, Segment)>| {
            slot.as_ref().is_some_and(|(id, _)| *id == info.id)
        };
        let is_active = self.active.as_ref().is_some_and(|active| active.id == info.id);
        if is_active || is_open(&self.reader) {
            return self.segment(info);
        }
        if !is_open(&self.looker) {
            self.look_away();
            let segment = Segment::open(&self.folders.segment(info.id))?;
            self.looker = Some((info.id, segment));
        }
        match &mut self.looker {
            Some((_, segment)) => Ok(segment),
            None => Err(StoreError::Damaged("no segment is open".into())),
        }
    }
}

/// Checks some more frames. True when all are done.
fn step(segment: &mut Segment, checking: &mut Checking) -> Result<bool, StoreError> {
    let mut walk = segment.walk(checking.resume)?;
    let mut frames = 0;
    while let Some(piece) = segment.step(&mut walk)? {
        let at = match &piece {
            Piece::Frame { first, .. } => *first,
            Piece::Bad { at, .. } => *at,
        };
        if at < checking.resume {
            continue;
        }
        if frames == FRAMES_AT_ONCE {
            return Ok(false);
        }
        if !checking.pass.take(piece, checking.next) {
            break;
        }
        checking.resume = at.plus(1);
        frames += 1;
    }
    Ok(true)
}
