//! Writing: commits, rotation, and giving a segment up.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::dictionary::NameWriter;
use super::error::{StoreError, at};
use super::manifest::{self, Seal};
use super::meta::{State, Summary};
use super::places::{self, Places};
use super::segment::{self, Segment};
use super::slack::{self, Room};
use super::writes::Writes;
use super::{Active, FREE_BYTES_MIN, FREE_BYTES_PLENTY, Store, open, segment_bytes};
use crate::core::id::{Offset, SegmentId};
use crate::core::reading::{Entry, Refusal};
use crate::core::seam::{ClockLedger, Commit, DiskFacts, SegmentInfo};
use crate::core::values::totals::SavedTotals;

/// Bytes of frames after which the table of contents is stored again: a start has to
/// read no more frames than that.
const CONTENTS_EVERY_BYTES: usize = 1024 * 1024;

/// What becomes of the room that a segment has allocated, when it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepRoom {
    /// It stays: the segment is opened again and written to.
    Yes,
    /// It is given back.
    No,
}

/// The frames of a commit, and the names that they are the first to use.
#[derive(Default)]
struct Frames {
    writes: Writes,
    bytes: usize,
    /// Those that begin where one would if all before them were full.
    on_grid: usize,
    summary: Summary,
}

impl Active {
    /// The clock ledger in stored form; empty when the segment has it already.
    pub(super) fn changed_ledger(&self, ledger: &Arc<ClockLedger>) -> Result<Vec<u8>, StoreError> {
        if Arc::ptr_eq(&self.ledger, ledger) || self.ledger == *ledger {
            return Ok(Vec::new());
        }
        segment::pack_ledger(ledger)
    }

    fn has_totals(&self, totals: &Arc<SavedTotals>) -> bool {
        Arc::ptr_eq(&self.totals, totals) || self.totals == *totals
    }

    /// The saved totals in stored form; empty when the segment has them already.
    pub(super) fn changed_totals(&self, totals: &Arc<SavedTotals>) -> Result<Vec<u8>, StoreError> {
        match self.has_totals(totals) {
            true => Ok(Vec::new()),
            false => segment::pack_totals(totals),
        }
    }
}

impl Store {
    /// Makes entries, refusals and meta durable: when it returns, a power cut takes nothing
    /// of it back. After an error nothing of it counts, and the same commit can be tried
    /// again. Refusals that cannot be kept are dropped and counted: they must not hold up
    /// readings, nor the evictions that make room on the disk.
    ///
    /// # Panics
    /// When entries do not begin at the next free offset: a mistake of the caller.
    pub fn commit(&mut self, commit: &Commit) -> Result<(Vec<SegmentInfo>, DiskFacts), StoreError> {
        if !commit.entries.is_empty() {
            assert_eq!(commit.first, self.state.next, "entries must begin at the next free offset");
        }
        let free_bytes = self.free_bytes();
        let unkept = self.keep_refusals(&commit.refusals, free_bytes);
        if free_bytes >= FREE_BYTES_MIN {
            self.ready_segment(free_bytes)?;
        }
        let state = State {
            meta: commit.meta.clone(),
            next: self.state.next.plus(commit.entries.len() as u64),
        };
        if !self.has_room(&state, &commit.entries, free_bytes)? {
            return Err(StoreError::Full { free_bytes });
        }
        if let Err(error) = self.write(&state, &commit.entries) {
            self.give_up();
            return Err(error);
        }
        self.state = state;
        if let Some(why) = unkept {
            let count = commit.refusals.len() as u64;
            self.refusals.drop_unkept(count);
            self.refusals_dropped = Some((count, why));
        }
        Ok((self.segments.clone(), self.disk()))
    }

    /// Puts refusals into the quarantine. Returns why not, if it does not take them.
    fn keep_refusals(&mut self, refusals: &[Refusal], free_bytes: u64) -> Option<String> {
        if refusals.is_empty() {
            return None;
        }
        match self.refusals.keep(refusals, free_bytes) {
            Ok(written) => {
                self.written_bytes += written;
                self.measure_others();
                None
            }
            Err(error) => Some(error.to_string()),
        }
    }

