//! Cases from the field, with exact values.

use super::*;

const MINUTE: i64 = 60_000;
/// 2026-03-01T12:00:00Z.
const NOON: i64 = 1_772_366_400_000;

fn tumbling(ms: i64) -> Kind {
    Kind::Tumbling { size: Span::from_millis(ms), offset: Span::ZERO }
}

fn operator(change: impl FnOnce(&mut WindowSpec), kind: Kind) -> Operator {
    let mut spec = spec(kind);
    change(&mut spec);
    Operator::new(Arc::new(spec))
}

fn from(source: &str, at_ms: i64, seq: u64) -> Input {
    Input { source: SourceId::new(source), ..input(0, at_ms, seq, 1) }
}

fn firings(out: &[Output]) -> Vec<&Firing> {
    fn fired(output: &Output) -> Option<&Firing> {
        if let Output::Fired(firing) = output { Some(firing) } else { None }
    }
    out.iter().filter_map(fired).collect()
}

/// Start less `base`, revision, status, count.
fn rows(out: &[Output], base: i64) -> Vec<(i64, u32, &'static str, u64)> {
    let row = |firing: &Firing| {
        let start = Millis::floor(firing.start).0 - base;
        (start, firing.revision, firing.status.as_str(), firing.count)
    };
    firings(out).into_iter().map(row).collect()
}

fn late(out: &[Output]) -> usize {
    out.iter().filter(|output| matches!(output, Output::Late(_))).count()
}

#[test]
fn w_01_an_implausible_reading_closes_no_window() {
    let mut operator = operator(|spec| spec.bound = Span::from_secs(5), tumbling(MINUTE));
    let mut out = Vec::new();
    for second in 0..600 {
        operator.reading(&from("a", NOON + second * 1_000, second as u64 + 1), &mut out);
        if second == 90 {
            let mut ahead = from("a", NOON + 7_200_000, 1_000);
            ahead.moves_watermark = false;
            operator.reading(&ahead, &mut out);
        }
    }
    assert_eq!(late(&out), 0);
    let expected: Vec<_> = (0..9).map(|n| (n * MINUTE, 1, "final", 60)).collect();
    assert_eq!(rows(&out, NOON), expected);
}

#[test]
fn w_02_a_silent_source_holds_nothing_and_comes_back_late() {
    let sources = vec![SourceId::new("a"), SourceId::new("b"), SourceId::new("c")];
    let change = |spec: &mut WindowSpec| {
        spec.sources = sources;
        spec.bound = Span::from_secs(5);
    };
    let mut operator = operator(change, tumbling(MINUTE));
    let mut out = Vec::new();
    for second in 0..100 {
        operator.reading(&from("a", NOON + second * 1_000, second as u64 + 1), &mut out);
        if second < 30 {
            operator.reading(&from("b", NOON + second * 1_000, second as u64 + 1), &mut out);
        }
    }
    assert_eq!(out, []);
    operator.source_idle(&SourceId::new("c"), &mut out);
    assert_eq!(out, []);
    operator.source_idle(&SourceId::new("b"), &mut out);
    assert_eq!(rows(&out, NOON), [(0, 1, "final", 90)]);
    let idle = &firings(&out)[0].coverage.excluded_idle;
    assert_eq!(*idle, [SourceId::new("b"), SourceId::new("c")]);
    let before = operator.watermark_of(TimebaseId(0));
    operator.reading(&from("b", NOON + 45_000, 31), &mut out);
    assert_eq!((late(&out), operator.watermark_of(TimebaseId(0))), (1, before));
}

