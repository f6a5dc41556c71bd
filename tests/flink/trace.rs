//! Runs one trace of windows through an operator and compares everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate::core::clock::ClockState;
use tidegate::core::id::{Seq, SourceId};
use tidegate::core::reading::{Quality, Series};
use tidegate::core::time::{EventTime, IngestTime, Span, TimebaseId};
use tidegate::core::window::watermark::Emitted;
use tidegate::core::window::{
    Aggregate, Firing, Input, Kind, LatePolicy, Millis, Number, Operator, Output, ResultStatus,
    Sample, WindowSpec,
};

use crate::combine::{Combiner, watermarks};

/// Traces of one file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) ran: usize,
    pub(crate) skipped: usize,
}

/// Runs every trace of a file.
pub(crate) fn run(file: &str, text: &str) -> Report {
    let mut report = Report { ran: 0, skipped: 0 };
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let trace: Value = serde_json::from_str(line).unwrap();
        let mode = if trace["config"].get("wm").is_some() {
            &trace["config"]["wm"]["mode"]
        } else {
            &trace["config"]["mode"]
        };
        if mode == "valve" {
            report.skipped += 1;
            continue;
        }
        match trace.get("expect") {
            Some(_) => watermarks(&trace),
            None => windows(file, &trace),
        }
        report.ran += 1;
    }
    report
}

const AGGREGATES: [(Aggregate, &str); 6] = [
    (Aggregate::Count, "n"),
    (Aggregate::Sum, "sum"),
    (Aggregate::Min, "min"),
    (Aggregate::Max, "max"),
    (Aggregate::First, "first"),
    (Aggregate::Last, "last"),
];

fn spec(config: &Value) -> WindowSpec {
    let ms = |value: &Value| Span::from_millis(value.as_i64().unwrap());
    let window = &config["window"];
    let kind = match window["type"].as_str().unwrap() {
        "tumbling" => Kind::Tumbling { size: ms(&window["size"]), offset: ms(&window["offset"]) },
        "sliding" => Kind::Sliding {
            size: ms(&window["size"]),
            slide: ms(&window["slide"]),
            offset: ms(&window["offset"]),
        },
        "session" => Kind::Session { gap: ms(&window["gap"]) },
        other => panic!("unknown window {other}"),
    };
    WindowSpec {
        name: "trace".into(),
        version: 1,
        sources: Vec::new(),
        entity: "*".into(),
        property: "*".into(),
        kind,
        bound: config["wm"].get("bound").map_or(Span::ZERO, ms),
        idle_after: Span::from_secs(60),
        allowed_lateness: ms(&config["lateness"]),
        late_policy: LatePolicy::SideOutput,
        aggregates: AGGREGATES.iter().map(|(aggregate, _)| *aggregate).collect(),
        expected_interval: None,
        idle_flush: None,
        final_marker: false,
        include_bad: false,
        upstream: false,
    }
}

/// Event times here end with the year 2262. Windows repeat, so a trace beyond is
/// the same trace some periods earlier.
fn shift(trace: &Value) -> i64 {
    let window = &trace["config"]["window"];
    let period = window["slide"].as_i64().or(window["size"].as_i64()).unwrap_or(1);
    let steps = trace["steps"].as_array().unwrap();
    let events = steps.iter().filter(|step| step["op"] == "e");
    let greatest = events.filter_map(|step| step["t"].as_i64()).max().unwrap_or(0);
    if greatest < 9_000_000_000_000 { 0 } else { greatest / period * period }
}

struct Run {
    operator: Operator,
    combiner: Option<Combiner>,
    is_bounded: bool,
    has_side: bool,
    shift: i64,
    series: BTreeMap<String, Arc<Series>>,
    out: Vec<Value>,
    wms: Vec<Value>,
    clears: Vec<Value>,
    status: Vec<Value>,
    dropped: u64,
}

impl Run {
    fn new(trace: &Value) -> Self {
        let config = &trace["config"];
        let is_mux = config["wm"]["mode"] == "mux";
        Self {
            operator: Operator::new(Arc::new(spec(config))),
            combiner: is_mux.then(|| Combiner::new(&config["wm"])),
            is_bounded: config["wm"]["mode"] == "boo",
            has_side: config["side"].as_bool().unwrap(),
            shift: shift(trace),
            series: BTreeMap::new(),
            out: Vec::new(),
            wms: Vec::new(),
            clears: Vec::new(),
            status: Vec::new(),
            dropped: 0,
        }
    }

    /// As the operator says it: saturated to its range, then in ms again.
    fn at(&self, ms: i64) -> i64 {
        Millis::floor(Millis(ms).event_time()).0
    }

    fn ms(&self, at: EventTime) -> i64 {
        let ms = Millis::floor(at).0;
        if ms == self.at(i64::MAX) { i64::MAX } else { ms + self.shift }
    }

