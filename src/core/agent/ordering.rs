//! The orders of outputs: durable readings in, ordered ones out.
//!
//! Unlike windows they are fed when a commit is durable, not when a reading is
//! taken in: all that they let out may be shown at once.

use super::*;
use crate::core::clock::ClockSettings;
use crate::core::order::{Order, OrderState, OrderedReading};
use crate::core::reading::{IdleMark, Record};
use crate::core::status::OrderStatus;
use crate::core::window::entry::{Horizon, may_enter};
use std::sync::Arc;

/// All orders of this gateway.
#[derive(Debug, Default)]
pub(super) struct Orders {
    slots: Vec<Slot>,
    /// What bounds the future, as of the last entry fed.
    horizon: Horizon,
}

#[derive(Debug)]
struct Slot {
    order: Order,
    /// When each source was last heard, and whether its silence has been said.
    heard: BTreeMap<SourceId, (MonoTime, bool)>,
}

impl Orders {
    /// The orders of a configuration, as a checkpoint left them.
    pub(super) fn open(
        settings: &Settings,
        states: Vec<OrderState>,
        horizon: Horizon,
        now: &Now,
    ) -> Self {
        let mut states: BTreeMap<String, OrderState> =
            states.into_iter().map(|state| (state.name.clone(), state)).collect();
        let slots = settings.orders.iter().map(|spec| Slot {
            order: Order::open(Arc::clone(spec), states.remove(&*spec.name)),
            heard: spec.sources.keys().map(|source| (source.clone(), (now.mono, false))).collect(),
        });
        Self { slots: slots.collect(), horizon }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// For a checkpoint.
    pub(super) fn states(&self) -> Vec<OrderState> {
        self.slots.iter().map(|slot| slot.order.state()).collect()
    }

    /// Gives an entry from before the checkpoint to the orders that were holding it then.
    pub(super) fn refill(&mut self, clock: &ClockSettings, offset: Offset, entry: &Entry) {
        let Some(record) = self.wanted(clock, entry) else { return };
        let record = Arc::new(record.clone());
        self.slots.iter_mut().for_each(|slot| slot.order.refill(offset, &record));
    }

    /// After the replay: reports held readings that the journal no longer has.
    pub(super) fn end_refill(&mut self, effects: &mut Vec<Effect>) {
        for slot in &mut self.slots {
            let readings = slot.order.take_missing();
            if readings > 0 {
                let output = Arc::clone(&slot.order.spec().name);
                effects.push(Effect::Notice(Notice::HeldReadingsGone { output, readings }));
            }
        }
    }

    /// Gives a durable entry to the orders.
    pub(super) fn feed(
        &mut self,
        settings: &Settings,
        offset: Offset,
        entry: &Entry,
        out: &mut Vec<OrderedReading>,
    ) {
        if let Entry::Idle(mark) = entry {
            return self.fall_silent(mark, out);
        }
        let Some(record) = self.wanted(&settings.clock, entry) else { return };
        let source = settings.sources.get(&record.source);
        let limit = source.map_or(SourceSettings::DEFAULT.future_limit, |s| s.future_limit);
        let floor_ns = settings.clock.floor_ns;
        let moves = self.horizon.moves_watermark(&record.stamp, limit, floor_ns);
        let mut shared = None;
        for slot in self.slots.iter_mut().filter(|slot| slot.order.takes(&record.source)) {
            let record = shared.get_or_insert_with(|| Arc::new(record.clone()));
            slot.order.reading(offset, record, moves, out);
        }
    }

    fn wanted<'a>(&self, clock: &ClockSettings, entry: &'a Entry) -> Option<&'a Record> {
        let (Entry::Reading(record) | Entry::Retimed(record)) = entry else { return None };
        (!self.is_empty() && may_enter(&record.stamp, clock.floor_ns)).then_some(record)
    }

    fn fall_silent(&mut self, mark: &IdleMark, out: &mut Vec<OrderedReading>) {
        let named = |slot: &&mut Slot| mark.window.as_ref() == Some(&slot.order.spec().name);
        for slot in self.slots.iter_mut().filter(named) {
            slot.order.silent(&mark.source, mark.at, out);
        }
    }

    /// Applies the silences noted so far; call when no further entry is at hand.
    pub(super) fn settle(&mut self, out: &mut Vec<OrderedReading>) {
        self.slots.iter_mut().for_each(|slot| slot.order.settle(out));
    }

    /// Notes that a reading which moves watermarks was taken in.
    pub(super) fn heard(&mut self, source: &SourceId, now: MonoTime) {
        for slot in &mut self.slots {
            if let Some(heard) = slot.heard.get_mut(source) {
                *heard = (now, false);
            }
        }
    }

    /// Starts the idle timers of all sources again: during the replay nothing came in.
    pub(super) fn wait_anew(&mut self, now: MonoTime) {
        let all = self.slots.iter_mut().flat_map(|slot| slot.heard.values_mut());
        all.for_each(|heard| *heard = (now, false));
    }

    /// When the next source becomes idle.
    pub(super) fn next_deadline(&self) -> Option<MonoTime> {
        let of_slot = |slot: &Slot| {
            let waited_for = slot.heard.values().filter(|(_, is_said)| !is_said);
            Some(waited_for.map(|(at, _)| *at).min()? + slot.order.spec().idle_after)
        };
        self.slots.iter().filter_map(of_slot).min()
    }

    /// Marks for sources that have been silent for too long, each given once. They take
    /// effect when they are durable and [`Orders::feed`] gets them among the other
    /// entries.
    pub(super) fn take_silent(&mut self, now: &Now) -> Vec<IdleMark> {
        let mut marks = Vec::new();
        for slot in &mut self.slots {
            let spec = slot.order.spec();
            for (source, (at, is_said)) in &mut slot.heard {
                if !*is_said && *at + spec.idle_after <= now.mono {
                    *is_said = true;
                    marks.push(IdleMark {
                        source: source.clone(),
                        at: now.uptime(),
                        window: Some(Arc::clone(&spec.name)),
                        flush: false,
                    });
                }
            }
        }
        marks
    }

    /// What there is to report.
    pub(super) fn status(&self) -> BTreeMap<String, OrderStatus> {
        let one = |slot: &Slot| {
            let (held, held_bytes) = slot.order.held();
            OrderStatus {
                watermark: slot.order.watermark().map(crate::core::window::Millis::event_time),
                held,
                held_bytes,
                idle: slot.heard.iter().filter(|(_, h)| h.1).map(|(s, _)| s.clone()).collect(),
                counts: slot.order.counts(),
            }
        };
        self.slots.iter().map(|slot| (slot.order.spec().name.to_string(), one(slot))).collect()
    }
}
