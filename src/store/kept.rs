//! A reading in the quarantine, stored as a frame of one entry with the names that it uses,
//! so that it can be journaled again exactly as it was.

use super::dictionary::{Name, NameCache, NameWriter};
use super::envelope;
use super::error::StoreError;
use super::frame::FrameWriter;
use super::unframe;
use crate::core::id::Offset;
use crate::core::reading::{Entry, Record};

/// In stored form.
pub(super) fn pack(record: &Record) -> Result<Vec<u8>, StoreError> {
    let unstorable = |error: postcard::Error| StoreError::Damaged(error.to_string());
    let mut names = NameWriter::default();
    let entry = Entry::Reading(record.clone());
    let frame = FrameWriter::default().write(Offset(0), &[entry], &mut names);
    let added = names.take_added();
    let names: Result<Vec<(u32, Vec<u8>)>, postcard::Error> =
        added.iter().map(|(id, name)| Ok((*id, name.encode()?))).collect();
    envelope::pack(&(names.map_err(unstorable)?, frame)).map_err(unstorable)
}

/// The inverse of [`pack`]; `None` for anything else.
pub(super) fn unpack(bytes: &[u8]) -> Option<Record> {
    let (names, frame): (Vec<(u32, Vec<u8>)>, Vec<u8>) = envelope::unpack(bytes).ok()?;
    let mut load = |id| {
        let (_, name) = names.iter().find(|(known, _)| *known == id)?;
        Name::decode(name).ok()
    };
    let (_, entries) = unframe::read(&frame, &mut NameCache::default(), &mut load).ok()?;
    match entries.into_iter().next() {
        Some(Entry::Reading(record)) => Some(record),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::id::Seq;
    use crate::core::reading::Value;
    use crate::store::frame_tests::polled;

    #[test]
    fn a_reading_comes_back_whole_and_a_line_is_no_reading() {
        let Some(Entry::Reading(small)) = polled(1).pop() else { panic!("no reading") };
        let large =
            Record { value: Value::Text("x".repeat(300_000).into()), seq: Seq(0), ..small.clone() };
        for record in [small, large] {
            assert_eq!(unpack(&pack(&record).unwrap()), Some(record));
        }
        assert_eq!(unpack(b"{\"entity\":\"e\"}"), None);
        assert_eq!(unpack(b""), None);
    }
}
