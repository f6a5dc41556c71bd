//! Old news: what a broker retains for whoever subscribes.
//!
//! When it was published, nobody can tell: a second ago, or before the meter died.
//! So its arrival is no event time, and it says nothing about the device's clock.
//! A device time of its own stands. Without one the time is unknown
//! ([`Origin::Unknown`], no later than the arrival) and good quality becomes
//! uncertain. Windows, watermarks and delivery frontiers do not see it at all: it
//! may have been counted when it was news.

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
    let settings = SourceSettings { is_live: false, ..*settings };
    // What it would leave behind says nothing of the readings after it.
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
