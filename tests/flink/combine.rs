//! The ways in which Flink's inputs come to one watermark: generators, the
//! multiplexer, and what asks them when.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate::core::time::Span;
use tidegate::core::window::watermark::{Bounded, Emitted, InputId, Millis, Multiplexer};

/// `withIdleness` of Flink: the first tick after an event notes the activity, the
/// second starts the timer, and more than the timeout must pass. The agent decides
/// on its own monotonic clock instead; this is for the traces.
#[derive(Clone, Debug, Default)]
struct IdleTimer {
    events: u64,
    seen: u64,
    since: Option<i64>,
    is_idle: bool,
}

impl IdleTimer {
    fn is_due(&mut self, now: i64, timeout: i64) -> bool {
        if self.events != self.seen {
            self.seen = self.events;
            self.since = None;
            return false;
        }
        now - *self.since.get_or_insert(now) > timeout && self.since != Some(now)
    }
}

#[derive(Clone, Debug)]
struct Partition {
    input: InputId,
    generator: Bounded,
    timer: IdleTimer,
}

/// Several inputs and what stands between them and the window.
pub(crate) struct Combiner {
    pub(crate) mux: Multiplexer,
    partitions: Vec<Partition>,
    bound: i64,
    idle: Option<i64>,
    is_punctuated: bool,
    is_explicit: bool,
    now: i64,
}

impl Combiner {
    /// From the configuration of a trace of mode `mux`.
    pub(crate) fn new(config: &Value) -> Self {
        let mut combiner = Self {
            mux: Multiplexer::default(),
            partitions: Vec::new(),
            bound: config["bound"].as_i64().unwrap_or(0),
            idle: config["idle"].as_i64(),
            is_punctuated: config["emit"] == "punctuated",
            is_explicit: config["emit"] == "explicit",
            now: 1,
        };
        (0..config["inputs"].as_u64().unwrap() as u32).for_each(|input| combiner.add(input));
        combiner
    }

    fn add(&mut self, input: u32) {
        let input = InputId(input);
        self.mux.add(input);
        let generator = Bounded::new(Span::from_millis(self.bound));
        self.partitions.push(Partition { input, generator, timer: IdleTimer::default() });
    }

    fn event(&mut self, input: InputId, at: i64) -> Emitted {
        let Some(found) = self.partitions.iter_mut().find(|found| found.input == input) else {
            return Emitted::default();
        };
        found.generator.observe(Millis(at));
        found.timer.events += 1;
        found.timer.is_idle = false;
        if self.is_punctuated {
            let at = found.generator.watermark();
            return self.mux.set(input, at);
        }
        Emitted::default()
    }

    fn tick(&mut self) -> Emitted {
        for partition in &mut self.partitions {
            let timeout = self.idle.unwrap_or(i64::MAX);
            if self.idle.is_some() && partition.timer.is_due(self.now, timeout) {
                if !partition.timer.is_idle {
                    partition.timer.is_idle = true;
                    self.mux.mark_idle_deferred(partition.input, true);
                }
            } else if !self.is_explicit {
                self.mux.set_deferred(partition.input, partition.generator.watermark());
            }
        }
        self.mux.update()
    }

    /// One step; events count only for what they do to the watermark.
    pub(crate) fn step(&mut self, step: &Value) -> Emitted {
        let input = InputId(step["i"].as_u64().unwrap_or(0) as u32);
        match step["op"].as_str().unwrap() {
            "e" => self.event(input, step["t"].as_i64().unwrap()),
            "w" => {
                let at = step["t"].as_i64().filter(|at| *at > i64::MIN).map(Millis);
                self.mux.set(input, at)
            }
            "idle" => self.mux.mark_idle(input, true),
            "active" => self.mux.mark_idle(input, false),
            "adv" => {
                self.now += step["ms"].as_i64().unwrap();
                Emitted::default()
            }
            "tick" => {
                self.now += step["ms"].as_i64().unwrap();
                self.tick()
            }
            "add" => {
                self.add(input.0);
                Emitted::default()
            }
            "rm" => {
                self.mux.remove(input);
                self.partitions.retain(|partition| partition.input != input);
                Emitted::default()
            }
            other => panic!("unknown step {other}"),
        }
    }
}

/// Runs a trace of watermarks alone.
pub(crate) fn watermarks(trace: &Value) {
    let name = trace["name"].as_str().unwrap();
    let mut combiner = Combiner::new(&trace["config"]);
    let steps = trace["steps"].as_array().unwrap().iter();
    for (number, (step, expected)) in steps.zip(trace["expect"].as_array().unwrap()).enumerate() {
        let emitted = combiner.step(step);
        let mut found = BTreeMap::new();
        found.insert("wm", combiner.mux.combined().map_or(Value::Null, |at| at.0.into()));
        found.insert("idle", combiner.mux.told_idle().into());
        found.insert("allidle", combiner.mux.all_idle().into());
        let status = emitted.idle.map(|idle| vec![if idle { "idle" } else { "active" }.into()]);
        let raised = emitted.raised.map(|at| vec![Value::from("w"), at.0.into()]);
        let emitted: Vec<Vec<Value>> = status.into_iter().chain(raised).collect();
        if !emitted.is_empty() {
            found.insert("emit", emitted.into());
        }
        assert_eq!(serde_json::json!(found), *expected, "{name}: step {number} {step}");
    }
}
