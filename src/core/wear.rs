//! What reaches the disk, a day and a reading: how long the flash lives.
//!
//! Of the last hour, and without what a start writes: it reads the journal back, and puts
//! it in order, with more than an hour of slow readings writes.

use std::collections::VecDeque;

use super::time::{MonoTime, Span};

/// After the first look: what is written until then belongs to the start.
const START: Span = Span::from_secs(300);
/// Between two marks.
const MARK_EVERY: Span = Span::from_secs(60);
/// Marks kept: an hour's.
const MARKS_MAX: usize = 61;
/// A shorter stretch tells nothing.
const STRETCH_MIN: Span = Span::from_secs(300);
const DAY_S: f64 = 86_400.0;

/// Bytes written and readings accepted, now and then over the last hour.
#[derive(Clone, Debug, Default)]
pub struct Wear {
    started: Option<MonoTime>,
    marks: VecDeque<Mark>,
    newest: Mark,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    at: MonoTime,
    bytes: u64,
    readings: u64,
}

impl Wear {
    /// So many bytes were written, and readings accepted, by `at`; both only ever grow.
    pub fn saw(&mut self, at: MonoTime, bytes: u64, readings: u64) {
        let started = *self.started.get_or_insert(at);
        self.newest = Mark { at, bytes, readings };
        let is_due = match self.marks.back() {
            Some(last) => at.since(last.at) >= MARK_EVERY,
            None => at.since(started) >= START,
        };
        if is_due {
            self.marks.push_back(self.newest);
        }
        if self.marks.len() > MARKS_MAX {
            self.marks.pop_front();
        }
    }

    /// At the mean rate of the last hour; `None` in the first ten minutes.
    pub fn bytes_per_day(&self) -> Option<f64> {
        let (stretch, bytes, _) = self.stretch()?;
        Some(bytes as f64 / stretch.as_secs_f64() * DAY_S)
    }

    /// Over the same stretch; `None` where no reading was accepted in it.
    pub fn bytes_per_reading(&self) -> Option<f64> {
        let (_, bytes, readings) = self.stretch()?;
        (readings > 0).then(|| bytes as f64 / readings as f64)
    }

    fn stretch(&self) -> Option<(Span, u64, u64)> {
        let (first, last) = (self.marks.front()?, self.newest);
        let stretch = last.at.since(first.at);
        let bytes = last.bytes.saturating_sub(first.bytes);
        let readings = last.readings.saturating_sub(first.readings);
        (stretch >= STRETCH_MIN).then_some((stretch, bytes, readings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> MonoTime {
        MonoTime::from_ns(second * 1_000_000_000)
    }

    #[test]
    fn what_a_start_writes_is_no_rate() {
        let mut wear = Wear::default();
        // 38 MB at once, then 1,000 bytes and two readings a second.
        for second in 0..=599 {
            wear.saw(at(second), 38_000_000 + second * 1_000, second * 2);
        }
        assert_eq!((wear.bytes_per_day(), wear.bytes_per_reading()), (None, None));
        wear.saw(at(600), 38_600_000, 1_200);
        assert_eq!(wear.bytes_per_day(), Some(86_400_000.0));
        assert_eq!(wear.bytes_per_reading(), Some(500.0));
    }

    #[test]
    fn the_last_hour_counts() {
        let mut wear = Wear::default();
        let mut bytes = 0;
        for second in 0..20_000 {
            bytes += if second < 10_000 { 1_000 } else { 10 };
            wear.saw(at(second), bytes, 0);
        }
        assert_eq!(wear.bytes_per_day(), Some(864_000.0));
        assert_eq!(wear.bytes_per_reading(), None);
        assert_eq!(wear.marks.len(), MARKS_MAX);
    }
}
