use super::*;
use crate::core::reading::Value;
use crate::core::time::{IngestTime, MonoTime};
use crate::readings;

const NOON_NS: i64 = 1_772_366_400_000_000_000;
const MS: i64 = 1_000_000;
const S: i64 = 1_000 * MS;

fn spec(sources: &[(&str, i64)]) -> Arc<OrderSpec> {
    let bound = |(name, bound_s): &(&str, i64)| (SourceId::new(name), Span::from_secs(*bound_s));
    let sources = sources.iter().map(bound).collect();
    Arc::new(OrderSpec { name: "o".into(), sources, idle_after: Span::from_secs(60) })
}

/// A device's reading so many ns after noon.
fn reading(source: &str, seq: u64, at_ns: i64) -> Arc<Record> {
    let stamp = Stamp {
        ingest_time: IngestTime::from_unix_ns(NOON_NS + 3_600 * S),
        uptime: Uptime::from_ns(3_600 * S as u64),
        ..readings::stamp(NOON_NS + at_ns)
    };
    Arc::new(Record { value: Value::I64(at_ns), stamp, ..readings::record(source, seq) })
}

/// An order and what it is given, by offset.
struct Bench {
    order: Order,
    journal: Vec<Arc<Record>>,
}

impl Bench {
    fn new(sources: &[(&str, i64)]) -> Self {
        Self { order: Order::open(spec(sources), None), journal: Vec::new() }
    }

    /// Gives it a reading; what comes out, in short.
    fn give(&mut self, record: Arc<Record>) -> Vec<String> {
        let mut out = Vec::new();
        let offset = Offset(self.journal.len() as u64);
        self.order.reading(offset, &record, true, &mut out);
        self.journal.push(record);
        shown(&out)
    }

    fn at_ms(&mut self, source: &str, seq: u64, at_ms: i64) -> Vec<String> {
        self.give(reading(source, seq, at_ms * MS))
    }

    fn silent(&mut self, sources: &[&str], at_s: u64) -> Vec<String> {
        let mut out = Vec::new();
        for source in sources {
            let at = Uptime::from_ns(at_s * S as u64);
            self.order.silent(&SourceId::new(source), at, &mut out);
        }
        self.order.settle(&mut out);
        shown(&out)
    }

    /// The process ends and another begins from a checkpoint of now.
    fn restart(&mut self, sources: &[(&str, i64)]) {
        let state = self.order.state();
        let bytes = postcard::to_stdvec(&state).unwrap();
        let state: OrderState = postcard::from_bytes(&bytes).unwrap();
        let from = state.from;
        self.order = Order::open(spec(sources), Some(state));
        let Some(from) = from else { return };
        let end = self.journal.len() as u64;
        for offset in from.0..end {
            self.order.refill(Offset(offset), &self.journal[offset as usize]);
        }
    }
}

fn shown(out: &[OrderedReading]) -> Vec<String> {
    let one = |reading: &OrderedReading| {
        let Record { source, seq, .. } = &*reading.record;
        match reading.place {
            Place::InOrder => format!("{source}{}", seq.0),
            place => format!("{source}{} {place:?}", seq.0),
        }
    };
    out.iter().map(one).collect()
}

fn nothing() -> Vec<String> {
    Vec::new()
}

#[test]
fn readings_come_by_event_time_then_source_then_number() {
    let mut bench = Bench::new(&[("a", 1), ("b", 2)]);
    for (source, seq, at_ms) in [("b", 1, 300), ("a", 2, 100), ("a", 1, 300), ("b", 2, 300)] {
        assert_eq!(bench.at_ms(source, seq, at_ms), nothing());
    }
    // 300 ms is complete one bound and one millisecond later, for each source by
    // its own bound.
    assert_eq!(bench.at_ms("a", 3, 5_000), nothing());
    assert_eq!(bench.at_ms("b", 3, 2_300), ["a2"]);
    assert_eq!(bench.at_ms("b", 4, 2_301), ["a1", "b1", "b2"]);
    assert_eq!(bench.order.watermark(), Some(Millis(NOON_NS / MS + 300)));
    assert_eq!(bench.order.held().0, 3);
}

