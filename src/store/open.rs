//! Opening the journal: the manifest, the sealed segments by their seals, the
//! active one by its content; then cleaning up.
//!
//! Sealed segments are not opened here: their seals say what they hold, and
//! damage in them is found when the forwarder gets there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::checkpoint;
use super::disk;
use super::envelope::SCHEMA;
use super::error::{OpenError, StoreError};
use super::manifest::{self, Listed, Manifest, Seal, Unread};
use super::meta::{Contents, State, tail_in};
use super::quarantine::Refusals;
use super::recover::{self, Recovery};
use super::segment::Segment;
use super::{Folders, FrameWriter, Options, Store, fetch, segment_bytes};
use crate::core::id::{Offset, SegmentId, Seq};
use crate::core::seam::{Checkpointed, Damage, Meta, Missing, Recovered, SegmentInfo};

pub(super) fn open(options: &Options) -> Result<(Store, Recovered), OpenError> {
    let folders = Folders::of(&options.data_dir);
    disk::create_data_dir(&options.data_dir).map_err(OpenError::io(&options.data_dir, "create"))?;
    disk::create_folder(&folders.journal).map_err(OpenError::io(&folders.journal, "create"))?;
    let (manifest, is_rebuilt) = load(&folders.journal)?;
    let mut recovery = Recovery::new(empty(options, &folders, &manifest));
    let mut blind = Vec::new();
    for (place, listed) in manifest.segments.iter().enumerate() {
        let following = manifest.segments.get(place + 1).map(|listed| SegmentId(listed.id));
        if listed.is_sealed
            && let Some(lost) = sealed(&mut recovery, *listed, following)
        {
            blind.push(lost);
        }
    }
    if let Some(active) = manifest.segments.last().filter(|listed| !listed.is_sealed) {
        recover::active(&mut recovery, *active)?;
    }
    for (place, head) in blind {
        recovery.store.losses[place].missing = between(&recovery.store, place, &head);
    }
    finish(recovery, manifest, is_rebuilt)
}

fn finish(
    mut recovery: Recovery,
    mut manifest: Manifest,
    is_rebuilt: bool,
) -> Result<(Store, Recovered), OpenError> {
    let store = &mut recovery.store;
    let start = store.state.meta.start;
    // Segments removed on purpose, on a disk too full to write the manifest.
    store.losses.retain(|loss| loss.end > start);
    manifest.forget_recorded(&store.state.meta);
    manifest.losses.append(&mut store.losses);
    store.losses = manifest.losses.clone();
    let ends = store.losses.iter().map(|loss| loss.end);
    let ends = ends.chain(store.segments.iter().map(|info| info.next));
    store.state.next = ends.fold(store.state.next, Offset::max);
    if let Some(reason) = recovery.broken {
        store.broken = Some((store.state.meta.epoch, reason));
    } else {
        let epoch = store.state.meta.epoch;
        store.broken = manifest.broken.clone().filter(|(broken, _)| *broken == epoch);
    }
    store.segments.retain(|info| !info.is_sealed || info.next > start);
    let path = manifest::manifest_path(&store.folders.journal);
    // The bytes are compared, not the content: a manifest of an older version is written
    // again in this format before anything else, so that the older version refuses the
    // journal from then on.
    let manifest = store.manifest();
    if is_rebuilt || !manifest.is_written(&store.folders.journal) {
        manifest.write(&store.folders.journal).map_err(OpenError::io(&path, "write"))?;
    }
    for id in recovery.set_aside {
        fetch::quarantine_folder(store, id);
    }
    clean(store);
    store.measure_others();
    let recovered = Recovered {
        meta: (store.state.meta != Meta::default()).then(|| store.state.meta.clone()),
        next: store.state.next,
        segments: store.segments.clone(),
        damaged: store.losses.clone(),
        checkpoint: kept(store, Checkpointed::Windows),
        dedupe: kept(store, Checkpointed::Dedupe),
        was_cut_short: recovery.was_cut_short,
        broken_numbering: store.broken.as_ref().map(|(_, reason)| reason.clone()),
        disk: store.disk(),
    };
    Ok((recovery.store, recovered))
}

