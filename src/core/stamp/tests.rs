use super::*;
use crate::core::clock::ClockState;
use crate::core::id::BootId;
use crate::core::settings::OnBadTime;
use crate::core::time::{IngestTime, TimebaseId};

const NOW_NS: i64 = 1_796_000_000_000_000_000;
const S: i64 = 1_000_000_000;
/// 2026-10-25T02:30:00, on a wall clock.
const FOLD_NS: i64 = 1_792_895_400 * S;
/// 2026-10-25T00:30:00Z and an hour later.
const PASSES_NS: (i64, i64) = (1_792_888_200 * S, 1_792_891_800 * S);

fn settings(on_bad_time: OnBadTime) -> SourceSettings {
    SourceSettings { on_bad_time, ..SourceSettings::DEFAULT }
}

fn berlin() -> SourceSettings {
    SourceSettings { zone: "Europe/Berlin".parse().ok(), is_live: false, ..SourceSettings::DEFAULT }
}

fn clock(state: ClockState) -> ClockReading {
    let reading = ClockReading::unsynchronized(IngestTime::from_unix_ns(NOW_NS), BootId::default());
    let max_error = state.is_trusted().then(|| MaxError::from_ns(1_000_000_000));
    ClockReading { state, max_error, ..reading }
}

fn arrival_at(ingest_ns: i64, up_ns: u64) -> Arrival {
    let uptime = crate::core::time::Uptime::from_ns(up_ns);
    Arrival { ingest: IngestTime::from_unix_ns(ingest_ns), uptime, half_round_trip: Span::ZERO }
}

fn device(at_ns: i64, flags: Flags) -> Option<DeviceTime> {
    Some(DeviceTime { at: EventTime::from_unix_ns(at_ns), utc_offset_s: None, flags })
}

/// A first reading at [`NOW_NS`].
fn alone(settings: &SourceSettings, state: ClockState, time: Option<DeviceTime>) -> Verdict {
    let arrival = arrival_at(NOW_NS, 5);
    stamp(settings, &clock(state), &arrival, time, &mut SourceClock::default()).verdict
}

fn stamp_of(verdict: Verdict) -> Stamp {
    match verdict {
        Verdict::Stamp(stamp) => stamp,
        Verdict::Quarantine { reason, .. } => panic!("quarantined: {reason}"),
    }
}

fn stamped(on_bad: OnBadTime, state: ClockState, offset_ns: i64) -> Stamp {
    let time = device(NOW_NS + offset_ns, Flags::NONE);
    stamp_of(alone(&settings(on_bad), state, time))
}

fn reason_of(verdict: Verdict) -> String {
    match verdict {
        Verdict::Quarantine { reason, .. } => reason,
        Verdict::Stamp(stamp) => panic!("stamped: {stamp:?}"),
    }
}

#[test]
fn the_limit_of_the_future_grows_with_the_clock_error() {
    let at = stamped(OnBadTime::Flag, ClockState::Synchronized, 301 * S);
    assert_eq!(at.flags, Flags::SKEWED);
    let past = stamped(OnBadTime::Flag, ClockState::Synchronized, 301 * S + 1);
    assert_eq!((past.flags, past.origin), (Flags::FUTURE, Origin::Device));
}

#[test]
fn a_gateway_without_a_clock_calls_nothing_future_and_bounds_nothing() {
    let stamp = stamped(OnBadTime::Substitute, ClockState::Unsynchronized, i64::MAX / 4);
    assert_eq!((stamp.flags, stamp.origin), (Flags::NONE, Origin::Device));
    assert_eq!(stamp.max_error, None);
}

#[test]
fn arrival_bounds_a_live_stamp_and_no_other() {
    let live = stamped(OnBadTime::Flag, ClockState::Holdover, -S / 2);
    assert_eq!((live.flags, live.max_error), (Flags::NONE, Some(MaxError::from_ns(2_500_000_000))));
    assert_eq!(live.state, ClockState::Holdover, "the gateway's own");
    let batches = SourceSettings { is_live: false, ..SourceSettings::DEFAULT };
    let old = device(NOW_NS - 6 * 3_600 * S, Flags::NONE);
    let old = stamp_of(alone(&batches, ClockState::Synchronized, old));
    assert_eq!((old.flags, old.max_error), (Flags::NONE, None));
}

