//! What the journal knows about its segments outside sled: the `MANIFEST`, and
//! three files beside each segment. With them "empty" is never taken for "new".
//!
//! | file | says |
//! | --- | --- |
//! | `MANIFEST` | which segments there are, their offsets, which is active; losses not yet recorded |
//! | `000007.head` | the meta when the segment began, the clock ledger and the totals included |
//! | `000007.note` | where the last commit ended; written without a sync, so a lower bound |
//! | `000007.seal` | what a sealed segment holds, per source and epoch, and its last meta |

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::disk;
use super::envelope::{self, Broken};
use super::meta::{self, Contents, State, StoredRange, StoredState, StoredWhole, tail_in};
use crate::core::id::{Epoch, Offset, SegmentId, Seq, SourceId};
use crate::core::seam::{Damage, Meta, Missing, SourceMeta};
use crate::core::time::EventTime;

/// Greatest size of these files; a longer one is not read.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The list of segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    /// Name of the next segment.
    pub(super) next_id: u32,
    /// Oldest first.
    pub(super) segments: Vec<Listed>,
    /// Lost segments, until the meta says that the agent has recorded them.
    pub(super) losses: Vec<Damage>,
    /// Why this epoch cannot be continued; true until a meta has another one.
    pub(super) broken: Option<(Epoch, String)>,
}

/// One segment in the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listed {
    pub(super) id: u32,
    pub(super) first: u64,
    /// One past its last entry; `None` while it is active and open.
    pub(super) next: Option<u64>,
    pub(super) is_sealed: bool,
}

/// What is known of a sealed segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seal {
    pub(super) first: Offset,
    pub(super) next: Offset,
    pub(super) contents: Contents,
    pub(super) last: State,
}

#[derive(Serialize, Deserialize)]
struct StoredManifest {
    next_id: u32,
    segments: Vec<Listed>,
    losses: Vec<StoredLoss>,
    broken: Option<(Epoch, String)>,
}

#[derive(Serialize, Deserialize)]
struct StoredLoss {
    first: u64,
    end: u64,
    reason: String,
    missing: Vec<StoredMissing>,
}

#[derive(Serialize, Deserialize)]
struct StoredMissing {
    source: String,
    epoch: (u32, u32),
    first: u64,
    last: Option<u64>,
    event_times: Option<(i64, i64)>,
}

/// Before its last state.
#[derive(Serialize, Deserialize)]
struct StoredSeal {
    first: u64,
    next: u64,
    contents: Vec<StoredRange>,
}

/// Why one of these files could not be used.
#[derive(Debug)]
pub(super) enum Unread {
    Absent,
    Io(io::Error),
    Broken,
}

pub(super) fn manifest_path(journal: &Path) -> PathBuf {
    journal.join("MANIFEST")
}

pub(super) fn sidecar(journal: &Path, id: SegmentId, extension: &str) -> PathBuf {
    journal.join(format!("{id}.{extension}"))
}

/// The format of a file of the journal folder that a newer version wrote.
pub(super) fn newer(path: &Path) -> Option<u8> {
    let is_ours = path.file_name().is_some_and(|name| name == "MANIFEST")
        || path.extension().is_some_and(|one| one == "head" || one == "note" || one == "seal");
    if !is_ours {
        return None;
    }
    let mut first = [0];
    fs::File::open(path).and_then(|mut file| file.read_exact(&mut first)).ok()?;
    // The whole file is read only in this case: a damaged byte is no newer version.
    if first[0] <= envelope::SCHEMA {
        return None;
    }
    match envelope::unwrap(&read_bytes(path).ok()?) {
        Err(Broken::Newer(found)) => Some(found),
        _ => None,
    }
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Unread> {
    envelope::unpack(&read_bytes(path)?).map_err(|_| Unread::Broken)
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, Unread> {
    let mut bytes = Vec::new();
    let read =
        fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Unread::Absent),
        Err(error) => Err(Unread::Io(error)),
    }
}

fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let bytes = envelope::pack(value).map_err(io::Error::other)?;
    disk::replace(path, &bytes)
}

impl Manifest {
    pub(super) fn read(journal: &Path) -> Result<Self, Unread> {
        let stored: StoredManifest = read(&manifest_path(journal))?;
        Ok(Self {
            next_id: stored.next_id,
            segments: stored.segments,
            losses: stored.losses.into_iter().map(damage).collect(),
            broken: stored.broken,
        })
    }

    pub(super) fn write(&self, journal: &Path) -> io::Result<()> {
        write(&manifest_path(journal), &self.stored())
    }

    /// Whether the file is, byte for byte, what [`Self::write`] would write.
    pub(super) fn is_written(&self, journal: &Path) -> bool {
        let packed = envelope::pack(&self.stored()).ok();
        packed.is_some() && packed == read_bytes(&manifest_path(journal)).ok()
    }

    fn stored(&self) -> StoredManifest {
        StoredManifest {
            next_id: self.next_id,
            segments: self.segments.clone(),
            losses: self.losses.iter().map(stored_loss).collect(),
            broken: self.broken.clone(),
        }
    }