#[test]
fn all_sources_silent_at_once_close_nothing() {
    let mut operator = operator(|_| (), tumbling(10));
    let mut out = Vec::new();
    operator.reading(&from("a", 5, 1), &mut out);
    operator.reading(&from("b", 25, 1), &mut out);
    out.clear();
    operator.sources_idle(&[SourceId::new("a"), SourceId::new("b")], &mut out);
    assert_eq!(out, []);
    operator.flush(&mut out);
    assert_eq!(rows(&out, 0), [(0, 1, "provisional", 1), (20, 1, "provisional", 1)]);
    assert!(firings(&out).iter().all(|firing| firing.coverage.flushed));
    out.clear();
    operator.flush(&mut out);
    assert_eq!(out, [], "nothing new to say");
    operator.watermark(Millis(i64::MAX), &mut out);
    assert_eq!(rows(&out, 0), [(0, 2, "final", 1), (20, 2, "final", 1)]);
}

#[test]
fn w_03_the_boundary_of_lateness_to_the_millisecond() {
    for (watermark, is_taken) in [(419_998, true), (419_999, false)] {
        let change = |spec: &mut WindowSpec| spec.allowed_lateness = Span::from_secs(120);
        let mut operator = operator(change, tumbling(300_000));
        let mut out = Vec::new();
        let put = |operator: &mut Operator, at, value, out: &mut Vec<Output>| {
            let mut input = input(0, NOON + at, at as u64, value);
            input.moves_watermark = false;
            operator.reading(&input, out);
        };
        put(&mut operator, 10_000, 10, &mut out);
        put(&mut operator, 290_000, 20, &mut out);
        operator.watermark(Millis(NOON + 299_998), &mut out);
        assert_eq!(out, []);
        operator.watermark(Millis(NOON + 299_999), &mut out);
        put(&mut operator, 180_000, 30, &mut out);
        operator.watermark(Millis(NOON + watermark), &mut out);
        put(&mut operator, 210_000, 60, &mut out);
        let mut expected = vec![(0, 1, "provisional", 2), (0, 2, "provisional", 3)];
        expected.push(if is_taken { (0, 3, "provisional", 4) } else { (0, 2, "final", 3) });
        assert_eq!(rows(&out, NOON), expected);
        assert_eq!(late(&out), usize::from(!is_taken));
    }
}

#[test]
fn w_04_late_readings_are_told_and_make_no_second_result() {
    let mut operator = operator(|spec| spec.bound = Span::from_secs(5), tumbling(MINUTE));
    let mut out = Vec::new();
    let seconds = (0..180).chain([10, 20, 30]);
    for (seq, second) in seconds.enumerate() {
        operator.reading(&from("a", NOON + second * 1_000, seq as u64), &mut out);
    }
    assert_eq!(rows(&out, NOON), [(0, 1, "final", 60), (MINUTE, 1, "final", 60)]);
    assert_eq!(late(&out), 3);
}

#[test]
fn w_05_windows_before_1970_use_floor() {
    let window = |ns: i64| {
        let found = windows(&tumbling(10_000), EventTime::from_unix_ns(ns));
        let [(start, end)] = found[..] else { panic!("{found:?}") };
        (Millis::floor(start).0, Millis::floor(end).0)
    };
    assert_eq!(window(-1), (-10_000, 0));
    assert_eq!(window(-1_000_000), (-10_000, 0));
    assert_eq!(window(-10_000_000_000), (-10_000, 0));
    assert_eq!(window(-10_001_000_000), (-20_000, -10_000));
    assert_eq!(window(0), (0, 10_000));
}

#[test]
fn w_06_a_size_that_is_no_multiple_of_the_slide() {
    let (size, slide) = (Span::from_millis(1_600), Span::from_millis(700));
    let kind = Kind::Sliding { size, slide, offset: Span::ZERO };
    let times = [1_000_000_000_123, 1_000_000_000_300, 1_000_000_001_399];
    let starts = times.map(|at| {
        let found = windows(&kind, Millis(at).event_time()).into_iter();
        found.map(|(start, _)| Millis::floor(start).0 - 999_999_998_900).collect::<Vec<_>>()
    });
    assert_eq!(starts, [vec![0, 700], vec![0, 700, 1_400], vec![1_400, 2_100]]);
    let mut operator = operator(|spec| spec.bound = Span::from_secs(9), kind);
    let mut out = Vec::new();
    for (seq, at) in times.into_iter().enumerate() {
        operator.reading(&from("a", at, seq as u64), &mut out);
    }
    operator.watermark(Millis(i64::MAX), &mut out);
    let counts: Vec<_> = rows(&out, 999_999_998_900).iter().map(|row| (row.0, row.3)).collect();
    assert_eq!(counts, [(0, 2), (700, 2), (1_400, 2), (2_100, 1)]);
}

