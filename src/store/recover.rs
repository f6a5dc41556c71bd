//! The active segment after a start: whether it is complete, where it ends, and whether its
//! numbering may be continued.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

use super::commit::KeepRoom;
use super::dictionary::NameWriter;
use super::envelope::{Broken, SCHEMA};
use super::error::{OpenError, StoreError};
use super::fetch::head_of;
use super::manifest::{self, Listed};
use super::meta::{self, Contents, State, Summary};
use super::open::refused;
use super::places::Places;
use super::segment::{self, Piece, Segment};
use super::{Active, Store, disk, segment_bytes, slack};
use crate::core::id::{Offset, SegmentId};
use crate::core::reading::Entry;
use crate::core::seam::{ClockLedger, Damage, Meta, SegmentInfo};
use crate::core::values::totals::SavedTotals;

/// A store on its way to being open.
pub(super) struct Recovery {
    pub(super) store: Store,
    pub(super) broken: Option<String>,
    /// The active segment was not closed in order.
    pub(super) was_cut_short: bool,
    /// Segments to be moved away once the manifest no longer lists them.
    pub(super) set_aside: Vec<SegmentId>,
}

/// What a segment's content says.
pub(super) struct Found {
    pub(super) head: State,
    pub(super) state: State,
    pub(super) contents: Contents,
}

impl Recovery {
    pub(super) fn new(store: Store) -> Self {
        Self { store, broken: None, was_cut_short: false, set_aside: Vec::new() }
    }

    /// Takes over a state that is newer than what is known.
    pub(super) fn adopt(&mut self, state: &State) {
        if state.next >= self.store.state.next && state.meta != Meta::default() {
            let mut state = state.clone();
            self.keep_ledger(&mut state);
            self.store.state = state;
        }
    }

    /// If the clock ledger is empty although an older state had one, it could not be read:
    /// the older one is kept. The same goes for totals.
    fn keep_ledger(&self, state: &mut State) {
        let older = &self.store.state.meta;
        if *state.meta.clock == ClockLedger::default() {
            state.meta.clock = Arc::clone(&older.clock);
        }
        if *state.meta.totals == SavedTotals::default() {
            state.meta.totals = Arc::clone(&older.totals);
        }
    }
}

/// Opens the active segment, or sets it aside.
pub(super) fn active(recovery: &mut Recovery, listed: Listed) -> Result<(), OpenError> {
    let id = SegmentId(listed.id);
    let folder = recovery.store.folders.segment(id);
    let journal = recovery.store.folders.journal.clone();
    // Written last of all when the journal is closed.
    recovery.was_cut_short = !manifest::sidecar(&journal, id, "seal").exists();
    if recovery.store.is_short()
        && let Ok(log) = OpenOptions::new().read(true).write(true).open(folder.join("db"))
    {
        slack::lend(&log);
    }
    let opened = Segment::open(&folder);
    let (segment, found) = match opened {
        Err(error) if segment::is_damage(&error) => {
            lose(recovery, listed, None, &error);
            return Ok(());
        }
        Err(error) => return Err(refused(error, &folder)),
        Ok(mut segment) => {
            if let Ok(Some(Err(Broken::Newer(found)))) = segment.state(b'm') {
                segment.close();
                return Err(OpenError::NewerSchema { path: folder, found, known: SCHEMA });
            }
            let found = read_segment(&mut segment, &journal, listed, None);
            (segment, found)
        }
    };
    let names = found.and_then(|found| Ok((names_of(&segment)?, found)));
    match names {
        Ok((names, found)) => adopt_active(recovery, listed, segment, found, names),
        Err(error) if segment::is_damage(&error) => {
            let state = segment.state(b'm').ok().flatten().and_then(Result::ok);
            segment.close();
            lose(recovery, listed, state, &error);
            Ok(())
        }
        Err(error) => {
            segment.close();
            Err(refused(error, &folder))
        }
    }
}

fn names_of(segment: &Segment) -> Result<NameWriter, StoreError> {
    let mut names = NameWriter::with(segment.names()?);
    names.begin_after(segment.name_id_max()?);
    Ok(names)
}

/// The active segment cannot be read. It is not known which numbers were given last, so the
/// numbering cannot be continued. Readings that its meta counts as accepted are reported by
/// their numbers, so that the books write them off.
fn lose(recovery: &mut Recovery, listed: Listed, state: Option<State>, error: &StoreError) {
    let id = SegmentId(listed.id);
    let journal = recovery.store.folders.journal.clone();
    let head = manifest::read_head(&journal, id).unwrap_or_else(|| recovery.store.state.clone());
    recovery.adopt(&head);
    if let Some(state) = &state {
        recovery.adopt(state);
    }
    let first = Offset(listed.first).max(head.next);
    let known = [manifest::read_note(&journal, id), state.as_ref().map(|state| state.next)];
    let end = known.into_iter().flatten().fold(first.plus(1), Offset::max);
    let missing = match &state {
        Some(state) => {
            let known = manifest::missing_between(&head.meta, &state.meta);
            known.into_iter().chain(manifest::missing_after(&state.meta)).collect()
        }
        None => manifest::missing_after(&head.meta),
    };
    let reason = format!("segment {id} set aside: {error}");
    recovery.store.losses.push(Damage { first, end, missing, reason });
    recovery.broken = Some(format!("the newest segment {id} cannot be read: {error}"));
    recovery.set_aside.push(id);
}

