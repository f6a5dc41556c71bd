//! A [`Batch`] as bytes: version, compression, postcard.

use std::cell::Cell;
use std::rc::Rc;

use postcard::de_flavors::Flavor;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use ruzstd::encoding::{CompressionLevel, compress};
use serde::Deserialize as _;

use super::{BATCH_BYTES_MAX, Batch, BatchError, VERSION};

/// Set in the first byte where the rest is compressed.
const COMPRESSED: u8 = 0x80;

/// Smallest batch that is compressed: below, zstd saves nothing worth its time.
const COMPRESSIBLE_BYTES_MIN: usize = 256;

/// Appends a batch, compressed where that makes it smaller.
pub(super) fn write(batch: &Batch, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(VERSION);
    // A vector takes every write, and every field has a form.
    if let Ok(written) = postcard::to_extend(batch, std::mem::take(out)) {
        *out = written;
    }
    let plain = &out[start + 1..];
    if plain.len() < COMPRESSIBLE_BYTES_MIN {
        return;
    }
    let mut smaller = Vec::with_capacity(plain.len() / 2);
    compress(plain, &mut smaller, CompressionLevel::Fastest);
    if smaller.len() < plain.len() {
        out.truncate(start);
        out.push(VERSION | COMPRESSED);
        out.extend_from_slice(&smaller);
    }
}

impl Batch {
    /// Reads a payload. Bytes behind the batch are an error: it is not what it
    /// claims to be.
    ///
    /// # Errors
    /// The version is not known, the bytes are damaged, or they are something
    /// else. That the places and codes in it exist is found by
    /// [`Batch::records`].
    pub fn decode(payload: &[u8]) -> Result<Batch, BatchError> {
        let (&head, rest) = payload.split_first().ok_or(BatchError::Empty)?;
        match head {
            VERSION if rest.len() > BATCH_BYTES_MAX => Err(BatchError::TooLarge),
            VERSION => parse(rest),
            _ if head == VERSION | COMPRESSED => parse(&uncompressed(rest)?),
            _ => Err(BatchError::Version(head & !COMPRESSED)),
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Batch, BatchError> {
    let left = Rc::new(Cell::new(bytes));
    let wrong = |reason: &dyn std::fmt::Display| BatchError::Schema {
        // The version byte stands before.
        offset: 1 + bytes.len() - left.get().len(),
        reason: reason.to_string(),
    };
    let mut reader = postcard::Deserializer::from_flavor(Place { left: Rc::clone(&left) });
    let batch = Batch::deserialize(&mut reader).map_err(|error| wrong(&error))?;
    match left.get().len() {
        0 => Ok(batch),
        more => Err(wrong(&format_args!("{more} bytes behind the end of the batch"))),
    }
}

/// Bytes to read, and how far reading came when it failed.
struct Place<'de> {
    left: Rc<Cell<&'de [u8]>>,
}

impl<'de> Flavor<'de> for Place<'de> {
    type Remainder = ();
    type Source = ();

    fn pop(&mut self) -> postcard::Result<u8> {
        let (&byte, left) =
            self.left.get().split_first().ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        self.left.set(left);
        Ok(byte)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.get().len())
    }

    fn try_take_n(&mut self, count: usize) -> postcard::Result<&'de [u8]> {
        let (taken, left) = self
            .left
            .get()
            .split_at_checked(count)
            .ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        self.left.set(left);
        Ok(taken)
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

fn uncompressed(mut frame: &[u8]) -> Result<Vec<u8>, BatchError> {
    let damaged = |error: &dyn std::fmt::Display| BatchError::Compression(error.to_string());
    // The decoder takes memory for the whole window at once.
    if window_bytes(frame).is_none_or(|window| window > BATCH_BYTES_MAX as u64) {
        return match window_bytes(frame) {
            Some(_) => Err(BatchError::TooLarge),
            None => Err(damaged(&"it is cut off within its head")),
        };
    }
    let mut decoder = FrameDecoder::new();
    decoder.init(&mut frame).map_err(|error| damaged(&error))?;
    let mut plain = Vec::new();
    loop {
        let strategy = BlockDecodingStrategy::UptoBlocks(1);
        decoder.decode_blocks(&mut frame, strategy).map_err(|error| damaged(&error))?;
        decoder.collect_to_writer(&mut plain).map_err(|error| damaged(&error))?;
        if plain.len() + decoder.can_collect() > BATCH_BYTES_MAX {
            return Err(BatchError::TooLarge);
        }
        if decoder.is_finished() && decoder.can_collect() == 0 {
            break;
        }
    }
    if frame.is_empty() { Ok(plain) } else { Err(damaged(&"there are bytes behind its end")) }
}

/// The window that a zstd frame asks for, in bytes (RFC 8878, section 3.1.1.1).
/// `None` where its head is cut off.
fn window_bytes(frame: &[u8]) -> Option<u64> {
    let (&descriptor, head) = frame.get(4..)?.split_first()?;
    let is_single_segment = descriptor & 0x20 != 0;
    if !is_single_segment {
        let window = *head.first()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    let dictionary_id_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size_bytes = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let size = head.get(dictionary_id_bytes..)?.get(..size_bytes)?;
    Some(size.iter().rev().fold(0, |size, byte| size << 8 | u64::from(*byte)))
}
