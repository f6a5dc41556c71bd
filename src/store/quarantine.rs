//! Refused inputs, kept with their reason in a sled database of their own,
//! `state/`. Bounded by count and bytes; the oldest go first, counted. It is not
//! even opened before the first refusal.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::disk;
use super::envelope;
use super::error::{StoreError, at};
use super::segment::{guarded, is_damage, open_ladder};
use crate::core::limits::{FRAME_BYTES_MAX, REFUSALS_BYTES_MAX, REFUSALS_KEPT_MAX};
use crate::core::reading::Refusal;

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

/// How much is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Number of the oldest that is kept.
    pub oldest: u64,
    /// Number that the next one gets.
    pub next: u64,
    /// Bytes of content kept.
    pub bytes: u64,
    /// Dropped to stay within the bounds, ever.
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
}

/// Lists what a data directory keeps, newest first, at most `limit`. For use
/// beside no running agent.
pub fn list(data_dir: &Path, limit: usize) -> Result<Vec<Refused>, StoreError> {
    Refusals::new(&data_dir.join("state")).list(limit)
}

/// One refused input with its bytes.
pub fn show(data_dir: &Path, id: u64) -> Result<Option<(Refused, Vec<u8>)>, StoreError> {
    Refusals::new(&data_dir.join("state")).show(id)
}

fn key(id: u64, part: u16) -> [u8; 11] {
    let mut key = [b'q'; 11];
    key[1..9].copy_from_slice(&id.to_be_bytes());
    key[9..].copy_from_slice(&part.to_be_bytes());
    key
}

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

impl Refusals {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), db: None, last_check: None }
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

    /// A state that cannot be read goes where unreadable segments go.
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

    /// Makes refusals durable; the bytes written.
    pub(super) fn keep(&mut self, refusals: &[Refusal]) -> Result<u64, StoreError> {
        let check = refusals.iter().fold(0, |check, refusal| {
            let check = crc32c::crc32c_append(check, refusal.source.as_str().as_bytes());
            let check = crc32c::crc32c_append(check, &refusal.at.unix_ns().to_le_bytes());
            crc32c::crc32c_append(check, &refusal.content)
        });
        if self.last_check == Some(check) {
            return Ok(0);
        }
        let written = self.write(refusals);
        if written.is_err() {
            // An error of sled stays until it is opened again.
            self.close();
        } else {
            self.last_check = Some(check);
        }
        written
    }

    fn write(&mut self, refusals: &[Refusal]) -> Result<u64, StoreError> {
        let log = self.folder.join("db");
        let db = self.opened()?;
        let mut totals = read_totals(db)?;
        let mut written = 0;
        for refusal in refusals {
            let head = pack(&Refused {
                id: totals.next,
                source: refusal.source.as_str().to_owned(),
                at_unix_ns: refusal.at.unix_ns(),
                kind: refusal.kind.to_owned(),
                reason: refusal.reason.chars().take(1_024).collect(),
                length: refusal.length,
                kept_bytes: refusal.content.len() as u64,
            })?;
            let mut batch = sled::Batch::default();
            batch.insert(&key(totals.next, 0), head);
            for (part, bytes) in (1..).zip(refusal.content.chunks(FRAME_BYTES_MAX)) {
                batch.insert(&key(totals.next, part), bytes);
            }
            totals.next += 1;
            totals.bytes += refusal.content.len() as u64;
            written += refusal.content.len() as u64;
            batch.insert(TOTALS_KEY, pack(&totals)?);
            db.apply_batch(batch)?;
        }
        drop_oldest(db, &mut totals)?;
        db.flush()?;
        std::fs::File::open(&log).and_then(|log| log.sync_data()).map_err(at(&log))?;
        Ok(written)
    }

    /// How much is kept.
    pub fn totals(&mut self) -> Result<Totals, StoreError> {
        self.existing()?.map_or(Ok(Totals { oldest: 1, next: 1, ..Totals::default() }), read_totals)
    }

    /// The newest first, at most `limit`.
    pub fn list(&mut self, limit: usize) -> Result<Vec<Refused>, StoreError> {
        let totals = self.totals()?;
        let Some(db) = self.existing()? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for id in (totals.oldest..totals.next).rev().take(limit) {
            found.extend(read_head(db, id)?);
        }
        Ok(found)
    }

    /// One with its bytes.
    pub fn show(&mut self, id: u64) -> Result<Option<(Refused, Vec<u8>)>, StoreError> {
        let Some(db) = self.existing()? else { return Ok(None) };
        let Some(head) = read_head(db, id)? else { return Ok(None) };
        let parts = head.kept_bytes.div_ceil(FRAME_BYTES_MAX as u64) as u16;
        let mut content = Vec::new();
        for part in 1..=parts {
            if let Some(bytes) = guarded(|| Ok(db.get(key(id, part))?))? {
                content.extend_from_slice(&bytes);
            }
        }
        Ok(Some((head, content)))
    }

    pub(super) fn close(&mut self) {
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
        let kept_bytes = read_head(db, totals.oldest)?.map_or(0, |head| head.kept_bytes);
        let mut batch = sled::Batch::default();
        for part in 0..=kept_bytes.div_ceil(FRAME_BYTES_MAX as u64) as u16 {
            batch.remove(&key(totals.oldest, part));
        }
        totals.oldest += 1;
        totals.bytes = totals.bytes.saturating_sub(kept_bytes);
        totals.dropped += 1;
        batch.insert(TOTALS_KEY, pack(totals)?);
        db.apply_batch(batch)?;
    }
    Ok(())
}
