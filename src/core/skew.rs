//! How far a device's clock is off, estimated from the arrival of its readings alone.
//!
//! Arrival less device time is the latency less the skew: `o = g − d = l − θ`.
//! The latency varies and is never negative, so the least `o` of a window is the
//! one least spoilt by it: `θ = l_min − min o`. That one sample decides is what
//! makes the estimate robust against queues and retries, and what makes a step
//! of the device's clock easy to see.

use std::collections::VecDeque;

use super::clock::ClockReading;
use super::id::BootId;
use super::reading::Arrival;
use super::time::{EventTime, Span, TimebaseId};

/// Most samples that the window holds.
pub const SAMPLES_MAX: usize = 64;
/// How long a sample stays in the window.
const SAMPLE_AGE_MAX_NS: u64 = 600_000_000_000;
/// Samples before the estimate may correct anything.
const SAMPLES_MIN: usize = 8;
/// Samples in a row that make a step back: one late reading is only late.
const BACK_RUN: usize = 8;
/// Less than this is jitter, not a step.
const STEP_MIN_NS: i64 = 1_000_000_000;

/// The window of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkewFilter {
    /// Uptime of arrival and arrival less device time, oldest first; both in
    /// nanoseconds.
    samples: VecDeque<(u64, i64)>,
    /// How many of the newest samples in a row lie far behind the least.
    behind: usize,
}

impl SkewFilter {
    /// Takes one sample: arrival less device time, at this uptime of the gateway in
    /// nanoseconds. If the sample shows that the device's clock was set, returns by how
    /// much, positive for ahead; the window then begins again.
    pub fn add(&mut self, up_ns: u64, offset: Span) -> Option<Span> {
        let offset_ns = offset.ns();
        let is_old = |at: u64| up_ns.saturating_sub(at) > SAMPLE_AGE_MAX_NS;
        while self.samples.front().is_some_and(|(at, _)| is_old(*at)) {
            self.samples.pop_front();
        }
        let least = self.least();
        self.samples.push_back((up_ns, offset_ns));
        let Some(least) = least else {
            self.behind = 0;
            return None;
        };
        let ahead_ns = least.ns().saturating_sub(offset_ns);
        let is_behind = ahead_ns < -STEP_MIN_NS;
        self.behind = if is_behind { self.behind + 1 } else { 0 };
        let kept = match (ahead_ns > STEP_MIN_NS, self.behind >= BACK_RUN) {
            (true, _) => 1,
            (false, true) => BACK_RUN,
            (false, false) => {
                if self.samples.len() > SAMPLES_MAX {
                    self.samples.pop_front();
                }
                return None;
            }
        };
        self.behind = 0;
        self.samples.drain(..self.samples.len() - kept);
        self.least().map(|now| Span::from_ns(least.ns().saturating_sub(now.ns())))
    }

    /// The least arrival less device time of the window.
    pub fn least(&self) -> Option<Span> {
        self.samples.iter().map(|(_, offset_ns)| *offset_ns).min().map(Span::from_ns)
    }

    /// θ, device less true time, when the fastest reading took `latency_min`.
    /// `None` without a sample.
    pub fn skew(&self, latency_min: Span) -> Option<Span> {
        self.least().map(|least| Span::from_ns(latency_min.ns().saturating_sub(least.ns())))
    }

    /// [`SkewFilter::skew`], once there are enough samples to correct readings by it.
    pub fn settled_skew(&self, latency_min: Span) -> Option<Span> {
        self.skew(latency_min).filter(|_| self.samples.len() >= SAMPLES_MIN)
    }

    /// Forgets every sample.
    pub fn restart(&mut self) {
        *self = Self::default();
    }
}

/// What stamping remembers of one source between its readings. It is lost with the
/// process: after a start, the first readings are judged without it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceClock {
    /// The last plausible device time.
    pub(super) previous: Option<EventTime>,
    /// The arrival of the last reading that got the gateway's time.
    pub(super) gateway: Option<(Arrival, BootId)>,
    skew: SkewFilter,
    /// The stretch of the gateway's clock that the samples belong to.
    timebase: Option<(TimebaseId, BootId)>,
    /// The last sample: readings of one line share their time.
    sampled: Option<(Arrival, EventTime)>,
}