#[test]
fn substitution_keeps_the_first_stamp() {
    let old = stamped(OnBadTime::Substitute, ClockState::Synchronized, -1_000_000_000 * S);
    assert_eq!((old.origin, old.event_time.unix_ns()), (Origin::Substituted, NOW_NS));
    let claimed = EventTime::from_unix_ns(NOW_NS - 1_000_000_000 * S);
    assert_eq!(old.first_event_time, Some(claimed));
    assert_eq!(old.flags, Flags::PAST.with(Flags::SKEWED));
    assert_eq!(old.max_error, Some(MaxError::from_ns(3_000_000_000)));
    let quarantine = settings(OnBadTime::Quarantine);
    let time = device(NOW_NS - 1_000_000_000 * S, Flags::NONE);
    let reason = reason_of(alone(&quarantine, ClockState::Holdover, time));
    assert_eq!(reason, format!("device time {claimed} is implausible (past, skewed)"));
}

#[test]
fn what_is_out_of_all_reason_is_never_corrected_by_its_skew() {
    let settings = settings(OnBadTime::Correct);
    let clock = clock(ClockState::Synchronized);
    let at = EventTime::from_unix_ns(NOW_NS - 7_168 * 86_400 * S);
    let claim = Claim { at, max_error: None, flags: Flags::NONE };
    let skew = Some(Span::from_secs(-7_168 * 86_400));
    let judged = judge::judge(&settings, &clock, IngestTime::from_unix_ns(NOW_NS), &claim, skew);
    assert_eq!((judged.event_time, judged.origin), (at, Origin::Device));
    assert_eq!(judged.flags, Flags::PAST.with(Flags::SKEWED).with(Flags::GPS_WNRO));
    assert_eq!(judged.max_error, None);
}

#[test]
fn a_skewed_device_is_corrected_from_its_eighth_reading_on() {
    let settings = settings(OnBadTime::Correct);
    let clock = clock(ClockState::Synchronized);
    let mut source_clock = SourceClock::default();
    let mut stamps = Vec::new();
    for n in 0..9 {
        let now_ns = NOW_NS + n * S;
        // Ten seconds behind; 30 ms of latency, 20 at best.
        let latency_ns = if n == 3 { 20_000_000 } else { 30_000_000 };
        let time = device(now_ns - latency_ns - 10 * S, Flags::NONE);
        let arrival = arrival_at(now_ns, (n * S) as u64);
        let stamped = stamp(&settings, &clock, &arrival, time, &mut source_clock);
        assert_eq!(stamped.device_step, None);
        stamps.push(stamp_of(stamped.verdict));
    }
    let origins: Vec<Origin> = stamps.iter().map(|stamp| stamp.origin).collect();
    assert_eq!(origins[..7], [Origin::Device; 7]);
    assert_eq!(origins[7..], [Origin::DeviceCorrected; 2]);
    let last = stamps[8];
    assert_eq!(last.event_time.unix_ns(), NOW_NS + 8 * S - 10_000_000);
    assert_eq!(last.first_event_time.map(EventTime::unix_ns), Some(NOW_NS - 2 * S - 30_000_000));
    assert_eq!(
        (last.flags, last.max_error),
        (Flags::SKEWED, Some(MaxError::from_ns(3_000_000_000)))
    );
}

#[test]
fn a_device_that_is_set_is_noticed_and_a_gateway_that_is_set_is_not_taken_for_it() {
    let settings = SourceSettings::DEFAULT;
    let mut source_clock = SourceClock::default();
    let mut step = |clock: &ClockReading, n: i64, offset_ms: i64| {
        let now_ns = NOW_NS + n * S;
        let time = device(now_ns + offset_ms * 1_000_000, Flags::NONE);
        let arrival = arrival_at(now_ns, (n * S) as u64);
        stamp(&settings, clock, &arrival, time, &mut source_clock).device_step
    };
    let before = clock(ClockState::Synchronized);
    assert_eq!(step(&before, 0, -20), None);
    assert_eq!(step(&before, 1, 2_980), Some(Span::from_secs(3)));
    let after = ClockReading { timebase: TimebaseId(before.timebase.0 + 1), ..before };
    assert_eq!(step(&after, 2, 60_000), None);
    assert_eq!(step(&after, 3, 61_001), Some(Span::from_millis(1_001)));
    assert_eq!(step(&after, 3, 61_001), None, "another reading of the same line");
}

