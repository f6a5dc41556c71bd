//! Lets tests give bytes of their own to the decoders behind the checksum of a stored
//! value. Bytes from a damaged disk hardly ever pass the checksum, so nothing else would
//! test these decoders.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::clocks::StoredLedger;
use super::dictionary::{Name, NameCache, NameWriter};
use super::frame::FrameWriter;
use super::meta::{StoredClock, StoredState, StoredWays};
use super::totals::StoredTotals;
use super::{envelope, segment, unframe};
use crate::core::id::{Offset, SourceId};
use crate::core::reading::{Entry, Series};

/// The entries of a frame with this body, the first byte being its codec, and the
/// offset of the first. Names are made up.
pub fn frame(bytes: &[u8]) -> Option<(Offset, Vec<Entry>)> {
    let (codec, body) = bytes.split_first()?;
    let mut sealed = Vec::new();
    envelope::wrap(*codec, body, &mut sealed);
    unframe::read(&sealed, &mut NameCache::default(), &mut |id| Some(made_up(id))).ok()
}

/// Writes entries as one frame and reads them back.
pub fn reframed(first: Offset, entries: &[Entry]) -> Option<(Offset, Vec<Entry>)> {
    let mut names = NameWriter::default();
    let sealed = FrameWriter::default().write(first, entries, &mut names);
    let names: BTreeMap<u32, Name> = names.take_added().into_iter().collect();
    let mut load = |id| names.get(&id).cloned();
    unframe::read(&sealed, &mut NameCache::default(), &mut load).ok()
}

/// Even numbers are sources, odd ones series.
fn made_up(id: u32) -> Name {
    match id % 2 {
        0 => Name::Source(SourceId::new(&format!("s{id}"))),
        _ => Name::Series(Arc::new(Series {
            entity: format!("e{id}").into(),
            property: "p".into(),
            unit: (id % 4 == 1).then(|| "u".into()),
        })),
    }
}

/// Reads a state of the store with this body and writes it again; `None` when it is none.
pub fn state(body: &[u8]) -> Option<Vec<u8>> {
    let mut sealed = Vec::new();
    envelope::wrap(0, body, &mut sealed);
    let unpacked = envelope::unpack_grown::<StoredState, _, _, ()>(&sealed);
    let (stored, clock, ways, _) = unpacked.ok()?;
    let mut state = stored.into_state();
    StoredClock::complete(clock, &mut state);
    StoredWays::complete(ways, &mut state.meta);
    let packed = segment::pack_state(&state).ok()?;
    envelope::unwrap(&packed).ok().map(|(_, body)| body.to_vec())
}

/// Reads a clock ledger with this body and writes it again.
pub fn ledger(body: &[u8]) -> Option<Vec<u8>> {
    let mut sealed = Vec::new();
    envelope::wrap(0, body, &mut sealed);
    let ledger = envelope::unpack::<StoredLedger>(&sealed).ok()?.into_ledger();
    let packed = segment::pack_ledger(&ledger).ok()?;
    envelope::unwrap(&packed).ok().map(|(_, body)| body.to_vec())
}

/// Reads saved totals with this body and writes them again; empty when there are none.
pub fn totals(body: &[u8]) -> Option<Vec<u8>> {
    let mut sealed = Vec::new();
    envelope::wrap(0, body, &mut sealed);
    let totals = envelope::unpack::<StoredTotals>(&sealed).ok()?.into_saved();
    let packed = segment::pack_totals(&totals).ok()?;
    Some(envelope::unwrap(&packed).map_or_else(|_| Vec::new(), |(_, body)| body.to_vec()))
}
