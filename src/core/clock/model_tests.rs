use super::*;
use crate::core::clock::kernel::KernelClock;
use crate::core::reading::{Arrival, Flags};
use crate::core::time::{MonoTime, Span};

const UTC_NS: i64 = 1_796_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;
const BOOT: BootFacts =
    BootFacts { boot: BootId([7; 16]), is_set_by_rtc: false, rtc: None, saved: None };

/// A look so many seconds after boot, the wall clock off by `off_ns`.
fn look(seconds: u64, off_ns: i64) -> Now {
    Now {
        mono: MonoTime::from_ns(seconds * SECOND),
        wall: IngestTime::from_unix_ns(UTC_NS + (seconds * SECOND) as i64 + off_ns),
        raw_ns: seconds * SECOND,
        suspended_ns: 0,
        span_ns: 0,
    }
}

fn facts(max_error_us: i64) -> ClockFacts {
    let kernel = KernelClock {
        code: 0,
        status: 0x2000,
        max_error_us,
        est_error_us: 100,
        offset: 0,
        freq: 0,
        tick: 10_000,
        tai: 0,
    };
    ClockFacts { kernel: Some(kernel), ..ClockFacts::default() }
}

fn model(now: &Now) -> ClockModel {
    let ledger = ClockLedger::default();
    ClockModel::new(ClockSettings::DEFAULT, BOOT, &ledger, Offset(0), now)
}

fn kinds(model: &mut ClockModel) -> Vec<ClockEventKind> {
    model.take_events().into_iter().map(|event| event.kind).collect()
}

#[test]
fn a_step_takes_the_trust_and_a_later_update_gives_it_back() {
    let mut model = model(&look(10, 0));
    model.sample(facts(9_776), &look(10, 0));
    assert_eq!(kinds(&mut model), [ClockEventKind::Boot, ClockEventKind::State]);
    let trusted = model.reading(&look(11, 0));
    assert_eq!((trusted.state, trusted.source), (ClockState::Synchronized, ClockSource::Ntp));
    assert_eq!(trusted.max_error, Some(MaxError::from_ns(9_876_000 + 15_000)));
    let back = -7_200_000_000_000;
    model.look(&look(12, back));
    let step = ClockEventKind::Step(Span::from_ns(back));
    assert_eq!(kinds(&mut model), [step]);
    let stepped = model.reading(&look(12, back));
    assert_eq!((stepped.state, stepped.max_error), (ClockState::Stepped, None));
    assert_eq!(stepped.timebase, TimebaseId(trusted.timebase.0 + 1));
    // The kernel has forgotten its daemon; then the daemon speaks again.
    model.sample(facts(16_000_000), &look(13, back));
    assert_eq!(model.reading(&look(13, back)).state, ClockState::Stepped);
    model.sample(facts(9_000), &look(14, back));
    assert_eq!(model.reading(&look(14, back)).state, ClockState::Synchronized);
}

#[test]
fn what_came_before_a_step_belongs_to_the_clock_before_it() {
    let mut model = model(&look(10, 0));
    model.sample(facts(9_776), &look(10, 0));
    let now = look(12, 86_400_000_000_000);
    model.look(&now);
    let arrival = |look: Now| Arrival {
        ingest: look.wall,
        uptime: look.uptime(),
        half_round_trip: Span::ZERO,
    };
    let (reading, flags) = model.reading_at(&arrival(look(11, 0)), &now);
    assert_eq!((reading.state, flags), (ClockState::Synchronized, Flags::STEP_NEAR));
    assert_eq!(reading.timebase, TimebaseId(1));
    let (reading, flags) = model.reading_at(&arrival(now), &now);
    assert_eq!((reading.state, flags), (ClockState::Stepped, Flags::NONE));
    assert_eq!(reading.timebase, TimebaseId(2));
}

#[test]
fn small_steps_add_up() {
    let mut model = model(&look(10, 0));
    kinds(&mut model);
    model.look(&look(11, 600_000));
    assert_eq!(kinds(&mut model), []);
    model.look(&look(12, 1_200_000));
    assert_eq!(kinds(&mut model), [ClockEventKind::Step(Span::from_ns(1_200_000))]);
}

#[test]
fn a_stuck_sampler_is_holdover() {
    let mut model = model(&look(10, 0));
    model.sample(facts(9_776), &look(10, 0));
    assert_eq!(model.reading(&look(15, 0)).state, ClockState::Synchronized);
    assert_eq!(model.reading(&look(16, 0)).state, ClockState::Holdover);
}