fn adopt_active(
    recovery: &mut Recovery,
    listed: Listed,
    segment: Segment,
    found: Found,
    names: NameWriter,
) -> Result<(), OpenError> {
    let id = SegmentId(listed.id);
    let journal = recovery.store.folders.journal.clone();
    let mut state = found.state;
    let (ledger, totals) = (Arc::clone(&state.meta.clock), Arc::clone(&state.meta.totals));
    if *ledger == ClockLedger::default() || *totals == SavedTotals::default() {
        if let Some(head) = manifest::read_head(&journal, id) {
            recovery.adopt(&head);
        }
        recovery.keep_ledger(&mut state);
    }
    let store = &mut recovery.store;
    // Frames beyond the end do not count, and new frames must not be mixed with them.
    segment.cut(state.next).map_err(|error| refused(error, segment.folder()))?;
    store.trim_slack(segment.log());
    slack::forget_cached(segment.log());
    let contents = Arc::new(found.contents);
    store.segments.push(SegmentInfo {
        id,
        first: Offset(listed.first).max(found.head.next),
        next: state.next,
        bytes: segment_bytes(&store.folders, id),
        ahead_bytes: slack::behind(segment.log()),
        is_sealed: false,
        contents: Arc::clone(&contents),
    });
    let noted = manifest::read_note(&journal, id).unwrap_or_default();
    let is_short = noted > state.next;
    let meta = state.meta.clone();
    let end = state.next;
    store.state = state;
    // A seal from a clean stop is outdated once the segment is written to again.
    let seal = manifest::sidecar(&journal, id, "seal");
    disk::delete(&seal).map_err(OpenError::io(&seal, "delete"))?;
    let note_path = manifest::sidecar(&journal, id, "note");
    let note = OpenOptions::new().create(true).truncate(false).write(true).open(&note_path);
    let note = note.map_err(OpenError::io(&note_path, "open"))?;
    store.active = Some(Active {
        id,
        segment,
        names,
        note,
        contents,
        ledger,
        totals,
        places: Places::default(),
        unnoted_bytes: 0,
        has_commit: true,
    });
    if is_short {
        store.close_active(KeepRoom::No);
        store.losses.push(Damage {
            first: end,
            end: noted,
            missing: manifest::missing_after(&meta),
            reason: format!("segment {id} ends at offset {end}; it once reached {noted}"),
        });
        recovery.broken = Some(format!(
            "the newest segment {id} is shorter than it was: it ends at offset {end} instead of \
             {noted}"
        ));
    }
    Ok(())
}

/// Reads what a segment says of itself, and the frames that it does not count yet.
///
/// A commit ends with its meta. What lies beyond the meta is of one that was cut
/// off: nobody was told of it, it never happened, and its names are given again.
/// Only where a newer meta must have been there, by the note or by where the
/// segment is known to end, are the frames the better word, and counted.
/// `ended` is the state at the end as somebody else knows it.
pub(super) fn read_segment(
    segment: &mut Segment,
    journal: &Path,
    listed: Listed,
    ended: Option<State>,
) -> Result<Found, StoreError> {
    let id = SegmentId(listed.id);
    let head = head_of(segment, journal, id)?;
    let end = listed.next.map_or(Offset(u64::MAX), Offset);
    // Beyond the end of a sealed one lies what a failed commit left: its entries
    // are in the next one.
    let own = segment.state(b'm')?.and_then(Result::ok).filter(|state| state.next <= end);
    let stored = own.or(ended);
    let reached = manifest::read_note(journal, id).max(listed.next.map(Offset)).unwrap_or_default();
    let bound = match &stored {
        Some(state) if reached <= state.next => state.next,
        _ => end,
    };
    let has_meta = stored.is_some();
    let mut state = stored.unwrap_or_else(|| head.clone());
    let known = segment.contents()?.filter(|(_, next)| *next <= state.next);
    let (mut contents, from) =
        known.unwrap_or_else(|| (Contents::new(), Offset(listed.first).max(head.next)));
    let mut summary = Summary::default();
    let mut walk = segment.walk(from)?;
    while let Some(piece) = segment.step(&mut walk)? {
        let Piece::Frame { first, mut entries } = piece else { continue };
        if first >= bound || (has_meta && first > state.next) {
            break;
        }
        entries.truncate(usize::try_from(bound.0 - first.0).unwrap_or(usize::MAX));
        let end = first.plus(entries.len() as u64);
        if end > state.next {
            let known = state.next.0.saturating_sub(first.0) as usize;
            raise(&mut state.meta, entries.get(known..).unwrap_or_default());
            state.next = end;
        }
        summary.add(&entries);
    }
    summary.merge_into(&mut contents);
    meta::widen_by_tails(&mut contents, &head.meta, &state.meta);
    Ok(Found { head, state, contents })
}

/// Counts readings and results that the meta does not know.
fn raise(meta: &mut Meta, entries: &[Entry]) {
    for one in entries.iter().filter_map(Entry::numbered) {
        if one.epoch != meta.epoch {
            // The first commit of a new epoch, whose meta was lost.
            meta.epoch = one.epoch;
            meta.sources.values_mut().for_each(|books| books.tail = Default::default());
        }
        let books = meta.sources.entry(one.source.clone()).or_default();
        books.tail = books.tail.max(one.seq);
        books.accepted += 1;
    }
}

#[cfg(test)]
#[path = "recover_tests.rs"]
mod tests;
