//! Prints how many readings a second one core takes through a keyed window.
//!
//! `cargo bench --bench windows`. Readings are made before the clock starts. Only
//! the time that it had a core counts, so that other work beside it shows less.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use tidegate::core::clock::ClockState;
use tidegate::core::id::{Seq, SourceId};
use tidegate::core::reading::{Quality, Series};
use tidegate::core::time::{EventTime, IngestTime, MaxError, Span, TimebaseId};
use tidegate::core::window::{
    Aggregate, Input, Kind, LatePolicy, Number, Operator, Output, Sample, WindowSpec,
};

const KEYS: u64 = 1_000;
const COUNT: u64 = 2_000_000;
const START_MS: i64 = 1_796_000_000_000;

fn spec(kind: Kind, bound: Span) -> Arc<WindowSpec> {
    Arc::new(WindowSpec {
        name: "bench".into(),
        version: 1,
        sources: Vec::new(),
        entity: "*".into(),
        property: "*".into(),
        kind,
        bound,
        idle_after: Span::from_secs(60),
        allowed_lateness: Span::ZERO,
        late_policy: LatePolicy::SideOutput,
        aggregates: vec![Aggregate::Count, Aggregate::Sum, Aggregate::Min, Aggregate::Max],
        expected_interval: None,
        idle_flush: None,
        final_marker: true,
        include_bad: false,
        upstream: false,
    })
}

fn series(keys: u64) -> Vec<Arc<Series>> {
    let one = |key| Series {
        entity: format!("pump-{key:05}").into(),
        property: "pressure_kpa".into(),
        unit: Some("kPa".into()),
    };
    (0..keys).map(|key| Arc::new(one(key))).collect()
}

/// Reading `n` of series `n % keys`, `at_ms(n)` after the start.
fn inputs(keys: u64, at_ms: impl Fn(u64) -> i64) -> Vec<Input> {
    let (series, source) = (series(keys), SourceId::new("press-line"));
    let one = |n: u64| Input {
        source: source.clone(),
        series: Arc::clone(&series[(n % keys) as usize]),
        sample: Sample {
            at: EventTime::from_unix_ns((START_MS + at_ms(n)) * 1_000_000),
            seq: Seq(n + 1),
            value: Number::Real(100.0 + (n % 997) as f64 / 100.0),
        },
        quality: Quality::Good,
        state: ClockState::Synchronized,
        max_error: Some(MaxError::from_ns(1_000_000)),
        timebase: TimebaseId(0),
        ingest: IngestTime::from_unix_ns(0),
        moves_watermark: true,
    };
    (0..COUNT).map(one).collect()
}

fn run(name: &str, spec: &Arc<WindowSpec>, before: &[Input], inputs: &[Input]) {
    let (mut operator, resident) = (Operator::new(Arc::clone(spec)), resident_bytes());
    let mut out = Vec::new();
    before.iter().for_each(|input| operator.reading(input, &mut out));
    let open = operator.pane_count();
    let filled = resident_bytes().saturating_sub(resident);
    out.clear();
    let (mut fired, start) = (0_u64, elapsed());
    for input in inputs {
        operator.reading(input, &mut out);
        fired += out.drain(..).filter(|output| matches!(output, Output::Fired(_))).count() as u64;
    }
    let rate = inputs.len() as f64 / (elapsed() - start).as_secs_f64();
    let (panes, bytes) = (operator.pane_count(), operator.state_bytes());
    println!(
        "{name}: {rate:.0} readings/s, {open} panes open before, {panes} after, \
         {fired} results, {bytes} bytes"
    );
    if open > 0 {
        println!("    {} bytes of resident memory an open pane", filled / open as u64);
    }
}

/// How long this thread has had a core, to a few milliseconds; where the system
/// does not say, by the clock.
fn elapsed() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let on_core = said.split(' ').next().and_then(|ns| ns.parse().ok());
    on_core.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// Of this process; 0 where the system does not say.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1_024
}

