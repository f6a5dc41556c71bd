//! The windows as part of the agent: readings in, results out as entries, and the
//! replay of the journal after a restart.

use super::windows::Expected;
use super::*;
use crate::core::order::OrderedReading;
use crate::core::reading::Record;
use crate::core::seam::{Fetched, Shown};
use crate::core::window::entry::may_enter;
use crate::core::window::operator::Output;
use crate::core::window::{LateReading, LateReason, WindowResult};
use std::sync::Arc;

impl Agent {
    /// Gives a reading that was just numbered to the windows.
    pub(super) fn give_to_windows(&mut self, now: &Now, record: &Record) {
        if self.windows.is_empty() || !may_enter(&record.stamp, self.settings.clock.floor_ns) {
            return;
        }
        let outputs = self.offer_to_windows(record, now.mono);
        self.tell(now, outputs, Some(record));
    }

    /// Gives a reading that has just got a better time to the windows, once.
    pub(super) fn give_retimed(
        &mut self,
        now: &Now,
        in_order_from: Offset,
        offset: Offset,
        record: &Record,
    ) {
        if self.windows.retimed.contains(offset.0) {
            return;
        }
        self.windows.retimed.insert(in_order_from.0, offset.0 + 1);
        if self.windows.is_empty() {
            return;
        }
        self.pending.push(Entry::Retimed(record.clone()), now.mono);
        let outputs = self.offer_to_windows(record, now.mono);
        self.tell(now, outputs, Some(record));
    }

    fn offer_to_windows(&mut self, record: &Record, now: MonoTime) -> Vec<(usize, Output)> {
        let limit = self.source_settings(&record.source).future_limit;
        let floor_ns = self.settings.clock.floor_ns;
        let moves = self.windows.horizon.moves_watermark(&record.stamp, limit, floor_ns);
        if moves {
            self.windows.orders.heard(&record.source, now);
        }
        self.windows.offer(record, moves, now)
    }

    /// Turns what the windows say into entries of the next commit; during a replay it is
    /// compared with the journal instead.
    fn tell(&mut self, now: &Now, outputs: Vec<(usize, Output)>, record: Option<&Record>) {
        for (slot, output) in outputs {
            self.windows.count(slot, &output);
            let expected = match output {
                Output::Fired(firing) => Expected::Result(firing),
                Output::Late(late) => {
                    let Some(record) = record else { continue };
                    let spec = self.windows.spec(slot);
                    Expected::Late(LateReading {
                        window: Arc::clone(&spec.name),
                        version: spec.version,
                        record: record.clone(),
                        reason: LateReason::TooLate,
                        watermark: late.watermark,
                        window_end: late.window_end,
                    })
                }
                Output::Cleared { .. } | Output::Between => continue,
            };
            if self.windows.is_replaying() {
                self.windows.expect(slot, expected);
            } else {
                self.journal_told(now, slot, expected);
            }
        }
    }

    fn journal_told(&mut self, now: &Now, slot: usize, told: Expected) {
        let entry = match told {
            Expected::Late(late) => Entry::Late(late),
            Expected::Result(firing) => {
                let (source, spec) = self.windows.named(slot);
                let seq = self.books.accept(&source);
                Entry::Window(WindowResult {
                    source,
                    epoch: self.books.epoch(),
                    seq,
                    window: Arc::clone(&spec.name),
                    version: spec.version,
                    series: firing.series,
                    start: firing.start,
                    end: firing.end,
                    timebase: firing.timebase,
                    revision: firing.revision,
                    status: firing.status,
                    count: firing.count,
                    values: firing.values,
                    watermark: firing.watermark,
                    coverage: firing.coverage,
                    at: now.wall,
                })
            }
        };
        self.pending.push(entry, now.mono);
    }

    /// Journals which sources have fallen silent and which windows are flushed, and lets
    /// that take effect.
    pub(super) fn watch_silence(&mut self, now: &Now) {
        if self.windows.is_replaying() {
            return;
        }
        // The marks of a group take effect at once. One by one, the first would let the
        // watermark jump to that of sources which are silent too.
        for marks in self.windows.silent(now) {
            for mark in &marks {
                self.pending.push(Entry::Idle(mark.clone()), now.mono);
            }
            let outputs = self.windows.fall_silent(&marks);
            self.tell(now, outputs, None);
        }
        for mark in self.windows.orders.take_silent(now) {
            self.pending.push(Entry::Idle(mark), now.mono);
        }
    }