impl SourceClock {
    /// Samples one plausible device time of a live reading. Returns a step of
    /// the device's clock, see [`SkewFilter::add`].
    pub(super) fn sample(
        &mut self,
        clock: &ClockReading,
        arrival: &Arrival,
        at: EventTime,
    ) -> Option<Span> {
        let timebase = Some((clock.timebase, clock.boot));
        if self.timebase != timebase {
            // The gateway's own clock was set: older samples cannot be compared with new
            // ones.
            self.timebase = timebase;
            self.skew.restart();
            self.sampled = None;
        }
        let sample = Some((*arrival, at));
        if self.sampled == sample {
            return None;
        }
        self.sampled = sample;
        self.skew.add(arrival.uptime.ns(), arrival.ingest.lag_behind(at))
    }

    /// The window of the device.
    pub fn skew(&self) -> &SkewFilter {
        &self.skew
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn fed(filter: &mut SkewFilter, start_ms: u64, offsets_ms: &[i64]) -> Vec<Option<i64>> {
        let steps = offsets_ms.iter().zip(start_ms..).map(|(offset_ms, at_ms)| {
            let step = filter.add(at_ms * MS as u64, Span::from_millis(*offset_ms));
            step.map(|delta| delta.ns() / MS)
        });
        steps.collect()
    }

    fn least_ms(filter: &SkewFilter) -> Option<i64> {
        filter.least().map(|least| least.ns() / MS)
    }

    #[test]
    fn one_sample_far_ahead_is_a_step_and_the_limit_is_not() {
        let mut filter = SkewFilter::default();
        assert_eq!(fed(&mut filter, 0, &[20, 30, -980]), [None, None, None]);
        assert_eq!(least_ms(&filter), Some(-980));
        assert_eq!(fed(&mut filter, 3, &[-1_981]), [Some(1_001)]);
        assert_eq!((least_ms(&filter), filter.samples.len()), (Some(-1_981), 1));
    }

    #[test]
    fn eight_samples_in_a_row_far_behind_are_a_step_and_one_late_reading_is_not() {
        let mut filter = SkewFilter::default();
        assert_eq!(fed(&mut filter, 0, &[20, 5_000, 21]), [None; 3]);
        assert_eq!(fed(&mut filter, 3, &[3_020; 7]), [None; 7]);
        assert_eq!(fed(&mut filter, 10, &[1_020]), [None], "exactly a second is no step");
        assert_eq!(fed(&mut filter, 11, &[3_025; 7]), [None; 7]);
        assert_eq!(fed(&mut filter, 18, &[3_020]), [Some(-3_000)]);
        assert_eq!((least_ms(&filter), filter.samples.len()), (Some(3_020), 8));
        assert_eq!(filter.settled_skew(Span::ZERO), Some(Span::from_millis(-3_020)));
    }

    #[test]
    fn the_window_holds_64_samples_of_ten_minutes() {
        let mut filter = SkewFilter::default();
        fed(&mut filter, 0, &[1]);
        fed(&mut filter, 1, &[5; SAMPLES_MAX - 1]);
        assert_eq!(least_ms(&filter), Some(1));
        fed(&mut filter, 100, &[5]);
        assert_eq!((least_ms(&filter), filter.samples.len()), (Some(5), SAMPLES_MAX));
        fed(&mut filter, 600_100, &[7]);
        assert_eq!((least_ms(&filter), filter.samples.len()), (Some(5), 2));
        fed(&mut filter, 600_101, &[7]);
        assert_eq!((least_ms(&filter), filter.samples.len()), (Some(7), 2));
        assert_eq!(filter.settled_skew(Span::ZERO), None);
        assert_eq!(filter.skew(Span::from_millis(5)), Some(Span::from_millis(-2)));
    }
}
