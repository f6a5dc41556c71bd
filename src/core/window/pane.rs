//! What is kept of readings until their window is dropped.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::aggregate::{Accumulator, Sample};
use super::assign::Assigner;
use super::row::Row;
use super::spec::Aggregate;
use crate::core::clock::ClockState;
use crate::core::reading::Quality;
use crate::core::time::MaxError;

/// One reading on its way into a pane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) sample: Sample,
    /// Its event time in milliseconds.
    pub(super) at: i64,
    pub(super) quality: Quality,
    pub(super) state: ClockState,
    pub(super) max_error: Option<MaxError>,
    pub(super) is_adjusted: bool,
    /// Whether its value counts, or only that it came.
    pub(super) is_aggregated: bool,
}

/// What the numbers of a pane rest on. Rare counts are in [`Odd`], to keep this small.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredTally", into = "StoredTally")]
pub(super) struct Tally {
    pub(super) received: u64,
    odd: Option<Box<Odd>>,
    /// The greatest bound in ns, where every reading had one.
    error_ns: u64,
    is_bounded: bool,
    /// The worst clock, as its place in [`CLOCKS`].
    clock: u8,
}

/// Counts of readings that were out of the ordinary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Odd {
    pub(super) duplicates: u64,
    pub(super) bad: u64,
    pub(super) uncertain: u64,
    pub(super) adjusted: u64,
}

/// The stored form of a [`Tally`].
#[derive(Serialize, Deserialize)]
struct StoredTally {
    received: u64,
    duplicates: u64,
    bad: u64,
    uncertain: u64,
    adjusted: u64,
    clock: u8,
    error_ns: Option<u64>,
}

impl From<StoredTally> for Tally {
    fn from(stored: StoredTally) -> Self {
        let StoredTally { received, duplicates, bad, uncertain, adjusted, clock, error_ns } =
            stored;
        let odd = Odd { duplicates, bad, uncertain, adjusted };
        Self {
            received,
            odd: (odd != Odd::default()).then(|| Box::new(odd)),
            error_ns: error_ns.unwrap_or(0),
            is_bounded: error_ns.is_some(),
            clock,
        }
    }
}

impl From<Tally> for StoredTally {
    fn from(tally: Tally) -> Self {
        let Odd { duplicates, bad, uncertain, adjusted } = tally.odd();
        let error_ns = tally.is_bounded.then_some(tally.error_ns);
        let Tally { received, clock, .. } = tally;
        Self { received, duplicates, bad, uncertain, adjusted, clock, error_ns }
    }
}

/// From the best to the worst. The places are stored: never reorder.
const CLOCKS: [ClockState; 4] = [
    ClockState::Synchronized,
    ClockState::Holdover,
    ClockState::Stepped,
    ClockState::Unsynchronized,
];

const fn clock_place(state: ClockState) -> u8 {
    match state {
        ClockState::Synchronized => 0,
        ClockState::Holdover => 1,
        ClockState::Stepped => 2,
        ClockState::Unsynchronized => 3,
    }
}

impl Tally {
    const NONE: Tally = Tally { received: 0, odd: None, error_ns: 0, is_bounded: true, clock: 0 };

    fn add(&mut self, taken: &Taken) {
        self.received += 1;
        if taken.quality != Quality::Good || taken.is_adjusted {
            let odd = self.odd_mut();
            odd.bad += u64::from(taken.quality == Quality::Bad);
            odd.uncertain += u64::from(taken.quality == Quality::Uncertain);
            odd.adjusted += u64::from(taken.is_adjusted);
        }
        self.clock = self.clock.max(clock_place(taken.state));
        self.bound(taken.max_error.map(|error| error.ns()));
    }

    fn merge(&mut self, other: &Tally) {
        self.received += other.received;
        if let Some(theirs) = &other.odd {
            let ours = self.odd_mut();
            ours.duplicates += theirs.duplicates;
            ours.bad += theirs.bad;
            ours.uncertain += theirs.uncertain;
            ours.adjusted += theirs.adjusted;
        }
        self.clock = self.clock.max(other.clock);
        self.bound(other.is_bounded.then_some(other.error_ns));
    }

    /// Takes the error bound of a reading. After one without a bound the pane has none.
    fn bound(&mut self, error_ns: Option<u64>) {
        self.is_bounded &= error_ns.is_some();
        self.error_ns = if self.is_bounded { self.error_ns.max(error_ns.unwrap_or(0)) } else { 0 };
    }

    /// A repeat of a reading was dropped.
    pub(super) fn add_duplicate(&mut self) {
        self.odd_mut().duplicates += 1;
    }

    pub(super) fn odd(&self) -> Odd {
        self.odd.as_deref().copied().unwrap_or_default()
    }

    fn odd_mut(&mut self) -> &mut Odd {
        self.odd.get_or_insert_default()
    }

    fn heap_bytes(&self) -> usize {
        self.odd.as_ref().map_or(0, |_| size_of::<Odd>())
    }

