//! Compares a device's instant with the gateway's clock: five checks in a fixed order, then
//! the policy of the source.
//!
//! Checks that need the right time are skipped while the gateway's clock is not trusted: a
//! gateway in 1970 must not flag the times of a good PLC as lying in the future.

use crate::core::clock::ClockReading;
use crate::core::reading::{Flags, Origin};
use crate::core::settings::{OnBadTime, SourceSettings};
use crate::core::time::{EventTime, IngestTime, MaxError, Span};

/// A live device is off if it is ahead of the gateway by more than this and both errors.
const AHEAD_MAX_NS: i64 = 1_000_000_000;
/// A GPS week number of ten bits comes round after 1024 weeks.
const GPS_ROUND_NS: i64 = 1_024 * 7 * DAY_NS;
const DAY_NS: i64 = 86_400_000_000_000;
const NS_PER_S: i64 = 1_000_000_000;

/// The times at which clocks begin that were never set, in seconds since 1970. That of
/// Windows, 1601, is before the range of 64-bit nanoseconds: parsers refuse it.
const BEGINNINGS_S: [i64; 5] = [
    0,             // UNIX
    315_964_800,   // GPS: 1980-01-06
    631_152_000,   // Siemens S7: 1990-01-01
    946_684_800,   // many RTC chips: 2000-01-01
    2_085_978_496, // NTP era 1: 2036-02-07T06:28:16Z
];

/// What a device says of one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The instant.
    pub at: EventTime,
    /// The device's own bound on its error, where the protocol has one.
    pub max_error: Option<MaxError>,
    /// What is known already; [`Flags::DEVICE_UNSYNC`] when the device itself
    /// says that its clock is not set.
    pub flags: Flags,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The event time.
    pub event_time: EventTime,
    /// Whose it is.
    pub origin: Origin,
    /// Bound on |event time − UTC|.
    pub max_error: Option<MaxError>,
    /// What was claimed, where `event_time` differs from it.
    pub first_event_time: Option<EventTime>,
    /// The flags of the claim and of the checks.
    pub flags: Flags,
    /// Whether the policy of the source sends it to the quarantine.
    pub is_quarantined: bool,
}

/// The error of the gateway's clock; `None` while it cannot serve as evidence.
fn gateway_error_ns(clock: &ClockReading) -> Option<i64> {
    let error = clock.max_error.map_or(0, |error| error.ns());
    clock.state.is_trusted().then(|| clamp(error))
}

fn clamp(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// The flags of a claim after all checks.
pub fn check(
    settings: &SourceSettings,
    clock: &ClockReading,
    arrival: IngestTime,
    claim: &Claim,
) -> Flags {
    let mut flags = claim.flags;
    let ns = claim.at.unix_ns();
    let is_beginning = ns % NS_PER_S == 0 && BEGINNINGS_S.contains(&(ns / NS_PER_S));
    if is_beginning || claim.at < settings.earliest {
        flags = flags.with(Flags::PAST);
    }
    let Some(gateway_error_ns) = gateway_error_ns(clock) else { return flags };
    let lag_ns = arrival.lag_behind(claim.at).ns();
    let ahead_ns = lag_ns.saturating_neg();
    let errors_ns = gateway_error_ns.saturating_add(claim.max_error.map_or(0, |e| clamp(e.ns())));
    let is_within =
        |value_ns: i64, limit_ns: i64, error_ns: i64| value_ns <= limit_ns.saturating_add(error_ns);
    if !is_within(ahead_ns, settings.future_limit.ns(), gateway_error_ns) {
        flags = flags.with(Flags::FUTURE);
    } else if settings.is_live
        && !(is_within(ahead_ns, AHEAD_MAX_NS, errors_ns)
            && is_within(lag_ns, settings.latency_max.ns(), errors_ns))
    {
        flags = flags.with(Flags::SKEWED);
    }
    // Only flagged: no time is ever corrected for it.
    if (i128::from(lag_ns) - i128::from(GPS_ROUND_NS)).abs() < i128::from(DAY_NS) {
        flags = flags.with(Flags::GPS_WNRO);
    }
    flags
}

/// Checks a claim and applies the policy of the source. `skew` is the estimate
/// of device less true time, once it is settled.
pub fn judge(
    settings: &SourceSettings,
    clock: &ClockReading,
    arrival: IngestTime,
    claim: &Claim,
    skew: Option<Span>,
) -> Judged {
    let flags = check(settings, clock, arrival, claim);
    let is_skewed = flags.has(Flags::SKEWED);
    let verified = clock
        .max_error
        .filter(|_| settings.is_live && clock.state.is_trusted())
        .map(|error| (error, error_at_arrival(settings, error)));
    let kept = Judged {
        event_time: claim.at,
        origin: Origin::Device,
        max_error: None,
        first_event_time: None,
        flags,
        is_quarantined: false,
    };
    let replaced = |event_time: EventTime, origin: Origin| Judged {
        event_time,
        origin,
        max_error: verified.map(|(_, at_arrival)| at_arrival),
        first_event_time: Some(claim.at),
        ..kept
    };
    match (flags.is_plausible(), settings.on_bad_time) {
        (true, OnBadTime::Correct) if is_skewed => match skew {
            Some(skew) => replaced(claim.at - skew, Origin::DeviceCorrected),
            // It is off by an amount that is not known yet: nothing bounds its error.
            None => kept,
        },
        (true, _) => {
            let declared = claim.max_error.filter(|_| !is_skewed);
            let seen = verified.map(|(error, _)| furthest(settings, arrival, error, claim.at));
            Judged { max_error: declared.or(seen), ..kept }
        }
        (false, OnBadTime::Flag | OnBadTime::Correct) => kept,
        (false, OnBadTime::Quarantine) => Judged { is_quarantined: true, ..kept },
        (false, OnBadTime::Substitute) => {
            let usual = arrival.as_event_time() - settings.latency_typical;
            replaced(usual, Origin::Substituted)
        }
    }
}

/// The error of an arrival taken as event time: the reading may be as old as
/// `latency_max`.
fn error_at_arrival(settings: &SourceSettings, gateway: MaxError) -> MaxError {
    MaxError::from_ns(gateway.ns().saturating_add(settings.latency_max.ns().unsigned_abs()))
}

/// How far a device time can be from the truth, which lies between the arrival
/// less the greatest latency and the arrival, give or take the gateway's error.
fn furthest(
    settings: &SourceSettings,
    arrival: IngestTime,
    gateway: MaxError,
    at: EventTime,
) -> MaxError {
    let lag_ns = i128::from(arrival.unix_ns()) - i128::from(at.unix_ns());
    let gateway_ns = i128::from(gateway.ns());
    let to_earliest = (lag_ns - gateway_ns - i128::from(settings.latency_max.ns())).unsigned_abs();
    let to_latest = (lag_ns + gateway_ns).unsigned_abs();
    MaxError::from_ns(u64::try_from(to_earliest.max(to_latest)).unwrap_or(u64::MAX))
}