    /// Begins a new segment if there is none to write to, or the present one is full and
    /// the disk has room for another.
    fn ready_segment(&mut self, free_bytes: u64) -> Result<(), StoreError> {
        let Some(active) = &self.active else { return self.begin_segment() };
        let has_names = !active.names.is_full();
        if active.segment.log_bytes() < self.options.segment_bytes && has_names {
            return Ok(());
        }
        // The next one gets its room before this one's goes back: somebody else may
        // take it in between, and then neither could say what is given up.
        let is_scarce = free_bytes < FREE_BYTES_MIN + self.slack_bytes();
        if is_scarce && has_names {
            return Ok(());
        }
        if free_bytes >= FREE_BYTES_PLENTY {
            // Nobody takes that much in between, and the quota counts both.
            slack::give_back(active.segment.log());
        }
        let next = self.create_segment()?;
        if slack::reserve(next.segment.log(), self.slack_bytes()) == Room::Short && has_names {
            next.segment.close();
            open::delete_segment(&self.folders, next.id);
            return Ok(());
        }
        self.close_active(KeepRoom::No);
        if let Some(last) = self.segments.last_mut() {
            last.is_sealed = true;
        }
        self.begin(next)
    }

    pub(super) fn begin_segment(&mut self) -> Result<(), StoreError> {
        let next = self.create_segment()?;
        self.begin(next)
    }

    /// The next segment, on disk and not yet in the manifest.
    fn create_segment(&self) -> Result<Active, StoreError> {
        let id = SegmentId(self.next_id);
        let journal = &self.folders.journal;
        let head = manifest::sidecar(journal, id, "head");
        manifest::write_head(journal, id, &self.state).map_err(at(&head))?;
        let segment = Segment::create(&self.folders.segment(id), &self.state)?;
        let note = manifest::sidecar(journal, id, "note");
        let options = OpenOptions::new().create(true).truncate(true).write(true).open(&note);
        Ok(Active {
            id,
            segment,
            names: NameWriter::default(),
            note: options.map_err(at(&note))?,
            contents: Arc::default(),
            ledger: Arc::clone(&self.state.meta.clock),
            totals: Arc::clone(&self.state.meta.totals),
            places: Places::default(),
            unnoted_bytes: 0,
            has_commit: false,
        })
    }

    /// Goes on in a new segment.
    fn begin(&mut self, active: Active) -> Result<(), StoreError> {
        let id = active.id;
        self.segments.push(SegmentInfo {
            id,
            first: self.state.next,
            next: self.state.next,
            bytes: segment_bytes(&self.folders, id),
            ahead_bytes: slack::behind(active.segment.log()),
            is_sealed: false,
            contents: Arc::default(),
        });
        self.next_id += 1;
        self.losses_recorded();
        if let Err(error) = self.write_manifest() {
            // It was not begun: the manifest on disk does not know it.
            self.segments.pop();
            self.next_id -= 1;
            active.segment.close();
            return Err(error);
        }
        self.measure_others();
        self.active = Some(active);
        Ok(())
    }

    fn losses_recorded(&mut self) {
        let mut manifest = self.manifest();
        manifest.forget_recorded(&self.state.meta);
        self.losses = manifest.losses;
    }

    pub(super) fn write(&mut self, state: &State, entries: &[Entry]) -> Result<(), StoreError> {
        let frames = self.encode(entries)?;
        let Some(active) = self.active.as_mut() else { return Err(no_segment()) };
        let packed = segment::pack_state(state)?;
        let ledger = active.changed_ledger(&state.meta.clock)?;
        let totals = active.changed_totals(&state.meta.totals)?;
        if !entries.is_empty() {
            frames.summary.merge_into(Arc::make_mut(&mut active.contents));
        }
        let unnoted = active.unnoted_bytes + frames.bytes;
        let contents = match unnoted >= CONTENTS_EVERY_BYTES {
            true => segment::pack_contents(&active.contents, state.next)?,
            false => Vec::new(),
        };
        if !entries.is_empty() {
            active.segment.write(active.places.expect(state.next, frames.on_grid))?;
            active.segment.write(frames.writes)?;
        }
        // The state makes the commit count. What goes with it is written together with it.
        let mut last = Writes::default();
        for (kind, value) in [(b'c', &contents), (b'l', &ledger), (b't', &totals), (b'm', &packed)]
        {
            last.value(kind, value);
        }
        active.segment.write_together(last)?;
        active.segment.sync()?;
        active.ledger = Arc::clone(&state.meta.clock);
        active.totals = Arc::clone(&state.meta.totals);
        active.unnoted_bytes = if contents.is_empty() { unnoted } else { 0 };
        active.has_commit = true;
        // Not synced, and a failure does not matter: it only helps a later start to see
        // that there was more.
        let _ = active.note.write_all_at(&manifest::note(state.next), 0);
        let rest: usize = [contents, packed, ledger, totals].iter().map(Vec::len).sum();
        let bytes = (frames.bytes + rest) as u64;
        self.written_bytes += bytes;
        self.commit_bytes_max = self.commit_bytes_max.max(bytes);
        self.settle_slack();
        self.report(state.next);
        Ok(())
    }

