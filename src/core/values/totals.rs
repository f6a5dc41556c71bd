//! Running totals of increments.
//!
//! An energy meter may report how much came since its last report; with every report that
//! is lost, that energy is lost for ever. So increments are added up here, at the first
//! place that is durable, and the sum is journaled: a consumer that misses readings has
//! everything with the next one.
//!
//! A total belongs to a source and a series, its unit included. It is in the journal
//! with every reading (flag [`Flags::TOTAL`]), so after a restart the newest reading
//! of each series is the state. Since readings are removed from the journal, the commit
//! that allows it also saves the totals as of some offset ([`Totals::saved`]), from where
//! they can be rebuilt. Repeats are dropped before they come here.
//!
//! # How exact
//!
//! Whole numbers add up exactly within 64 bits; an increment that would exceed them is
//! refused. Other numbers add up as decimals, as they were written. A reading gets the
//! floating-point number nearest to the sum, which is exact up to 15 digits. With more
//! digits, each crash may cost that rounding: up to half of the last place.
//!
//! # What adds nothing
//!
//! A reading of quality bad, one whose number is not finite, and one that a broker
//! had retained (it comes again at every subscription) pass as they are, without the
//! flag. Increments add up in the order of arrival, whatever their event time; the event
//! time of a total is that of its last increment.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::as_whole;
use super::decimal::Decimal;
use crate::core::id::{Offset, SourceId};
use crate::core::limits::TOTALS_BYTES_MAX;
use crate::core::reading::{Flags, Quality, Record, Series, Value};

/// Upper bound on the bytes of one total as stored, without its names.
const TOTAL_BYTES: usize = 40;

/// One running total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// The sum.
    pub sum: Decimal,
    /// Whether an increment was no integer: then readings have the total as a floating-point
    /// number.
    pub is_real: bool,
}

impl Total {
    /// The total in a reading.
    fn said(value: &Value) -> Option<Self> {
        match value {
            Value::F64(number) => Some(Self { sum: Decimal::of(*number)?, is_real: true }),
            whole => Some(Self { sum: Decimal::whole(as_whole(whole)?), is_real: false }),
        }
    }

    fn plus(self, increment: Self) -> Self {
        let is_real = self.is_real || increment.is_real;
        Self { sum: self.sum.plus(increment.sum), is_real }
    }

    /// The value for a reading; `None` when it is beyond what one can hold.
    fn value(self) -> Option<Value> {
        if self.is_real {
            return self.sum.as_f64().map(Value::F64);
        }
        let whole = self.sum.as_whole()?;
        let signed = i64::try_from(whole).ok().map(Value::I64);
        signed.or_else(|| u64::try_from(whole).ok().map(Value::U64))
    }
}

/// Why an increment is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTotal {
    /// It is no number.
    NotANumber,
    /// The total would be beyond what a reading can hold.
    Overflow,
    /// There is no room for the total of another series.
    Full,
}

impl NoTotal {
    /// The word for metrics.
    pub const fn kind(self) -> &'static str {
        match self {
            NoTotal::NotANumber => "not_a_number",
            NoTotal::Overflow => "overflow",
            NoTotal::Full => "too_many_totals",
        }
    }

    /// For people.
    pub const fn reason(self) -> &'static str {
        match self {
            NoTotal::NotANumber => "accumulate: the value is no number, there is nothing to add",
            NoTotal::Overflow => {
                "accumulate: the total would be more than 64 bits, or a floating-point number, \
                 can say"
            }
            NoTotal::Full => {
                "accumulate: there are as many totals as can be kept; accumulate fewer series"
            }
        }
    }
}

/// Totals as of an offset of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedTotals {
    /// The end of the entries that are included; later ones must be read from the journal.
    pub through: Offset,
    /// By source and series.
    pub totals: BTreeMap<SourceId, BTreeMap<Arc<Series>, Total>>,
}