#[test]
fn a_leap_second_is_no_step_and_readings_beside_it_say_so() {
    let midnight_ns = 1_798_761_600_000_000_000 - UTC_NS;
    let at = |seconds: i64, off_ns: i64| {
        let up = (midnight_ns + seconds * SECOND as i64) as u64;
        Now {
            mono: MonoTime::from_ns(up),
            wall: IngestTime::from_unix_ns(UTC_NS + up as i64 + off_ns),
            raw_ns: up,
            suspended_ns: 0,
            span_ns: 0,
        }
    };
    let pending = |code: i32| {
        let mut facts = facts(9_776);
        facts.kernel.as_mut().unwrap().code = code;
        facts
    };
    let mut model = model(&at(-60, 0));
    model.sample(pending(1), &at(-2, 0));
    let flags = |model: &ClockModel, now: Now| {
        model
            .reading_at(
                &Arrival { ingest: now.wall, uptime: now.uptime(), half_round_trip: Span::ZERO },
                &now,
            )
            .1
    };
    assert_eq!(flags(&model, at(-2, 0)), Flags::NONE);
    assert_eq!(flags(&model, at(-1, 0)), Flags::LEAP);
    kinds(&mut model);
    let second_ns = -1_000_000_000;
    model.sample(pending(3), &at(0, second_ns));
    assert_eq!(kinds(&mut model), [ClockEventKind::Leap(Span::from_ns(second_ns))]);
    assert_eq!(flags(&model, at(0, second_ns)), Flags::LEAP);
    assert_eq!(model.reading(&at(0, second_ns)).state, ClockState::Synchronized);
    model.sample(pending(4), &at(1, second_ns));
    assert_eq!(flags(&model, at(1, second_ns)), Flags::LEAP);
    assert_eq!(flags(&model, at(2, second_ns)), Flags::NONE);
}

#[test]
fn a_step_while_the_agent_was_not_running_is_seen_at_its_start() {
    let mut before = model(&look(10, 0));
    before.sample(facts(9_776), &look(10, 0));
    let ledger = ClockLedger {
        timebase: before.timebase(),
        boots: before.boots().to_vec(),
        ..ClockLedger::default()
    };
    let open = |now: &Now| {
        let mut model = ClockModel::new(ClockSettings::DEFAULT, BOOT, &ledger, Offset(5), now);
        (kinds(&mut model), model.timebase(), model.boots().len())
    };
    assert_eq!(open(&look(500, 0)), (vec![], TimebaseId(1), 1));
    let forward = ClockEventKind::Step(Span::from_ns(50_000_000));
    assert_eq!(open(&look(500, 50_000_000)), (vec![forward], TimebaseId(2), 1));
}

#[test]
fn a_battery_backed_clock_is_holdover_if_an_earlier_boot_knew_the_time() {
    let mut earlier = model(&look(10, 0));
    earlier.sample(facts(9_776), &look(10, 0));
    let ledger = ClockLedger { boots: earlier.boots().to_vec(), ..ClockLedger::default() };
    let rtc = BootFacts { boot: BootId([8; 16]), is_set_by_rtc: true, ..BOOT };
    let now = look(100_010, 0);
    let quality = |ledger: &ClockLedger| {
        let mut model = ClockModel::new(ClockSettings::DEFAULT, rtc, ledger, Offset(5), &now);
        model.sample(facts(16_000_000), &now);
        let reading = model.reading(&now);
        (reading.source, reading.state, reading.max_error)
    };
    // 2 s, and 20 ppm of the 100,000 s since.
    let error = Some(MaxError::from_ns(4_000_000_000));
    assert_eq!(quality(&ledger), (ClockSource::Rtc, ClockState::Holdover, error));
    let nothing = (ClockSource::Rtc, ClockState::Unsynchronized, None);
    assert_eq!(quality(&ClockLedger::default()), nothing);
}

#[test]
fn before_this_programme_was_made_no_clock_is_right() {
    let now = Now { wall: IngestTime::from_unix_ns(20_000_000_000), ..look(20, 0) };
    let mut model = model(&now);
    model.sample(facts(9_776), &now);
    assert_eq!(model.reading(&now).state, ClockState::Unsynchronized);
}

/// It was set before anybody looked, or by somebody whom a crash made forgotten.
#[test]
fn a_battery_backed_clock_that_says_another_time_has_not_set_this_one() {
    let before = Boot {
        source: ClockSource::Ntp,
        stretches: vec![{
            let anchor = Anchor { up: Uptime::from_ns(5), utc_ns: UTC_NS, error_ns: 1_000 };
            boots::Stretch { first: anchor, best: anchor, last: anchor }
        }],
        ..Boot::begun(BootId([6; 16]), Offset(0), ClockSource::Ntp, &look(5, 0))
    };
    let ledger = ClockLedger { boots: vec![before], ..ClockLedger::default() };
    let source = |off_ns: i64, rtc: Option<i64>| {
        let rtc = rtc.map(|s| IngestTime::from_unix_ns(UTC_NS + s * SECOND as i64));
        let facts = BootFacts { boot: BootId([8; 16]), is_set_by_rtc: true, rtc, saved: None };
        let now = look(10, off_ns);
        let mut model = ClockModel::new(ClockSettings::DEFAULT, facts, &ledger, Offset(0), &now);
        model.sample(ClockFacts::default(), &now);
        let reading = model.reading(&now);
        (reading.source, reading.state)
    };
    let believed = (ClockSource::Rtc, ClockState::Holdover);
    let unknown = (ClockSource::Unknown, ClockState::Unsynchronized);
    assert_eq!(source(0, Some(10)), believed);
    assert_eq!(source(900_000_000, Some(10)), believed, "read to the second");
    assert_eq!(source(0, None), believed, "nothing speaks against it");
    for off_ns in [86_400_000_000_000, -3_250_000_000, 1_600_000_000] {
        assert_eq!(source(off_ns, Some(10)), unknown, "{off_ns}");
    }
}
