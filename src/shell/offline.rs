//! The journal as text, for when no agent runs on it.

use std::path::Path;

use super::text;
use crate::core::id::Offset;
use crate::store::{StoreError, inspect};

/// Hands every readable entry from the offset `from` on to `show`, as the JSON
/// line that the uplink would send. Entries that are never sent are passed over.
///
/// # Errors
/// The journal is in use, or cannot be read.
pub fn cat(
    data_dir: &Path,
    gateway: &str,
    from: u64,
    mut show: impl FnMut(&[u8]),
) -> Result<(), StoreError> {
    let mut line = Vec::new();
    inspect::cat(data_dir, Offset(from), |_, entry| {
        line.clear();
        text::line(gateway, &entry, &mut line);
        if !line.is_empty() {
            show(&line);
        }
    })
}
