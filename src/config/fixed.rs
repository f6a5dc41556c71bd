//! What of a configuration cannot change while the agent runs.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::{Config, Problem, Source, SourceKind};

/// What does change: see [`crate::shell::reload`].
const CHANGEABLE: [&[&str]; 2] = [&["source"], &["gateway", "log"]];
const FIX: &str = "restart the agent to apply it";

impl Config {
    /// The keys in which `next` differs from this one, and which an agent that runs
    /// by this one cannot change. Sources and `gateway.log` it can.
    pub fn fixed_in(&self, next: &Config) -> Vec<Problem> {
        let mut found = Vec::new();
        let tables = [self, next].map(|config| config.print().parse::<Table>().unwrap_or_default());
        let [ours, theirs] = tables.map(Value::Table);
        differences(&mut Vec::new(), Some(&ours), Some(&theirs), &mut found);
        let mut problems: Vec<Problem> = found.into_iter().map(problem).collect();
        problems.extend(self.orders_in(next));
        problems.extend(self.standard_input_in(next));
        problems
    }

    /// An output that has readings in order is told whom to wait for when it starts.
    fn orders_in(&self, next: &Config) -> impl Iterator<Item = Problem> {
        let (ours, theirs) = (self.agent_settings().orders, next.agent_settings().orders);
        let is_other = ours.len() == theirs.len() && ours != theirs;
        is_other
            .then(|| Problem {
                line: None,
                key: "output.ordered_readings".to_owned(),
                what: "the order has other sources, or other bounds, with this file".to_owned(),
                fix: format!("{FIX}, or write the output's own `sources` and `bound`"),
            })
            .into_iter()
    }

    /// A read of standard input that has begun cannot be taken back: it would
    /// swallow a line.
    fn standard_input_in(&self, next: &Config) -> Vec<Problem> {
        let reads = |source: &&Source| source.kind == SourceKind::Stdin;
        let is_let_go = |source: &&Source| {
            let same = next.sources.iter().find(|other| other.name == source.name);
            same.is_none_or(|other| source.needs_restart(other))
        };
        let let_go = self.sources.iter().filter(reads).filter(is_let_go);
        let_go
            .map(|source| Problem {
                line: None,
                key: format!("source.{}", source.name),
                what: "standard input cannot be let go of while the agent runs".to_owned(),
                fix: FIX.to_owned(),
            })
            .collect()
    }
}

impl Source {
    /// Whether a running source must start anew to become `next`. How its readings
    /// are stamped, which are repeats, what is added up and what moved too little, is
    /// not its own business.
    pub fn needs_restart(&self, next: &Source) -> bool {
        let (time, dedupe) = (next.time.clone(), next.dedupe.clone());
        let alike = Source { time, dedupe, values: next.values.clone(), ..self.clone() };
        alike != *next
    }
}

/// A key, and its values before and after.
type Difference = (Vec<String>, Option<String>, Option<String>);

fn differences(
    path: &mut Vec<String>,
    ours: Option<&Value>,
    theirs: Option<&Value>,
    found: &mut Vec<Difference>,
) {
    if ours == theirs || CHANGEABLE.iter().any(|key| path.iter().eq(key.iter())) {
        return;
    }
    let parts = [ours, theirs].map(|value| value.and_then(parts));
    match (&parts, ours, theirs) {
        ([Some(ours), Some(theirs)], ..) => {
            let keys: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            for key in keys {
                path.push(key.clone());
                differences(path, ours.get(key).copied(), theirs.get(key).copied(), found);
                path.pop();
            }
        }
        _ => {
            found.push((path.clone(), ours.and_then(text), theirs.and_then(text)));
        }
    }
}

/// Tables by their keys, lists of tables by the names in them or their places.
fn parts(value: &Value) -> Option<BTreeMap<String, &Value>> {
    match value {
        Value::Table(table) => Some(table.iter().map(|(key, one)| (key.clone(), one)).collect()),
        Value::Array(list) if list.iter().all(Value::is_table) && !list.is_empty() => {
            let named = |(place, one): (usize, _)| {
                let name = Value::get(one, "name").and_then(Value::as_str);
                (name.map_or_else(|| (place + 1).to_string(), str::to_owned), one)
            };
            Some(list.iter().enumerate().map(named).collect())
        }
        _ => None,
    }
}

/// What has no parts.
fn text(value: &Value) -> Option<String> {
    parts(value).is_none().then(|| value.to_string())
}

fn problem((path, ours, theirs): Difference) -> Problem {
    let what = match (ours, theirs) {
        (Some(ours), Some(theirs)) => {
            format!("cannot become {theirs} from {ours} while the agent runs")
        }
        _ => "cannot come or go while the agent runs".to_owned(),
    };
    Problem { line: None, key: path.join("."), what, fix: FIX.to_owned() }
}

#[cfg(test)]
#[path = "fixed_tests.rs"]
mod tests;
