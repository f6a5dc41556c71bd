//! Deadbands: a reading that moved too little since the last one that was kept is dropped.
//!
//! A reading is kept when it is the first of its series, when its value lies
//! further than the band from the last *kept* one (so slow drift is seen), when its quality
//! is another, when either is no finite number, or when their event times are more than
//! `max_silence` apart, in either direction: a clock that was set may carry event time
//! both ways.
//!
//! Nothing of this is stored. After a restart the first reading of every series is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{as_f64, as_whole};
use crate::core::id::SourceId;
use crate::core::limits::DEADBAND_SERIES_MAX;
use crate::core::reading::{Quality, Series, Value};
use crate::core::time::{EventTime, Span};
use crate::core::window::glob;

/// A deadband and what it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The only entity it is for; `None`: every one.
    pub entity: Option<String>,
    /// The property, or a pattern of properties.
    pub property: String,
    /// How far a value must move.
    pub band: Band,
    /// The longest time without a kept reading, by event time.
    pub max_silence: Option<Span>,
}

/// How far a value must move: by more than this.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Band {
    /// In the unit of the value; above 0.
    Absolute(f64),
    /// In percent of the last kept value; above 0.
    Percent(f64),
}

impl Rule {
    /// Whether it is for readings of this series.
    pub fn is_for(&self, series: &Series) -> bool {
        self.entity.as_deref().is_none_or(|entity| *entity == *series.entity)
            && glob::is_of(&self.property, &series.property)
    }

    fn holds_back(&self, last: &Kept, now: &Kept) -> bool {
        let far_ns = now.at.unix_ns().abs_diff(last.at.unix_ns());
        let is_silent = self.max_silence.is_some_and(|most| far_ns >= most.ns().unsigned_abs());
        if is_silent || last.quality != now.quality {
            return false;
        }
        let (Some(from), Some(moved)) = (as_f64(&last.value), distance(&last.value, &now.value))
        else {
            return false;
        };
        let band = match self.band {
            Band::Absolute(band) => band,
            Band::Percent(percent) => from.abs() * percent / 100.0,
        };
        moved <= band
    }
}

/// How far two numbers lie apart; `None` when either is no finite number.
fn distance(a: &Value, b: &Value) -> Option<f64> {
    if let (Some(a), Some(b)) = (as_whole(a), as_whole(b)) {
        return Some(a.abs_diff(b) as f64);
    }
    let (a, b) = (as_f64(a)?, as_f64(b)?);
    (a.is_finite() && b.is_finite()).then(|| (a - b).abs())
}

/// A reading, as far as the next one is compared with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Its value.
    pub value: Value,
    /// Its quality.
    pub quality: Quality,
    /// Its event time.
    pub at: EventTime,
}

/// The last kept reading of every series that has a deadband.
#[derive(Clone, Debug, Default)]
pub struct Deadbands {
    kept: BTreeMap<SourceId, BTreeMap<Arc<Series>, Kept>>,
    count: usize,
}

impl Deadbands {
    /// Whether a reading is worth being kept; if so, it is the last one from here
    /// on. Beyond [`DEADBAND_SERIES_MAX`] series every reading of further ones is.
    pub fn keeps(
        &mut self,
        rules: &[Rule],
        source: &SourceId,
        series: &Arc<Series>,
        now: Kept,
    ) -> bool {
        let Some(rule) = rules.iter().find(|rule| rule.is_for(series)) else { return true };
        if !self.kept.contains_key(source) {
            self.kept.insert(source.clone(), BTreeMap::new());
        }
        let Some(of_source) = self.kept.get_mut(source) else { return true };
        match of_source.get_mut(series) {
            Some(last) if rule.holds_back(last, &now) => false,
            Some(last) => {
                *last = now;
                true
            }
            None => {
                if self.count < DEADBAND_SERIES_MAX {
                    of_source.insert(Arc::clone(series), now);
                    self.count += 1;
                }
                true
            }
        }
    }

    /// Forgets the readings of sources that are gone: a later source of the same name may be
    /// another device.
    pub fn retain(&mut self, is_there: impl Fn(&SourceId) -> bool) {
        self.kept.retain(|source, _| is_there(source));
        self.count = self.kept.values().map(BTreeMap::len).sum();
    }
}

#[cfg(test)]
#[path = "deadband_tests.rs"]
mod tests;
