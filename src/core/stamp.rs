//! A reading and the clock at its arrival become a stamp: whose time it is, how
//! good, and what to be wary of.

use super::clock::ClockReading;
use super::reading::{Arrival, DeviceTime, Flags, Origin, Stamp};
use super::settings::{OnBadTime, SourceSettings};

/// What stamping decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Use this stamp.
    Stamp(Stamp),
    /// The source's policy sends such a stamp to the quarantine.
    Quarantine(Flags),
}

/// Whether a stamp may move a watermark: implausible ones never do.
pub const fn is_plausible(flags: Flags) -> bool {
    !flags.intersects(Flags::FUTURE.with(Flags::PAST).with(Flags::DEVICE_UNSYNC))
}

/// Stamps one reading.
pub fn stamp(
    settings: &SourceSettings,
    clock: &ClockReading,
    arrival: &Arrival,
    device: Option<DeviceTime>,
) -> Verdict {
    let gateway = gateway_stamp(clock, arrival);
    let Some(device) = device else { return Verdict::Stamp(gateway) };
    let flags = device.flags.with(implausible(settings, clock, arrival, &device));
    let first = (device.at != gateway.event_time).then_some(device.at);
    if !settings.trusts_device {
        return Verdict::Stamp(Stamp {
            first_event_time: first,
            utc_offset_s: device.utc_offset_s,
            flags,
            ..gateway
        });
    }
    if is_plausible(flags) || settings.on_bad_time == OnBadTime::Flag {
        return Verdict::Stamp(Stamp {
            event_time: device.at,
            origin: Origin::Device,
            // The gateway's clock does not bound the device's.
            max_error: None,
            utc_offset_s: device.utc_offset_s,
            flags,
            ..gateway
        });
    }
    match settings.on_bad_time {
        OnBadTime::Quarantine => Verdict::Quarantine(flags),
        OnBadTime::Flag | OnBadTime::Substitute => Verdict::Stamp(Stamp {
            origin: Origin::Substituted,
            first_event_time: first,
            utc_offset_s: device.utc_offset_s,
            flags,
            ..gateway
        }),
    }
}

fn gateway_stamp(clock: &ClockReading, arrival: &Arrival) -> Stamp {
    Stamp {
        event_time: arrival.ingest.as_event_time(),
        ingest_time: arrival.ingest,
        uptime: arrival.uptime,
        boot: clock.boot,
        origin: Origin::Gateway,
        clock: clock.source,
        state: clock.state,
        max_error: clock.max_error,
        timebase: clock.timebase,
        first_event_time: None,
        utc_offset_s: None,
        flags: Flags::NONE,
    }
}

/// "In the future" needs a gateway clock that is right; "too old" does not.
fn implausible(
    settings: &SourceSettings,
    clock: &ClockReading,
    arrival: &Arrival,
    device: &DeviceTime,
) -> Flags {
    if device.at < settings.earliest {
        return Flags::PAST;
    }
    let error_ns = clock.max_error.map_or(0, |error| error.ns().min(i64::MAX as u64) as i64);
    let ahead_ns = device.at.unix_ns().saturating_sub(arrival.ingest.unix_ns());
    let limit_ns = settings.future_limit.ns().saturating_add(error_ns);
    if clock.state.is_trusted() && ahead_ns > limit_ns { Flags::FUTURE } else { Flags::NONE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::clock::ClockState;
    use crate::core::id::BootId;
    use crate::core::time::{EventTime, IngestTime, MaxError, MonoTime, Span};

    const NOW_NS: i64 = 1_796_000_000_000_000_000;

    fn settings(on_bad_time: OnBadTime) -> SourceSettings {
        SourceSettings {
            trusts_device: true,
            future_limit: Span::from_secs(300),
            earliest: EventTime::from_unix_ns(1_420_070_400_000_000_000),
            on_bad_time,
            bound: Span::from_secs(20),
        }
    }

    fn clock(state: ClockState) -> ClockReading {
        let reading =
            ClockReading::unsynchronized(IngestTime::from_unix_ns(NOW_NS), BootId::default());
        let max_error = state.is_trusted().then(|| MaxError::from_ns(1_000_000_000));
        ClockReading { state, max_error, ..reading }
    }

    fn arrival() -> Arrival {
        Arrival { ingest: IngestTime::from_unix_ns(NOW_NS), uptime: MonoTime::from_ns(5) }
    }

    fn device(offset_ns: i64) -> Option<DeviceTime> {
        let at = EventTime::from_unix_ns(NOW_NS + offset_ns);
        Some(DeviceTime { at, utc_offset_s: None, flags: Flags::NONE })
    }

    fn stamped(on_bad: OnBadTime, state: ClockState, time: Option<DeviceTime>) -> Stamp {
        match stamp(&settings(on_bad), &clock(state), &arrival(), time) {
            Verdict::Stamp(stamp) => stamp,
            Verdict::Quarantine(flags) => panic!("quarantined: {flags:?}"),
        }
    }

    #[test]
    fn the_limit_of_the_future_grows_with_the_clock_error() {
        let limit_ns = 301_000_000_000;
        let at = stamped(OnBadTime::Flag, ClockState::Synchronized, device(limit_ns));
        assert_eq!(at.flags, Flags::NONE);
        let past = stamped(OnBadTime::Flag, ClockState::Synchronized, device(limit_ns + 1));
        assert_eq!((past.flags, past.origin), (Flags::FUTURE, Origin::Device));
    }

    #[test]
    fn a_gateway_without_a_clock_calls_nothing_future() {
        let stamp =
            stamped(OnBadTime::Substitute, ClockState::Unsynchronized, device(i64::MAX / 4));
        assert_eq!((stamp.flags, stamp.origin), (Flags::NONE, Origin::Device));
    }

    #[test]
    fn substitution_keeps_the_first_stamp() {
        let old = device(-1_000_000_000_000_000_000);
        let stamp = stamped(OnBadTime::Substitute, ClockState::Synchronized, old);
        assert_eq!(stamp.origin, Origin::Substituted);
        assert_eq!(stamp.event_time.unix_ns(), NOW_NS);
        assert_eq!(stamp.first_event_time, old.map(|time| time.at));
        assert_eq!(stamp.flags, Flags::PAST);
        let verdict = super::stamp(
            &settings(OnBadTime::Quarantine),
            &clock(ClockState::Holdover),
            &arrival(),
            old,
        );
        assert_eq!(verdict, Verdict::Quarantine(Flags::PAST));
    }
}