    pub(super) fn worst_clock(&self) -> Option<ClockState> {
        CLOCKS.get(usize::from(self.clock)).copied().filter(|_| self.received > 0)
    }

    pub(super) fn max_error(&self) -> Option<MaxError> {
        (self.is_bounded && self.received > 0).then(|| MaxError::from_ns(self.error_ns))
    }
}

/// Readings of one series in one stretch of event time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Content {
    pub(super) values: Accumulator,
    pub(super) tally: Tally,
}

impl Content {
    pub(super) fn new(wanted: &[Aggregate]) -> Self {
        Self { values: Accumulator::new(wanted), tally: Tally::NONE }
    }

    pub(super) fn add(&mut self, taken: &Taken) {
        if taken.is_aggregated {
            self.values.add(&taken.sample);
        }
        self.tally.add(taken);
    }

    pub(super) fn merge(&mut self, other: &Content) {
        #[cfg(test)]
        MERGES.with(|merges| merges.set(merges.get() + 1));
        self.values.merge(&other.values);
        self.tally.merge(&other.tally);
    }

    /// See [`Accumulator::condensed`].
    pub(super) fn condensed(&self) -> Content {
        Content { values: self.values.condensed(), tally: self.tally.clone() }
    }

    /// The content of both together, condensed.
    pub(super) fn joined(&self, after: &Content) -> Content {
        let mut both = self.condensed();
        both.merge(after);
        both
    }

    /// Bytes in memory, all included.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Content>() - size_of::<Accumulator>()
            + self.values.weight()
            + self.tally.heap_bytes()
    }
}

#[cfg(test)]
thread_local! {
    static MERGES: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Merges in this thread so far: what tests count in place of time.
#[cfg(test)]
pub(super) fn merges() -> u64 {
    MERGES.with(std::cell::Cell::get)
}

/// What has been output of a window so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Told {
    /// The last revision; 0 before the first.
    pub(super) revision: u32,
    /// Readings in it then.
    pub(super) received: u64,
}

/// A session and its readings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Session {
    pub(super) end: i64,
    pub(super) told: Told,
    pub(super) content: Content,
}

/// A slice and its readings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Slice {
    pub(super) first_end: i64,
    pub(super) last_end: i64,
    pub(super) content: Content,
}

/// What is kept of one series.
#[derive(Debug)]
pub(super) enum Panes {
    /// For all windows but sessions.
    Slices {
        slices: Row,
        /// What was output, by the windows' ends, until a window is dropped.
        told: BTreeMap<i64, Told>,
    },
    /// By their starts; no two touch.
    Sessions(BTreeMap<i64, Session>),
}

/// [`Panes`] as a checkpoint keeps them; slices by their starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum StoredPanes {
    Slices { slices: BTreeMap<i64, Slice>, told: BTreeMap<i64, Told> },
    Sessions(BTreeMap<i64, Session>),
}

impl Panes {
    pub(super) fn empty(is_session: bool) -> Self {
        match is_session {
            true => Panes::Sessions(BTreeMap::new()),
            false => Panes::Slices { slices: Row::default(), told: BTreeMap::new() },
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Panes::Slices { slices, .. } => slices.is_empty(),
            Panes::Sessions(sessions) => sessions.is_empty(),
        }
    }

    /// Slices or sessions.
    pub(super) fn len(&self) -> usize {
        match self {
            Panes::Slices { slices, .. } => slices.len(),
            Panes::Sessions(sessions) => sessions.len(),
        }
    }

    pub(super) fn stored(&self) -> StoredPanes {
        match self {
            Panes::Slices { slices, told } => {
                StoredPanes::Slices { slices: slices.stored(), told: told.clone() }
            }
            Panes::Sessions(sessions) => StoredPanes::Sessions(sessions.clone()),
        }
    }

    /// `None` where they were not cut by this `assigner`.
    pub(super) fn restored(stored: StoredPanes, assigner: &Assigner) -> Option<Self> {
        match (stored, assigner) {
            (StoredPanes::Sessions(sessions), Assigner::Session { .. }) => {
                Some(Panes::Sessions(sessions))
            }
            (StoredPanes::Sessions(_), _) | (_, Assigner::Session { .. }) => None,
            (StoredPanes::Slices { slices, told }, _) => {
                Some(Panes::Slices { slices: Row::restored(slices, assigner)?, told })
            }
        }
    }

    /// Bytes in memory, about; `entry` for each entry of a map.
    pub(super) fn bytes(&self, entry: usize) -> usize {
        match self {
            Panes::Slices { slices, told } => {
                slices.bytes() + told.len() * (size_of::<Told>() + entry)
            }
            Panes::Sessions(sessions) => {
                let held = |session: &Session| {
                    entry + size_of::<Session>() - size_of::<Content>() + session.content.bytes()
                };
                sessions.values().map(held).sum()
            }
        }
    }
}
