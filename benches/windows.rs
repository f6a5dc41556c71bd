//! Prints how many readings a second one core takes through a keyed window.
//!
//! `cargo bench --bench windows`. Readings are made before the clock starts.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::sync::Arc;
use std::time::Instant;

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
    let mut operator = Operator::new(Arc::clone(spec));
    let mut out = Vec::new();
    before.iter().for_each(|input| operator.reading(input, &mut out));
    let open = operator.pane_count();
    out.clear();
    let (mut fired, start) = (0_u64, Instant::now());
    for input in inputs {
        operator.reading(input, &mut out);
        fired += out.drain(..).filter(|output| matches!(output, Output::Fired(_))).count() as u64;
    }
    let rate = inputs.len() as f64 / start.elapsed().as_secs_f64();
    let (panes, bytes) = (operator.pane_count(), operator.state_bytes());
    println!(
        "{name}: {rate:.0} readings/s, {open} panes open before, {panes} after, \
         {fired} results, {bytes} bytes"
    );
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
    }

    let sliding = Kind::Sliding { size: Span::from_secs(60), slide: second, offset: Span::ZERO };
    run("sliding 60 s by 1 s, 1 reading/s", &spec(sliding.clone(), second), &[], &in_order);
    let dense = inputs(KEYS, |n| n as i64 / 10);
    run("sliding 60 s by 1 s, 10 readings/s", &spec(sliding, second), &[], &dense);

    // A pause of 60 s after every 60 readings of a series.
    let session = Kind::Session { gap: Span::from_secs(5) };
    let bursts = inputs(KEYS, |n| n as i64 + n as i64 / 60_000 * 60_000);
    run("sessions, gap 5 s", &spec(session, second), &[], &bursts);
}
