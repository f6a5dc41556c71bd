//! Reads entries back, and reports damage on the way.

use super::audit::{self, Outline};
use super::error::StoreError;
use super::manifest;
use super::meta::State;
use super::segment::{self, Piece, Segment};
use super::{Store, disk, set_aside};
use crate::core::id::{Offset, SegmentId};
use crate::core::reading::Entry;
use crate::core::seam::{Damage, Fetch, Fetched, SegmentInfo};

/// What one pass over frames gave.
pub(super) struct Stretch {
    pub(super) entries: Vec<(Offset, Entry)>,
    pub(super) next: Offset,
    pub(super) has_holes: bool,
}

impl Store {
    /// Reads entries from `fetch.from` on, within one segment. A damaged stretch is reported
    /// when its beginning is reached, or when the first read begins inside it; not again
    /// for offsets further on. `next == from` and nothing else means that the end is
    /// reached, or that the disk does not answer for the moment.
    pub fn fetch(&mut self, fetch: &Fetch) -> Fetched {
        let nothing = |next| Fetched {
            purpose: fetch.purpose,
            from: fetch.from,
            entries: vec![],
            next,
            damaged: vec![],
        };
        let Some(info) = self.segments.iter().find(|info| fetch.from < info.next).cloned() else {
            return nothing(fetch.from);
        };
        let from = fetch.from.max(info.first);
        match self.fetch_in(&info, from, fetch) {
            Ok((stretch, damaged)) => Fetched {
                purpose: fetch.purpose,
                from: fetch.from,
                entries: stretch.entries,
                next: stretch.next,
                damaged,
            },
            Err(error) if segment::is_damage(&error) && self.is_state_elsewhere(&info) => {
                let damage = self.set_aside(&info, &error.to_string());
                Fetched { damaged: vec![damage], ..nothing(info.next) }
            }
            Err(_) => nothing(fetch.from),
        }
    }

    /// Makes sure that the state is not lost with this segment. If it is the active one, it
    /// is given up and a new one is begun, which starts with the state. False if that is
    /// not possible now.
    pub(super) fn is_state_elsewhere(&mut self, info: &SegmentInfo) -> bool {
        if self.active.as_ref().is_some_and(|active| active.id != info.id) {
            return true;
        }
        if self.is_short() {
            return false;
        }
        self.give_up();
        self.begin_segment().is_ok()
    }

    fn fetch_in(
        &mut self,
        info: &SegmentInfo,
        from: Offset,
        fetch: &Fetch,
    ) -> Result<(Stretch, Vec<Damage>), StoreError> {
        let segment = self.segment(info)?;
        let stretch = read(segment, from, info.next, fetch)?;
        if !stretch.has_holes {
            return Ok((stretch, Vec::new()));
        }
        let damaged = self.damaged_in(info, from, stretch.next)?;
        Ok((stretch, damaged))
    }

    /// The segment, opened if need be. One besides the active is open at a time, and one
    /// more for those who only look.
    pub(super) fn segment(&mut self, info: &SegmentInfo) -> Result<&mut Segment, StoreError> {
        if let Some(active) = self.active.as_mut()
            && active.id == info.id
        {
            return Ok(&mut active.segment);
        }
        if let Some((id, segment)) = self.looker.as_mut()
            && *id == info.id
        {
            return Ok(segment);
        }
        if self.reader.as_ref().is_none_or(|(id, _)| *id != info.id) {
            if let Some((_, old)) = self.reader.take() {
                old.close();
            }
            let segment = Segment::open(&self.folders.segment(info.id))?;
            return Ok(&mut self.reader.insert((info.id, segment)).1);
        }
        match &mut self.reader {
            Some((_, segment)) => Ok(segment),
            None => Err(StoreError::Damaged("no segment is open".into())),
        }
    }

    fn damaged_in(
        &mut self,
        info: &SegmentInfo,
        from: Offset,
        end: Offset,
    ) -> Result<Vec<Damage>, StoreError> {
        let overlaps = |damage: &&Damage| damage.first < end && damage.end > from;
        let known = self.audits.get(&info.id).map(Vec::as_slice).unwrap_or_default();
        // The active segment may have been damaged after its audit: if the audit does not
        // have this damage, it is made again.
        if !known.iter().any(|damage| overlaps(&damage)) {
            let found = self.audit(info)?;
            self.audits.insert(info.id, found);
        }
        let known = self.audits.get(&info.id).map(Vec::as_slice).unwrap_or_default();
        let mut damaged = Vec::new();
        for damage in known.iter().filter(overlaps) {
            let is_new = self.reported.insert((info.id, damage.first));
            if is_new || damage.first >= from {
                damaged.push(Damage { first: damage.first.max(from), ..damage.clone() });
            }
        }
        Ok(damaged)
    }

