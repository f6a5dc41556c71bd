//! What is kept of readings until their window is dropped.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::aggregate::{Accumulator, Sample};
use super::assign::SliceBounds;
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

/// What the numbers of a pane rest on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Tally {
    pub(super) received: u64,
    pub(super) duplicates: u64,
    pub(super) bad: u64,
    pub(super) uncertain: u64,
    pub(super) adjusted: u64,
    /// The worst clock, as its place in [`CLOCKS`].
    clock: u8,
    /// The greatest bound in ns; `None` once a reading had none.
    error_ns: Option<u64>,
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
    const NONE: Tally = Tally {
        received: 0,
        duplicates: 0,
        bad: 0,
        uncertain: 0,
        adjusted: 0,
        clock: 0,
        error_ns: Some(0),
    };

    fn add(&mut self, taken: &Taken) {
        self.received += 1;
        self.bad += u64::from(taken.quality == Quality::Bad);
        self.uncertain += u64::from(taken.quality == Quality::Uncertain);
        self.adjusted += u64::from(taken.is_adjusted);
        self.clock = self.clock.max(clock_place(taken.state));
        self.error_ns =
            self.error_ns.zip(taken.max_error).map(|(ours, theirs)| ours.max(theirs.ns()));
    }

    fn merge(&mut self, other: &Tally) {
        self.received += other.received;
        self.duplicates += other.duplicates;
        self.bad += other.bad;
        self.uncertain += other.uncertain;
        self.adjusted += other.adjusted;
        self.clock = self.clock.max(other.clock);
        self.error_ns = self.error_ns.zip(other.error_ns).map(|(ours, theirs)| ours.max(theirs));
    }

    pub(super) fn worst_clock(&self) -> Option<ClockState> {
        CLOCKS.get(usize::from(self.clock)).copied().filter(|_| self.received > 0)
    }

    pub(super) fn max_error(&self) -> Option<MaxError> {
        self.error_ns.filter(|_| self.received > 0).map(MaxError::from_ns)
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
        self.values.merge(&other.values);
        self.tally.merge(&other.tally);
    }

    /// All of `parts`, which are in order of time; a copy only where there are
    /// several.
    pub(super) fn gather<'a>(
        mut parts: impl Iterator<Item = &'a Content>,
    ) -> Option<Cow<'a, Content>> {
        let mut all = Cow::Borrowed(parts.next()?);
        for part in parts {
            all.to_mut().merge(part);
        }
        Some(all)
    }
}

/// What was said of a window so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Told {
    /// The last revision; 0 where nothing was said.
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

impl Slice {
    pub(super) fn bounds(&self, start: i64) -> SliceBounds {
        SliceBounds { start, first_end: self.first_end, last_end: self.last_end }
    }
}

/// What is kept of one series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Panes {
    /// For all windows but sessions.
    Slices {
        /// By their starts.
        slices: BTreeMap<i64, Slice>,
        /// What was said, by the windows' ends, until a window is dropped.
        told: BTreeMap<i64, Told>,
    },
    /// By their starts; no two touch.
    Sessions(BTreeMap<i64, Session>),
}

impl Panes {
    pub(super) fn empty(is_session: bool) -> Self {
        match is_session {
            true => Panes::Sessions(BTreeMap::new()),
            false => Panes::Slices { slices: BTreeMap::new(), told: BTreeMap::new() },
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

    /// Bytes in memory, about; `entry` for each entry of a map.
    pub(super) fn bytes(&self, entry: usize) -> usize {
        let held = |content: &Content, whole: usize| {
            entry + whole - size_of::<Accumulator>() + content.values.weight()
        };
        match self {
            Panes::Slices { slices, told } => {
                let slices = slices.values();
                let slices = slices.map(|slice| held(&slice.content, size_of::<Slice>()));
                slices.sum::<usize>() + told.len() * (size_of::<Told>() + entry)
            }
            Panes::Sessions(sessions) => {
                let sessions = sessions.values();
                sessions.map(|session| held(&session.content, size_of::<Session>())).sum()
            }
        }
    }
}
