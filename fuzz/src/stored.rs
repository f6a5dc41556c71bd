//! Payloads of batches, and what is on disk behind its checksum.

use tidegate::core::reading::{Entry, Record};
use tidegate::store::fuzzing;
use tidegate::wire::batch::{Batch, encode};
use tidegate::wire::json;

fn said(gateway: &str, records: &[Record]) -> Vec<Vec<u8>> {
    let line = |record| {
        let mut line = Vec::new();
        json::reading(gateway, record, &mut line);
        line
    };
    records.iter().map(line).collect()
}

/// A payload of `postcard-batch`.
pub fn batch(bytes: &[u8]) {
    let Ok(batch) = Batch::decode(bytes) else { return };
    let Ok(records) = batch.records().collect::<Result<Vec<Record>, _>>() else { return };
    if records.is_empty() {
        return;
    }
    let said_first = said(&batch.gateway, &records);
    for line in &said_first {
        // A composite is text of a device, checked when it came; here it is anything.
        if batch.readings.iter().all(|reading| !is_composite(&reading.value)) {
            let strict = serde_json::from_slice::<&serde_json::value::RawValue>(line);
            assert!(strict.is_ok(), "{}", String::from_utf8_lossy(line));
        }
    }
    let mut payload = Vec::new();
    encode(&batch.gateway, &records, &mut payload);
    let again = Batch::decode(&payload).expect("a batch of ours");
    let read = again.records().collect::<Result<Vec<Record>, _>>().expect("records of ours");
    assert_eq!(said(&again.gateway, &read), said_first);
}

fn is_composite(value: &tidegate::wire::batch::BatchValue) -> bool {
    matches!(value, tidegate::wire::batch::BatchValue::Composite(_))
}

/// The first byte says what the rest is: a frame, a state, the clock's ledger, totals.
pub fn journal(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => frame(rest),
        1 => again(rest, fuzzing::state),
        2 => again(rest, fuzzing::ledger),
        _ => again(rest, fuzzing::totals),
    }
}

fn frame(bytes: &[u8]) {
    let Some((first, entries)) = fuzzing::frame(bytes) else { return };
    let (offset, read) = fuzzing::reframed(first, &entries).expect("a frame of ours");
    assert_eq!(offset, first);
    assert_eq!(words(&read), words(&entries));
}

/// Numbers that are none are not equal to themselves; their words are.
fn words(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| format!("{entry:?}")).collect()
}

fn again(bytes: &[u8], rewrite: fn(&[u8]) -> Option<Vec<u8>>) {
    let Some(written) = rewrite(bytes).filter(|written| !written.is_empty()) else { return };
    assert_eq!(rewrite(&written).as_ref(), Some(&written), "what is written stays as it is");
}
