//! Where a file source is: for every file it follows, which one that is and how
//! far it has been read.
//!
//! A file is known by its device and inode. An inode is used again once its file
//! is gone, so that a digest of what was read goes with it: of the beginning of
//! the file and of what lies just before the place. A file that does not have the
//! same bytes there is another one, or was written anew.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

/// Bytes of the beginning, and before the place, that the digest covers.
const DIGEST_BYTES: u64 = 256;

/// Which file it is, as long as it exists.
pub(super) type Identity = (u64, u64);

pub(super) fn identity(facts: &Metadata) -> Identity {
    (facts.dev(), facts.ino())
}

/// How far one file has been read. The order of the fields is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) identity: Identity,
    /// Every byte before it is settled.
    pub(super) offset: u64,
    pub(super) digest: u64,
}

impl Place {
    /// Whether the file that is there now still begins with what was read.
    pub(super) fn is_of(&self, file: &File) -> io::Result<bool> {
        let length = file.metadata()?.len();
        Ok(length >= self.offset && digest(file, self.offset)? == self.digest)
    }
}

/// The digest of what was read up to `offset`.
pub(super) fn digest(file: &File, offset: u64) -> io::Result<u64> {
    let length = offset.min(DIGEST_BYTES);
    let mut bytes = [0; 2 * DIGEST_BYTES as usize];
    let (head, tail) = bytes.split_at_mut(DIGEST_BYTES as usize);
    let head = &mut head[..length as usize];
    let tail = &mut tail[..length as usize];
    let mut got = read_at(file, head, 0)?;
    got += read_at(file, tail, offset - length)?;
    let mut whole = Vec::with_capacity(head.len() + tail.len());
    whole.extend_from_slice(head);
    whole.extend_from_slice(tail);
    // A file that was cut meanwhile has fewer; that must not look alike.
    whole.truncate(got);
    Ok(SipHasher13::new().hash(&whole))
}

/// Reads as much as there is.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match file.read_at(&mut buffer[got..], offset + got as u64) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

/// The form of what follows.
const FORM: u8 = 1;

/// All places as the journal keeps them.
pub(super) fn encode(places: &[Place]) -> Vec<u8> {
    // Nothing in it can fail to be written down.
    postcard::to_stdvec(&(FORM, places)).unwrap_or_default()
}

/// The inverse of [`encode`]; `None` for what another version wrote.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<Place>> {
    let (form, places): (u8, Vec<Place>) = postcard::from_bytes(bytes).ok()?;
    (form == FORM).then_some(places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::limits::{FILES_MAX, POSITION_BYTES_MAX};

    #[test]
    fn places_come_back_and_fit_into_a_position() {
        let place = Place { identity: (2_049, 1_234_567), offset: 1 << 34, digest: u64::MAX };
        let places = vec![place; FILES_MAX];
        let bytes = encode(&places);
        assert!(bytes.len() <= POSITION_BYTES_MAX, "{}", bytes.len());
        assert_eq!(decode(&bytes), Some(places));
        assert_eq!(decode(&[9, 0]), None);
        assert_eq!(decode(&[]), None);
    }

    #[test]
    fn a_file_with_other_bytes_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let text = "0123456789".repeat(100);
        std::fs::write(&path, &text).unwrap();
        let file = File::open(&path).unwrap();
        let of =
            |offset| Place { identity: (0, 0), offset, digest: digest(&file, offset).unwrap() };
        let (start, middle) = (of(0), of(700));
        let is_of = |place: &Place| place.is_of(&file).unwrap();
        assert!(is_of(&middle));
        std::fs::write(&path, format!("{text}more")).unwrap();
        assert!(is_of(&middle) && is_of(&start));
        std::fs::write(&path, text.replacen('0', "x", 1)).unwrap();
        assert!(!is_of(&middle) && is_of(&start));
        std::fs::write(&path, &text[..699]).unwrap();
        assert!(!is_of(&middle));
    }
}
