//! Keys and values of a segment, in the order in which they are written.
//!
//! sled's log keeps that order: a power cut leaves a beginning of it. That is why a commit
//! needs no transaction. Names come before the frames that use them, and the state comes last
//! of all: without it what was written before does not count.
//!
//! A transaction of sled is not cheap either: it writes and syncs a mark of its own before the
//! rest, and the disk gets the same block twice.

use super::dictionary::Name;
use super::envelope;
use super::error::StoreError;
use crate::core::id::Offset;

/// What is to be written; without a value, removed.
#[derive(Debug, Default)]
pub(super) struct Writes(Vec<(sled::IVec, Option<sled::IVec>)>);

impl Writes {
    /// A frame, in parts where it is one large entry.
    pub(super) fn frame(&mut self, first: Offset, frame: &[u8]) {
        for (part, bytes) in envelope::parts(frame) {
            self.put(&frame_key(first, part), bytes);
        }
    }

    /// A place for a frame: its key, with nothing under it.
    pub(super) fn place(&mut self, first: Offset) {
        self.put(&frame_key(first, 0), &[]);
    }

    /// Removes a place that was not used.
    pub(super) fn no_place(&mut self, first: Offset) {
        self.0.push((frame_key(first, 0).as_slice().into(), None));
    }

    /// A name, under its number.
    pub(super) fn name(&mut self, id: u32, name: &Name) -> Result<(), StoreError> {
        let name = name.encode().map_err(super::segment::unstorable)?;
        self.put(&name_key(id), &name);
        Ok(())
    }

    /// A packed value under one of `m`, `h`, `l`, `t`, `c`; nothing if it is empty.
    pub(super) fn value(&mut self, kind: u8, packed: &[u8]) {
        for (part, bytes) in envelope::parts(packed) {
            self.put(&part_key(kind, part), bytes);
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.0.push((key.into(), Some(value.into())));
    }

    /// The same in stretches of about so many bytes, of which each but the last has as many.
    pub(super) fn stretches(self, bytes: usize) -> Vec<Self> {
        let mut stretches = vec![Self::default()];
        let mut room = bytes;
        for (key, value) in self.0 {
            if room == 0 {
                stretches.push(Self::default());
                room = bytes;
            }
            let length = key.len() + value.as_ref().map_or(0, |value| value.len());
            room = room.saturating_sub(length);
            if let Some(last) = stretches.last_mut() {
                last.0.push((key, value));
            }
        }
        stretches
    }

    /// Writes one after the other.
    pub(super) fn in_order(self, db: &sled::Db) -> sled::Result<()> {
        for (key, value) in self.0 {
            match value {
                Some(value) => db.insert(key, value)?,
                None => db.remove(key)?,
            };
        }
        Ok(())
    }

    /// Writes all or, if the power goes, none. They must be few, not many more than
    /// [`BATCH_OPERATIONS_MAX`](crate::core::limits::BATCH_OPERATIONS_MAX).
    pub(super) fn together(self, db: &sled::Db) -> sled::Result<()> {
        if self.0.len() <= 1 {
            return self.in_order(db);
        }
        let mut batch = sled::Batch::default();
        for (key, value) in self.0 {
            match value {
                Some(value) => batch.insert(key, value),
                None => batch.remove(key),
            }
        }
        db.apply_batch(batch)
    }
}

/// Key of a part of the frame that begins at an offset.
pub(super) fn frame_key(offset: Offset, part: u16) -> [u8; 11] {
    let mut key = [b'f'; 11];
    key[1..9].copy_from_slice(&offset.0.to_be_bytes());
    key[9..].copy_from_slice(&part.to_be_bytes());
    key
}

/// The offset and the part that a frame's key says.
pub(super) fn frame_place(key: &[u8]) -> Option<(u64, u16)> {
    let key: &[u8; 11] = key.try_into().ok()?;
    let offset = u64::from_be_bytes(key[1..9].try_into().ok()?);
    (key[0] == b'f').then_some((offset, u16::from_be_bytes([key[9], key[10]])))
}

/// Key of a part of a packed value.
pub(super) fn part_key(kind: u8, part: u16) -> [u8; 3] {
    let part = part.to_be_bytes();
    [kind, part[0], part[1]]
}

/// Key of a name.
pub(super) fn name_key(id: u32) -> [u8; 5] {
    let id = id.to_be_bytes();
    [b'd', id[0], id[1], id[2], id[3]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_keep_the_order_and_are_as_long_as_was_said() {
        let mut writes = Writes::default();
        (0..5).for_each(|n| writes.frame(Offset(n), &[n as u8; 89]));
        writes.no_place(Offset(9));
        let all = writes.0.clone();
        let stretches = writes.stretches(200);
        let lengths: Vec<usize> = stretches.iter().map(|stretch| stretch.0.len()).collect();
        assert_eq!(lengths, [2, 2, 2]);
        assert_eq!(stretches.into_iter().flat_map(|stretch| stretch.0).collect::<Vec<_>>(), all);
        assert_eq!(Writes::default().stretches(200).len(), 1);
    }
}
