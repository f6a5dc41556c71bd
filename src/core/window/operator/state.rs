//! An operator as a checkpoint keeps it. A restored one goes on exactly as if it had not
//! been interrupted.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Operator;
use super::lane::TimebaseLane;
use super::sources::Sources;
use super::tell::Plan;
use crate::core::id::SourceId;
use crate::core::reading::Series;
use crate::core::time::TimebaseId;
use crate::core::window::pane::{Panes, StoredPanes};
use crate::core::window::spec::{Aggregate, Kind, WindowSpec};
use crate::core::window::watermark::Millis;

/// Bytes of a map's entry or an index entry beside what it holds, about.
const ENTRY_BYTES: usize = 32;

/// Everything that an [`Operator`] remembers. Its stored form is compact; what it
/// holds belongs to one specification.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperatorState {
    shape: Shape,
    waiting: Vec<SourceId>,
    closed: u32,
    lanes: Vec<LaneState>,
}

/// The part of the specification by which panes are cut and filled. Panes of another shape
/// cannot be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Shape {
    kind: KindState,
    /// Places in [`Aggregate::NAMES`].
    aggregates: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum KindState {
    Tumbling { size: i64, offset: i64 },
    Sliding { size: i64, slide: i64, offset: i64 },
    Session { gap: i64 },
    CalendarDay { zone: String },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct LaneState {
    timebase: u32,
    watermark: Option<i64>,
    stream_time: Option<Millis>,
    sources: Sources,
    keys: Vec<(SeriesState, StoredPanes)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct SeriesState {
    entity: Box<str>,
    property: Box<str>,
    unit: Option<Box<str>>,
}

/// The state cannot be taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// It was written for windows of another kind, size, slide, offset, gap or
    /// zone.
    OtherKind,
    /// It was written for other aggregates.
    OtherAggregates,
    /// A series has panes that the window does not cut: the state is damaged.
    Damaged,
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RestoreError::OtherKind => {
                "the stored panes were cut by another kind, size, slide, offset, gap or zone"
            }
            RestoreError::OtherAggregates => "the stored panes hold other aggregates",
            RestoreError::Damaged => "the stored panes do not fit the window they are stored for",
        })
    }
}

impl std::error::Error for RestoreError {}

impl Shape {
    fn of(spec: &WindowSpec) -> Self {
        let kind = match &spec.kind {
            Kind::Tumbling { size, offset } => {
                KindState::Tumbling { size: size.ns(), offset: offset.ns() }
            }
            Kind::Sliding { size, slide, offset } => {
                KindState::Sliding { size: size.ns(), slide: slide.ns(), offset: offset.ns() }
            }
            Kind::Session { gap } => KindState::Session { gap: gap.ns() },
            Kind::CalendarDay { zone } => KindState::CalendarDay { zone: zone.to_string() },
        };
        let place = |wanted: &Aggregate| {
            Aggregate::NAMES.iter().position(|(known, _)| known == wanted).unwrap_or(0) as u8
        };
        Self { kind, aggregates: spec.aggregates.iter().map(place).collect() }
    }
}

impl Operator {
    /// What it remembers, as of now.
    pub fn checkpoint(&self) -> OperatorState {
        let lanes = self.lanes.iter().map(|lane| LaneState {
            timebase: lane.timebase.0,
            watermark: lane.watermark,
            stream_time: lane.stream_time,
            sources: lane.sources.clone(),
            keys: lane
                .keys
                .iter()
                .filter(|(_, key)| !key.panes.is_empty())
                .map(|(_, key)| (SeriesState::of(&key.series), key.panes.stored()))
                .collect(),
        });
        OperatorState {
            shape: Shape::of(&self.plan.spec),
            waiting: self.waiting.clone(),
            closed: self.closed.0,
            lanes: lanes.collect(),
        }
    }

    /// Goes on from a checkpoint. Bound, lateness, policy and markers may have
    /// changed since; they count from here on.
    ///
    /// # Errors
    ///
    /// When the state belongs to windows of another shape, or is damaged.
    pub fn restore(spec: Arc<WindowSpec>, state: OperatorState) -> Result<Operator, RestoreError> {
        let shape = Shape::of(&spec);
        if shape.kind != state.shape.kind {
            return Err(RestoreError::OtherKind);
        }
        if shape.aggregates != state.shape.aggregates {
            return Err(RestoreError::OtherAggregates);
        }
        let plan = Plan::new(spec);
        let mut lanes = Vec::with_capacity(state.lanes.len());
        for stored in state.lanes {
            let mut lane = TimebaseLane::new(&plan, TimebaseId(stored.timebase));
            lane.watermark = stored.watermark;
            lane.stream_time = stored.stream_time;
            lane.sources = stored.sources;
            lane.sources.set_bound(plan.spec.bound);
            for (series, panes) in stored.keys {
                let panes = Panes::restored(panes, &lane.assigner).ok_or(RestoreError::Damaged)?;
                lane.restore_key(&plan, &Arc::new(series.into_series()), panes);
            }
            lanes.push(lane);
        }
        lanes.sort_by_key(|lane| lane.timebase);
        Ok(Operator { plan, lanes, waiting: state.waiting, closed: TimebaseId(state.closed) })
    }

    /// Bytes that its panes take in memory, about.
    pub fn state_bytes(&self) -> u64 {
        let lanes = self.lanes.iter().map(|lane| {
            let keys = lane.keys.iter().map(|(_, key)| {
                let series = &key.series;
                let unit = series.unit.as_ref().map_or(0, |unit| unit.len());
                size_of_val(key)
                    + series.entity.len()
                    + series.property.len()
                    + unit
                    + key.panes.bytes(ENTRY_BYTES)
            });
            keys.sum::<usize>()
                + lane.sources.len() * 4 * ENTRY_BYTES
                + lane.timer_count() * ENTRY_BYTES
        });
        lanes.sum::<usize>() as u64
    }

    /// Panes that are open: slices or sessions, over all series.
    pub fn pane_count(&self) -> usize {
        let lanes = self.lanes.iter();
        lanes.map(|lane| lane.keys.iter().map(|(_, key)| key.panes.len()).sum::<usize>()).sum()
    }

    /// Series with a place in memory.
    pub fn series_count(&self) -> usize {
        self.lanes.iter().map(|lane| lane.keys.len()).sum()
    }
}

impl SeriesState {
    fn of(series: &Series) -> Self {
        let Series { entity, property, unit } = series.clone();
        Self { entity, property, unit }
    }

    fn into_series(self) -> Series {
        Series { entity: self.entity, property: self.property, unit: self.unit }
    }
}
