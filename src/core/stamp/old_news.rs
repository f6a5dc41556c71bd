//! Old news: messages that a broker retains and gives to every new subscriber.
//!
//! It is not known when such a message was published: a second ago, or before the meter
//! died. So its arrival is no event time, and says nothing about the device's clock.
//! A device time of its own stands. Without one the time is unknown
//! ([`Origin::Unknown`], no later than the arrival) and good quality becomes
//! uncertain. Windows, watermarks and delivery frontiers do not see it at all: it may
//! have been counted when it first came.

use super::{Stamped, Verdict};
use crate::core::clock::ClockReading;
use crate::core::reading::{Arrival, Flags, Origin, Quality, Reading};
use crate::core::settings::SourceSettings;
use crate::core::skew::SourceClock;

/// Stamps a reading that is old news, and judges its quality.
pub fn stamp(
    settings: &SourceSettings,
    clock: &ClockReading,
    arrival: &Arrival,
    reading: &mut Reading,
) -> Stamped {
    let settings = SourceSettings { is_live: false, ..settings.clone() };
    // Its arrival must not influence how later readings are judged.
    let mut nobody = SourceClock::default();
    let mut stamped = super::stamp(&settings, clock, arrival, reading.device_time, &mut nobody);
    stamped.device_step = None;
    if let Verdict::Stamp(stamp) = &mut stamped.verdict {
        stamp.flags = stamp.flags.with(Flags::RETAINED);
        if !matches!(stamp.origin, Origin::Device | Origin::DeviceCorrected) {
            (stamp.origin, stamp.max_error) = (Origin::Unknown, None);
            if reading.quality == Quality::Good {
                reading.quality = Quality::Uncertain;
            }
        }
    }
    stamped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::clock::ClockState;
    use crate::core::id::BootId;
    use crate::core::reading::{DeviceTime, Series, Stamp, Value};
    use crate::core::settings::OnBadTime;
    use crate::core::time::{EventTime, IngestTime, MaxError, Span, Uptime};
    use std::sync::Arc;

    const NOW_NS: i64 = 1_796_000_000_000_000_000;
    const HOUR_NS: i64 = 3_600_000_000_000;

    /// What becomes of a retained reading with this device time, and its quality.
    fn retained(settings: SourceSettings, device_ns: Option<i64>) -> (Stamp, Quality) {
        let ingest = IngestTime::from_unix_ns(NOW_NS);
        let arrival = Arrival { ingest, uptime: Uptime::from_ns(5), half_round_trip: Span::ZERO };
        let clock = ClockReading {
            state: ClockState::Synchronized,
            max_error: Some(MaxError::from_ns(1_000)),
            ..ClockReading::unsynchronized(ingest, BootId::default())
        };
        let device_time = device_ns.map(|ns| DeviceTime {
            at: EventTime::from_unix_ns(ns),
            utc_offset_s: None,
            flags: Flags::NONE,
        });
        let series = Series { entity: "grid".into(), property: "p".into(), unit: None };
        let mut reading = Reading {
            series: Arc::new(series),
            value: Value::I64(1),
            quality: Quality::Good,
            quality_detail: None,
            device_time,
            id: None,
            flags: Flags::RETAINED,
        };
        match stamp(&settings, &clock, &arrival, &mut reading).verdict {
            Verdict::Stamp(stamp) => (stamp, reading.quality),
            Verdict::Quarantine { reason, .. } => panic!("{reason}"),
        }
    }

    #[test]
    fn its_own_time_stands_and_is_held_against_no_arrival() {
        let (stamp, quality) = retained(SourceSettings::DEFAULT, Some(NOW_NS - 2 * HOUR_NS));
        assert_eq!((stamp.origin, quality), (Origin::Device, Quality::Good));
        assert_eq!(stamp.event_time.unix_ns(), NOW_NS - 2 * HOUR_NS);
        assert_eq!(stamp.flags, Flags::RETAINED);
    }

    #[test]
    fn the_gateways_time_is_never_its_own() {
        let by_gateway = SourceSettings { trusts_device: false, ..SourceSettings::DEFAULT };
        let substituting =
            SourceSettings { on_bad_time: OnBadTime::Substitute, ..SourceSettings::DEFAULT };
        for (settings, device_ns) in [
            (SourceSettings::DEFAULT, None),
            (by_gateway, Some(NOW_NS - HOUR_NS)),
            (substituting, Some(NOW_NS + HOUR_NS)),
        ] {
            let (stamp, quality) = retained(settings, device_ns);
            assert_eq!((stamp.origin, stamp.max_error), (Origin::Unknown, None));
            assert_eq!(quality, Quality::Uncertain);
            assert!(stamp.flags.has(Flags::RETAINED));
        }
    }
}