#[test]
fn a_local_time_is_resolved_by_the_zone_and_keeps_the_offset_that_was_used() {
    let summer = device(1_782_907_200 * S, Flags::NO_OFFSET);
    let stamp = stamp_of(alone(&berlin(), ClockState::Synchronized, summer));
    assert_eq!(stamp.event_time.to_string(), "2026-07-01T10:00:00.000000000Z");
    assert_eq!((stamp.utc_offset_s, stamp.flags), (Some(7_200), Flags::NO_OFFSET));
    assert_eq!(stamp.first_event_time, None);
    let no_zone = SourceSettings { is_live: false, ..SourceSettings::DEFAULT };
    let stamp = stamp_of(alone(&no_zone, ClockState::Synchronized, summer));
    assert_eq!(stamp.event_time.to_string(), "2026-07-01T12:00:00.000000000Z");
    assert_eq!((stamp.utc_offset_s, stamp.flags), (None, Flags::NO_OFFSET));
}

#[test]
fn the_repeated_hour_is_told_by_arrival_by_the_reading_before_or_by_the_policy() {
    let live = SourceSettings { is_live: true, ..berlin() };
    let fold = device(FOLD_NS, Flags::NO_OFFSET);
    let (first, second) = PASSES_NS;
    let good = clock(ClockState::Synchronized);
    let at = |settings: &SourceSettings, arrival_ns: i64, source_clock: &mut SourceClock| {
        let arrival = arrival_at(arrival_ns, 5);
        stamp_of(stamp(settings, &good, &arrival, fold, source_clock).verdict)
    };
    let told = at(&live, second + S, &mut SourceClock::default());
    assert_eq!((told.event_time.unix_ns(), told.utc_offset_s), (second, Some(3_600)));
    assert_eq!(told.flags, Flags::NO_OFFSET.with(Flags::DST_FOLD));
    assert_eq!(told.max_error, Some(MaxError::from_ns(2_000_000_000)));
    let mut source_clock = SourceClock::default();
    let untold = at(&berlin(), NOW_NS, &mut source_clock);
    assert_eq!((untold.event_time.unix_ns(), untold.max_error), (first, None));
    source_clock.previous = Some(EventTime::from_unix_ns(first + 1));
    let told = at(&berlin(), NOW_NS, &mut source_clock);
    assert_eq!(told.event_time.unix_ns(), second);
    let later = SourceSettings { on_ambiguous_time: OnAmbiguousTime::Later, ..berlin() };
    assert_eq!(at(&later, NOW_NS, &mut SourceClock::default()).event_time.unix_ns(), second);
}

#[test]
fn a_gateway_too_uncertain_to_tell_the_pass_bounds_the_error_by_the_hour() {
    let live = SourceSettings { is_live: true, ..berlin() };
    let fold = device(FOLD_NS, Flags::NO_OFFSET);
    let vague = ClockReading {
        max_error: Some(MaxError::from_ns(900_000_000_000)),
        ..clock(ClockState::Holdover)
    };
    let arrival = arrival_at(PASSES_NS.0 + S, 5);
    let stamped = stamp(&live, &vague, &arrival, fold, &mut SourceClock::default());
    let stamp = stamp_of(stamped.verdict);
    assert_eq!(stamp.event_time.unix_ns(), PASSES_NS.0);
    assert_eq!(stamp.max_error, Some(MaxError::from_ns(3_600_000_000_000)));
}

