//! Panes of all windows but sessions: shared slices, and what was said of each
//! window.

use std::collections::BTreeMap;
use std::ops::Range;

use super::keys::Timer;
use super::tell::{Occasion, Teller, Wording};
use super::{Output, Timers};
use crate::core::window::assign::{Assigner, SliceBounds};
use crate::core::window::pane::{Content, Taken, Told};
use crate::core::window::result::ResultStatus;
use crate::core::window::row::{Pass, Row};

/// The panes of one series.
#[derive(Debug)]
pub(super) struct Slices<'a> {
    pub(super) slices: &'a mut Row,
    pub(super) told: &'a mut BTreeMap<i64, Told>,
    pub(super) assigner: &'a Assigner,
}

impl Slices<'_> {
    /// Takes a reading of which at least one window is left; windows that have
    /// fired do so again, the latest first.
    pub(super) fn take(
        &mut self,
        teller: &Teller<'_>,
        bounds: SliceBounds,
        taken: &Taken,
        out: &mut Vec<Output>,
    ) -> Timers {
        let empty = || Content::new(&teller.plan.spec.aggregates);
        let (content, is_new) = self.slices.content(bounds, empty);
        content.add(taken);
        let Some(watermark) = teller.watermark else {
            let end = is_new.then_some(bounds.first_end);
            return Timers { fire: end, drop: end };
        };
        let complete = watermark.saturating_add(1);
        let mut end = self.assigner.end_until(bounds, complete);
        while let Some(late) = end.filter(|end| *end >= bounds.first_end && !teller.is_gone(*end)) {
            let wording = (teller.status(), Occasion::Usual);
            self.fire(teller, late, wording, out);
            end = late.checked_sub(self.assigner.step());
        }
        if !is_new {
            return Timers::default();
        }
        let gone = complete.saturating_sub(teller.plan.lateness);
        Timers {
            fire: self.assigner.end_after(bounds, Some(complete)),
            drop: self.assigner.end_after(bounds, Some(gone)),
        }
    }

    /// The watermark has reached a window's end, the end of its lateness, or both.
    pub(super) fn due(
        &mut self,
        teller: &Teller<'_>,
        end: i64,
        timer: Timer,
        out: &mut Vec<Output>,
    ) -> Timers {
        if timer.fires {
            self.fire(teller, end, (teller.status(), Occasion::Usual), out);
        }
        if timer.drops && teller.is_gone(end) {
            if teller.has_final_record() {
                self.repeat(teller, end, Occasion::Usual, out);
            }
            self.drop(teller, end, out);
        }
        let next = self.next_end(end);
        Timers { fire: next.filter(|_| timer.fires), drop: next.filter(|_| timer.drops) }
    }

    /// The next window with readings after the one of that end.
    fn next_end(&self, end: i64) -> Option<i64> {
        let from = match self.assigner {
            Assigner::Fixed(fixed) => fixed.window(end.saturating_add(fixed.slide)).start,
            _ => end,
        };
        self.assigner.end_after(self.slices.first_from(from)?, Some(end))
    }

    /// Fires readings that no result has yet, before the watermark has come there.
    pub(super) fn flush(&mut self, teller: &Teller<'_>, end: i64, out: &mut Vec<Output>) {
        let (_, indices) = self.window(end);
        let content = self.slices.window(indices, Pass::Firing);
        let received = content.map(|content| content.tally.received);
        let said = self.told.get(&end).map(|told| told.received);
        if received != said && !teller.is_complete(end) {
            self.fire(teller, end, (ResultStatus::Provisional, Occasion::Flush), out);
        }
    }

    /// Fires and drops a window for which nothing more can come.
    pub(super) fn close(&mut self, teller: &Teller<'_>, end: i64, out: &mut Vec<Output>) {
        if !teller.is_complete(end) {
            self.fire(teller, end, (teller.closing_status(), Occasion::ClockStep), out);
        } else if teller.has_final_record() {
            self.repeat(teller, end, Occasion::ClockStep, out);
        }
        self.drop(teller, end, out);
    }

    /// The start of the window of that end, and its slices.
    fn window(&self, end: i64) -> (i64, Range<i64>) {
        if let Assigner::Fixed(fixed) = self.assigner {
            return (end - fixed.size, fixed.window(end));
        }
        // One slice, and no other ends there.
        let slice = self.slices.last_before(end).filter(|slice| slice.last_end == end);
        slice.map_or((end, end..end), |slice| (slice.start, slice.index..end))
    }

    fn fire(
        &mut self,
        teller: &Teller<'_>,
        end: i64,
        (status, occasion): (ResultStatus, Occasion),
        out: &mut Vec<Output>,
    ) {
        let (start, indices) = self.window(end);
        let Some(content) = self.slices.window(indices, Pass::Firing) else { return };
        let told = self.told.entry(end).or_default();
        told.revision += 1;
        told.received = content.tally.received;
        let wording = Wording { revision: told.revision, status, occasion };
        teller.tell((start, end), &content, wording, out);
    }

    /// Outputs the last revision again, now as final.
    fn repeat(&mut self, teller: &Teller<'_>, end: i64, occasion: Occasion, out: &mut Vec<Output>) {
        let Some(told) = self.told.get(&end) else { return };
        let (start, indices) = self.window(end);
        let Some(content) = self.slices.window(indices, Pass::Closing) else { return };
        let wording = Wording { revision: told.revision, status: ResultStatus::Final, occasion };
        teller.tell((start, end), &content, wording, out);
    }

    fn drop(&mut self, teller: &Teller<'_>, end: i64, out: &mut Vec<Output>) {
        let (start, indices) = self.window(end);
        if self.slices.is_any_in(indices) {
            teller.cleared(start, end, out);
        }
        self.told.remove(&end);
        self.slices.drop_until(end);
    }
}