    /// Cuts entries into frames. Their places in the active segment are used up.
    fn encode(&mut self, entries: &[Entry]) -> Result<Frames, StoreError> {
        let first = self.state.next;
        let Some(active) = self.active.as_mut() else { return Err(no_segment()) };
        let mut frames = Frames::default();
        self.frames.write_all(
            first,
            entries,
            &mut active.names,
            &mut |offset, chosen, frame, names| {
                for (id, name) in names.take_added() {
                    frames.writes.name(id, &name)?;
                }
                frames.writes.frame(offset, &frame);
                frames.bytes += frame.len();
                frames.on_grid += usize::from(places::is_on_grid(first, offset));
                frames.summary.add(chosen);
                active.places.use_up(offset);
                Ok::<(), StoreError>(())
            },
        )?;
        Ok(frames)
    }

    /// What the store says of the active segment after a commit.
    fn report(&mut self, next: Offset) {
        let Some(active) = &self.active else { return };
        let bytes_now = segment_bytes(&self.folders, active.id);
        let ahead_bytes = slack::behind(active.segment.log());
        if let Some(info) = self.segments.last_mut() {
            info.next = next;
            info.bytes = bytes_now;
            info.ahead_bytes = ahead_bytes;
            info.contents = Arc::clone(&active.contents);
        }
    }

    /// After a failed commit nothing more is written to the segment. It ends
    /// where the last good commit ended.
    pub(super) fn give_up(&mut self) {
        let Some(active) = self.active.take() else { return };
        let has_commit = active.has_commit;
        active.segment.close();
        if !has_commit {
            self.segments.pop();
            // Its folder is unknown to the next manifest, and cleaned at the next start.
        } else {
            self.seal_last();
        }
        // The disk may refuse this now; the next segment writes it again, and
        // nothing else is written before.
        let _ = self.write_manifest();
    }

    /// Seals the last segment outside sled.
    fn seal_last(&mut self) {
        let Some(info) = self.segments.last_mut() else { return };
        info.is_sealed = true;
        let seal = Seal {
            first: info.first,
            next: info.next,
            contents: (*info.contents).clone(),
            last: self.state.clone(),
        };
        // A sealed segment without its seal is sealed again at the next start.
        let _ = seal.write(&self.folders.journal, info.id);
    }

    /// Closes the active segment, leaving its contents in it and in a seal.
    pub(super) fn close_active(&mut self, room: KeepRoom) {
        let Some(mut active) = self.active.take() else { return };
        if let Ok(packed) = segment::pack_contents(&active.contents, self.state.next) {
            let mut writes = active.places.expect(self.state.next, 0);
            writes.value(b'c', &packed);
            // For the speed of the next start; without it the frames are read.
            let _ = active.segment.write(writes).and_then(|()| active.segment.sync());
        }
        if room == KeepRoom::No {
            slack::give_back(active.segment.log());
        }
        let id = active.id;
        active.segment.close();
        self.seal_last();
        let bytes = segment_bytes(&self.folders, id);
        if let Some(info) = self.segments.last_mut() {
            info.bytes = bytes;
            info.ahead_bytes = 0;
        }
    }
}

fn no_segment() -> StoreError {
    StoreError::Damaged("there is no segment to write to".into())
}
