use std::io;

use super::set::{Target, Told};
use super::*;
use crate::core::clock::kernel::KernelClock;
use crate::core::clock::{BootFacts, ClockFacts, ClockModel, Reference, Vouch};
use crate::core::id::{BootId, Offset};
use crate::core::seam::{ClockLedger, Now};
use crate::core::time::{IngestTime, MonoTime};
use crate::http::clock::Event;

const BOOT: BootFacts =
    BootFacts { boot: BootId([0xab; 16]), is_set_by_rtc: false, rtc: None, saved: None };

fn now() -> Now {
    Now {
        mono: MonoTime::from_ns(5_000_000_000),
        wall: IngestTime::from_unix_ns(1_796_000_523_000_000_000),
        raw_ns: 5_000_000_000,
        suspended_ns: 0,
        span_ns: 0,
    }
}

fn kernel(max_error_us: i64) -> ClockFacts {
    let kernel = KernelClock {
        code: 0,
        status: 0x2001,
        max_error_us,
        est_error_us: 99,
        offset: 0,
        freq: 0,
        tick: 10_000,
        tai: 37,
    };
    ClockFacts { kernel: Some(kernel), ..ClockFacts::default() }
}

fn clock(facts: ClockFacts) -> Clock {
    sample::judged(ClockSettings::DEFAULT, BOOT, facts, &now())
}

fn a_view(clock: Clock) -> View {
    View {
        v: 1,
        at: now().wall.to_string(),
        agent: false,
        no_agent: Some("no agent runs on /d".to_owned()),
        trusted: clock.is_trusted(),
        time: clock.stamp(),
        clock,
        heard: Heard::by(Reference::Kernel),
        chrony_address: chrony::DEFAULT_ADDRESS.to_string(),
        boot: Boot::default(),
    }
}

#[test]
fn a_look_without_an_agent_says_so_and_remembers_nothing() {
    let said = show::text(&a_view(clock(kernel(1_100))));
    let expected = r#"clock      synchronized by NTP, within 1.2 ms
           reads 2026-11-30T01:02:03.000000000Z, timebase 1
asked      the machine itself, once, without an agent's memory
           no agent runs on /d
kernel     has a bound from its daemon; maxerror 1100 µs, esterror 99 µs, status 0x2001, rate +0.000 ppm (adjtimex)
chrony     not asked, by clock.reference
ptp4l      not asked, by clock.reference
timesyncd  no trace of it
rtc        not to be read
saved      no time was saved before the shutdown
stamps     "time":{"origin":"gateway","clock":"ntp","state":"synchronized","max_error_us":1199,"timebase":1}
"#;
    assert_eq!(said, expected);
}

#[test]
fn a_machine_that_tells_nothing_is_unsynchronized() {
    for facts in [ClockFacts::default(), kernel(16_000_000)] {
        let clock = clock(facts);
        assert!(!clock.is_trusted());
        assert_eq!(
            words::state(&clock),
            "unsynchronized: nobody vouches for it; run chronyd, or `tidegate clock set now --error 2s`"
        );
        assert_eq!(clock.events, []);
        assert_eq!(clock.stamp().uptime_ns, Some(5_000_000_000));
    }
}

#[test]
fn every_state_has_its_words() {
    let mut clock = clock(ClockFacts::default());
    let mut words = |state: &str, source: &str, max_error_us| {
        (clock.state, clock.source) = (state.to_owned(), source.to_owned());
        clock.max_error_us = max_error_us;
        words::state(&clock)
    };
    assert_eq!(words("synchronized", "ntp", Some(11_200)), "synchronized by NTP, within 12 ms");
    assert_eq!(
        words("holdover", "ntp", Some(1_250_000)),
        "holdover, last set by NTP, within 1.3 s"
    );
    let manual = "holdover, last set by an operator, within 2 s";
    assert_eq!(words("holdover", "manual", Some(2_000_000)), manual);
    let stepped = "stepped: it was set, and nobody has vouched for it since; \
                   run chronyd, or `tidegate clock set now --error 2s`";
    assert_eq!(words("stepped", "unknown", None), stepped);
    let saved = "unsynchronized: nobody vouches for it; \
                 it began at a time saved before the last shutdown; \
                 run chronyd, or `tidegate clock set now --error 2s`";
    assert_eq!(words("unsynchronized", "saved", None), saved);
}

#[test]
fn bounds_are_rounded_up_and_lengths_have_two_units() {
    let bounds =
        [(0, "0 µs"), (999, "999 µs"), (1_000, "1 ms"), (9_901, "10 ms"), (10_001, "11 ms")];
    for (us, said) in bounds.into_iter().chain([(999_001, "1000 ms"), (1_000_001, "1.1 s")]) {
        assert_eq!(words::error(us), said);
    }
    let lengths = [
        (0.0, "0ms"),
        (0.25, "250ms"),
        (1.5, "1.5s"),
        (45.0, "45s"),
        (90.0, "1m 30s"),
        (7_200.0, "2h 0m"),
        (90_000.0, "1d 1h"),
    ];
    for (seconds, said) in lengths {
        assert_eq!(words::length(seconds), said);
    }
}

