//! Refused inputs, kept with their reason in a sled database of their own,
//! `state/`. It is bounded by count and bytes; the oldest are dropped first and counted. It
//! is not opened before the first refusal.
//!
//! A line is kept as it came; a reading as it was journaled, so that it can be
//! journaled again. Whole segments that could not be read are folders of their own
//! ([`set_aside`](super::set_aside)).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::envelope;
use super::error::{StoreError, at};
use super::segment::{guarded, is_damage, open_ladder};
use super::{FREE_BYTES_MIN, disk, kept};
use crate::core::limits::{FRAME_BYTES_MAX, REFUSALS_BYTES_MAX, REFUSALS_KEPT_MAX};
use crate::core::reading::{Record, Refusal};

/// One refused input as kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Its number, counted from 1 within this data directory.
    pub id: u64,
    /// The source it came from.
    pub source: String,
    /// When it came, in nanoseconds since 1970.
    pub at_unix_ns: i64,
    /// A short word: `syntax`, `too_long` …
    pub kind: String,
    /// What is wrong, for people.
    pub reason: String,
    /// How many bytes came.
    pub length: u64,
    /// How many of them are kept.
    pub kept_bytes: u64,
}

/// The content of a refused input.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// The bytes of a line, from the first on.
    Bytes(Vec<u8>),
    /// A reading, with its stamp. Its number is 0 when it never got one.
    Reading(Box<Record>),
}

/// Which refused inputs are meant; without conditions, all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this source.
    pub source: Option<String>,
    /// Of this kind.
    pub kind: Option<String>,
}

impl Filter {
    /// Whether an input passes the filter.
    pub fn takes(&self, refused: &Refused) -> bool {
        self.source.as_ref().is_none_or(|source| *source == refused.source)
            && self.kind.as_ref().is_none_or(|kind| *kind == refused.kind)
    }
}

/// How much is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Number of the oldest that is kept.
    pub oldest: u64,
    /// Number that the next one gets.
    pub next: u64,
    /// Bytes of content kept.
    pub bytes: u64,
    /// Dropped to stay within the bounds, or for want of a disk that takes them,
    /// ever.
    pub dropped: u64,
}

/// The refused inputs of one data directory.
#[derive(Debug)]
pub struct Refusals {
    folder: PathBuf,
    db: Option<sled::Db>,
    /// Checksum of what was kept last: a commit that is tried again brings the
    /// same refusals.
    last_check: Option<u32>,
    /// Dropped before they were kept, and not in the stored totals yet.
    dropped: u64,
}

/// The refused inputs of a data directory that no agent runs on.
pub fn open(data_dir: &Path) -> Refusals {
    Refusals::new(&data_dir.join("state"))
}

fn key(id: u64, part: u16) -> [u8; 11] {
    let mut key = [b'q'; 11];
    key[1..9].copy_from_slice(&id.to_be_bytes());
    key[9..].copy_from_slice(&part.to_be_bytes());
    key
}

/// Characters kept of a reason.
const REASON_CHARS_MAX: usize = 1_024;

const TOTALS_KEY: &[u8] = b"totals";

fn pack<T: Serialize>(value: &T) -> Result<Vec<u8>, StoreError> {
    envelope::pack(value).map_err(|error| StoreError::Damaged(error.to_string()))
}

fn read_totals(db: &sled::Db) -> Result<Totals, StoreError> {
    let stored = guarded(|| Ok(db.get(TOTALS_KEY)?))?;
    let totals = stored.and_then(|bytes| envelope::unpack(&bytes).ok());
    Ok(totals.unwrap_or(Totals { oldest: 1, next: 1, ..Totals::default() }))
}

fn read_head(db: &sled::Db, id: u64) -> Result<Option<Refused>, StoreError> {
    let stored = guarded(|| Ok(db.get(key(id, 0))?))?;
    Ok(stored.and_then(|bytes| envelope::unpack(&bytes).ok()))
}

fn read_content(db: &sled::Db, head: &Refused) -> Result<Content, StoreError> {
    let mut bytes = Vec::new();
    for part in 1..=parts_of(head.kept_bytes) {
        if let Some(more) = guarded(|| Ok(db.get(key(head.id, part))?))? {
            bytes.extend_from_slice(&more);
        }
    }
    // Lines are not in an envelope with a checksum.
    Ok(match kept::unpack(&bytes) {
        Some(record) => Content::Reading(Box::new(record)),
        None => Content::Bytes(bytes),
    })
}

fn parts_of(kept_bytes: u64) -> u16 {
    kept_bytes.div_ceil(FRAME_BYTES_MAX as u64) as u16
}

