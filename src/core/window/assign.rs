//! Assigns a time to the windows that it belongs to.
//!
//! All windows but sessions are cut into slices at every start and every end of a
//! window, so that a window is a row of whole slices and a reading belongs to one
//! slice ("pairs", Krishnamurthy, Wu, Franklin: On-the-fly sharing for streamed
//! aggregation, SIGMOD 2006). A sliding window then costs one addition for each
//! reading, whatever size / slide is. A tumbling window is one slice.
//!
//! Everything counts in milliseconds with floor division, before 1970 too.

use std::ops::Range;

use chrono::{Days, NaiveDate, Offset as _, TimeZone as _};

use super::spec::Kind;
use super::watermark::{Millis, span_ms};
use crate::core::time::EventTime;
use crate::core::zone::{self, Hints, Zone};

const DAY_MS: i64 = 86_400_000;
const NS_PER_MS: i64 = 1_000_000;

/// A stretch of event time between two edges of windows, and the windows around
/// it: their ends are `first_end`, `first_end + slide` … `last_end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SliceBounds {
    pub(super) start: i64,
    pub(super) first_end: i64,
    pub(super) last_end: i64,
    /// Position of the slice, ascending: a running count for tumbling and sliding windows,
    /// else equal to `start`.
    pub(super) index: i64,
}

impl SliceBounds {
    /// Between two windows: a slide greater than the size leaves such gaps.
    pub(super) const fn is_between(self) -> bool {
        self.first_end > self.last_end
    }
}

/// Cuts event time.
#[derive(Clone, Debug)]
pub(super) enum Assigner {
    /// Tumbling and sliding.
    Fixed(Fixed),
    /// Days of a zone. Keeps the last one: most readings are of one day.
    Days { zone: Zone, last: Option<(i64, i64)> },
    /// By the readings themselves.
    Session { gap: i64 },
}

/// Windows of one length at one distance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fixed {
    pub(super) size: i64,
    pub(super) slide: i64,
    offset: i64,
    /// How far into a slide windows end: where the second slice of a pair begins.
    cut: i64,
    /// Whether slices come in pairs: windows end where none starts.
    is_paired: bool,
}

impl Fixed {
    fn new(size: i64, slide: i64, offset: i64) -> Self {
        let cut = if size < slide { size } else { size % slide };
        Self { size, slide, offset, cut, is_paired: size > slide && cut > 0 }
    }

    /// The slide that `at` lies in, and how far.
    const fn slide_of(self, at: i64) -> (i64, i64) {
        let from_zero = at.saturating_sub(self.offset);
        let slide = from_zero.div_euclid(self.slide);
        (slide, from_zero - slide * self.slide)
    }

    /// The greatest end of a window that is not after `at`.
    pub(super) const fn end_at(self, at: i64) -> i64 {
        let at = at.saturating_sub(self.size);
        (at - self.slide_of(at).1).saturating_add(self.size)
    }

    fn slice(self, at: i64) -> SliceBounds {
        let (slide, into) = self.slide_of(at);
        let start = at - into;
        let is_second = into >= self.cut;
        let end = if is_second { start + self.cut } else { start + self.cut - self.slide };
        SliceBounds {
            start: start.max(end),
            first_end: end + self.slide,
            last_end: start + self.size,
            index: self.index(slide) + i64::from(is_second && self.is_paired),
        }
    }

    /// The index of the slice that begins with a slide.
    const fn index(self, slide: i64) -> i64 {
        if self.is_paired { 2 * slide } else { slide }
    }

    /// The first slice of the window of that end, and the first that is not its.
    pub(super) fn window(self, end: i64) -> Range<i64> {
        let first = self.index(self.slide_of(end.saturating_sub(self.size)).0);
        let whole = self.index(self.size / self.slide);
        first..first + whole + i64::from(self.cut > 0)
    }
}

impl Assigner {
    /// Lengths below a millisecond count as one.
    pub(super) fn new(kind: &Kind) -> Self {
        match kind {
            Kind::Tumbling { size, offset } => {
                let size = span_ms(*size).max(1);
                Assigner::Fixed(Fixed::new(size, size, span_ms(*offset)))
            }
            Kind::Sliding { size, slide, offset } => {
                let (size, slide) = (span_ms(*size).max(1), span_ms(*slide).max(1));
                Assigner::Fixed(Fixed::new(size, slide, span_ms(*offset)))
            }
            Kind::Session { gap } => Assigner::Session { gap: span_ms(*gap).max(1) },
            Kind::CalendarDay { zone } => Assigner::Days { zone: *zone, last: None },
        }
    }

    /// The slice that a time belongs to. A session has none of its own: then it
    /// is the session of a reading that stays alone.
    pub(super) fn slice(&mut self, at: i64) -> SliceBounds {
        match self {
            Assigner::Fixed(fixed) => fixed.slice(at),
            Assigner::Session { gap } => one_window(at, at + *gap),
            Assigner::Days { zone, last } => {
                let known = last.filter(|(start, end)| (*start..*end).contains(&at));
                let (start, end) = known.unwrap_or_else(|| day_of(*zone, at));
                *last = Some((start, end));
                one_window(start, end)
            }
        }
    }

