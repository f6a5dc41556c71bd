//! What an operator hands in again out of the quarantine.
//!
//! It becomes a reading like any other, with the next number of its source: the
//! number that it may have had before stays with its gap record. What tells it
//! apart is its time, for it comes long after the event:
//!
//! - A reading that was journaled before keeps its event time and all that was
//!   first said of it, and is flagged `released`. The windows have seen it then
//!   and do not count it twice.
//! - Another one is judged like a reading of a batch: by its device time, which
//!   says nothing about the device's clock any more. What the source's policy
//!   would quarantine is flagged instead: the operator has decided. Without a
//!   device time its event time is that of its first arrival, with origin `bounded`:
//!   how good the clock was then is no longer known.
//!
//! Neither changes the measured lateness or the skew of a device, and no deadband
//! holds them back. An increment that had not been added to its total is added now.

use super::*;
use crate::core::clock::{ClockSource, ClockState, seal};
use crate::core::reading::{Arrival, Flags, Origin, Reading, Record, Stamp};
use crate::core::seam::{Release, Released};
use crate::core::stamp::{self, Verdict};
use crate::core::time::IngestTime;

impl Agent {
    pub(super) fn release(&mut self, now: &Now, release: Release, effects: &mut Vec<Effect>) {
        let Release { source, came, arrival, released, receipt } = release;
        if self.admission() == Admission::Refuse {
            effects.extend(receipt.map(|receipt| Effect::Receipt(receipt, Outcome::Full)));
            return;
        }
        let count = match released {
            Released::Record(record) => {
                let stamp = self.stamp_again(record.stamp);
                self.journal_released(now, Record { stamp, ..*record });
                1
            }
            Released::Readings(readings) => {
                let count = readings.len() as u64;
                let settings = self.source_settings(&source);
                for mut reading in readings {
                    let mut stamp = self.stamp_late(now, &source, (came, &arrival), &reading);
                    let parts = (&mut reading, &mut stamp);
                    self.values.shape_released(&settings, &source, parts);
                    self.journal_released(now, record(&source, reading, stamp));
                }
                count
            }
        };
        if let Some(receipt) = receipt {
            self.pending.owe(receipt, now.mono);
        }
        effects.push(Effect::Notice(Notice::Released { source, count }));
    }

    /// The stamp of a reading that was never journaled.
    fn stamp_late(
        &self,
        now: &Now,
        source: &SourceId,
        (came, arrival): (IngestTime, &Arrival),
        reading: &Reading,
    ) -> Stamp {
        let own = self.source_settings(source);
        let settings = SourceSettings {
            is_live: false,
            on_bad_time: kept(own.on_bad_time),
            on_ambiguous_time: OnAmbiguousTime::Earlier,
            on_nonexistent_time: OnNonexistentTime::Shift,
            ..own.clone()
        };
        let (clock, _) = self.clock.reading_at(arrival, now);
        let trusted = reading.device_time.filter(|_| own.trusts_device);
        if trusted.is_some() {
            let mut fresh = SourceClock::default();
            let stamped = stamp::stamp(&settings, &clock, arrival, trusted, &mut fresh);
            // The stamp by the gateway is of now, long after the event.
            if let Verdict::Stamp(stamp) = stamped.verdict
                && stamp.origin != Origin::Substituted
            {
                return stamp;
            }
        }
        Stamp {
            event_time: came.as_event_time(),
            ingest_time: arrival.ingest,
            uptime: arrival.uptime,
            boot: clock.boot,
            origin: Origin::Bounded,
            clock: ClockSource::Unknown,
            state: ClockState::Unsynchronized,
            max_error: None,
            timebase: clock.timebase,
            first_event_time: reading.device_time.map(|device| device.at),
            utc_offset_s: None,
            flags: Flags::NONE,
        }
    }

    /// The stamp as it was first made. Where the time was open and of an earlier boot, it
    /// can no longer be corrected: its origin is unknown.
    fn stamp_again(&self, mut stamp: Stamp) -> Stamp {
        stamp.flags = stamp.flags.with(Flags::RELEASED);
        if seal::is_open(&stamp) && stamp.boot != self.clock.boot_id() {
            stamp.origin = Origin::Unknown;
        }
        stamp
    }

    fn journal_released(&mut self, now: &Now, mut record: Record) {
        record.seq = self.books.accept(&record.source);
        record.epoch = self.books.epoch();
        self.books.account(&record.source).last_reading = Some(now.mono);
        self.accept_rate.add(now.mono, 1);
        self.journal_reading(now, record);
    }
}

/// The source's policy with `Quarantine` replaced by `Flag`: what an operator releases
/// is not quarantined again.
fn kept(policy: OnBadTime) -> OnBadTime {
    match policy {
        OnBadTime::Quarantine => OnBadTime::Flag,
        other => other,
    }
}

/// A record without a number: it gets one when it is journaled.
pub(super) fn record(source: &SourceId, reading: Reading, stamp: Stamp) -> Record {
    Record {
        source: source.clone(),
        epoch: Epoch::default(),
        seq: Default::default(),
        series: reading.series,
        value: reading.value,
        quality: reading.quality,
        quality_detail: reading.quality_detail,
        id: reading.id,
        stamp,
    }
}
