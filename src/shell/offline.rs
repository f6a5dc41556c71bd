//! The journal as text, for when no agent runs on it.

use std::path::Path;

use crate::core::id::Offset;
use crate::core::reading::Entry;
use crate::store::{StoreError, inspect};
use crate::wire::json;

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
        match &entry {
            Entry::Reading(record) => json::reading(gateway, record, &mut line),
            Entry::Gap(gap) => json::gap(gateway, gap, &mut line),
            Entry::Correction(correction) => json::correction(gateway, correction, &mut line),
            Entry::Clock(event) => json::clock_event(gateway, event, &mut line),
            Entry::Window(result) => json::window_result(gateway, result, &mut line),
            Entry::Late(late) => json::late_reading(gateway, late, &mut line),
            Entry::Retimed(_) | Entry::Idle(_) => return,
        }
        line.push(b'\n');
        show(&line);
    })
}