#[test]
fn what_waits_and_the_last_step_are_said() {
    let mut clock = clock(ClockFacts::default());
    assert_eq!((words::waiting(&clock), words::last_step(&clock)), (None, None));
    (clock.open_readings, clock.held_for_s) = (12, Some(89.2));
    let waiting = "waits for the clock: 12 readings, at most 1m 30s more";
    assert_eq!(words::waiting(&clock).as_deref(), Some(waiting));
    let event = |kind: &str, delta_s| Event {
        kind: kind.to_owned(),
        delta_s,
        ppm: None,
        at: "2026-11-30T01:02:03.000000000Z".to_owned(),
        from: "synchronized".to_owned(),
        to: "stepped".to_owned(),
    };
    clock.events =
        vec![event("step", Some(5.0)), event("step", Some(-7_200.0)), event("suspend", Some(60.0))];
    let step = "last step: back 2h 0m at 2026-11-30T01:02:03.000000000Z";
    assert_eq!(words::last_step(&clock).as_deref(), Some(step));
}

#[test]
fn a_time_needs_its_offset_and_a_year_that_can_be() {
    let at = |ns| Ok(Target::At(IngestTime::from_unix_ns(ns)));
    assert_eq!(set::target("now"), Ok(Target::Now));
    assert_eq!(set::target("2026-11-30T02:02:03+01:00"), at(1_796_000_523_000_000_000));
    assert_eq!(set::target("2026-11-30T01:02:03.5Z"), at(1_796_000_523_500_000_000));
    let early = set::target("2025-11-30T01:02:03Z").unwrap_err();
    let expected =
        "before 2026-01-01T00:00:00.000000000Z, when this version was made: mind the year";
    assert_eq!(early, expected);
    assert_eq!(set::target("2500-01-01T00:00:00Z").unwrap_err(), "after 2262: mind the year");
    for odd in ["2026-11-30 01:02", "2026-11-30T01:02:03", "tomorrow", ""] {
        assert!(set::target(odd).unwrap_err().starts_with("no RFC 3339 time ("), "{odd}");
    }
}

#[test]
fn a_stated_error_lies_within_reason() {
    assert_eq!(set::stated_error("2s"), Ok(std::time::Duration::from_secs(2)));
    for odd in ["0s", "999us", "2h"] {
        assert_eq!(set::stated_error(odd).unwrap_err(), "out of range; use 1ms to 1h", "{odd}");
    }
    assert!(set::stated_error("2").unwrap_err().starts_with("no duration ("));
}

#[test]
fn how_a_word_on_the_clock_ends() {
    let at = Target::At(now().wall);
    let taken = || Ok(Told::Taken("holdover".to_owned()));
    let nobody = || Ok(Told::Nobody("no agent runs on /d".to_owned()));
    let broken = || Err(Failure::new(Exit::Io, "the agent does not answer"));
    let said = |target, told| set::outcome(target, told).map_err(|end| (end.exit, end.message));
    assert_eq!(said(at, taken()).unwrap(), "the clock is set and the agent knows: holdover\n");
    let alone = "the clock is set, but no agent heard of it: no agent runs on /d\n";
    assert_eq!(said(at, nobody()).unwrap(), alone);
    let half = "the clock is set, but the agent does not answer".to_owned();
    assert_eq!(said(at, broken()).unwrap_err(), (Exit::Io, half));
    assert_eq!(said(Target::Now, taken()).unwrap(), "the agent takes your word: holdover\n");
    let unheard = "no agent heard of it: no agent runs on /d".to_owned();
    assert_eq!(said(Target::Now, nobody()).unwrap_err(), (Exit::Io, unheard));
}

#[test]
fn without_the_right_to_set_the_clock_sudo_is_named() {
    let failure = set::refused(&io::Error::from(io::ErrorKind::PermissionDenied));
    assert_eq!(failure.message, "only root may set the clock: run it again with sudo");
    assert_eq!(failure.exit, Exit::Io);
    let failure = set::refused(&io::Error::from(io::ErrorKind::InvalidInput));
    assert!(failure.message.starts_with("the clock cannot be set: "), "{}", failure.message);
}

#[test]
fn a_coarse_word_lasts_until_drift_has_doubled_it() {
    let is_trusted_after = |error_ns, seconds: u64| {
        let ledger = ClockLedger::default();
        let mut model = ClockModel::new(ClockSettings::DEFAULT, BOOT, &ledger, Offset(0), &now());
        model.vouch(Vouch { error_ns }, &now());
        let passed_ns = seconds * 1_000_000_000;
        let later = Now {
            mono: MonoTime::from_ns(now().mono.ns() + passed_ns),
            wall: IngestTime::from_unix_ns(now().wall.unix_ns() + passed_ns as i64),
            raw_ns: now().raw_ns + passed_ns,
            ..now()
        };
        model.sample(ClockFacts::default(), &later);
        model.reading(&later).state.is_trusted()
    };
    // 100 ppm: 8 s in 80,000 s, up to the 10 s of any holdover.
    assert!(is_trusted_after(2_000_000_000, 79_999));
    assert!(!is_trusted_after(2_000_000_000, 80_001));
    // A coarser word is good for twice its error.
    assert!(is_trusted_after(60_000_000_000, 599_999));
    assert!(!is_trusted_after(60_000_000_000, 600_001));
}