    fn combined(&self) -> Option<i64> {
        self.operator.watermark_of(TimebaseId(0)).map(|at| match at.0 {
            i64::MAX => at.0,
            at => at + self.shift,
        })
    }

    fn step(&mut self, number: usize, step: &Value) {
        let before = self.combined();
        let mut out = Vec::new();
        if step["op"] == "e" {
            let input = self.input(number, step);
            self.operator.reading(&input, &mut out);
        }
        let emitted = match &mut self.combiner {
            Some(combiner) => combiner.step(step),
            None if step["op"] == "w" => {
                let at = Some(Millis(step["t"].as_i64().unwrap()));
                Emitted { raised: at, idle: None }
            }
            None => Emitted::default(),
        };
        if let Some(idle) = emitted.idle {
            self.status.push(json!([number, if idle { "idle" } else { "active" }]));
        }
        if let Some(Millis(at)) = emitted.raised {
            let at = if matches!(at, i64::MIN | i64::MAX) { at } else { at - self.shift };
            self.operator.watermark(Millis(at), &mut out);
        }
        let after = self.combined();
        if after != before {
            self.wms.push(json!([number, after]));
        }
        self.rows(Some(number), step, before, out);
    }

    fn input(&mut self, number: usize, step: &Value) -> Input {
        let name = step["k"].as_str().unwrap();
        let series = self.series.entry(name.to_owned()).or_insert_with(|| {
            Arc::new(Series { entity: name.into(), property: "v".into(), unit: None })
        });
        let at = Millis(step["t"].as_i64().unwrap() - self.shift).event_time();
        let value = Number::Int(i128::from(step["v"].as_i64().unwrap()));
        Input {
            source: SourceId::new("trace"),
            series: Arc::clone(series),
            sample: Sample { at, seq: Seq(number as u64 + 1), value },
            quality: Quality::Good,
            state: ClockState::Synchronized,
            max_error: None,
            timebase: TimebaseId(0),
            ingest: IngestTime::from_unix_ns(0),
            moves_watermark: self.is_bounded,
        }
    }

    fn rows(&mut self, number: Option<usize>, step: &Value, before: Option<i64>, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Fired(firing) if firing.status == ResultStatus::Retracted => {}
                Output::Fired(firing) => self.fired(number, before, &firing),
                Output::Late(_) if !self.has_side => self.dropped += 1,
                Output::Late(verdict) => {
                    let wm = verdict.watermark.map(|at| self.ms(at));
                    let (k, t, v) = (&step["k"], &step["t"], &step["v"]);
                    self.out
                        .push(json!({"s": number, "o": "late", "k": k, "t": t, "v": v, "wm": wm}));
                }
                Output::Cleared { series, start, end, .. } => {
                    let row = json!([number, &*series.entity, self.ms(start), self.ms(end)]);
                    self.clears.push(row);
                }
                Output::Between => {}
            }
        }
    }

    fn fired(&mut self, number: Option<usize>, before: Option<i64>, firing: &Firing) {
        let wm = firing.watermark.map(|at| self.ms(at));
        let by = if wm == before { "ev" } else { "wm" };
        let mut row = json!({
            "o": "fire", "by": by, "k": &*firing.series.entity, "ws": self.ms(firing.start),
            "we": self.ms(firing.end), "wm": wm, "rev": firing.revision,
        });
        if let Some(number) = number {
            row["s"] = number.into();
        }
        for ((_, name), (_, value)) in AGGREGATES.iter().zip(&firing.values) {
            let Some(Number::Int(value)) = value else { panic!("{name}: {value:?}") };
            row[*name] = i64::try_from(*value).unwrap().into();
        }
        assert_eq!(row["n"], firing.count);
        self.out.push(row);
    }
}

/// Runs a trace with windows.
fn windows(file: &str, trace: &Value) {
    let name = format!("{file}: {}", trace["name"].as_str().unwrap());
    let mut run = Run::new(trace);
    for (number, step) in trace["steps"].as_array().unwrap().iter().enumerate() {
        run.step(number, step);
    }
    compare(&name, "out", &run.out, &trace["out"]);
    compare(&name, "wms", &run.wms, &trace["wms"]);
    compare(&name, "clears", &run.clears, &trace["clears"]);
    assert_eq!(trace["dropped"], run.dropped, "{name}: dropped");
    if let Some(status) = trace.get("status") {
        compare(&name, "status", &run.status, status);
    }
    let before = run.combined();
    let mut out = Vec::new();
    run.operator.watermark(Millis(i64::MAX), &mut out);
    run.out.clear();
    run.rows(None, &Value::Null, before, out);
    compare(&name, "end", &run.out, &trace["end"]);
}

fn compare(name: &str, what: &str, found: &[Value], expected: &Value) {
    let expected = expected.as_array().unwrap();
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found, expected, "{name}: {what}[{index}]");
    }
    assert_eq!(found.len(), expected.len(), "{name}: rows of {what}");
}