impl SavedTotals {
    /// Roughly what they take where they are stored, in bytes.
    pub fn weight(&self) -> usize {
        let all = self.totals.iter();
        let all = all.flat_map(|(source, totals)| totals.keys().map(move |one| (source, one)));
        all.map(|(source, series)| bytes_of(source, series)).sum()
    }
}

/// All totals.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    totals: BTreeMap<SourceId, BTreeMap<Arc<Series>, Total>>,
    bytes: usize,
    saved: Arc<SavedTotals>,
}

impl Totals {
    /// The totals as they were saved; later entries of the journal are still to be read.
    pub fn open(saved: &Arc<SavedTotals>) -> Self {
        let (totals, bytes) = (saved.totals.clone(), saved.weight());
        Self { totals, bytes, saved: Arc::clone(saved) }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Adds an increment: the value and flags that its reading has from here on.
    ///
    /// # Errors
    /// It cannot be added; nothing has changed.
    pub fn add(
        &mut self,
        source: &SourceId,
        series: &Arc<Series>,
        (value, quality, flags): (&Value, Quality, Flags),
    ) -> Result<(Value, Flags), NoTotal> {
        let is_infinite = matches!(value, Value::F64(number) if !number.is_finite());
        if quality == Quality::Bad || is_infinite || flags.has(Flags::RETAINED) {
            return Ok((value.clone(), flags));
        }
        let increment = Total::said(value).ok_or(NoTotal::NotANumber)?;
        let known = self.totals.get_mut(source).and_then(|totals| totals.get_mut(series));
        let total = known.as_deref().copied().unwrap_or_default().plus(increment);
        let said = total.value().ok_or(NoTotal::Overflow)?;
        match known {
            Some(known) => *known = total,
            None if self.bytes + bytes_of(source, series) > TOTALS_BYTES_MAX => {
                return Err(NoTotal::Full);
            }
            None => self.insert(source, series, total),
        }
        Ok((said, flags.with(Flags::TOTAL)))
    }

    /// Takes over the total of a reading in the journal. Call it in the journal's order.
    pub fn recall(&mut self, record: &Record) {
        let flags = record.stamp.flags;
        // A released reading has the total of when it was first journaled.
        if !flags.has(Flags::TOTAL) || flags.has(Flags::RELEASED) {
            return;
        }
        let Some(said) = Total::said(&record.value) else { return };
        let (source, series) = (&record.source, &record.series);
        match self.totals.get_mut(source).and_then(|totals| totals.get_mut(series)) {
            // The saved total may be more exact than the value of its reading: it stays.
            Some(known) if known.value().as_ref() == Some(&record.value) => {}
            Some(known) => *known = said,
            None => self.insert(source, series, said),
        }
    }

    fn insert(&mut self, source: &SourceId, series: &Arc<Series>, total: Total) {
        self.bytes += bytes_of(source, series);
        self.totals.entry(source.clone()).or_default().insert(Arc::clone(series), total);
    }

    /// The totals to be saved with a commit that ends at `next`; the journal begins at
    /// `start`. As long as the entries since they were last saved are still in the journal
    /// and no more than `recall_max`, these are the totals as last saved.
    pub fn saved(&mut self, start: Offset, next: Offset, recall_max: u64) -> Arc<SavedTotals> {
        let through = self.saved.through;
        let is_far = start > through || next.0.saturating_sub(through.0) > recall_max;
        // The first totals are saved at once: where none are saved, a start need not look
        // for any.
        let is_due = is_far || self.saved.totals.is_empty();
        if is_due && !self.is_empty() {
            self.saved = Arc::new(SavedTotals { through: next, totals: self.totals.clone() });
        }
        self.last_saved()
    }

    /// The totals as last saved.
    pub fn last_saved(&self) -> Arc<SavedTotals> {
        Arc::clone(&self.saved)
    }
}

fn bytes_of(source: &SourceId, series: &Series) -> usize {
    let unit = series.unit.as_ref().map_or(0, |unit| unit.len());
    source.as_str().len() + series.entity.len() + series.property.len() + unit + TOTAL_BYTES
}

#[cfg(test)]
#[path = "totals_tests.rs"]
mod tests;