#[test]
fn only_what_has_lost_its_place_is_late() {
    let mut bench = Bench::new(&[("a", 1)]);
    assert_eq!(bench.at_ms("a", 1, 100), nothing());
    assert_eq!(bench.at_ms("a", 2, 5_000), ["a1"]);
    // Behind the watermark of 3.999 s, but nothing later has gone.
    assert_eq!(bench.at_ms("a", 3, 2_000), ["a3"]);
    assert_eq!(bench.at_ms("a", 4, 1_999), ["a4 Late"]);
    assert_eq!(bench.at_ms("a", 5, 2_000), ["a5"]);
    let counts = bench.order.counts();
    assert_eq!(counts, OrderCounts { in_order: 3, early: 0, late: 1 });
}

#[test]
fn a_silent_source_is_not_waited_for_and_all_silent_ones_release_nothing() {
    let mut bench = Bench::new(&[("a", 1), ("b", 1)]);
    assert_eq!(bench.at_ms("a", 1, 0), nothing());
    assert_eq!(bench.at_ms("a", 2, 4_000), nothing());
    assert_eq!(bench.silent(&["b"], 60), ["a1"]);
    assert_eq!(bench.at_ms("b", 1, 3_500), nothing());
    assert_eq!(bench.silent(&["a", "b"], 120), nothing());
    assert_eq!(bench.order.held().0, 2);
    assert_eq!(bench.at_ms("b", 2, 6_000), ["b1", "a2"]);
}

#[test]
fn what_moves_no_watermark_waits_for_it_all_the_same() {
    let mut bench = Bench::new(&[("a", 1)]);
    let mut out = Vec::new();
    bench.order.reading(Offset(0), &reading("a", 1, 9 * S), false, &mut out);
    bench.order.reading(Offset(1), &reading("z", 1, 0), true, &mut out);
    assert_eq!((shown(&out), bench.order.watermark()), (nothing(), None));
    bench.journal.extend([reading("a", 1, 9 * S), reading("z", 1, 0)]);
    assert_eq!(bench.at_ms("a", 2, 10_001), ["a1"]);
}

#[test]
fn too_many_go_out_early_the_first_places_first() {
    let mut bench = Bench::new(&[("a", 1), ("b", 10_000)]);
    let count = HELD_READINGS_MAX as u64;
    for seq in 1..=count {
        // Backwards, so that the newest has the first place.
        assert_eq!(bench.give(reading("a", seq, (2 * count - seq) as i64 * MS)), nothing());
    }
    assert_eq!(bench.at_ms("b", 1, 2 * count as i64 - 1), [format!("a{count} Early")]);
    // Its place has gone with what went early.
    assert_eq!(bench.at_ms("b", 2, 5), ["b2 Late"]);
    assert_eq!(bench.order.held().0, HELD_READINGS_MAX);
}

#[test]
fn large_readings_are_bounded_by_what_they_take() {
    let mut bench = Bench::new(&[("a", 1), ("b", 1)]);
    let large = |seq: u64| {
        let mut record = (*reading("a", seq, seq as i64 * MS)).clone();
        record.value = Value::Text("x".repeat(1024 * 1024).into());
        Arc::new(record)
    };
    let mut out = Vec::new();
    (1..=64).for_each(|seq| out.extend(bench.give(large(seq))));
    assert_eq!(out, ["a1 Early"]);
}

#[test]
fn nothing_is_held_for_more_entries_than_the_journal_should_keep() {
    let mut bench = Bench::new(&[("a", 1), ("b", 0)]);
    let mut out = Vec::new();
    let mut give = |offset: u64, source, seq, at_ms: i64| {
        let record = reading(source, seq, at_ms * MS);
        bench.order.reading(Offset(offset), &record, true, &mut out);
    };
    give(0, "a", 1, 50);
    give(1, "a", 2, 10);
    give(2, "a", 3, 70);
    // Entries of others lie between.
    give(HELD_ENTRIES_SPAN_MAX, "b", 1, 0);
    give(HELD_ENTRIES_SPAN_MAX + 1, "b", 2, 1);
    assert_eq!(shown(&out), ["b1 Early", "b2 Early", "a2 Early", "a1 Early"]);
}