#[test]
fn w_07_a_bridging_reading_joins_two_sessions_in_every_order() {
    let orders =
        [[0, 100, 50], [0, 50, 100], [100, 0, 50], [100, 50, 0], [50, 0, 100], [50, 100, 0]];
    let run = |seconds: &[i64]| {
        let kind = Kind::Session { gap: Span::from_secs(60) };
        let mut operator = operator(|spec| spec.bound = Span::from_secs(120), kind);
        let mut out = Vec::new();
        for second in seconds {
            operator.reading(&from("a", second * 1_000, *second as u64), &mut out);
        }
        operator.watermark(Millis(i64::MAX), &mut out);
        rows(&out, 0)
    };
    for order in orders {
        assert_eq!(run(&order), [(0, 1, "final", 3)], "{order:?}");
    }
    // Exactly one gap apart is together.
    assert_eq!(run(&[0, 60]), [(0, 1, "final", 2)]);
    assert_eq!(run(&[60, 0]), [(0, 1, "final", 2)]);
    assert_eq!(run(&[0, 61]), [(0, 1, "final", 1), (61_000, 1, "final", 1)]);
}

#[test]
fn a_swallowed_session_is_taken_back() {
    let kind = Kind::Session { gap: Span::from_millis(10) };
    let mut operator = operator(|spec| spec.allowed_lateness = Span::from_millis(100), kind);
    let mut out = Vec::new();
    let still = |at, seq| Input { moves_watermark: false, ..input(0, at, seq, 1) };
    operator.reading(&still(0, 1), &mut out);
    operator.reading(&still(15, 2), &mut out);
    operator.watermark(Millis(40), &mut out);
    operator.reading(&still(8, 3), &mut out);
    operator.watermark(Millis(500), &mut out);
    let expected = [
        (0, 1, "provisional", 1),
        (15, 1, "provisional", 1),
        (0, 2, "retracted", 1),
        (15, 2, "retracted", 1),
        (0, 1, "provisional", 3),
        (0, 1, "final", 3),
    ];
    assert_eq!(rows(&out, 0), expected);
}

#[test]
fn one_jump_over_firing_and_cleanup_gives_both_for_each_window_in_turn() {
    let mut operator = operator(|spec| spec.allowed_lateness = Span::from_millis(5), tumbling(10));
    let mut out = Vec::new();
    let still = |at, seq| Input { moves_watermark: false, ..input(0, at, seq, 1) };
    operator.reading(&still(1, 1), &mut out);
    operator.reading(&still(11, 2), &mut out);
    operator.watermark(Millis(20), &mut out);
    let expected = [(0, 1, "provisional", 1), (0, 1, "final", 1), (10, 1, "provisional", 1)];
    assert_eq!(rows(&out, 0), expected);
}

#[test]
fn w_10_a_restart_in_the_middle_of_a_window_loses_nothing() {
    let mut operator = operator(|spec| spec.bound = Span::from_secs(5), tumbling(MINUTE));
    let mut out = Vec::new();
    for second in 0..180 {
        if second == 30 || second == 90 {
            let bytes = postcard::to_allocvec(&operator.checkpoint()).unwrap();
            let spec = Arc::clone(operator.spec());
            operator = Operator::restore(spec, postcard::from_bytes(&bytes).unwrap()).unwrap();
        }
        operator.reading(&from("a", NOON + second * 1_000, second as u64 + 1), &mut out);
    }
    assert_eq!(rows(&out, NOON), [(0, 1, "final", 60), (MINUTE, 1, "final", 60)]);
}