/// A checkpoint; empty bytes for one that cannot be read, which no reader can use either.
fn kept(store: &Store, of: Checkpointed) -> Option<Vec<u8>> {
    checkpoint::read(store.data_dir(), of).unwrap_or(Some(Vec::new()))
}

fn empty(options: &Options, folders: &Folders, manifest: &Manifest) -> Store {
    Store {
        options: options.clone(),
        folders: folders.clone(),
        segments: Vec::new(),
        next_id: manifest.next_id,
        losses: Vec::new(),
        broken: None,
        active: None,
        reader: None,
        looker: None,
        state: State::default(),
        frames: FrameWriter::default(),
        audits: BTreeMap::new(),
        reported: BTreeSet::new(),
        refusals: Refusals::new(&folders.state),
        refusals_dropped: None,
        commit_bytes_max: 0,
        other_bytes: 0,
        written_bytes: 0,
    }
}

/// The manifest, or one made up from the folders when it is gone or damaged.
pub(super) fn load(journal: &Path) -> Result<(Manifest, bool), OpenError> {
    refuse_newer(journal)?;
    let path = manifest::manifest_path(journal);
    match Manifest::read(journal) {
        Ok(manifest) => Ok((manifest, false)),
        Err(Unread::Io(source)) => Err(OpenError::Io { path, action: "read", source }),
        Err(Unread::Absent | Unread::Broken) => Ok((rebuilt(journal), true)),
    }
}

/// Refuses a journal of a newer format. Only files outside sled are read for that, because
/// sled already writes when it opens a database.
fn refuse_newer(journal: &Path) -> Result<(), OpenError> {
    let entries = std::fs::read_dir(journal).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    // Sorted, so that the message is always the same.
    files.sort();
    let newer =
        files.into_iter().find_map(|path| manifest::newer(&path).map(|found| (path, found)));
    newer.map_or(Ok(()), |(path, found)| Err(OpenError::NewerSchema { path, found, known: SCHEMA }))
}

/// Names of segment folders, ascending.
fn folders_in(journal: &Path) -> Vec<SegmentId> {
    let entries = std::fs::read_dir(journal).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name());
    let mut ids: Vec<SegmentId> =
        names.filter_map(|name| name.to_str()?.parse().ok().map(SegmentId)).collect();
    ids.sort_unstable();
    ids
}

fn rebuilt(journal: &Path) -> Manifest {
    let ids = folders_in(journal);
    let newest = ids.last().copied();
    let segments = ids.iter().map(|id| {
        let seal = Seal::read(journal, *id).ok().filter(|_| Some(*id) != newest);
        let first = seal.as_ref().map(|seal| seal.first);
        let first = first.or_else(|| manifest::read_head(journal, *id).map(|head| head.next));
        Listed {
            id: id.0,
            first: first.unwrap_or_default().0,
            next: seal.map(|seal| seal.next.0),
            is_sealed: Some(*id) != newest,
        }
    });
    Manifest {
        next_id: newest.map_or(1, |id| id.0 + 1),
        segments: segments.collect(),
        losses: Vec::new(),
        broken: None,
    }
}

/// Takes a sealed segment into the list, or into the losses. If it is lost and its contents
/// are not known, returns its place among the losses and its head.
fn sealed(
    recovery: &mut Recovery,
    listed: Listed,
    following: Option<SegmentId>,
) -> Option<(usize, Meta)> {
    let id = SegmentId(listed.id);
    let store = &mut recovery.store;
    let folder = store.folders.segment(id);
    let known = match Seal::read(&store.folders.journal, id) {
        Ok(seal) if listed.next.is_none_or(|next| next == seal.next.0) => Ok(seal),
        _ => reseal(store, listed, following),
    };
    let is_there = folder.join("db").metadata().is_ok_and(|facts| facts.len() > 0);
    let next = listed.next.unwrap_or(listed.first + 1);
    let head = manifest::read_head(&store.folders.journal, id).unwrap_or_default();
    let (missing, reason, is_known) = match known {
        Ok(seal) => {
            recovery.adopt(&seal.last);
            if is_there {
                recovery.store.segments.push(SegmentInfo {
                    id,
                    first: seal.first,
                    next: seal.next,
                    bytes: segment_bytes(&recovery.store.folders, id),
                    ahead_bytes: 0,
                    is_sealed: true,
                    contents: Arc::new(seal.contents),
                });
                return None;
            }
            (manifest::all_missing(&seal.contents), "its files are gone".to_owned(), true)
        }
        Err(error) => {
            recovery.adopt(&head);
            (Vec::new(), error.to_string(), false)
        }
    };
    recovery.set_aside.push(id);
    let losses = &mut recovery.store.losses;
    losses.push(Damage {
        first: Offset(listed.first),
        end: Offset(next),
        missing,
        reason: format!("segment {id} set aside: {reason}"),
    });
    (!is_known).then(|| (losses.len() - 1, head.meta))
}