/// A gateway's stamp at that wall time, so long after boot.
fn stamped(seq: u64, wall_s: i64, up_s: u64, timebase: u32) -> Arc<Record> {
    let mut record = (*reading("g", seq, wall_s * S)).clone();
    record.stamp.ingest_time = IngestTime::from_unix_ns(NOON_NS + wall_s * S);
    record.stamp.uptime = Uptime::from_ns(MonoTime::from_ns(up_s * S as u64).ns());
    record.stamp.origin = Origin::Gateway;
    record.stamp.timebase = TimebaseId(timebase);
    Arc::new(record)
}

#[test]
fn a_clock_set_back_begins_a_new_order() {
    let mut bench = Bench::new(&[("g", 2), ("idle", 1)]);
    assert_eq!(bench.silent(&["idle"], 1), nothing());
    assert_eq!(bench.give(stamped(1, 1_000, 100, 1)), nothing());
    // Back by less than the bound: still one order.
    assert_eq!(bench.give(stamped(2, 1_000, 101, 2)), nothing());
    assert_eq!(bench.give(stamped(3, 1_004, 105, 2)), ["g1", "g2"]);
    // Back by an hour, and the silent source is still not waited for.
    assert_eq!(bench.give(stamped(4, -2_596, 106, 3)), ["g3 Early"]);
    assert_eq!(bench.give(stamped(5, -2_590, 112, 3)), ["g4"]);
    // Forward is nothing special.
    assert_eq!(bench.give(stamped(6, 5_000, 113, 4)), ["g5"]);
}

#[test]
fn after_a_restart_at_any_moment_the_same_comes_out() {
    let mut draw = 1_u64;
    let mut next = move |below: u64| {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (draw >> 33) % below
    };
    let sources = [("a", 1), ("b", 3), ("c", 0)];
    let (mut whole, mut broken) = (Bench::new(&sources), Bench::new(&sources));
    let mut seqs = BTreeMap::new();
    let mut totals = [0, 0];
    for step in 0..3_000_i64 {
        let (source, _) = sources[next(3) as usize];
        if next(25) == 0 {
            let both: Vec<&str> = sources.iter().map(|s| s.0).take(1 + next(3) as usize).collect();
            let at = step as u64;
            assert_eq!(broken.silent(&both, at), whole.silent(&both, at));
        }
        let seq: &mut u64 = seqs.entry(source).or_default();
        *seq += 1;
        let at_ms = step * 40 - next(4_000) as i64;
        let out = whole.at_ms(source, *seq, at_ms);
        assert_eq!(broken.at_ms(source, *seq, at_ms), out);
        totals[0] += out.iter().filter(|one| one.ends_with("Late")).count();
        totals[1] += out.len();
        if next(10) == 0 {
            broken.restart(&sources);
            assert_eq!(broken.order.held(), whole.order.held());
            assert_eq!(broken.order.take_missing(), 0);
        }
    }
    assert!(totals[0] > 50 && totals[1] > 2_000, "{totals:?}");
}

#[test]
fn a_changed_configuration_takes_up_what_is_left() {
    let mut bench = Bench::new(&[("a", 1), ("b", 1)]);
    bench.at_ms("a", 1, 0);
    bench.at_ms("b", 1, 100);
    bench.at_ms("a", 2, 2_000);
    // b is gone, c is new and waited for, a has another bound.
    bench.restart(&[("a", 2), ("c", 1)]);
    assert_eq!(bench.order.held().0, 2);
    assert_eq!((bench.order.take_missing(), bench.order.take_missing()), (1, 0));
    assert_eq!(bench.at_ms("a", 3, 3_000), nothing());
    assert_eq!(bench.at_ms("c", 1, 5_000), ["a1"]);
}
