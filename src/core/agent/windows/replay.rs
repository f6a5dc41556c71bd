//! The replay after a restart: results are computed again from the journal and compared
//! with those that it holds.

use super::*;
use crate::core::window::operator::Firing;

impl Windows {
    /// Gathers idle marks that belong together. Gives back those gathered when an entry
    /// follows that does not belong to them.
    pub(in crate::core::agent) fn gather(&mut self, entry: &Entry) -> Vec<IdleMark> {
        let belongs = |last: &IdleMark, mark: &IdleMark| {
            last.window == mark.window && last.at == mark.at && last.flush == mark.flush
        };
        match entry {
            Entry::Idle(mark) if self.marks.last().is_none_or(|last| belongs(last, mark)) => {
                self.marks.push(mark.clone());
                Vec::new()
            }
            Entry::Idle(mark) => std::mem::replace(&mut self.marks, vec![mark.clone()]),
            _ => self.gathered(),
        }
    }

    /// Takes the marks gathered so far.
    pub(in crate::core::agent) fn gathered(&mut self) -> Vec<IdleMark> {
        std::mem::take(&mut self.marks)
    }

    pub(in crate::core::agent) fn expect(&mut self, slot: usize, expected: Expected) {
        self.slots[slot].expected.push_back(expected);
    }

    /// Compares a result in the journal with the next one that the replay computed.
    pub(in crate::core::agent) fn meet_result(&mut self, result: &WindowResult) {
        let Some(slot) = self.slots.iter_mut().find(|slot| *slot.spec.name == *result.window)
        else {
            return;
        };
        let is_same = match slot.expected.pop_front() {
            Some(Expected::Result(firing)) => is_same(&firing, result),
            Some(Expected::Late(_)) | None => false,
        };
        self.differences += u64::from(!is_same);
    }

    /// Compares a late reading in the journal with the next one that the replay found.
    pub(in crate::core::agent) fn meet_late(&mut self, late: &LateReading) {
        let Some(slot) = self.slots.iter_mut().find(|slot| *slot.spec.name == *late.window) else {
            return;
        };
        let is_same =
            matches!(slot.expected.pop_front(), Some(Expected::Late(own)) if own == *late);
        self.differences += u64::from(!is_same);
    }

    /// The replay has come to `next`; true when it is over.
    pub(in crate::core::agent) fn advance(&mut self, next: Offset) -> bool {
        self.replay.as_mut().is_some_and(|replay| replay.advance(next))
    }

    /// Ends the replay. Gives what it computed and the journal does not have.
    pub(in crate::core::agent) fn end_replay(&mut self, now: MonoTime) -> Vec<(usize, Expected)> {
        self.replay = None;
        let mut left = Vec::new();
        for (at, slot) in self.slots.iter_mut().enumerate() {
            left.extend(slot.expected.drain(..).map(|told| (at, told)));
            for heard in slot.heard.values_mut() {
                heard.at = now;
            }
            slot.last_heard = now;
        }
        self.orders.wait_anew(now);
        left
    }
}

fn is_same(firing: &Firing, result: &WindowResult) -> bool {
    firing.series == result.series
        && (firing.start, firing.end) == (result.start, result.end)
        && (firing.revision, firing.status) == (result.revision, result.status)
        && (firing.timebase, firing.count) == (result.timebase, result.count)
        && firing.values == result.values
        && firing.watermark == result.watermark
        && firing.coverage == result.coverage
}
