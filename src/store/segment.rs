//! One segment: a sled database of its own.
//!
//! | key | value |
//! | --- | --- |
//! | `f` offset part | a frame, cut into parts when it is one large entry; empty while it is expected only |
//! | `d` number | a name |
//! | `m` part | the state after the last commit |
//! | `h` part | the state when the segment began; never absent, so an emptied database is told from a new one |
//! | `l` part | the clock ledger, as of the last commit that changed it |
//! | `t` part | the saved totals, as of the last commit that changed them |
//! | `c` part | what it holds up to some offset; the rest follows from the frames |

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::clocks::StoredLedger;
use super::dictionary::{Name, NameCache};
use super::disk;
use super::envelope::{self, Broken};
use super::error::StoreError;
use super::meta::{self, Contents, State, StoredClock, StoredRange, StoredState, StoredWays};
use super::totals::StoredTotals;
use super::unframe;
use super::writes::{Writes, frame_key, frame_place, name_key, part_key};
use crate::core::id::Offset;
use crate::core::reading::Entry;
use crate::core::seam::ClockLedger;
use crate::core::values::totals::SavedTotals;

const CACHE_BYTES: u64 = 2 * 1024 * 1024;
/// Bytes that are written before a sync. sled's log is made of pieces of 512 KiB; a piece notes
/// how far the log was safe when it began, by what the kernel said, which a power cut may belie. If
/// more than one piece began since the last sync, a hole before them makes the whole log
/// unreadable. What sled writes is up to four times what it is given.
const UNSYNCED_BYTES_MAX: usize = 128 * 1024;
/// How often, and how long each time, a locked database is waited for.
const LOCK_TRIES: u32 = 20;
const LOCK_WAIT: std::time::Duration = std::time::Duration::from_millis(25);
/// Most parts of a value: enough for the longest line and its names.
const PARTS_MAX: u16 = 1_024;

