//! The stored form of the memory.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{By, Elapsed, Memory, Name};
use crate::core::id::{BootId, Offset, SourceId};
use crate::core::time::{IngestTime, Uptime};

/// The version of the stored form; no other is read.
const FORM: u8 = 1;

const NAME_BYTES: usize = 16;

#[derive(Serialize, Deserialize)]
struct StoredMemories {
    through: u64,
    sources: Vec<StoredMemory>,
}

#[derive(Serialize, Deserialize)]
struct StoredMemory {
    source: String,
    by: u8,
    elapsed_ns: u64,
    last: Option<([u8; 16], u64)>,
    trusted: Option<([u8; 16], i64, u64)>,
    after_trusted: u64,
    /// Oldest first, 16 bytes each, little-endian.
    names: Vec<u8>,
    /// Of each name, how much later than the one before it came, in nanoseconds.
    ages: Vec<u64>,
}

/// The bytes are of another version or damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its checkpoint was written by another version, or is damaged")
    }
}

impl std::error::Error for Unreadable {}

const fn code(by: By) -> u8 {
    match by {
        By::Id => 0,
        By::EventTime => 1,
    }
}

/// Empty if it could not be encoded, which does not happen with its types.
pub(super) fn encode(memories: &BTreeMap<SourceId, Memory>, through: Offset) -> Vec<u8> {
    let sources = memories.iter().map(|(source, memory)| stored(source, memory)).collect();
    let mut bytes = vec![FORM];
    if let Ok(body) = postcard::to_stdvec(&StoredMemories { through: through.0, sources }) {
        bytes.extend(body);
    }
    bytes
}

fn stored(source: &SourceId, memory: &Memory) -> StoredMemory {
    let mut names = Vec::with_capacity(memory.order.len() * NAME_BYTES);
    let mut ages = Vec::with_capacity(memory.order.len());
    let mut before = 0;
    for (Name([first, second]), at) in &memory.order {
        names.extend_from_slice(&first.to_le_bytes());
        names.extend_from_slice(&second.to_le_bytes());
        ages.push(at.saturating_sub(before));
        before = *at;
    }
    let Elapsed { ns, last, trusted } = memory.elapsed;
    StoredMemory {
        source: source.as_str().to_owned(),
        by: code(memory.rule.by),
        elapsed_ns: ns,
        last: last.map(|(boot, uptime)| (boot.0, uptime.ns())),
        trusted: trusted.map(|(boot, wall, ns)| (boot.0, wall.unix_ns(), ns)),
        after_trusted: memory.after_trusted as u64,
        names,
        ages,
    }
}

/// Fills the memories whose kind of name is the same as when they were stored.
pub(super) fn restore(
    bytes: &[u8],
    memories: &mut BTreeMap<SourceId, Memory>,
) -> Result<Offset, Unreadable> {
    let Some((&FORM, body)) = bytes.split_first() else { return Err(Unreadable) };
    let stored: StoredMemories = postcard::from_bytes(body).map_err(|_| Unreadable)?;
    if stored.sources.iter().any(|one| one.names.len() != one.ages.len() * NAME_BYTES) {
        return Err(Unreadable);
    }
    for one in stored.sources {
        let memory = memories.get_mut(&SourceId::new(&one.source));
        if let Some(memory) = memory.filter(|memory| code(memory.rule.by) == one.by) {
            fill(memory, &one);
        }
    }
    Ok(Offset(stored.through))
}

fn fill(memory: &mut Memory, stored: &StoredMemory) {
    let trusted =
        stored.trusted.map(|(boot, wall, ns)| (BootId(boot), IngestTime::from_unix_ns(wall), ns));
    memory.elapsed = Elapsed {
        ns: stored.elapsed_ns,
        last: stored.last.map(|(boot, up)| (BootId(boot), Uptime::from_ns(up))),
        trusted,
    };
    let (words, _) = stored.names.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    let mut at = 0_u64;
    for later in &stored.ages {
        at = at.saturating_add(*later);
        let (Some(first), Some(second)) = (words.next(), words.next()) else { break };
        let name = Name([first, second]);
        if memory.known.insert(name) {
            memory.order.push_back((name, at));
        }
    }
    memory.after_trusted = usize::try_from(stored.after_trusted).unwrap_or(usize::MAX);
    while memory.order.len() > memory.rule.entries_max {
        memory.forget_oldest();
    }
    memory.after_trusted = memory.after_trusted.min(memory.order.len());
}