/// Reads a sealed segment whose seal is gone, and seals it again. The one that
/// follows began with the state in which this one ended.
fn reseal(store: &Store, listed: Listed, following: Option<SegmentId>) -> Result<Seal, StoreError> {
    let id = SegmentId(listed.id);
    let journal = &store.folders.journal;
    let ended = following.and_then(|id| manifest::read_head(journal, id));
    let ended = ended.filter(|state| Some(state.next.0) == listed.next);
    let mut segment = Segment::open(&store.folders.segment(id))?;
    let result = recover::read_segment(&mut segment, journal, listed, ended);
    segment.close();
    let found = result?;
    let seal = Seal {
        first: Offset(listed.first),
        next: listed.next.map_or(found.state.next, Offset),
        contents: found.contents,
        last: found.state,
    };
    // Without it the next start reads the segment again.
    let _ = seal.write(journal, id);
    Ok(seal)
}

/// What a segment held that can neither be read nor has a seal: the numbers between those
/// of its neighbours.
fn between(store: &Store, place: usize, head: &Meta) -> Vec<Missing> {
    let loss = &store.losses[place];
    let meta = &store.state.meta;
    let of = |contents: &Contents, source: &crate::core::id::SourceId| {
        contents.get(&(source.clone(), meta.epoch)).copied()
    };
    let gaps = meta.sources.iter().filter_map(|(source, books)| {
        let before = store.segments.iter().filter(|info| info.next <= loss.first);
        let before = before.filter_map(|info| of(&info.contents, source)).map(|r| r.last);
        let before = before.fold(tail_in(head, source, meta.epoch), Seq::max);
        let after = store.segments.iter().filter(|info| info.first >= loss.end);
        let after = after.filter_map(|info| of(&info.contents, source)).map(|r| r.first);
        let after = after.fold(books.tail.next(), Seq::min);
        (before.next() < after).then(|| Missing {
            source: source.clone(),
            epoch: meta.epoch,
            first: before.next(),
            last: Some(Seq(after.0 - 1)),
            event_times: None,
        })
    });
    gaps.collect()
}

/// Deletes what the manifest does not know: segments never begun, or removed.
fn clean(store: &Store) {
    let is_known = |id: SegmentId| store.segments.iter().any(|info| info.id == id);
    for id in folders_in(&store.folders.journal) {
        if !is_known(id) {
            delete_segment(&store.folders, id);
        }
    }
    for entry in std::fs::read_dir(&store.folders.journal).into_iter().flatten().flatten() {
        let path = entry.path();
        let id = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok()).map(SegmentId);
        let is_orphan = id.is_some_and(|id| !is_known(id));
        if path.extension().is_some_and(|ext| ext == "new") || (path.is_file() && is_orphan) {
            let _ = disk::delete(&path);
        }
    }
}

/// Deletes a segment's folder and the files beside it. What cannot be deleted is cleaned up
/// at the next start.
pub(super) fn delete_segment(folders: &Folders, id: SegmentId) {
    let _ = disk::delete(&folders.segment(id));
    for name in ["head", "note", "seal"] {
        let _ = disk::delete(&manifest::sidecar(&folders.journal, id, name));
    }
}

/// An error of the active segment that is not damage, for people.
pub(super) fn refused(error: StoreError, folder: &Path) -> OpenError {
    let path = folder.to_path_buf();
    match error {
        StoreError::Busy(path) => OpenError::Busy { path },
        StoreError::Sled(sled::Error::Io(source)) | StoreError::Io(_, source) => {
            OpenError::Io { path, action: "open", source }
        }
        other => OpenError::Io { path, action: "open", source: std::io::Error::other(other) },
    }
}