    /// Forgets losses that the agent has made gap records for: their offsets are done with.
    pub(super) fn forget_recorded(&mut self, meta: &Meta) {
        self.losses.retain(|loss| {
            let is_done = meta.done.iter().any(|(a, b)| *a <= loss.first && loss.end <= *b);
            meta.frontier < loss.end && !is_done
        });
    }
}

impl Seal {
    pub(super) fn read(journal: &Path, id: SegmentId) -> Result<Self, Unread> {
        let bytes = read_bytes(&sidecar(journal, id, "seal"))?;
        let stored = envelope::unpack_grown(&bytes).map_err(|_| Unread::Broken)?;
        let ((seal, last), clocks, ways, totals): ((StoredSeal, StoredState), _, _, _) = stored;
        Ok(Self {
            first: Offset(seal.first),
            next: Offset(seal.next),
            contents: meta::contents_of(seal.contents),
            last: meta::whole_state((last, clocks, ways, totals)),
        })
    }

    pub(super) fn write(&self, journal: &Path, id: SegmentId) -> io::Result<()> {
        let stored = StoredSeal {
            first: self.first.0,
            next: self.next.0,
            contents: meta::stored_contents(&self.contents),
        };
        let (last, clocks, ways, totals) = meta::stored_whole(&self.last);
        write(&sidecar(journal, id, "seal"), &((stored, last), clocks, ways, totals))
    }
}

pub(super) fn read_head(journal: &Path, id: SegmentId) -> Option<State> {
    let bytes = read_bytes(&sidecar(journal, id, "head")).ok()?;
    Some(meta::whole_state(envelope::unpack_grown(&bytes).ok()?))
}

pub(super) fn write_head(journal: &Path, id: SegmentId, state: &State) -> io::Result<()> {
    let stored: StoredWhole = meta::stored_whole(state);
    write(&sidecar(journal, id, "head"), &stored)
}

/// Where the last commit ended, as far as the note tells.
pub(super) fn read_note(journal: &Path, id: SegmentId) -> Option<Offset> {
    read::<u64>(&sidecar(journal, id, "note")).ok().map(Offset)
}

/// The bytes of the note: always of the same length, because it is overwritten in place.
pub(super) fn note(next: Offset) -> Vec<u8> {
    envelope::pack(&next.0).unwrap_or_default()
}

/// The missing readings when all of a segment are lost.
pub(super) fn all_missing(contents: &Contents) -> Vec<Missing> {
    let missing = contents.iter().map(|((source, epoch), range)| Missing {
        source: source.clone(),
        epoch: *epoch,
        first: range.first,
        last: Some(range.last),
        event_times: Some((range.earliest, range.latest)),
    });
    missing.collect()
}

/// All readings accepted between one meta and a later one, under the names that they have
/// by the later one.
pub(super) fn missing_between(head: &Meta, meta: &Meta) -> Vec<Missing> {
    let of_source = |(source, books): (&SourceId, &SourceMeta)| {
        let before = tail_in(head, source, head.epoch);
        let all = (head.epoch, before.next(), Seq(u64::MAX));
        let mut ranges = meta.renumberings.ranges(source, all);
        // Without an exchange of names, another epoch means that the numbering broke: the
        // new one began with number 1, in a segment of its own.
        match ranges.last_mut() {
            Some((epoch, _, last)) if *epoch == meta.epoch => *last = books.tail,
            _ => ranges = vec![(meta.epoch, Seq(1), books.tail)],
        }
        let ranges = ranges.into_iter().filter(|(_, first, last)| first <= last);
        let missing = ranges.map(|(epoch, first, last)| Missing {
            source: source.clone(),
            epoch,
            first,
            last: Some(last),
            event_times: None,
        });
        missing.collect::<Vec<_>>()
    };
    meta.sources.iter().flat_map(of_source).collect()
}

/// The readings that may be missing after this meta: for each source from its newest number
/// on, to an unknown end.
pub(super) fn missing_after(meta: &Meta) -> Vec<Missing> {
    let missing = meta.sources.iter().map(|(source, books)| Missing {
        source: source.clone(),
        epoch: meta.epoch,
        first: books.tail.next(),
        last: None,
        event_times: None,
    });
    missing.collect()
}

fn damage(stored: StoredLoss) -> Damage {
    let missing = stored.missing.into_iter().map(|missing| Missing {
        source: SourceId::new(&missing.source),
        epoch: Epoch { number: missing.epoch.0, nonce: missing.epoch.1 },
        first: Seq(missing.first),
        last: missing.last.map(Seq),
        event_times: missing
            .event_times
            .map(|(a, b)| (EventTime::from_unix_ns(a), EventTime::from_unix_ns(b))),
    });
    Damage {
        first: Offset(stored.first),
        end: Offset(stored.end),
        missing: missing.collect(),
        reason: stored.reason,
    }
}

fn stored_loss(damage: &Damage) -> StoredLoss {
    let missing = damage.missing.iter().map(|missing| StoredMissing {
        source: missing.source.as_str().to_owned(),
        epoch: (missing.epoch.number, missing.epoch.nonce),
        first: missing.first.0,
        last: missing.last.map(|seq| seq.0),
        event_times: missing.event_times.map(|(a, b)| (a.unix_ns(), b.unix_ns())),
    });
    StoredLoss {
        first: damage.first.0,
        end: damage.end.0,
        reason: damage.reason.clone(),
        missing: missing.collect(),
    }
}