#[test]
fn w_11_local_days_have_23_and_25_hours() {
    let kind = Kind::CalendarDay { zone: "Europe/Berlin".parse().unwrap() };
    let mut operator = operator(|spec| spec.bound = Span::from_secs(3_600), kind);
    let mut out = Vec::new();
    // 2026-03-27T00:00Z to 03-31T00:00Z and 10-23T00:00Z to 10-28T00:00Z.
    let stretches = [(1_774_569_600_000, 4 * 1_440), (1_792_713_600_000, 5 * 1_440)];
    for (start, minutes) in stretches {
        for minute in 0..minutes {
            let at = start + minute * MINUTE;
            operator.reading(&from("a", at, minute as u64 + 1), &mut out);
        }
    }
    let day = |start_ms: i64| {
        let found =
            firings(&out).into_iter().find(|firing| firing.start == Millis(start_ms).event_time());
        let found = found.unwrap();
        ((found.end - found.start).ns() / 3_600_000_000_000, found.count)
    };
    assert_eq!(day(1_774_738_800_000), (23, 1_380));
    assert_eq!(day(1_792_879_200_000), (25, 1_500));
    assert_eq!(day(1_774_652_400_000), (24, 1_440));
}

#[test]
fn a_day_begins_after_a_skipped_midnight() {
    // Clocks in Sao Paulo went from 00:00 to 01:00 on 2018-11-04 (03:00 UTC).
    let kind = Kind::CalendarDay { zone: "America/Sao_Paulo".parse().unwrap() };
    let found = windows(&kind, Millis(1_541_350_800_000).event_time());
    let found: Vec<_> =
        found.iter().map(|(start, end)| (start.to_string(), end.to_string())).collect();
    let (start, end) = ("2018-11-04T03:00:00.000000000Z", "2018-11-05T02:00:00.000000000Z");
    assert_eq!(found, [(start.to_owned(), end.to_owned())]);
}

#[test]
fn a_step_of_the_clock_closes_what_the_gateway_stamped() {
    let mut operator = operator(|spec| spec.bound = Span::from_millis(20), tumbling(10));
    let mut out = Vec::new();
    operator.reading(&from("plc", 3, 1), &mut out);
    let stamped =
        |at, seq, timebase| Input { timebase: TimebaseId(timebase), ..from("io", at, seq) };
    operator.reading(&stamped(3, 1, 4), &mut out);
    operator.reading(&stamped(14, 2, 4), &mut out);
    operator.clock_step(TimebaseId(4), &mut out);
    assert_eq!(rows(&out, 0), [(0, 1, "final", 1), (10, 1, "final", 1)]);
    let steps = firings(&out).iter().all(|firing| firing.coverage.clock_step);
    assert!(steps && firings(&out).iter().all(|firing| firing.timebase == TimebaseId(4)));
    assert_eq!(operator.watermark_of(TimebaseId(4)), None);
    out.clear();
    operator.reading(&stamped(15, 3, 4), &mut out);
    assert_eq!(late(&out), 1, "a closed timebase takes nothing");
    operator.reading(&stamped(2, 4, 5), &mut out);
    assert_eq!(operator.watermark_of(TimebaseId(5)), Some(Millis(-19)));
    assert_eq!(operator.watermark_of(TimebaseId(0)), Some(Millis(-18)));
}

