//! How late readings come: arrival less event time, per source, measured.
//!
//! A watermark stays behind the newest event time by a bound. What bound a plant
//! needs cannot be known beforehand; it can be measured. A reading that came
//! within the bound of its own event time is never late: the newest event time
//! seen is no later than the arrival, unless the device's clock runs ahead, and
//! such stamps are negative here. So a quantile of the lateness is a bound that
//! keeps that share of the readings on time, with something to spare: what all
//! readings of a source have in common (the latency of the network, a clock that
//! runs behind) is in it, although it puts nothing out of order.
//!
//! Counted are readings whose stamp is plausible and was judged by a clock that
//! somebody vouches for: of the others the difference says nothing. Everything
//! since the data directory was made is in it; nothing fades.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::id::SourceId;
use super::length::bound_text;
use super::reading::{Flags, Origin, Stamp};
use super::time::Span;
use super::window::sketch::{RELATIVE_ERROR, Sketch};

/// Below so many readings no bound is said.
const ENOUGH_TO_SAY: u64 = 300;
/// Below so many readings a quantile of one in a hundred is a guess.
const ENOUGH_FOR_FAST: u64 = 1_000;
/// Below so many readings one in 10,000 has hardly been seen.
const ENOUGH_FOR_CORRECTION: u64 = 100_000;
/// First byte of the stored form.
const VERSION: u8 = 1;

/// Arrival less event time of one source's readings, in seconds; negative where
/// the stamp lies ahead.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    seconds: Sketch,
}

/// The numbers of a [`Lateness`], each within 1 % but `max`, which is exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiles {
    /// Readings.
    pub count: u64,
    /// The median.
    pub p50: Span,
    /// 95 of 100 came within this.
    pub p95: Span,
    /// 99 of 100 came within this.
    pub p99: Span,
    /// 999 of 1,000 came within this.
    pub p999: Span,
    /// 9,999 of 10,000 came within this.
    pub p9999: Span,
    /// All came within this.
    pub max: Span,
}

/// The bounds to choose for two windows over one source: a tight one for fast
/// answers and a generous one for right ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Keeps 99 of 100 readings on time.
    pub fast: Span,
    /// Keeps 9,999 of 10,000 on time; of fewer readings, all of them.
    pub correction: Span,
    /// Both, for people, and how sure they are.
    pub words: String,
}

impl Lateness {
    /// Takes one reading's arrival less its event time.
    pub fn add(&mut self, lag: Span) {
        self.seconds.add(lag.as_secs_f64());
    }

    /// Takes all readings of another.
    pub fn merge(&mut self, other: &Lateness) {
        self.seconds.merge(&other.seconds);
    }

    /// Readings taken.
    pub fn count(&self) -> u64 {
        self.seconds.count()
    }

    /// Its numbers; `None` without a reading.
    pub fn quantiles(&self) -> Option<Quantiles> {
        let at = |parts| self.seconds.quantile(parts).map(Span::from_secs_f64);
        Some(Quantiles {
            count: self.count(),
            p50: at(5_000)?,
            p95: at(9_500)?,
            p99: at(9_900)?,
            p999: at(9_990)?,
            p9999: at(9_999)?,
            max: Span::from_secs_f64(self.seconds.max()?),
        })
    }
}

impl Quantiles {
    /// The bounds that these numbers speak for.
    pub fn advice(&self) -> Advice {
        let fast = round_up(self.p99);
        let correction = round_up(self.p9999.max(self.p99)).max(fast);
        if self.count < ENOUGH_TO_SAY {
            let (has, missing) = (self.count, ENOUGH_TO_SAY - self.count);
            let words = format!(
                "no bound yet: {has} readings are too few to go by, {missing} more are needed"
            );
            return Advice { fast, correction, words };
        }
        let share = if self.count < 10_000 { "all" } else { "9,999 of 10,000" };
        let mut words = format!(
            "bound = {:?} for fast answers (99 of 100 readings came within {}); \
             bound = {:?} for corrections ({share} came within {})",
            bound_text(fast),
            bound_text(self.p99),
            bound_text(correction),
            bound_text(self.p9999),
        );
        let doubt = match self.count {
            0..ENOUGH_FOR_FAST => Some("both are guesses"),
            ENOUGH_FOR_FAST..ENOUGH_FOR_CORRECTION => Some("the second is a guess"),
            _ => None,
        };
        if let Some(doubt) = doubt {
            words.push_str(&format!("; {doubt}, measured on {} readings only", self.count));
        }
        Advice { fast, correction, words }
    }
}

/// Whether a reading's lateness says something about its way here.
pub fn counts(stamp: &Stamp) -> bool {
    let is_measured =
        matches!(stamp.origin, Origin::Device | Origin::DeviceCorrected | Origin::Gateway);
    let is_news = !stamp.flags.has(Flags::RETAINED);
    is_measured && is_news && stamp.state.is_trusted() && stamp.flags.is_plausible()
}

/// The lateness of every source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatenessBook {
    sources: BTreeMap<SourceId, Lateness>,
}

impl LatenessBook {
    /// Takes one stamped reading of a source, if its stamp says something.
    pub fn saw(&mut self, source: &SourceId, stamp: &Stamp) {
        if !counts(stamp) {
            return;
        }
        let lag = stamp.ingest_time.lag_behind(stamp.event_time);
        match self.sources.get_mut(source) {
            Some(known) => known.add(lag),
            None => self.sources.entry(source.clone()).or_default().add(lag),
        }
    }

    /// Every source that a reading counted of.
    pub fn iter(&self) -> impl Iterator<Item = (&SourceId, &Lateness)> {
        self.sources.iter()
    }

    /// The numbers of every source that has some.
    pub fn quantiles(&self) -> BTreeMap<SourceId, Quantiles> {
        let of = |(source, one): (&SourceId, &Lateness)| Some((source.clone(), one.quantiles()?));
        self.sources.iter().filter_map(of).collect()
    }

    /// Its stored form: a version and postcard. Empty when it cannot be written,
    /// which is read as an empty book.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_extend(self, vec![VERSION]).unwrap_or_default()
    }

    /// From its stored form; `None` where that is of another version or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes.split_first() {
            None => Some(Self::default()),
            Some((&VERSION, book)) => postcard::from_bytes(book).ok(),
            Some(_) => None,
        }
    }
}

/// To a bound that people write, at least 100 ms, the error of the sketch taken
/// into account; above 30 days to whole days.
fn round_up(lateness: Span) -> Span {
    const MS: i64 = 1_000_000;
    const S: i64 = 1_000 * MS;
    const LADDER: [i64; 25] = [
        100 * MS,
        200 * MS,
        500 * MS,
        S,
        2 * S,
        5 * S,
        10 * S,
        15 * S,
        20 * S,
        30 * S,
        60 * S,
        120 * S,
        300 * S,
        600 * S,
        900 * S,
        1_800 * S,
        3_600 * S,
        2 * 3_600 * S,
        4 * 3_600 * S,
        8 * 3_600 * S,
        12 * 3_600 * S,
        86_400 * S,
        2 * 86_400 * S,
        7 * 86_400 * S,
        30 * 86_400 * S,
    ];
    let needed = (lateness.ns() as f64 * (1.0 + RELATIVE_ERROR)).ceil() as i64;
    let step = LADDER.into_iter().find(|step| needed <= *step);
    const DAY: i64 = 86_400 * S;
    Span::from_ns(step.unwrap_or_else(|| (needed / DAY + 1).saturating_mul(DAY)))
}

#[cfg(test)]
#[path = "lateness_tests.rs"]
mod tests;
