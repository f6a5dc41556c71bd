//! Panes of all windows but sessions: shared slices, and what was said of each
//! window.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::keys::Timer;
use super::tell::{Occasion, Teller, Wording};
use super::{Output, Timers};
use crate::core::window::assign::{Assigner, SliceBounds};
use crate::core::window::pane::{Content, Slice, Taken, Told};
use crate::core::window::result::ResultStatus;

/// The panes of one series.
#[derive(Debug)]
pub(super) struct Slices<'a> {
    pub(super) slices: &'a mut BTreeMap<i64, Slice>,
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
        let mut is_new = false;
        let slice = self.slices.entry(bounds.start).or_insert_with(|| {
            is_new = true;
            Slice {
                first_end: bounds.first_end,
                last_end: bounds.last_end,
                content: Content::new(&teller.plan.spec.aggregates),
            }
        });
        slice.content.add(taken);
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
            Assigner::Fixed(fixed) => end - fixed.size + fixed.slide,
            _ => end,
        };
        let (start, slice) = self.slices.range(from..).next()?;
        self.assigner.end_after(slice.bounds(*start), Some(end))
    }

    /// Fires what has not been said, without the watermark having come there.
    pub(super) fn flush(&mut self, teller: &Teller<'_>, end: i64, out: &mut Vec<Output>) {
        let received = self.window(end).map(|(_, content)| content.tally.received);
        let said = self.told.get(&end).map(|told| told.received);
        if received != said && !teller.is_complete(end) {
            self.fire(teller, end, (ResultStatus::Provisional, Occasion::Flush), out);
        }
    }

    /// Fires and drops: nothing more can come for it.
    pub(super) fn close(&mut self, teller: &Teller<'_>, end: i64, out: &mut Vec<Output>) {
        if !teller.is_complete(end) {
            self.fire(teller, end, (teller.closing_status(), Occasion::ClockStep), out);
        } else if teller.has_final_record() {
            self.repeat(teller, end, Occasion::ClockStep, out);
        }
        self.drop(teller, end, out);
    }

    fn window(&self, end: i64) -> Option<((i64, i64), Cow<'_, Content>)> {
        window(self.slices, self.assigner, end)
    }

    fn fire(
        &mut self,
        teller: &Teller<'_>,
        end: i64,
        (status, occasion): (ResultStatus, Occasion),
        out: &mut Vec<Output>,
    ) {
        let Some((range, content)) = window(self.slices, self.assigner, end) else { return };
        let told = self.told.entry(end).or_default();
        told.revision += 1;
        told.received = content.tally.received;
        teller.tell(range, &content, Wording { revision: told.revision, status, occasion }, out);
    }

    /// The last revision once more, now final.
    fn repeat(&self, teller: &Teller<'_>, end: i64, occasion: Occasion, out: &mut Vec<Output>) {
        let (Some((range, content)), Some(told)) = (self.window(end), self.told.get(&end)) else {
            return;
        };
        let wording = Wording { revision: told.revision, status: ResultStatus::Final, occasion };
        teller.tell(range, &content, wording, out);
    }

    fn drop(&mut self, teller: &Teller<'_>, end: i64, out: &mut Vec<Output>) {
        if let Some(((start, _), _)) = self.window(end) {
            teller.cleared(start, end, out);
        }
        self.told.remove(&end);
        while let Some(first) = self.slices.first_entry()
            && first.get().last_end <= end
        {
            first.remove();
        }
    }
}

/// The window of that end, where it has readings.
fn window<'a>(
    slices: &'a BTreeMap<i64, Slice>,
    assigner: &Assigner,
    end: i64,
) -> Option<((i64, i64), Cow<'a, Content>)> {
    let Assigner::Fixed(fixed) = assigner else {
        let (start, slice) = slices.range(..end).next_back()?;
        let is_it = slice.last_end == end;
        return is_it.then_some(((*start, end), Cow::Borrowed(&slice.content)));
    };
    let start = end - fixed.size;
    let parts = slices.range(start..end).map(|(_, slice)| &slice.content);
    Some(((start, end), Content::gather(parts)?))
}