#[test]
fn local_times_that_a_source_does_not_take_go_to_the_quarantine_with_their_reason() {
    let strict = SourceSettings {
        on_ambiguous_time: OnAmbiguousTime::Quarantine,
        on_nonexistent_time: OnNonexistentTime::Quarantine,
        ..berlin()
    };
    let reason = |settings: &SourceSettings, ns: i64, flags: Flags| {
        reason_of(alone(settings, ClockState::Synchronized, device(ns, flags)))
    };
    let gap_ns = 1_774_751_400 * S;
    assert_eq!(
        reason(&strict, gap_ns, Flags::NO_OFFSET),
        "local time 2026-03-29T02:30:00.000000000 does not exist: the clocks of Europe/Berlin \
         skip it"
    );
    assert_eq!(
        reason(&strict, FOLD_NS, Flags::NO_OFFSET),
        "local time 2026-10-25T02:30:00.000000000 comes twice in Europe/Berlin, at \
         2026-10-25T00:30:00.000000000Z and at 2026-10-25T01:30:00.000000000Z, and nothing tells \
         which it is"
    );
    let west = SourceSettings { zone: "-01:00".parse().ok(), ..berlin() };
    assert_eq!(
        reason(&west, i64::MAX, Flags::NO_OFFSET),
        "local time 2262-04-11T23:47:16.854775807 lies outside the years 1678 to 2262"
    );
    // 2017-01-01T00:59:60 was a leap second in Berlin, not by UTC.
    let leap_ns = 1_483_232_400 * S - 1;
    let leap = Flags::NO_OFFSET.with(Flags::LEAP);
    let taken = stamp_of(alone(&berlin(), ClockState::Synchronized, device(leap_ns, leap)));
    assert_eq!(taken.event_time.to_string(), "2016-12-31T23:59:59.999999999Z");
    assert_eq!(
        reason(&SourceSettings::DEFAULT, leap_ns, leap),
        "local time 2017-01-01T00:59:59.999999999 is second 60 where no leap second was"
    );
    // Where the gateway's time is used, nothing hangs on the device's.
    let gateway = SourceSettings { trusts_device: false, ..strict };
    let time = device(gap_ns, Flags::NO_OFFSET);
    let taken = stamp_of(alone(&gateway, ClockState::Synchronized, time));
    assert_eq!((taken.event_time.unix_ns(), taken.origin), (NOW_NS, Origin::Gateway));
}

#[test]
fn what_was_asked_for_happened_half_a_round_trip_ago_give_or_take_as_much() {
    let half_round_trip = Span::from_millis(200);
    let arrival = Arrival { half_round_trip, ..arrival_at(NOW_NS, 5) };
    let good = clock(ClockState::Synchronized);
    let mut source_clock = SourceClock::default();
    let taken = stamp(&SourceSettings::DEFAULT, &good, &arrival, None, &mut source_clock);
    let taken = stamp_of(taken.verdict);
    assert_eq!(taken.event_time.unix_ns(), NOW_NS - 200_000_000);
    assert_eq!(taken.ingest_time.unix_ns(), NOW_NS);
    assert_eq!(taken.max_error, Some(MaxError::from_ns(1_200_000_000)));
}

#[test]
fn the_gateway_going_backwards_is_flagged_and_left_as_it_is() {
    let good = clock(ClockState::Synchronized);
    let mut source_clock = SourceClock::default();
    let mut flags = |ingest_ns: i64, up_ns: u64, boot: BootId| {
        let clock = ClockReading { boot, ..good };
        let arrival = arrival_at(ingest_ns, up_ns);
        let stamped = stamp(&SourceSettings::DEFAULT, &clock, &arrival, None, &mut source_clock);
        let stamp = stamp_of(stamped.verdict);
        assert_eq!(stamp.event_time.unix_ns(), ingest_ns);
        stamp.flags
    };
    let boot = BootId::default();
    assert_eq!(flags(NOW_NS, 10, boot), Flags::NONE);
    assert_eq!(flags(NOW_NS, 10, boot), Flags::NONE);
    let step = Flags::ORDER_BREAK.with(Flags::STEP_NEAR);
    assert_eq!(flags(NOW_NS - 1, 11, boot), step);
    // Two connections of one source, handed over out of order: no step.
    assert_eq!(flags(NOW_NS - 2, 9, boot), Flags::ORDER_BREAK);
    assert_eq!(flags(NOW_NS + 1, 12, boot), Flags::NONE);
}

#[test]
fn only_what_is_known_well_moves_a_watermark() {
    use lane::{StampLane, lane};
    let at = |stamp: &Stamp| lane(stamp, IngestTime::from_unix_ns(NOW_NS), MaxError::from_ns(0));
    let good = stamp_of(alone(&settings(OnBadTime::Flag), ClockState::Synchronized, None));
    assert_eq!(at(&good), StampLane::Main);
    let future = stamped(OnBadTime::Flag, ClockState::Synchronized, 400 * S);
    assert_eq!(at(&future), StampLane::Quarantine);
    // The gateway's time took its place: it is as good as any of the gateway's.
    let substituted = stamped(OnBadTime::Substitute, ClockState::Synchronized, 400 * S);
    assert_eq!(at(&substituted), StampLane::MainNoWatermark, "three seconds of error");
    let substituted = Stamp { max_error: Some(lane::ERROR_MAX), ..substituted };
    assert_eq!(at(&substituted), StampLane::Main);
    let unset = Stamp { origin: Origin::Device, flags: Flags::DEVICE_UNSYNC, ..substituted };
    assert_eq!(at(&unset), StampLane::MainNoWatermark);
}
