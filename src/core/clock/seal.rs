//! A reading's final time.
//!
//! Readings of a synchronized clock have it from the start. Others get it when they are
//! first sent, by what is known then, and keep it: the seal is in the journal before the
//! first publish, so every resend is the same. A seal does not rewrite stored entries; it
//! says how the times of a stretch of the journal are to be computed.

use super::timeline::{Anchored, Bounded, FirstStamp, Interval, Retimed};
use super::{ClockSource, ClockState};
use crate::core::id::{BootId, Offset};
use crate::core::reading::{Origin, Record, Stamp};
use crate::core::time::{EventTime, MaxError, Uptime};

/// How a stretch of the journal is timed, once and for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// First offset.
    pub first: Offset,
    /// One past the last.
    pub end: Offset,
    /// For each boot in it; readings of a boot that is not listed keep their stamps.
    pub timelines: Vec<(BootId, Timeline)>,
}

/// What is known about UTC during one boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timeline {
    /// It was synchronized at some time.
    Anchored(Anchored),
    /// It never was, but boots around it were.
    Bounded(Bounded),
}

impl Timeline {
    /// The interval of UTC at `up`; empty when what is known contradicts itself.
    pub fn interval(&self, up: Uptime) -> Interval {
        match self {
            Timeline::Anchored(anchored) => anchored.interval(up),
            Timeline::Bounded(bounded) => bounded.interval(up),
        }
    }

    /// How far the crystal may stray from uptime, in parts per billion.
    pub fn stray_ppb(&self) -> u64 {
        match self {
            Timeline::Anchored(a) => a.rate_ppb.unsigned_abs().saturating_add(a.rate_error_ppb),
            Timeline::Bounded(bounded) => bounded.rate_error_ppb,
        }
    }

    fn retime(&self, first: &FirstStamp) -> (Retimed, Origin, ClockSource, ClockState) {
        match self {
            Timeline::Anchored(anchored) => {
                // After the last anchor the time rests on the crystal alone: its bound
                // holds, but the clock was not synchronized again.
                let is_known_since = anchored.anchors.iter().any(|anchor| anchor.up >= first.up);
                let state = if is_known_since { ClockState::Synchronized } else { first.state };
                (anchored.retime(first), Origin::Restamped, anchored.source, state)
            }
            Timeline::Bounded(bounded) => {
                let unknown = ClockState::Unsynchronized;
                (bounded.retime(first), Origin::Bounded, ClockSource::Unknown, unknown)
            }
        }
    }
}

/// Whether the final time of a reading is not known when it is taken: its event
/// time is the gateway's, and the gateway's clock was not synchronized.
pub fn is_open(stamp: &Stamp) -> bool {
    stamp.state != ClockState::Synchronized
        && matches!(stamp.origin, Origin::Gateway | Origin::Substituted)
}

impl Seal {
    /// Whether it covers the entry at `offset`.
    pub fn covers(&self, offset: Offset) -> bool {
        (self.first..self.end).contains(&offset)
    }

    /// Gives the reading its final time.
    pub fn apply(&self, record: &mut Record) {
        self.apply_to(&mut record.stamp);
    }

    /// Gives the stamp its final time.
    pub fn apply_to(&self, stamp: &mut Stamp) {
        if !is_open(stamp) {
            return;
        }
        if let Some((_, timeline)) = self.timelines.iter().find(|(boot, _)| *boot == stamp.boot) {
            retime(stamp, timeline);
        }
    }
}

fn retime(stamp: &mut Stamp, timeline: &Timeline) {
    // How long the reading took to the gateway: the usual latency for substituted stamps,
    // half the round trip for answers to a question. The error of that half is as great
    // as the half itself.
    let latency = stamp.event_time - stamp.ingest_time.as_event_time();
    let is_gateways = stamp.origin == Origin::Gateway;
    let own_ns = if is_gateways { latency.ns().unsigned_abs() } else { 0 };
    let first = FirstStamp {
        up: stamp.uptime,
        wall_ns: stamp.ingest_time.unix_ns(),
        state: stamp.state,
        error_ns: stamp.max_error.map(|error| error.ns().saturating_sub(own_ns)),
    };
    let (retimed, origin, source, state) = timeline.retime(&first);
    let error = retimed.error_ns.map(|ns| MaxError::from_ns(ns.saturating_add(own_ns)));
    stamp.flags = stamp.flags.with(retimed.flags);
    if !retimed.is_restamped {
        // The error of a stamp that stays may turn out greater than was stated.
        stamp.max_error = error;
        return;
    }
    if is_gateways {
        stamp.first_event_time = Some(stamp.event_time);
        stamp.origin = origin;
        stamp.max_error = error;
    } else {
        // It is not known how long the device's reading took to arrive.
        stamp.max_error = None;
    }
    stamp.event_time = EventTime::from_unix_ns(retimed.utc_ns) + latency;
    stamp.clock = source;
    stamp.state = state;
}

#[cfg(test)]
mod tests {
    use super::super::ClockReading;
    use super::super::timeline::Anchor;
    use super::*;
    use crate::core::id::BootId;
    use crate::core::reading::Arrival;
    use crate::core::settings::SourceSettings;
    use crate::core::skew::SourceClock;
    use crate::core::stamp::{self, Verdict};
    use crate::core::time::{IngestTime, Span, Uptime};

    #[test]
    fn what_was_asked_for_keeps_half_its_round_trip_when_it_is_restamped() {
        let boot = BootId::default();
        let clock = ClockReading::unsynchronized(IngestTime::from_unix_ns(7_000), boot);
        let arrival = Arrival {
            ingest: IngestTime::from_unix_ns(7_000),
            uptime: Uptime::from_ns(15),
            half_round_trip: Span::from_ns(300),
        };
        let settings = SourceSettings::DEFAULT;
        let stamped = stamp::stamp(&settings, &clock, &arrival, None, &mut SourceClock::default());
        let Verdict::Stamp(mut stamp) = stamped.verdict else { panic!("{stamped:?}") };
        assert_eq!((stamp.event_time.unix_ns(), stamp.max_error), (6_700, None));
        let anchor = |up, utc_ns| Anchor { up: Uptime::from_ns(up), utc_ns, error_ns: 5 };
        let anchors = vec![anchor(10, 1_000_000), anchor(20, 1_000_010)];
        retime(&mut stamp, &Timeline::Anchored(Anchored { anchors, ..Anchored::default() }));
        assert_eq!(stamp.event_time.unix_ns(), 1_000_005 - 300);
        assert_eq!(stamp.origin, Origin::Restamped);
        let error_ns = stamp.max_error.map_or(0, MaxError::ns);
        assert!((305..330).contains(&error_ns), "{error_ns}");
    }

    #[test]
    fn a_time_beyond_the_last_anchor_is_not_called_synchronized() {
        let anchor = |up| Anchor { up: Uptime::from_ns(up), utc_ns: 1_000, error_ns: 5 };
        let anchored = Anchored { anchors: vec![anchor(10), anchor(20)], ..Anchored::default() };
        let timeline = Timeline::Anchored(anchored);
        let state_at = |up, state| {
            let first = FirstStamp { up: Uptime::from_ns(up), wall_ns: 0, state, error_ns: None };
            timeline.retime(&first).3
        };
        for state in [ClockState::Unsynchronized, ClockState::Stepped] {
            assert_eq!(state_at(5, state), ClockState::Synchronized);
            assert_eq!(state_at(20, state), ClockState::Synchronized);
            assert_eq!(state_at(21, state), state);
        }
    }
}