thread_local! {
    static IS_OPENING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside sled on stored bytes that may be damaged, so
/// that a panic is caught and the segment set aside. The panic hook of the
/// process aborts in every other case.
pub fn is_opening_segment() -> bool {
    IS_OPENING.with(Cell::get)
}

/// Runs `read`, which looks at stored bytes through sled, and turns a panic into
/// an error. Never used around a write.
pub(super) fn guarded<T>(read: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let before = IS_OPENING.with(|flag| flag.replace(true));
    let result = catch_unwind(AssertUnwindSafe(read));
    IS_OPENING.with(|flag| flag.set(before));
    result.unwrap_or_else(|_| Err(StoreError::Damaged("sled panicked on it".into())))
}

/// Whether an error says that the bytes are damaged, and not that the disk is
/// full or away for the moment.
pub(super) fn is_damage(error: &StoreError) -> bool {
    match error {
        StoreError::Sled(sled::Error::Io(error)) => matches!(
            error.kind(),
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput
        ),
        StoreError::Sled(_) | StoreError::Damaged(_) => true,
        StoreError::Io(_, error) => error.kind() == io::ErrorKind::NotFound,
        StoreError::Full { .. } | StoreError::Busy(_) => false,
    }
}

#[derive(Serialize, Deserialize)]
struct StoredContents {
    next: u64,
    ranges: Vec<StoredRange>,
}

/// An open segment.
#[derive(Debug)]
pub(super) struct Segment {
    db: sled::Db,
    /// Our own descriptor of sled's log: `flush` does not sync, this does.
    log: File,
    folder: PathBuf,
    names: NameCache,
}

/// What a step of a walk finds.
#[derive(Debug)]
pub(super) enum Piece {
    Frame { first: Offset, entries: Vec<Entry> },
    Bad { at: Offset, reason: &'static str },
}

/// A walk over frames in the order of their offsets.
pub(super) struct Walk {
    frames: sled::Iter,
    last: Option<u64>,
}

/// The state in stored form, without the clock ledger and the totals.
pub(super) fn pack_state(state: &State) -> Result<Vec<u8>, StoreError> {
    let meta = &state.meta;
    let clock = StoredClock::of(meta);
    let stored = (StoredState::of(meta, state.next), clock, StoredWays::of(meta), ());
    envelope::pack(&stored).map_err(unstorable)
}

/// The clock ledger in stored form.
pub(super) fn pack_ledger(ledger: &ClockLedger) -> Result<Vec<u8>, StoreError> {
    envelope::pack(&StoredLedger::of(ledger)).map_err(unstorable)
}

/// The saved totals in stored form; nothing where there never were any.
pub(super) fn pack_totals(totals: &SavedTotals) -> Result<Vec<u8>, StoreError> {
    match *totals == SavedTotals::default() {
        true => Ok(Vec::new()),
        false => envelope::pack(&StoredTotals::of(totals)).map_err(unstorable),
    }
}

/// The contents up to `next` in stored form.
pub(super) fn pack_contents(contents: &Contents, next: Offset) -> Result<Vec<u8>, StoreError> {
    let stored = StoredContents { next: next.0, ranges: meta::stored_contents(contents) };
    envelope::pack(&stored).map_err(unstorable)
}

pub(super) fn unstorable(error: postcard::Error) -> StoreError {
    StoreError::Damaged(format!("cannot serialise: {error}"))
}

/// Opens a sled database with the settings that are common to all of them.
///
/// A database that was just closed may stay locked for a moment: threads of
/// sled's pool still hold it after the last handle is dropped. So a lock is
/// waited for, briefly, before it counts as that of another process.
pub(super) fn open_sled(folder: &Path) -> Result<sled::Db, StoreError> {
    for _ in 0..LOCK_TRIES {
        match open_sled_once(folder) {
            Err(StoreError::Busy(_)) => std::thread::sleep(LOCK_WAIT),
            other => return other,
        }
    }
    open_sled_once(folder)
}

fn open_sled_once(folder: &Path) -> Result<sled::Db, StoreError> {
    let config = sled::Config::new()
        .path(folder)
        .cache_capacity(CACHE_BYTES)
        .flush_every_ms(None)
        .mode(sled::Mode::HighThroughput);
    config.open().map_err(|error| match &error {
        // sled wraps EWOULDBLOCK of its lock as "other", with a sentence.
        sled::Error::Io(io) if io.to_string().contains("could not acquire lock") => {
            StoreError::Busy(folder.to_path_buf())
        }
        _ => StoreError::Sled(error),
    })
}

/// Opens a segment in steps: a leftover half snapshot blocks every open and is removed; a
/// damaged snapshot is not needed and is removed for a second try; any other failure is
/// final.
pub(super) fn open_ladder(folder: &Path) -> Result<sled::Db, StoreError> {
    remove_snapshots(folder, |name| name.ends_with(".generating"));
    match guarded(|| open_sled(folder)) {
        Err(error) if is_damage(&error) => {
            remove_snapshots(folder, |_| true);
            guarded(|| open_sled(folder))
        }
        other => other,
    }
}

fn remove_snapshots(folder: &Path, is_chosen: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && is_chosen(&name) {
            // If it cannot be removed, the open that follows says why.
            let _ = fs::remove_file(entry.path());
        }
    }
}

impl Segment {
    /// Creates a segment, durable with its head.
    pub(super) fn create(folder: &Path, head: &State) -> Result<Self, StoreError> {
        disk::delete(folder).map_err(super::error::at(folder))?;
        let db = open_sled(folder)?;
        let segment = Self::with(db, folder)?;
        let packed = pack_state(head)?;
        let mut writes = Writes::default();
        writes.value(b'h', &packed);
        writes.value(b'm', &packed);
        writes.value(b'l', &pack_ledger(&head.meta.clock)?);
        writes.value(b't', &pack_totals(&head.meta.totals)?);
        segment.write_together(writes)?;
        segment.sync()?;
        for folder in [folder, folder.parent().unwrap_or(folder)] {
            disk::sync_folder(folder).map_err(super::error::at(folder))?;
        }
        Ok(segment)
    }

    /// Opens an existing segment. An empty one is damaged: the head is always there.
    pub(super) fn open(folder: &Path) -> Result<Self, StoreError> {
        if !folder.join("db").is_file() {
            return Err(StoreError::Damaged("its files are gone".into()));
        }
        let db = open_ladder(folder)?;
        let segment = Self::with(db, folder)?;
        match guarded(|| Ok(segment.db.contains_key(part_key(b'h', 0))?)) {
            Ok(true) => Ok(segment),
            Ok(false) => {
                segment.close();
                Err(StoreError::Damaged("it opens empty: its content is gone".into()))
            }
            Err(error) => {
                segment.close();
                Err(error)
            }
        }
    }

    fn with(db: sled::Db, folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join("db");
        // Written to by sled alone; room is allocated behind its end.
        let log = OpenOptions::new().read(true).write(true).open(&path);
        let log = log.map_err(super::error::at(&path))?;
        Ok(Self { db, log, folder: folder.to_path_buf(), names: NameCache::default() })
    }

    /// Closes the segment. sled writes when it closes, and may panic over damaged bytes.
    pub(super) fn close(self) {
        let _ = guarded(|| {
            drop(self);
            Ok(())
        });
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes one after the other; a power cut leaves a beginning of it. What is long is
    /// synced on the way.
    pub(super) fn write(&self, writes: Writes) -> Result<(), StoreError> {
        for (place, stretch) in writes.stretches(UNSYNCED_BYTES_MAX).into_iter().enumerate() {
            if place > 0 {
                self.sync()?;
            }
            stretch.in_order(&self.db)?;
        }
        Ok(())
    }

    /// Writes a few together: all or, after a power cut, none.
    pub(super) fn write_together(&self, writes: Writes) -> Result<(), StoreError> {
        Ok(writes.together(&self.db)?)
    }

    /// sled's log file, to allocate room in it.
    pub(super) fn log(&self) -> &File {
        &self.log
    }

    /// Bytes of sled's log.
    pub(super) fn log_bytes(&self) -> u64 {
        self.log.metadata().map_or(0, |facts| facts.len())
    }

    /// Syncs: only after this is what was applied durable.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.db.flush()?;
        self.log.sync_data().map_err(super::error::at(&self.folder))
    }

    /// The state under `m` or `h`. Its clock ledger and its totals are the newest of
    /// the segment in either case, and empty when they cannot be read.
    pub(super) fn state(&self, kind: u8) -> Result<Option<Result<State, Broken>>, StoreError> {
        guarded(|| {
            let Some(bytes) = self.value(|part| part_key(kind, part).to_vec())? else {
                return Ok(None);
            };
            let unpacked = envelope::unpack_grown::<StoredState, _, _, ()>(&bytes);
            let (stored, clock, ways, _) = match unpacked {
                Ok(stored) => stored,
                Err(broken) => return Ok(Some(Err(broken))),
            };
            let mut state = stored.into_state();
            StoredClock::complete(clock, &mut state);
            StoredWays::complete(ways, &mut state.meta);
            // The state counts even if its ledger cannot be read.
            state.meta.clock = Arc::new(guarded(|| self.ledger()).unwrap_or_default());
            state.meta.totals = Arc::new(guarded(|| self.totals()).unwrap_or_default());
            Ok(Some(Ok(state)))
        })
    }

    fn ledger(&self) -> Result<ClockLedger, StoreError> {
        let bytes = self.value(|part| part_key(b'l', part).to_vec())?.unwrap_or_default();
        let stored = envelope::unpack(&bytes).map(StoredLedger::into_ledger);
        Ok(stored.unwrap_or_default())
    }

    fn totals(&self) -> Result<SavedTotals, StoreError> {
        let bytes = self.value(|part| part_key(b't', part).to_vec())?.unwrap_or_default();
        let stored = envelope::unpack(&bytes).map(StoredTotals::into_saved);
        Ok(stored.unwrap_or_default())
    }

    /// The contents up to an offset, as last stored.
    pub(super) fn contents(&self) -> Result<Option<(Contents, Offset)>, StoreError> {
        guarded(|| {
            let Some(bytes) = self.value(|part| part_key(b'c', part).to_vec())? else {
                return Ok(None);
            };
            let stored: Option<StoredContents> = envelope::unpack(&bytes).ok();
            Ok(stored.map(|s| (meta::contents_of(s.ranges), Offset(s.next))))
        })
    }

    /// Every name it has.
    pub(super) fn names(&self) -> Result<Vec<(u32, Name)>, StoreError> {
        guarded(|| {
            let mut names = Vec::new();
            for item in self.db.scan_prefix(b"d") {
                let (key, value) = item?;
                let id: Option<[u8; 4]> = key.get(1..5).and_then(|id| id.try_into().ok());
                let name = Name::decode(&value).ok();
                names.extend(id.map(u32::from_be_bytes).zip(name));
            }
            Ok(names)
        })
    }

    /// The highest number of a name, readable or not; new ones must be above it.
    pub(super) fn name_id_max(&self) -> Result<Option<u32>, StoreError> {
        guarded(|| {
            let last = self.db.get_lt(b"e")?.map(|(key, _)| key);
            let id = last.filter(|key| key[0] == b'd').and_then(|key| key[1..].try_into().ok());
            Ok(id.map(u32::from_be_bytes))
        })
    }

    fn value(&self, key: impl Fn(u16) -> Vec<u8>) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(first) = self.db.get(key(0))? else { return Ok(None) };
        let mut bytes = first.to_vec();
        let length = envelope::announced_len(&bytes).unwrap_or(0);
        for part in 1..PARTS_MAX {
            if bytes.len() >= length {
                break;
            }
            let Some(more) = self.db.get(key(part))? else { break };
            bytes.extend_from_slice(&more);
        }
        Ok(Some(bytes))
    }

    /// Walks from the frame that holds `from`, or the first after it.
    pub(super) fn walk(&self, from: Offset) -> Result<Walk, StoreError> {
        guarded(|| {
            let below = self.db.get_lt(frame_key(from.plus(1), 0))?;
            let covering = below.and_then(|(key, _)| frame_place(&key));
            let start = covering.map_or(from.0, |(offset, _)| offset);
            let frames =
                self.db.range(frame_key(Offset(start), 0)..=frame_key(Offset(u64::MAX), 0));
            Ok(Walk { frames, last: None })
        })
    }

    /// The next frame of a walk.
    pub(super) fn step(&mut self, walk: &mut Walk) -> Result<Option<Piece>, StoreError> {
        guarded(|| self.step_inside(walk))
    }

    fn step_inside(&mut self, walk: &mut Walk) -> Result<Option<Piece>, StoreError> {
        for item in walk.frames.by_ref() {
            let (key, value) = item?;
            let Some((offset, part)) = frame_place(&key) else { continue };
            // A key without anything under it is a place for a frame to come.
            if walk.last == Some(offset) || value.is_empty() {
                continue;
            }
            walk.last = Some(offset);
            let at = Offset(offset);
            if part != 0 {
                return Ok(Some(Piece::Bad { at, reason: "its beginning is gone" }));
            }
            let whole;
            let bytes = if envelope::announced_len(&value).is_some_and(|n| n > value.len()) {
                whole = self.value(|part| frame_key(at, part).to_vec())?.unwrap_or_default();
                &whole[..]
            } else {
                &value[..]
            };
            let db = &self.db;
            let mut load =
                |id| db.get(name_key(id)).ok().flatten().and_then(|v| Name::decode(&v).ok());
            return Ok(Some(match unframe::read(bytes, &mut self.names, &mut load) {
                Ok((first, entries)) if first == at => Piece::Frame { first, entries },
                Ok(_) => Piece::Bad { at, reason: "it belongs elsewhere" },
                Err(broken) => Piece::Bad { at, reason: broken.as_str() },
            }));
        }
        Ok(None)
    }

    /// Deletes frames at and beyond `end`: leftovers of a commit that was not completed. New
    /// frames must not be mixed with them.
    pub(super) fn cut(&self, end: Offset) -> Result<(), StoreError> {
        let leftovers = guarded(|| {
            let mut keys = Vec::new();
            for item in self.db.range(frame_key(end, 0)..=frame_key(Offset(u64::MAX), u16::MAX)) {
                keys.push(item?.0);
            }
            Ok(keys)
        })?;
        for key in leftovers {
            self.db.remove(key)?;
        }
        Ok(())
    }

    /// Overwrites the frame at that offset, to make damage in tests.
    #[cfg(test)]
    pub(super) fn overwrite(&self, first: Offset, bytes: &[u8]) {
        self.db.insert(frame_key(first, 0), bytes).unwrap();
        self.sync().unwrap();
    }
}
