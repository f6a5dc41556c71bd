//! Which run of the machine this is.

use std::io;

use crate::core::id::BootId;

/// Where Linux says it.
const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";

/// This run of the machine.
///
/// # Errors
/// The file cannot be read (no `/proc`) or holds no UUID.
pub fn boot_id() -> io::Result<BootId> {
    let text = std::fs::read_to_string(BOOT_ID_FILE)?;
    parse(text.trim()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{BOOT_ID_FILE} holds no UUID"))
    })
}

/// A UUID with or without its dashes.
fn parse(text: &str) -> Option<BootId> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let mut id = [0; 16];
    if digits.len() != 32 {
        return None;
    }
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = (high * 16 + low) as u8;
    }
    Some(BootId(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_id_prints_as_it_was_read() {
        let text = "5c9f1f0e-7a3b-4a55-9d6c-0123456789ab";
        assert_eq!(parse(text).unwrap().to_string(), text);
        assert_eq!(parse("5c9f1f0e"), None);
        assert_eq!(parse("zc9f1f0e-7a3b-4a55-9d6c-0123456789ab"), None);
    }
}
