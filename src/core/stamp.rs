//! A reading and the clock at its arrival become a stamp: whose time it is, how
//! good, and what to be wary of.
//!
//! 1. A local time without an offset becomes an instant by the source's zone
//!    ([`super::zone`]).
//! 2. The instant is compared with the gateway's clock ([`judge`]); the source's policy
//!    decides what becomes of an implausible one.
//! 3. What the stamp is worth to a consumer upstream: [`lane`].
//!
//! Nothing is clamped or bumped. A stamp that goes backwards stays as it is, is
//! flagged, and the sequence number gives the order.

use super::clock::ClockReading;
use super::leap;
use super::reading::{Arrival, DeviceTime, Flags, Origin, Stamp};
use super::settings::{OnAmbiguousTime, OnNonexistentTime, SourceSettings};
use super::skew::SourceClock;
use super::time::{EventTime, MaxError, Span};
use super::zone::{self, DecidedBy, Hints, Kind, Resolved, Zone};

pub mod judge;
pub mod lane;
pub mod old_news;

use judge::Claim;

/// Least error of a time in a repeated hour when nothing tells which pass it is.
const FOLD_ERROR_MIN_NS: u64 = 3_600_000_000_000;

/// What stamping decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Use this stamp.
    Stamp(Stamp),
    /// The source's policy sends such a stamp to the quarantine.
    Quarantine {
        /// What is to be known about it.
        flags: Flags,
        /// Why, for people.
        reason: String,
    },
}

/// What stamping decided, and what it noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// The stamp, or why there is none.
    pub verdict: Verdict,
    /// The device's clock was set by this much since the reading before,
    /// positive for ahead.
    pub device_step: Option<Span>,
}

/// Stamps one reading. `source_clock` is what is remembered of earlier readings of the same
/// source.
pub fn stamp(
    settings: &SourceSettings,
    clock: &ClockReading,
    arrival: &Arrival,
    device: Option<DeviceTime>,
    source_clock: &mut SourceClock,
) -> Stamped {
    let gateway = gateway_stamp(clock, arrival);
    let Some(device) = device else {
        let flags = order(clock, arrival, source_clock);
        return Stamped { verdict: Verdict::Stamp(Stamp { flags, ..gateway }), device_step: None };
    };
    let local = match localize(settings, clock, arrival, &device, source_clock) {
        Ok(local) => local,
        Err(reason) if settings.trusts_device => {
            let verdict = Verdict::Quarantine { flags: device.flags, reason };
            return Stamped { verdict, device_step: None };
        }
        // The gateway's time is used, so the device's need not be exact.
        Err(_) => Local { time: device, least_error: None },
    };
    let device = local.time;
    let claim = Claim { at: device.at, max_error: None, flags: device.flags };
    let flags = judge::check(settings, clock, arrival.ingest, &claim);
    let mut device_step = None;
    if flags.is_plausible() {
        source_clock.previous = Some(device.at);
        if settings.is_live && clock.state.is_trusted() {
            device_step = source_clock.sample(clock, arrival, device.at);
        }
    }
    let verdict = if settings.trusts_device {
        let skew = source_clock.skew().settled_skew(Span::ZERO);
        let judged = judge::judge(settings, clock, arrival.ingest, &claim, skew);
        match judged.is_quarantined {
            true => Verdict::Quarantine { flags, reason: implausible(device.at, flags) },
            false => Verdict::Stamp(Stamp {
                event_time: judged.event_time,
                origin: judged.origin,
                max_error: judged.max_error.map(|error| match judged.origin {
                    // The gateway's time took its place.
                    Origin::Substituted => error,
                    _ => error.max(local.least_error()),
                }),
                first_event_time: judged.first_event_time,
                utc_offset_s: device.utc_offset_s,
                flags,
                ..gateway
            }),
        }
    } else {
        Verdict::Stamp(Stamp {
            first_event_time: (device.at != gateway.event_time).then_some(device.at),
            utc_offset_s: device.utc_offset_s,
            flags: flags.with(order(clock, arrival, source_clock)),
            ..gateway
        })
    };
    Stamped { verdict, device_step }
}

/// The event time that the device claims, before any correction; a local time is resolved
/// by the zone. `None` where it claims none, or where the device is trusted and its
/// local time goes to the quarantine.
pub fn claimed(
    settings: &SourceSettings,
    clock: &ClockReading,
    arrival: &Arrival,
    device: Option<DeviceTime>,
    source_clock: &SourceClock,
) -> Option<EventTime> {
    let device = device?;
    match localize(settings, clock, arrival, &device, source_clock) {
        Ok(local) => Some(local.time.at),
        Err(_) => (!settings.trusts_device).then_some(device.at),
    }
}

fn gateway_stamp(clock: &ClockReading, arrival: &Arrival) -> Stamp {
    Stamp {
        event_time: arrival.ingest.as_event_time() - arrival.half_round_trip,
        ingest_time: arrival.ingest,
        uptime: arrival.uptime,
        boot: clock.boot,
        origin: Origin::Gateway,
        clock: clock.source,
        state: clock.state,
        max_error: clock.max_error.map(|error| error.plus(arrival.half_round_trip)),
        timebase: clock.timebase,
        first_event_time: None,
        utc_offset_s: None,
        flags: Flags::NONE,
    }
}

