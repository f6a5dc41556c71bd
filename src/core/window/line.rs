//! The readings of a window in the order of event time, for aggregates that depend on that
//! order: the time-weighted mean and the rate of a counter.
//!
//! Readings come in any order and windows are merged, so nothing can be added up as they
//! come: the points are kept. Up to [`POINTS_MAX`] points, all are kept and results are
//! exact. With more, time is cut into cells of 2^k ns with the least k that leaves no more
//! than that many cells in use, and the last reading of each cell is kept, and the very
//! first of all. So a change of value is placed
//! up to one cell late, and a counter's reset is missed only where it is followed
//! by more than was lost within its cell. What is kept depends on the readings
//! alone, not on their order nor on how they were split: the last reading of a
//! cell is the last of the lasts of its halves.
//!
//! A sliding window consists of slices with lines of their own, each thinned by itself. Its
//! result is then nearer to the truth than that of one line over the whole window; where
//! one line would keep all points, both are equal but for rounding.

use serde::{Deserialize, Serialize};

use super::sum::Compensated;

/// Points of one window; 24 bytes each, 96 KiB.
pub(super) const POINTS_MAX: usize = 4_096;

/// Cells of 2^62 ns: two of them hold all of time.
const SHIFT_MAX: u32 = 62;

/// Points in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Line {
    /// A cell is 2^shift ns; 0 keeps every reading.
    shift: u32,
    first: Option<Point>,
    #[serde(with = "packed")]
    points: Vec<Point>,
}

/// One reading: event time in ns, its tie-break, its value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Point {
    pub(super) at_ns: i64,
    pub(super) seq: u64,
    pub(super) value: f64,
}

impl Point {
    fn is_before(&self, other: &Point) -> bool {
        let by_time = (self.at_ns, self.seq).cmp(&(other.at_ns, other.seq));
        by_time.then_with(|| self.value.total_cmp(&other.value)).is_lt()
    }
}

impl Line {
    pub(super) fn add(&mut self, point: Point) {
        if self.first.is_none_or(|first| point.is_before(&first)) {
            self.first = Some(point);
        }
        let is_newest = self.points.last().is_none_or(|last| last.is_before(&point));
        let end = match is_newest {
            true => self.points.len(),
            false => self.points.partition_point(|known| known.is_before(&point)),
        };
        let shift = self.shift.min(SHIFT_MAX);
        let is_same_cell =
            |known: &Point| shift > 0 && known.at_ns >> shift == point.at_ns >> shift;
        if self.points.get(end).is_some_and(is_same_cell) {
            return;
        }
        match self.points[..end].last_mut() {
            Some(before) if is_same_cell(before) => *before = point,
            _ => {
                self.make_room();
                self.points.insert(end, point);
            }
        }
        self.thin();
    }

    /// Doubles the room for points, but never beyond what can be in use.
    fn make_room(&mut self) {
        let len = self.points.len();
        if len == self.points.capacity() {
            let wanted = (2 * len).clamp(4, POINTS_MAX + 1);
            self.points.reserve_exact(wanted.saturating_sub(len));
        }
    }

    pub(super) fn merge(&mut self, other: &Line) {
        if let Some(point) = other.first
            && self.first.is_none_or(|first| point.is_before(&first))
        {
            self.first = Some(point);
        }
        let seam = self.points.len();
        let follows = match (self.points.last(), other.points.first()) {
            (Some(ours), Some(theirs)) => ours.is_before(theirs),
            _ => true,
        };
        self.points.extend_from_slice(&other.points);
        if !follows {
            // Two sorted runs: the stable sort finds and merges them.
            self.points.sort_by(|a, b| {
                let by_time = (a.at_ns, a.seq).cmp(&(b.at_ns, b.seq));
                by_time.then_with(|| a.value.total_cmp(&b.value))
            });
        }
        // The part that is thinned already need not be thinned again.
        let thinned = if follows && self.shift >= other.shift { seam } else { 0 };
        self.shift = self.shift.max(other.shift);
        if self.shift > 0 {
            self.keep_last_of_cells(thinned);
        }
        self.thin();
    }

    fn thin(&mut self) {
        while self.points.len() > POINTS_MAX && self.shift < SHIFT_MAX {
            self.shift += 1;
            self.keep_last_of_cells(0);
        }
    }