fn removal(id: u64, kept_bytes: u64) -> sled::Batch {
    let mut batch = sled::Batch::default();
    (0..=parts_of(kept_bytes)).for_each(|part| batch.remove(&key(id, part)));
    batch
}

/// What is stored of a refusal besides its head.
fn content(refusal: &Refusal) -> Result<Vec<u8>, StoreError> {
    match &refusal.reading {
        Some(record) => kept::pack(record),
        None => Ok(refusal.content.clone()),
    }
}

impl Refusals {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), db: None, last_check: None, dropped: 0 }
    }

    /// The database when there is one; none is created to read from.
    fn existing(&mut self) -> Result<Option<&sled::Db>, StoreError> {
        if self.db.is_none() && self.folder.join("db").is_file() {
            self.db = Some(open_ladder(&self.folder)?);
        }
        Ok(self.db.as_ref())
    }

    fn opened(&mut self) -> Result<&sled::Db, StoreError> {
        if self.db.is_none() {
            disk::create_folder(&self.folder).map_err(at(&self.folder))?;
            let db = match open_ladder(&self.folder) {
                Err(error) if is_damage(&error) => {
                    self.move_aside()?;
                    open_ladder(&self.folder)?
                }
                other => other?,
            };
            disk::sync_folder(&self.folder).map_err(at(&self.folder))?;
            self.db = Some(db);
        }
        self.db.as_ref().ok_or_else(|| StoreError::Damaged("state is not open".into()))
    }

    /// Moves a database that cannot be read to where unreadable segments are.
    fn move_aside(&self) -> Result<(), StoreError> {
        let parent = self.folder.parent().unwrap_or(Path::new("."));
        let quarantine = parent.join("quarantine");
        disk::create_folder(&quarantine).map_err(at(&quarantine))?;
        let free = (0..u32::MAX).map(|n| quarantine.join(format!("state-{n}")));
        if let Some(target) = free.into_iter().find(|path| !path.exists()) {
            std::fs::rename(&self.folder, &target).map_err(at(&target))?;
        }
        disk::create_folder(&self.folder).map_err(at(&self.folder))
    }

    /// Makes refusals durable and returns the bytes written. Fails without writing if the
    /// disk has less than [`FREE_BYTES_MIN`] left.
    pub(super) fn keep(
        &mut self,
        refusals: &[Refusal],
        free_bytes: u64,
    ) -> Result<u64, StoreError> {
        let contents: Result<Vec<Vec<u8>>, StoreError> = refusals.iter().map(content).collect();
        let contents = contents?;
        let all = refusals.iter().zip(&contents);
        let check = all.fold(0, |check, (refusal, content)| {
            let check = crc32c::crc32c_append(check, refusal.source.as_str().as_bytes());
            let check = crc32c::crc32c_append(check, &refusal.at.unix_ns().to_le_bytes());
            crc32c::crc32c_append(check, content)
        });
        if self.last_check == Some(check) {
            return Ok(0);
        }
        if free_bytes < FREE_BYTES_MIN {
            return Err(StoreError::Full { free_bytes });
        }
        let written = self.write(refusals, &contents);
        if written.is_err() {
            // After an error sled fails until it is opened again.
            self.close();
        } else {
            self.last_check = Some(check);
        }
        written
    }

    fn write(&mut self, refusals: &[Refusal], contents: &[Vec<u8>]) -> Result<u64, StoreError> {
        let dropped = self.dropped;
        let db = self.opened()?;
        let mut totals = read_totals(db)?;
        totals.dropped += dropped;
        let mut written = 0;
        for (refusal, content) in refusals.iter().zip(contents) {
            let head = pack(&Refused {
                id: totals.next,
                source: refusal.source.as_str().to_owned(),
                at_unix_ns: refusal.at.unix_ns(),
                kind: refusal.kind.to_owned(),
                reason: refusal.reason.chars().take(REASON_CHARS_MAX).collect(),
                length: refusal.length,
                kept_bytes: content.len() as u64,
            })?;
            let mut batch = sled::Batch::default();
            batch.insert(&key(totals.next, 0), head);
            for (part, bytes) in (1..).zip(content.chunks(FRAME_BYTES_MAX)) {
                batch.insert(&key(totals.next, part), bytes);
            }
            totals.next += 1;
            totals.bytes += content.len() as u64;
            written += content.len() as u64;
            batch.insert(TOTALS_KEY, pack(&totals)?);
            db.apply_batch(batch)?;
        }
        drop_oldest(db, &mut totals)?;
        self.sync()?;
        self.dropped = 0;
        Ok(written)
    }

    /// Counts refusals that could not be kept.
    pub(super) fn drop_unkept(&mut self, count: u64) {
        self.dropped += count;
    }

    /// Stores that count, if the disk takes it.
    pub(super) fn note_dropped(&mut self) {
        if self.dropped == 0 {
            return;
        }
        let dropped = self.dropped;
        let noted = self.opened().and_then(|db| {
            let totals = read_totals(db)?;
            let totals = Totals { dropped: totals.dropped + dropped, ..totals };
            db.insert(TOTALS_KEY, pack(&totals)?)?;
            Ok(())
        });
        // Otherwise it is forgotten with this process; the log and the metrics had it.
        if noted.and_then(|()| self.sync()).is_ok() {
            self.dropped = 0;
        }
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let log = self.folder.join("db");
        self.opened()?.flush()?;
        std::fs::File::open(&log).and_then(|log| log.sync_data()).map_err(at(&log))
    }

    /// How much is kept.
    pub fn totals(&mut self) -> Result<Totals, StoreError> {
        let dropped = self.dropped;
        let kept = self.existing()?;
        let kept = kept.map_or(Ok(Totals { oldest: 1, next: 1, ..Totals::default() }), read_totals);
        kept.map(|kept| Totals { dropped: kept.dropped + dropped, ..kept })
    }

    /// Up to `limit` inputs, the newest first, each turned into a list item by `view`: only
    /// one content at a time is in memory.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn list<T>(
        &mut self,
        filter: &Filter,
        limit: usize,
        mut view: impl FnMut(Refused, Content) -> T,
    ) -> Result<Vec<T>, StoreError> {
        let totals = self.totals()?;
        let Some(db) = self.existing()? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for id in (totals.oldest..totals.next).rev() {
            if found.len() == limit {
                break;
            }
            let Some(head) = read_head(db, id)?.filter(|head| filter.takes(head)) else { continue };
            let content = read_content(db, &head)?;
            found.push(view(head, content));
        }
        Ok(found)
    }

    /// One input and its content.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn show(&mut self, id: u64) -> Result<Option<(Refused, Content)>, StoreError> {
        let Some(db) = self.existing()? else { return Ok(None) };
        let Some(head) = read_head(db, id)? else { return Ok(None) };
        let content = read_content(db, &head)?;
        Ok(Some((head, content)))
    }

    /// Deletes one input, durably. Returns it if it was there.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn discard(&mut self, id: u64) -> Result<Option<Refused>, StoreError> {
        let Some(db) = self.existing()? else { return Ok(None) };
        let mut totals = read_totals(db)?;
        let Some(head) = read_head(db, id)? else { return Ok(None) };
        let mut batch = removal(id, head.kept_bytes);
        totals.bytes = totals.bytes.saturating_sub(head.kept_bytes);
        while totals.oldest < totals.next
            && (totals.oldest == id || read_head(db, totals.oldest)?.is_none())
        {
            totals.oldest += 1;
        }
        batch.insert(TOTALS_KEY, pack(&totals)?);
        db.apply_batch(batch)?;
        self.sync()?;
        Ok(Some(head))
    }

    /// Gives an input another reason: it was handed in again and refused again.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn restate(&mut self, id: u64, kind: &str, reason: &str) -> Result<(), StoreError> {
        let Some(db) = self.existing()? else { return Ok(()) };
        let Some(head) = read_head(db, id)? else { return Ok(()) };
        let reason = reason.chars().take(REASON_CHARS_MAX).collect();
        let head = pack(&Refused { kind: kind.to_owned(), reason, ..head })?;
        guarded(|| Ok(db.insert(key(id, 0), head)?))?;
        self.sync()
    }

    /// Closes the database until it is needed again.
    pub fn close(&mut self) {
        let db = self.db.take();
        let _ = guarded(|| {
            drop(db);
            Ok(())
        });
    }
}

fn drop_oldest(db: &sled::Db, totals: &mut Totals) -> Result<(), StoreError> {
    while totals.next - totals.oldest > REFUSALS_KEPT_MAX as u64
        || (totals.bytes > REFUSALS_BYTES_MAX && totals.oldest < totals.next)
    {
        let head = read_head(db, totals.oldest)?;
        let kept_bytes = head.as_ref().map_or(0, |head| head.kept_bytes);
        let mut batch = removal(totals.oldest, kept_bytes);
        totals.oldest += 1;
        totals.bytes = totals.bytes.saturating_sub(kept_bytes);
        // An input that was discarded is not there to be dropped.
        totals.dropped += u64::from(head.is_some());
        batch.insert(TOTALS_KEY, pack(totals)?);
        db.apply_batch(batch)?;
    }
    Ok(())
}