/// Flags a reading with the gateway's time that is earlier than the one before it. If
/// uptime went on meanwhile, only a step of the wall clock explains that.
fn order(clock: &ClockReading, arrival: &Arrival, source_clock: &mut SourceClock) -> Flags {
    let before = source_clock.gateway.replace((*arrival, clock.boot));
    match before {
        Some((before, boot)) if arrival.ingest < before.ingest => {
            let is_step = boot == clock.boot && before.uptime <= arrival.uptime;
            let step = if is_step { Flags::STEP_NEAR } else { Flags::NONE };
            Flags::ORDER_BREAK.with(step)
        }
        _ => Flags::NONE,
    }
}

/// A device time as an instant, and what its resolution leaves unknown.
struct Local {
    time: DeviceTime,
    least_error: Option<MaxError>,
}

impl Local {
    fn least_error(&self) -> MaxError {
        self.least_error.unwrap_or(MaxError::from_ns(0))
    }
}

/// Resolves a time without an offset by the zone of the source. The error says
/// why it goes to the quarantine.
fn localize(
    settings: &SourceSettings,
    clock: &ClockReading,
    arrival: &Arrival,
    device: &DeviceTime,
    source_clock: &SourceClock,
) -> Result<Local, String> {
    let mut local = Local { time: *device, least_error: None };
    if !device.flags.has(Flags::NO_OFFSET) {
        return Ok(local);
    }
    if let Some(zone) = settings.zone {
        let trusted = clock.max_error.filter(|_| settings.is_live && clock.state.is_trusted());
        let hints = Hints {
            is_summer: None,
            arrival: trusted.map(|error| (arrival.ingest, error)),
            latency: settings.latency_typical,
            previous: source_clock.previous,
            prefers_later: settings.on_ambiguous_time == OnAmbiguousTime::Later,
        };
        let resolved = zone::resolve(zone, device.at.unix_ns(), &hints);
        let resolved = resolved.ok_or_else(|| {
            format!("local time {} lies outside the years 1678 to 2262", shown_local(device.at))
        })?;
        let flag = admit(settings, zone, device.at, &resolved)?;
        local.least_error = unresolved_error(&resolved);
        local.time = DeviceTime {
            at: resolved.at,
            utc_offset_s: Some(resolved.offset_s),
            flags: device.flags.with(flag),
        };
    }
    // Without its offset, second 60 could not be judged before.
    let next_s = local.time.at.unix_ns().saturating_add(1).div_euclid(1_000_000_000);
    if device.flags.has(Flags::LEAP) && !leap::ends_at(next_s) {
        let shown = shown_local(device.at);
        return Err(format!("local time {shown} is second 60 where no leap second was"));
    }
    Ok(local)
}

/// The flag of a skipped or repeated hour; the error says why the policies of the
/// source do not take it.
fn admit(
    settings: &SourceSettings,
    zone: Zone,
    at: EventTime,
    resolved: &Resolved,
) -> Result<Flags, String> {
    let shown = shown_local(at);
    match resolved.kind {
        Kind::Unique => Ok(Flags::NONE),
        Kind::Gap if settings.on_nonexistent_time == OnNonexistentTime::Quarantine => {
            Err(format!("local time {shown} does not exist: the clocks of {zone} skip it"))
        }
        Kind::Gap => Ok(Flags::DST_GAP),
        Kind::Fold { by: DecidedBy::Default, alternative }
            if settings.on_ambiguous_time == OnAmbiguousTime::Quarantine =>
        {
            let (first, second) = (resolved.at.min(alternative), resolved.at.max(alternative));
            Err(format!(
                "local time {shown} comes twice in {zone}, at {first} and at {second}, \
                 and nothing tells which it is"
            ))
        }
        Kind::Fold { .. } => Ok(Flags::DST_FOLD),
    }
}

fn unresolved_error(resolved: &Resolved) -> Option<MaxError> {
    match resolved.kind {
        Kind::Fold { by: DecidedBy::Default, alternative } => {
            let apart_ns = resolved.at.unix_ns().abs_diff(alternative.unix_ns());
            Some(MaxError::from_ns(apart_ns.max(FOLD_ERROR_MIN_NS)))
        }
        _ => None,
    }
}

/// A device time as the device said it: without `Z` where it gave no offset.
pub fn shown(device: &DeviceTime) -> String {
    if device.flags.has(Flags::NO_OFFSET) { shown_local(device.at) } else { device.at.to_string() }
}

/// A time on a local clock: no `Z`.
fn shown_local(at: EventTime) -> String {
    at.to_string().trim_end_matches('Z').to_owned()
}

fn implausible(at: EventTime, flags: Flags) -> String {
    let names: Vec<&str> = flags.names().collect();
    format!("device time {at} is implausible ({})", names.join(", "))
}

#[cfg(test)]
mod tests;
