//! Totals and deadbands as part of the agent: what becomes of a reading's value
//! before the reading gets a number, and how totals go on after a restart.
//!
//! The state of a total is its last reading in the journal. After a restart the journal
//! is read again from where the totals were saved; until that is done no readings are
//! taken.

use std::sync::Arc;

use super::recall::{Recall, is_torn};
use super::*;
use crate::core::reading::{Reading, Stamp};
use crate::core::seam::Fetch;
use crate::core::values::deadband::{Deadbands, Kept};
use crate::core::values::totals::{NoTotal, SavedTotals, Totals};

/// Entries since totals were saved at which they are saved again: to read more of them
/// again would make a start slow.
const RECALL_MAX: u64 = 100_000;

/// Running totals, and the last kept readings where there is a deadband.
#[derive(Debug)]
pub(super) struct Values {
    totals: Totals,
    deadbands: Deadbands,
    recall: Option<Recall>,
    /// Whether it was reported that a part of the journal is gone.
    is_torn: bool,
}

/// What becomes of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shaped {
    /// It gets a number.
    Kept,
    /// It lies within its deadband.
    HeldBack,
    /// It is no increment that could be added.
    Refused(NoTotal),
}

impl Values {
    /// The totals as they were saved. Entries after that are still to be read from the
    /// journal.
    pub(super) fn open(settings: &Settings, recovered: &Recovered) -> Self {
        let end = recovered.next;
        let saved = recovered.meta.as_ref().map(|meta| Arc::clone(&meta.totals));
        let saved = saved.unwrap_or_default();
        let totals = Totals::open(&saved);
        let accumulates = |source: &SourceSettings| {
            source.values.as_ref().is_some_and(|rules| !rules.accumulate.is_empty())
        };
        // The first total is saved with its own commit. Where none is saved, only a commit
        // that a crash cut off can hold one, and that is in the last segment.
        let next = match totals.is_empty() {
            false => saved.through.min(end),
            true if settings.sources.values().any(accumulates) => {
                recovered.segments.last().map_or(end, |segment| segment.first)
            }
            true => end,
        };
        Self {
            totals,
            deadbands: Deadbands::default(),
            recall: Recall::new(next, end, Purpose::Totals),
            is_torn: false,
        }
    }

    /// Whether totals are still being rebuilt from the journal.
    pub(super) fn is_recalling(&self) -> bool {
        self.recall.is_some()
    }

    /// The next part of the journal to go through.
    pub(super) fn fetch(&mut self) -> Option<Fetch> {
        self.recall.as_mut()?.fetch()
    }

    /// The totals to be saved with a commit that ends at `next`; the journal begins at
    /// `start`.
    pub(super) fn saved(&mut self, start: Offset, next: Offset) -> Arc<SavedTotals> {
        match self.recall {
            // The totals in memory are not complete yet.
            Some(_) => self.totals.last_saved(),
            None => self.totals.saved(start, next, RECALL_MAX),
        }
    }

    /// What becomes of a reading that was stamped, its value and flags changed where
    /// it is an increment.
    pub(super) fn shape(
        &mut self,
        settings: &SourceSettings,
        source: &SourceId,
        (reading, stamp): (&mut Reading, &mut Stamp),
    ) -> Shaped {
        let Some(rules) = &settings.values else { return Shaped::Kept };
        let series = &reading.series;
        if rules.accumulates(&series.property) {
            let one = (&reading.value, reading.quality, stamp.flags);
            return match self.totals.add(source, series, one) {
                Ok(said) => {
                    (reading.value, stamp.flags) = said;
                    Shaped::Kept
                }
                Err(reason) => Shaped::Refused(reason),
            };
        }
        let (value, at) = (reading.value.clone(), stamp.event_time);
        let now = Kept { value, quality: reading.quality, at };
        match self.deadbands.keeps(&rules.deadbands, source, series, now) {
            true => Shaped::Kept,
            false => Shaped::HeldBack,
        }
    }

    /// Takes over the sources of a new configuration. Totals of sources that leave stay,
    /// as their numbers do.
    pub(super) fn change_sources(&mut self, sources: &BTreeMap<SourceId, SourceSettings>) {
        self.deadbands.retain(|source| sources.contains_key(source));
    }

    /// The same for a reading that an operator released from the quarantine: it is always
    /// kept.
    pub(super) fn shape_released(
        &mut self,
        settings: &SourceSettings,
        source: &SourceId,
        (reading, stamp): (&mut Reading, &mut Stamp),
    ) {
        let rules = settings.values.as_ref();
        if rules.is_some_and(|rules| rules.accumulates(&reading.series.property)) {
            self.shape(settings, source, (reading, stamp));
        }
    }
}

impl Agent {
    /// Takes in a part of the journal that was fetched for the totals.
    pub(super) fn totals_recalled(&mut self, fetched: Fetched, effects: &mut Vec<Effect>) {
        let is_torn = is_torn(&fetched);
        let values = &mut self.values;
        if is_torn && !values.is_torn && !values.totals.is_empty() {
            values.is_torn = true;
            let reason = "a part of the journal that they rest on is gone".to_owned();
            effects.push(Effect::Notice(Notice::TotalsTorn { reason }));
        }
        for record in fetched.entries.iter().filter_map(|(_, entry)| entry.reading()) {
            values.totals.recall(record);
        }
        let recall = values.recall.as_mut();
        if recall.is_some_and(|recall| recall.advance(fetched.next)) {
            values.recall = None;
        }
    }
}

#[cfg(test)]
#[path = "values_tests.rs"]
mod tests;