fn main() {
    let second = Span::from_secs(1);
    let tumbling = |size| Kind::Tumbling { size, offset: Span::ZERO };
    // Every series once a second.
    let in_order = inputs(KEYS, |n| n as i64);
    run(
        "tumbling 10 s, 1,000 series",
        &spec(tumbling(Span::from_secs(10)), second),
        &[],
        &in_order,
    );

    // Ten series; panes of 1 s, of which the bound keeps so many open.
    for panes in [10, 1_000, 100_000] {
        let seconds = panes / 10;
        let spec = spec(tumbling(second), Span::from_secs(seconds));
        // Evenly over all open panes, so that each is as likely as any other.
        let at = |n: u64| (n as i64 / 10 * 7_919 % seconds) * 1_000 + 500;
        let all = inputs(10, at);
        run(&format!("tumbling 1 s, {panes} panes open"), &spec, &all, &all);
        if panes == 100_000 {
            // The same panes one after the other: as much to do, but the memory
            // knows what comes next.
            let all = inputs(10, |n| n as i64 / 10 % seconds * 1_000 + 500);
            run(&format!("tumbling 1 s, {panes} panes open, in order"), &spec, &all, &all);
        }
    }

    sliding_rows(&in_order);

    // A pause of 60 s after every 60 readings of a series.
    let session = Kind::Session { gap: Span::from_secs(5) };
    let bursts = inputs(KEYS, |n| n as i64 + n as i64 / 60_000 * 60_000);
    run("sessions, gap 5 s", &spec(session, second), &[], &bursts);
}

/// One result a series and slide: what a window costs by its size, its slide and
/// the readings between two firings.
fn sliding_rows(in_order: &[Input]) {
    let second = Span::from_secs(1);
    let sliding = |size, slide| {
        let [size, slide] = [size, slide].map(Span::from_secs);
        spec(Kind::Sliding { size, slide, offset: Span::ZERO }, second)
    };
    run("sliding 60 s by 1 s, 1 reading a slide, 1,000 series", &sliding(60, 1), &[], in_order);
    run("sliding 600 s by 1 s, 1 reading a slide, 1,000 series", &sliding(600, 1), &[], in_order);

    // A tenth of the series, so that 20,000 readings of each fill the longest window.
    for a_slide in [1, 10] {
        for (size, slide) in [(60, 10), (60, 1), (600, 1), (6_000, 1)] {
            let all = inputs(KEYS / 10, |n| n as i64 * 10 * slide / a_slide);
            let name = format!("sliding {size} s by {slide} s, {a_slide} a slide, 100 series");
            run(&name, &sliding(size, slide), &[], &all);
        }
    }

    let sparse = inputs(KEYS / 10, |n| n as i64 * 10);
    for (size, aggregates) in [(60, "p50 p99"), (600, "p50 p99"), (60, "twa"), (600, "twa")] {
        let mut spec = WindowSpec::clone(&sliding(size, 1));
        spec.aggregates = aggregates.split(' ').filter_map(Aggregate::from_name).collect();
        let name = format!("sliding {size} s by 1 s, {aggregates}, 1 a slide, 100 series");
        run(&name, &Arc::new(spec), &[], &sparse[..sparse.len() / 5]);
    }

    // Every tenth reading comes 30 s behind and fires 30 windows again.
    let late = |n: u64| n as i64 * 10 - if n / 100 % 10 == 9 { 30_000 } else { 0 };
    let late = inputs(KEYS / 10, late);
    for size in [60, 600] {
        let mut spec = WindowSpec::clone(&sliding(size, 1));
        spec.allowed_lateness = Span::from_secs(60);
        let name = format!("sliding {size} s by 1 s, 1 in 10 late by 30 s, 100 series");
        run(&name, &Arc::new(spec), &[], &late[..late.len() / 5]);
    }
}