    /// Takes in a part of the journal that was fetched for the replay.
    pub(super) fn replayed(&mut self, now: &Now, fetched: Fetched, effects: &mut Vec<Effect>) {
        // Evicted, or damaged: what is computed from the rest may differ.
        let first = fetched.entries.first().map_or(fetched.next, |(offset, _)| *offset);
        let is_gone = first > fetched.from && !self.windows.has_seen(first);
        let is_torn = is_gone || !fetched.damaged.is_empty();
        if is_torn && !self.windows.is_torn {
            self.windows.is_torn = true;
            let reason = "a part of the journal that they rest on is gone".to_owned();
            effects.push(Effect::Notice(Notice::WindowsRestarted { window: None, reason }));
        }
        let mut ordered = Vec::new();
        for (offset, entry) in &fetched.entries {
            let has_seen = self.windows.has_seen(*offset);
            let orders = &mut self.windows.orders;
            if has_seen {
                orders.refill(&self.settings.clock, *offset, entry);
            } else {
                orders.feed(&self.settings, *offset, entry, &mut ordered);
                self.replay(now, entry);
            }
        }
        let is_over = self.windows.advance(fetched.next);
        if is_over {
            self.windows.orders.settle(&mut ordered);
            self.windows.orders.end_refill(effects);
        }
        show_ordered(&mut ordered, effects);
        if !is_over {
            return;
        }
        let together = self.windows.gathered();
        let outputs = self.windows.fall_silent(&together);
        self.tell(now, outputs, None);
        // Results that were lost with a commit that a crash cut off are journaled now.
        for (slot, told) in self.windows.end_replay(now.mono) {
            self.journal_told(now, slot, told);
        }
        let differences = self.windows.differences;
        if differences > 0 && !self.windows.is_torn {
            effects.push(Effect::Notice(Notice::ReplayDiffers { differences }));
        }
    }

    fn replay(&mut self, now: &Now, entry: &Entry) {
        let together = self.windows.gather(entry);
        if !together.is_empty() {
            let outputs = self.windows.fall_silent(&together);
            self.tell(now, outputs, None);
        }
        match entry {
            Entry::Reading(record) => self.give_to_windows(now, record),
            Entry::Retimed(record) => {
                let outputs = self.offer_to_windows(record, now.mono);
                self.tell(now, outputs, Some(record));
            }
            Entry::Window(result) => self.windows.meet_result(result),
            Entry::Late(late) => self.windows.meet_late(late),
            Entry::Idle(_) | Entry::Gap(_) | Entry::Correction(_) | Entry::Clock(_) => {}
        }
    }

    /// Shows on site what has become durable: results, and readings whose turn has come.
    pub(super) fn show(&mut self, first: Offset, entries: &[Entry], effects: &mut Vec<Effect>) {
        let mut ordered = Vec::new();
        for (offset, entry) in (first.0..).map(Offset).zip(entries) {
            self.windows.orders.feed(&self.settings, offset, entry, &mut ordered);
            show_ordered(&mut ordered, effects);
            match entry {
                Entry::Window(result) => {
                    effects.push(Effect::Show(Shown::Result(Arc::new(result.clone()))));
                }
                Entry::Late(late) => {
                    effects.push(Effect::Show(Shown::Late(Arc::new(late.clone()))));
                }
                _ => {}
            }
        }
        self.windows.orders.settle(&mut ordered);
        show_ordered(&mut ordered, effects);
    }

    /// Whether the uplink never gets an entry: it is for this gateway alone.
    pub(super) fn stays_here(windows: &super::windows::Windows, entry: &Entry) -> bool {
        match entry {
            Entry::Window(result) => !windows.goes_up(&result.window),
            Entry::Late(late) => !windows.goes_up(&late.window),
            other => other.is_internal(),
        }
    }
}

fn show_ordered(ordered: &mut Vec<OrderedReading>, effects: &mut Vec<Effect>) {
    effects.extend(ordered.drain(..).map(|reading| Effect::Show(Shown::Ordered(reading))));
}
