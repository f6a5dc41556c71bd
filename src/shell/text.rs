//! Entries of the journal as the JSON lines that the uplink would send.

use crate::core::reading::Entry;
use crate::wire::json;

/// Appends the line of an entry. One that is never sent has none.
pub fn line(gateway: &str, entry: &Entry, out: &mut Vec<u8>) {
    match entry {
        Entry::Reading(record) => json::reading(gateway, record, out),
        Entry::Gap(gap) => json::gap(gateway, gap, out),
        Entry::Correction(correction) => json::correction(gateway, correction, out),
        Entry::Clock(event) => json::clock_event(gateway, event, out),
        Entry::Window(result) => json::window_result(gateway, result, out),
        Entry::Late(late) => json::late_reading(gateway, late, out),
        Entry::Retimed(_) | Entry::Idle(_) => return,
    }
    out.push(b'\n');
}
