//! What is done to a trace in a disturbed run, all of it by the seed.
//!
//! - **Shuffle**: each reading comes later by up to `shuffle`. The clock of that is
//!   the greatest plausible event time that its source had given when it came. So a reading
//!   is overtaken only by readings of its source that came within `shuffle` after
//!   it. Sources keep their turns: what is shuffled is which reading a turn brings.
//! - **Repeats**: a share of the readings comes twice, the second time up to
//!   `shuffle` late too. Whichever comes first is the reading.
//! - **Step**: a tenth of the trace, from a given place on, comes twice: first with
//!   a device stamp pushed forward and flagged `future`, then as it was.

use std::collections::BTreeMap;
use std::ops::Range;

use super::trace::Traced;
use crate::core::time::{EventTime, Span};

/// What to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Disorder {
    /// Readings come later by up to this; not negative.
    pub(super) shuffle: Span,
    /// Share of the readings that come twice, 0 to 1.
    pub(super) duplicate: f64,
    /// A clock that is ahead for a while.
    pub(super) step: Option<Step>,
}

/// `+5m@50%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    /// How far ahead; positive.
    pub(super) by: Span,
    /// From where in the trace on, 0 to 1.
    pub(super) from: f64,
}

impl Step {
    /// From its text.
    pub(super) fn parse(written: &str) -> Result<Self, String> {
        const FORM: &str = "write it like +5m@50%: how far ahead, and from where in the trace on";
        let rest = written.strip_prefix('+').ok_or(FORM)?;
        let (by, from) = rest.split_once('@').ok_or(FORM)?;
        let by = humantime::parse_duration(by).map_err(|error| format!("{error}; {FORM}"))?;
        let from = share(from)?;
        if by.is_zero() || from >= 1.0 {
            return Err(FORM.to_owned());
        }
        Ok(Self { by: Span::from_std(by), from })
    }

    /// The readings that it concerns, by their place in the trace.
    pub(super) fn part(&self, count: usize) -> Range<usize> {
        let start = (count as f64 * self.from) as usize;
        start..count.min(start + (count / 10).max(1))
    }
}

/// `1%` as 0.01.
pub(super) fn share(written: &str) -> Result<f64, String> {
    let number = written.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let number = number.filter(|number| (0.0..=100.0).contains(number));
    number.map(|number| number / 100.0).ok_or_else(|| "not 0% to 100%".to_owned())
}

/// `splitmix64` (Steele, Lea, Flood 2014): the same numbers on every machine.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 to `most`, both included.
    fn up_to(&mut self, most: Span) -> Span {
        let count = most.ns().unsigned_abs() as u128 + 1;
        Span::from_ns(((u128::from(self.next()) * count) >> 64) as i64)
    }

    fn happens(&mut self, share: f64) -> bool {
        ((self.next() >> 11) as f64) < share * (1_u64 << 53) as f64
    }
}

/// What one source gives in one timebase.
#[derive(Default)]
struct Turns {
    newest: Option<EventTime>,
    /// By arrival.
    coming: Vec<(EventTime, usize)>,
    next: usize,
}

/// The order in which the readings come, by their places in the trace; one that
/// comes twice stands there twice.
pub(super) fn schedule(readings: &[Traced], disorder: &Disorder, seed: u64) -> Vec<usize> {
    let mut dice = Dice(seed);
    let mut lanes = BTreeMap::new();
    let mut turns: Vec<Turns> = Vec::new();
    let mut lane_of = Vec::with_capacity(readings.len());
    for (place, reading) in readings.iter().enumerate() {
        let input = &reading.input;
        let lane = *lanes.entry((&input.source, input.timebase)).or_insert(turns.len());
        if lane == turns.len() {
            turns.push(Turns::default());
        }
        lane_of.push(lane);
        let turns = &mut turns[lane];
        if input.moves_watermark {
            turns.newest = turns.newest.max(Some(input.sample.at));
        }
        let arrival = turns.newest.unwrap_or(EventTime::from_unix_ns(i64::MIN));
        turns.coming.push((arrival + dice.up_to(disorder.shuffle), place));
        if dice.happens(disorder.duplicate) {
            turns.coming.push((arrival + dice.up_to(disorder.shuffle), place));
        }
    }
    turns.iter_mut().for_each(|turns| turns.coming.sort_unstable());
    let mut order = Vec::with_capacity(readings.len());
    let mut has_come = vec![false; readings.len()];
    for lane in lane_of {
        let turns = &mut turns[lane];
        // Repeats take no turn.
        while let Some((_, place)) = turns.coming.get(turns.next) {
            turns.next += 1;
            order.push(*place);
            if !std::mem::replace(&mut has_come[*place], true) {
                break;
            }
        }
    }
    for turns in &turns {
        order.extend(turns.coming[turns.next..].iter().map(|(_, place)| *place));
    }
    order
}