    /// Of the windows around a slice, the least end that is after `after`.
    pub(super) fn end_after(&self, slice: SliceBounds, after: Option<i64>) -> Option<i64> {
        let Some(after) = after.filter(|after| *after >= slice.first_end) else {
            return (!slice.is_between()).then_some(slice.first_end);
        };
        let Assigner::Fixed(fixed) = self else { return None };
        if after >= slice.last_end {
            return None;
        }
        Some(fixed.end_at(after) + fixed.slide)
    }

    /// Of the windows around a slice, the greatest end that is not after `at`.
    pub(super) fn end_until(&self, slice: SliceBounds, at: i64) -> Option<i64> {
        if at < slice.first_end {
            return None;
        }
        match self {
            Assigner::Fixed(fixed) => Some(fixed.end_at(at).min(slice.last_end)),
            _ => Some(slice.last_end),
        }
    }

    /// The ends, after `after`, of all windows with a slice among `slices`.
    pub(super) fn all_ends(
        &self,
        slices: impl Iterator<Item = SliceBounds>,
        after: Option<i64>,
    ) -> Vec<i64> {
        let (mut ends, mut after) = (Vec::new(), after);
        for slice in slices {
            while let Some(end) = self.end_after(slice, after) {
                ends.push(end);
                after = Some(end);
            }
        }
        ends
    }

    /// The first of [`all_ends`](Self::all_ends).
    pub(super) fn first_end(
        &self,
        mut slices: impl Iterator<Item = SliceBounds>,
        after: Option<i64>,
    ) -> Option<i64> {
        slices.find_map(|slice| self.end_after(slice, after))
    }

    /// The bounds of a stored slice; `None` where this assigner would cut event time
    /// otherwise. A day keeps the length that its zone had when it began.
    pub(super) fn stored(&self, start: i64, first_end: i64, last_end: i64) -> Option<SliceBounds> {
        let bounds = match self {
            Assigner::Fixed(fixed) => fixed.slice(start),
            _ => one_window(start, last_end),
        };
        let is_it =
            (bounds.start, bounds.first_end, bounds.last_end) == (start, first_end, last_end);
        is_it.then_some(bounds)
    }

    /// From one window's end to the next; windows that stand alone never reach
    /// the next.
    pub(super) const fn step(&self) -> i64 {
        match self {
            Assigner::Fixed(fixed) => fixed.slide,
            _ => i64::MAX,
        }
    }
}

const fn one_window(start: i64, end: i64) -> SliceBounds {
    SliceBounds { start, first_end: end, last_end: end, index: start }
}

/// The windows of a time, `[start, end)`, by their starts. A session window is
/// what one reading alone would make.
pub fn windows(kind: &Kind, at: EventTime) -> Vec<(EventTime, EventTime)> {
    let mut assigner = Assigner::new(kind);
    let slice = assigner.slice(Millis::floor(at).0);
    let mut found = Vec::new();
    let mut end = slice.first_end;
    while end <= slice.last_end {
        let start = match &assigner {
            Assigner::Fixed(fixed) => end - fixed.size,
            _ => slice.start,
        };
        found.push((Millis(start).event_time(), Millis(end).event_time()));
        end = end.saturating_add(assigner.step());
    }
    found
}

/// The local day around `at`, from its first instant to the first of the next.
fn day_of(zone: Zone, at: i64) -> (i64, i64) {
    let Some(mut date) = local_date(zone, at) else { return utc_day(at) };
    // A zone may set its clocks back over midnight: the day that has begun goes on.
    while let (Some(start), Some(before)) = (day_start(zone, date), date.pred_opt())
        && start > at
    {
        date = before;
    }
    loop {
        let Some(next) = date.checked_add_days(Days::new(1)) else { return utc_day(at) };
        let (Some(start), Some(end)) = (day_start(zone, date), day_start(zone, next)) else {
            return utc_day(at);
        };
        if at < end {
            return (start, end);
        }
        date = next;
    }
}

/// The UTC day, for the ends of the calendar where zones say nothing.
const fn utc_day(at: i64) -> (i64, i64) {
    let start = at - at.rem_euclid(DAY_MS);
    (start, start + DAY_MS)
}

fn offset_ms(zone: Zone, at: i64) -> Option<i64> {
    let seconds = match zone {
        Zone::Fixed(seconds) => seconds,
        Zone::Iana(zone) => {
            let utc = chrono::DateTime::from_timestamp_millis(at)?.naive_utc();
            zone.offset_from_utc_datetime(&utc).fix().local_minus_utc()
        }
    };
    Some(i64::from(seconds) * 1_000)
}

fn local_date(zone: Zone, at: i64) -> Option<NaiveDate> {
    let local = at.checked_add(offset_ms(zone, at)?)?;
    Some(chrono::DateTime::from_timestamp_millis(local)?.date_naive())
}

/// The first instant of a local date.
fn day_start(zone: Zone, date: NaiveDate) -> Option<i64> {
    let midnight = date.and_time(chrono::NaiveTime::MIN).and_utc();
    let local_ns = midnight.timestamp_nanos_opt()?;
    let resolved = zone::resolve(zone, local_ns, &Hints::default())?;
    let at = resolved.at.unix_ns().div_euclid(NS_PER_MS);
    if resolved.kind != zone::Kind::Gap {
        return Some(at);
    }
    // Clocks skip midnight: the day begins with the first instant after it.
    let (mut before, mut from) = (at - DAY_MS, at);
    while from - before > 1 {
        let middle = before + (from - before) / 2;
        if local_date(zone, middle)? < date { before = middle } else { from = middle }
    }
    Some(from)
}
