//! The state that goes with every commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::core::clock::{Boot, Seal, SentStretch};
use crate::core::id::{BootId, Epoch, Offset, Seq, SourceId};
use crate::core::reading::GapRecord;
use crate::core::renumber::Renumberings;
use crate::core::time::{EventTime, TimebaseId, Uptime};
use crate::core::values::totals::SavedTotals;

/// What the journal must know besides its entries; replaced as a whole with
/// every commit, in the same batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The numbering in use.
    pub epoch: Epoch,
    /// Entries below this offset are removed, or may be (acknowledged or evicted).
    pub start: Offset,
    /// Entries below this offset are done with: acknowledged, evicted, lost.
    pub frontier: Offset,
    /// Ranges above the frontier that are done with, half-open, ascending.
    pub done: Vec<(Offset, Offset)>,
    /// Per source.
    pub sources: BTreeMap<SourceId, SourceMeta>,
    /// Per numbering, which sequence numbers are done with.
    pub handed: BTreeMap<(SourceId, Epoch), SeqSet>,
    /// By name, how far each uplink is, where there are several: the fields above then say
    /// what all of them are done with.
    pub uplinks: BTreeMap<Arc<str>, UplinkMeta>,
    /// The position of each source that goes on from it after a restart, in the source's own
    /// form.
    pub positions: BTreeMap<SourceId, Arc<[u8]>>,
    /// Gap records that the broker has not acknowledged, with their offsets.
    pub gaps: Vec<(Offset, GapRecord)>,
    /// Changes of names, made because another copy of this disk may have used the old ones.
    pub renumberings: Renumberings,
    /// Every entry below this offset has its final time, by its own stamp or by
    /// a seal.
    pub sealed: Offset,
    /// Half-open ranges, ascending: readings in them that got a better time have
    /// been given to the windows with it.
    pub retimed: Vec<(Offset, Offset)>,
    /// The boot that wrote this, and how far it had come: a later boot began
    /// after it.
    pub alive: Option<(BootId, Uptime)>,
    /// What the journal knows of clocks. Changes rarely: the store writes it
    /// only when it differs from what is there.
    pub clock: Arc<ClockLedger>,
    /// The running totals as of some offset from `start` on; later ones are in the readings
    /// after it. Changes seldom, and is only written when it does.
    pub totals: Arc<SavedTotals>,
}

/// How far one of several uplinks is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UplinkMeta {
    /// As [`Meta::frontier`], of this uplink.
    pub frontier: Offset,
    /// As [`Meta::done`].
    pub done: Vec<(Offset, Offset)>,
    /// As [`Meta::handed`].
    pub handed: BTreeMap<(SourceId, Epoch), SeqSet>,
    /// Of these, what its broker refused, while that matters; `None` where an older
    /// program wrote this, which told every uplink of each refusal.
    pub refused: Option<BTreeMap<(SourceId, Epoch), SeqSet>>,
}

/// What the journal keeps of clocks beyond a boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockLedger {
    /// The newest timebase given.
    pub timebase: TimebaseId,
    /// The boots whose readings may still wait, and the last that was
    /// synchronized, oldest first; the last is the current one.
    pub boots: Vec<Boot>,
    /// How the times of unsynchronized readings below [`Meta::sealed`] are computed,
    /// ascending; readings that no seal covers are sent as stamped.
    pub seals: Vec<Seal>,
    /// Readings that left under an unsynchronized clock, to be corrected.
    pub sent: Vec<SentStretch>,
}

/// Sequence numbers that are done with: acknowledged or named in a gap record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeqSet {
    /// Every number up to here.
    pub through: Seq,
    /// Ranges beyond it, both ends included, ascending, not touching.
    pub ranges: Vec<(Seq, Seq)>,
}

/// The books of one source. `accepted = acknowledged + stored + evicted + lost`
/// over all epochs; `stored` follows from the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceMeta {
    /// Newest sequence number given in this epoch.
    pub tail: Seq,
    /// Numbers up to here may have left: since they were given, an uplink has checked that
    /// the broker has seen no later ones.
    pub vouched: Seq,
    /// Readings accepted.
    pub accepted: u64,
    /// Readings the broker acknowledged.
    pub acknowledged: u64,
    /// Readings evicted, with a gap record.
    pub evicted: u64,
    /// Readings lost to damage or refused by the broker, with a gap record.
    pub lost: u64,
    /// Greatest plausible event time taken so far: the basis of the watermark.
    pub newest_event: Option<EventTime>,
}
