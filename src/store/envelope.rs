//! The wrapper of everything stored: version, a flag, length, CRC32C, body.
//!
//! sled checks its own log, but a value may still come back wrong (bytes changed on disk, a
//! bug), and an empty database looks like a new one. So every value has its length and a
//! checksum of its own.

use crate::core::limits::FRAME_BYTES_MAX;

/// Bytes before the body.
pub(super) const HEADER_BYTES: usize = 10;

/// The stored format that this build writes, and the newest it can read. Format
/// 1 knew no clock ledger, no corrections and no clock events, format 2 only one
/// uplink, format 3 no totals.
pub(super) const SCHEMA: u8 = 4;

/// Why stored bytes are not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// Written by a newer version of Tidegate.
    Newer(u8),
    /// Shorter than it says.
    Short,
    /// The checksum does not match.
    Checksum,
    /// The checksum matches, the content makes no sense.
    Content,
}

impl Broken {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Broken::Newer(_) => "it was written by a newer version",
            Broken::Short => "it is shorter than it says",
            Broken::Checksum => "its checksum does not match",
            Broken::Content => "its content makes no sense",
        }
    }
}

/// Appends header and body to `out`.
pub(super) fn wrap(flag: u8, body: &[u8], out: &mut Vec<u8>) {
    let length = (body.len() as u32).to_le_bytes();
    let head = [SCHEMA, flag, length[0], length[1], length[2], length[3]];
    let check = crc32c::crc32c_append(crc32c::crc32c(&head), body);
    out.extend_from_slice(&head);
    out.extend_from_slice(&check.to_le_bytes());
    out.extend_from_slice(body);
}

/// Length with header that the first bytes announce; `None` when there are too
/// few to tell.
pub(super) fn announced_len(bytes: &[u8]) -> Option<usize> {
    let length: [u8; 4] = bytes.get(2..6)?.try_into().ok()?;
    Some(HEADER_BYTES + u32::from_le_bytes(length) as usize)
}

/// Checks and takes off the header: the flag and the body.
pub(super) fn unwrap(bytes: &[u8]) -> Result<(u8, &[u8]), Broken> {
    let length = announced_len(bytes).ok_or(Broken::Short)?;
    let stored: [u8; 4] =
        bytes.get(6..HEADER_BYTES).and_then(|b| b.try_into().ok()).ok_or(Broken::Short)?;
    let body = bytes.get(HEADER_BYTES..length).ok_or(Broken::Short)?;
    if bytes.len() != length {
        return Err(Broken::Short);
    }
    let check = crc32c::crc32c_append(crc32c::crc32c(&bytes[..6]), body);
    if check != u32::from_le_bytes(stored) {
        return Err(Broken::Checksum);
    }
    // Only after the checksum: random bytes must not be taken for a newer version.
    if bytes[0] > SCHEMA {
        return Err(Broken::Newer(bytes[0]));
    }
    Ok((bytes[1], body))
}

/// A serialised value in its envelope.
pub(super) fn pack<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, postcard::Error> {
    let body = postcard::to_stdvec(value)?;
    let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
    wrap(0, &body, &mut out);
    Ok(out)
}

/// The inverse of [`pack`].
pub(super) fn unpack<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, Broken> {
    let (_, body) = unwrap(bytes)?;
    postcard::from_bytes(body).map_err(|_| Broken::Content)
}

/// A value to which format 2, format 3 and format 4 each added a part.
pub(super) type Grown<T, U, V, W> = (T, Option<U>, Option<V>, Option<W>);

/// The inverse of [`pack`] for a tuple that has grown.
pub(super) fn unpack_grown<T, U, V, W>(bytes: &[u8]) -> Result<Grown<T, U, V, W>, Broken>
where
    T: serde::de::DeserializeOwned,
    U: serde::de::DeserializeOwned,
    V: serde::de::DeserializeOwned,
    W: serde::de::DeserializeOwned,
{
    let (_, body) = unwrap(bytes)?;
    let parts = match bytes[0] {
        0 | 1 => postcard::from_bytes(body).map(|one| (one, None, None, None)),
        2 => postcard::from_bytes(body).map(|(one, two)| (one, Some(two), None, None)),
        3 => {
            postcard::from_bytes(body).map(|(one, two, three)| (one, Some(two), Some(three), None))
        }
        _ => postcard::from_bytes(body)
            .map(|(one, two, three, four)| (one, Some(two), Some(three), Some(four))),
    };
    parts.map_err(|_| Broken::Content)
}

/// The parts of a value, none longer than sled takes without a file of its own.
pub(super) fn parts(value: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    value.chunks(FRAME_BYTES_MAX).enumerate().map(|(part, bytes)| (part as u16, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_found() {
        let mut bytes = Vec::new();
        wrap(3, b"reading", &mut bytes);
        assert_eq!(unwrap(&bytes), Ok((3, b"reading".as_slice())));
        for bit in 0..bytes.len() * 8 {
            let mut broken = bytes.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(unwrap(&broken).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_version_is_told_from_garbage() {
        let head = [SCHEMA + 1, 0, 0, 0, 0, 0];
        let mut bytes = head.to_vec();
        bytes.extend_from_slice(&crc32c::crc32c(&head).to_le_bytes());
        assert_eq!(unwrap(&bytes), Err(Broken::Newer(SCHEMA + 1)));
        bytes[6] ^= 1;
        assert_eq!(unwrap(&bytes), Err(Broken::Checksum));
    }
}