    /// The first `thinned` points are in cells of their own.
    fn keep_last_of_cells(&mut self, thinned: usize) {
        let shift = self.shift.min(SHIFT_MAX);
        let mut kept = thinned;
        for i in thinned..self.points.len() {
            let point = self.points[i];
            match self.points[..kept].last_mut() {
                Some(last) if last.at_ns >> shift == point.at_ns >> shift => *last = point,
                _ => {
                    self.points[kept] = point;
                    kept += 1;
                }
            }
        }
        self.points.truncate(kept);
    }

    /// The first point and those kept, in order.
    fn iter(&self) -> impl Iterator<Item = Point> {
        let stays = self.points.first();
        let first = self.first.filter(|first| stays.is_none_or(|stays| first.is_before(stays)));
        first.into_iter().chain(self.points.iter().copied())
    }

    /// What it comes to. `None` without a reading.
    pub(super) fn stretch(&self) -> Option<Stretch> {
        let mut points = self.iter();
        let mut stretch = Stretch::of(points.next()?);
        points.for_each(|point| stretch.extend(point));
        Some(stretch)
    }

    /// Bytes in memory beside the line itself.
    pub(super) fn heap_bytes(&self) -> usize {
        self.points.capacity() * size_of::<Point>()
    }
}

/// What a line comes to. It can be joined with that of a later line at no cost, but no
/// reading can be inserted any more: for windows that consist of slices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    first: Point,
    last: Point,
    /// The sum of each value but the last times how long it stood, see [`weight`].
    area: Compensated,
    /// What a counter has counted.
    increase: Compensated,
}

/// A time as a weight. Below one, so that no finite value grows beyond a double,
/// and a power of two, so that nothing is rounded.
fn weight(ns: i64) -> f64 {
    const SCALE: f64 = 1.0 / (1_u128 << 64) as f64;
    ns as f64 * SCALE
}

impl Stretch {
    fn of(point: Point) -> Self {
        let (area, increase) = Default::default();
        Self { first: point, last: point, area, increase }
    }

    fn extend(&mut self, point: Point) {
        let Point { at_ns, value: before, .. } = self.last;
        self.area.add_product(before, weight(point.at_ns.saturating_sub(at_ns)));
        let is_reset = point.value < before;
        self.increase.add(if is_reset { point.value.max(0.0) } else { point.value - before });
        self.last = point;
    }

    /// Adds a stretch whose readings are all later.
    pub(super) fn join(&mut self, after: &Stretch) {
        self.extend(after.first);
        self.area.merge(&after.area);
        self.increase.merge(&after.increase);
        self.last = after.last;
    }

    /// The mean weighted by time: each value stands until the next reading,
    /// however far away that is, and the last one to `end_ns` (to itself where
    /// there is none). What stood before the first reading is not known and does
    /// not count. Where no time passes at all: the last value.
    pub(super) fn time_weighted_mean(&self, end_ns: Option<i64>) -> f64 {
        let Stretch { first, last, mut area, .. } = *self;
        let end_ns = end_ns.unwrap_or(last.at_ns).max(last.at_ns);
        let total_ns = end_ns.saturating_sub(first.at_ns);
        if total_ns == 0 {
            return last.value;
        }
        area.add_product(last.value, weight(end_ns.saturating_sub(last.at_ns)));
        area.ratio(weight(total_ns))
    }

    /// Increase per second from the first to the last reading; after a decrease
    /// the counter began anew at zero. `None` where no time passes.
    pub(super) fn rate(&self) -> Option<f64> {
        let total_ns = self.last.at_ns.saturating_sub(self.first.at_ns);
        (total_ns != 0).then(|| self.increase.total() / (total_ns as f64 / 1e9))
    }
}

/// Points as distances from the point before.
mod packed {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Point;

    pub(super) fn serialize<S: Serializer>(points: &[Point], to: S) -> Result<S::Ok, S::Error> {
        let (mut at, mut seq) = (0_i64, 0_u64);
        let step = |point: &Point| {
            let step = (point.at_ns.wrapping_sub(at), point.seq.wrapping_sub(seq).cast_signed());
            (at, seq) = (point.at_ns, point.seq);
            (step.0, step.1, point.value)
        };
        points.iter().map(step).collect::<Vec<(i64, i64, f64)>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Point>, D::Error> {
        let steps = Vec::<(i64, i64, f64)>::deserialize(from)?;
        let (mut at_ns, mut seq) = (0_i64, 0_u64);
        let point = |(at_step, seq_step, value): (i64, i64, f64)| {
            at_ns = at_ns.wrapping_add(at_step);
            seq = seq.wrapping_add_signed(seq_step);
            Point { at_ns, seq, value }
        };
        Ok(steps.into_iter().map(point).collect())
    }
}