#[test]
fn grace_goes_by_the_stream_time_of_all_sources() {
    let change = |spec: &mut WindowSpec| {
        spec.late_policy = LatePolicy::Grace;
        spec.bound = Span::from_secs(60);
        spec.allowed_lateness = Span::from_millis(5);
    };
    let mut operator = operator(change, tumbling(10));
    let mut out = Vec::new();
    for (source, at) in [("a", 3), ("b", 9), ("b", 10), ("a", 4), ("b", 14), ("a", 5), ("b", 15)] {
        operator.reading(&from(source, at, at as u64), &mut out);
    }
    let expected = [
        (0, 1, "provisional", 2),
        (0, 2, "provisional", 3),
        (0, 3, "provisional", 4),
        (0, 3, "final", 4),
    ];
    assert_eq!(rows(&out, 0), expected);
    operator.reading(&from("a", 6, 9), &mut out);
    assert_eq!(late(&out), 1);
}

#[test]
fn adjust_moves_late_readings_to_the_tolerance() {
    let change = |spec: &mut WindowSpec| {
        spec.late_policy =
            LatePolicy::Adjust { late_arrival: Span::from_secs(5), out_of_order: Span::ZERO };
    };
    let mut operator = operator(change, tumbling(10_000));
    let mut out = Vec::new();
    // Arrives at 20 s, stamped 3 s: not older than 15 s.
    let mut old = from("a", 3_000, 1);
    old.ingest = IngestTime::from_unix_ns(20_000_000_000);
    operator.reading(&old, &mut out);
    operator.reading(&from("a", 21_000, 2), &mut out);
    assert_eq!(rows(&out, 0), [(10_000, 1, "final", 1)]);
    assert_eq!(firings(&out)[0].coverage.adjusted, 1);
    // In time by arrival, but behind the stream: moved up to 21 s.
    operator.reading(&from("a", 19_500, 3), &mut out);
    operator.reading(&from("a", 30_000, 4), &mut out);
    assert_eq!(rows(&out, 0)[1], (20_000, 1, "final", 2));
    assert_eq!(late(&out), 0);
}

#[test]
fn coverage_says_what_the_numbers_rest_on() {
    let change = |spec: &mut WindowSpec| {
        spec.expected_interval = Some(Span::from_millis(2));
        spec.bound = Span::from_millis(50);
    };
    let mut operator = operator(change, tumbling(10));
    let mut out = Vec::new();
    let good = input(0, 1, 1, 5);
    operator.reading(&good, &mut out);
    operator.reading(&Input { quality: Quality::Bad, ..input(0, 3, 2, 900) }, &mut out);
    let worse = Input {
        quality: Quality::Uncertain,
        state: ClockState::Holdover,
        max_error: Some(MaxError::from_ns(7_000)),
        ..input(0, 5, 3, 6)
    };
    operator.reading(&worse, &mut out);
    operator.duplicate(TimebaseId(0), &good.series, good.sample.at);
    operator.watermark(Millis(9), &mut out);
    let [firing] = firings(&out)[..] else { panic!("{out:?}") };
    assert_eq!(firing.count, 2);
    assert_eq!(firing.values[1], (Aggregate::Sum, Some(Number::Int(11))));
    let coverage = &firing.coverage;
    assert_eq!((coverage.expected, coverage.received, coverage.duplicates), (Some(5), 3, 1));
    assert_eq!((coverage.bad, coverage.uncertain), (1, 1));
    assert_eq!(coverage.worst_clock, Some(ClockState::Holdover));
    assert_eq!(coverage.max_error, Some(MaxError::from_ns(7_000)));
}

#[test]
fn a_state_of_another_shape_is_refused() {
    let state = operator(|_| (), tumbling(10)).checkpoint();
    let other = Arc::new(spec(tumbling(20)));
    let refused = Operator::restore(other, state.clone()).unwrap_err();
    assert!(refused.to_string().contains("another kind, size"), "{refused}");
    let mut other = spec(tumbling(10));
    other.aggregates.pop();
    let refused = Operator::restore(Arc::new(other), state).unwrap_err();
    assert!(refused.to_string().contains("other aggregates"), "{refused}");
}