    fn audit(&mut self, info: &SegmentInfo) -> Result<Vec<Damage>, StoreError> {
        let journal = self.folders.journal.clone();
        let segment = self.segment(info)?;
        let head = head_of(segment, &journal, info.id)?;
        let outline = Outline {
            first: info.first,
            next: info.next,
            head: &head.meta,
            contents: &info.contents,
        };
        Ok(audit::audit(segment, &outline)?.damages)
    }

    /// Moves a segment that cannot be read and is not written to into the quarantine.
    pub(super) fn set_aside(&mut self, info: &SegmentInfo, reason: &str) -> Damage {
        self.release_reader(info.id);
        let damage = Damage {
            first: info.first,
            end: info.next,
            missing: manifest::all_missing(&info.contents),
            reason: format!("segment {} set aside: {reason}", info.id),
        };
        self.segments.retain(|kept| kept.id != info.id);
        self.losses.push(damage.clone());
        // If this fails, the next start finds the same damage again.
        if self.write_manifest().is_ok() {
            quarantine_folder(self, info.id);
        }
        self.measure_others();
        damage
    }
}

/// Moves the folder and the files beside it.
pub(super) fn quarantine_folder(store: &Store, id: SegmentId) {
    let folders = &store.folders;
    let target = (0..u32::MAX)
        .map(|n| match n {
            0 => folders.quarantine.join(id.to_string()),
            n => folders.quarantine.join(format!("{id}-{n}")),
        })
        .find(|path| !path.exists());
    if let Some(target) = target {
        let moved = disk::create_folder(&folders.quarantine)
            .and_then(|()| std::fs::rename(folders.segment(id), &target));
        let about = format!("segment {id} ");
        if let Some(loss) = store.losses.iter().find(|loss| loss.reason.starts_with(&about)) {
            set_aside::note(&target, &loss.reason);
        }
        // What cannot be moved is unknown to the manifest and cleaned up later.
        let _ = moved.and_then(|()| disk::sync_folder(&folders.quarantine));
    }
    for name in ["head", "note", "seal"] {
        let _ = disk::delete(&manifest::sidecar(&folders.journal, id, name));
    }
}

/// The state when a segment began.
pub(super) fn head_of(
    segment: &Segment,
    journal: &std::path::Path,
    id: SegmentId,
) -> Result<State, StoreError> {
    let stored = segment.state(b'h')?.and_then(Result::ok);
    Ok(stored.or_else(|| manifest::read_head(journal, id)).unwrap_or_default())
}

pub(super) fn read(
    segment: &mut Segment,
    from: Offset,
    end: Offset,
    fetch: &Fetch,
) -> Result<Stretch, StoreError> {
    let mut stretch = Stretch { entries: Vec::new(), next: from, has_holes: false };
    let mut bytes = 0;
    let mut walk = segment.walk(from)?;
    while let Some(piece) = segment.step(&mut walk)? {
        let (first, entries) = match piece {
            Piece::Frame { first, .. } if first >= end => break,
            Piece::Bad { at, .. } if at >= end => break,
            Piece::Bad { .. } => continue,
            Piece::Frame { first, entries } => (first, entries),
        };
        if first > stretch.next {
            stretch.has_holes = true;
            stretch.next = first;
        }
        for (offset, entry) in (first.0..end.0).zip(entries) {
            if offset < stretch.next.0 {
                continue;
            }
            let weight = entry.weight();
            let is_full = stretch.entries.len() >= fetch.entries_max
                || (bytes + weight > fetch.bytes_max && !stretch.entries.is_empty());
            if is_full {
                return Ok(stretch);
            }
            bytes += weight;
            stretch.next = Offset(offset + 1);
            stretch.entries.push((Offset(offset), entry));
        }
    }
    if stretch.next < end {
        stretch.has_holes = true;
        stretch.next = end;
    }
    Ok(stretch)
}
