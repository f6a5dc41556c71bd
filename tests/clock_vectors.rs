//! The conformance vectors of clocks and stamps, group by group. Integers are
//! nanoseconds unless their name says otherwise; keys that end in `_iso` repeat
//! others for people.
//!
//! `TIDEGATE_CLOCK_VECTORS=FILE` runs another file of the same form too.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use serde_json::Value;

#[path = "clock_vectors/device.rs"]
mod device;
#[path = "clock_vectors/dst.rs"]
mod dst;
#[path = "clock_vectors/encode.rs"]
mod encode;
#[path = "clock_vectors/history.rs"]
mod history;
#[path = "clock_vectors/kernel.rs"]
mod kernel;
#[path = "clock_vectors/sequence.rs"]
mod sequence;
#[path = "clock_vectors/watermark.rs"]
mod watermark;

/// What Tidegate makes of an input, in the words of the vectors.
type Run = fn(&Value) -> Value;

/// Each group, what runs it, and how many vectors of it the file here has.
const GROUPS: &[(&str, Run, usize)] = &[
    ("adjtimex", kernel::adjtimex, 18),
    ("chrony", kernel::chrony, 11),
    ("detect", history::detect, 13),
    ("device", device::run, 16),
    ("dst", dst::run, 13),
    ("encode", encode::run, 11),
    ("multi_boot", history::multi_boot, 2),
    ("restamp", history::restamp, 10),
    ("sequence", sequence::run, 2),
    ("watermark", watermark::run, 2),
];

/// Vectors that describe what Tidegate does in another way, with the reason.
const NOT_APPLICABLE: &[(&str, &str)] = &[(
    "Q03",
    "sequence numbers are given in the commit that makes them durable, not reserved in blocks: \
     a crash leaves no numbers to skip",
)];

/// Runs every vector of a file; returns how many ran, by group.
fn run_all(text: &str) -> BTreeMap<String, usize> {
    let file: Value = serde_json::from_str(text).unwrap();
    let mut ran = BTreeMap::new();
    let mut wrong = Vec::new();
    for vector in file["vectors"].as_array().unwrap() {
        let (id, group) = (vector["id"].as_str().unwrap(), vector["group"].as_str().unwrap());
        let (input, expected) = (&vector["input"], &vector["expected"]);
        if input.get("reply_hex").is_some() {
            kernel::packet(input, expected);
            *ran.entry("chrony_packet".to_owned()).or_default() += 1;
            continue;
        }
        if input.get("request_len").is_some() {
            kernel::request_length(input, expected);
            *ran.entry("chrony_packet".to_owned()).or_default() += 1;
            continue;
        }
        if NOT_APPLICABLE.iter().any(|(not, _)| *not == id) {
            sequence::numbering_goes_on(&vector["input"]);
            continue;
        }
        let (_, run, _) = GROUPS.iter().find(|(name, ..)| *name == group).unwrap();
        let (got, expected) = (run(&vector["input"]), stripped(&vector["expected"]));
        if got != expected {
            wrong.push(format!("{id} {}\n  expected {expected}\n  got      {got}", vector["desc"]));
        }
        *ran.entry(group.to_owned()).or_default() += 1;
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    ran
}

/// Without what only repeats for people.
fn stripped(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(key, _)| !key.ends_with("_iso"));
            Value::Object(kept.map(|(key, value)| (key.clone(), stripped(value))).collect())
        }
        Value::Array(elements) => elements.iter().map(stripped).collect(),
        other => other.clone(),
    }
}

/// The inputs a group knows: another one would be left out in silence.
fn check_keys(input: &Value, known: &[&str]) {
    for key in input.as_object().unwrap().keys() {
        let is_known = known.contains(&key.as_str()) || key.ends_with("_iso");
        assert!(is_known, "the input {key:?} is not known");
    }
}

fn int(input: &Value, key: &str) -> Option<i64> {
    input.get(key).filter(|value| !value.is_null()).map(|value| value.as_i64().unwrap())
}

fn flag(input: &Value, key: &str) -> Option<bool> {
    input.get(key).map(|value| value.as_bool().unwrap())
}

fn upper(flags: tidegate::core::reading::Flags) -> Vec<String> {
    flags.names().map(str::to_uppercase).collect()
}

fn arrival(ingest_ns: i64, up_ns: u64) -> tidegate::core::reading::Arrival {
    tidegate::core::reading::Arrival {
        ingest: tidegate::core::time::IngestTime::from_unix_ns(ingest_ns),
        uptime: tidegate::core::time::Uptime::from_ns(up_ns),
        half_round_trip: tidegate::core::time::Span::ZERO,
    }
}

fn clock(state: &str, error_ns: Option<i64>) -> tidegate::core::clock::ClockReading {
    use tidegate::core::clock::ClockReading;
    use tidegate::core::time::{IngestTime, MaxError};
    let wall = IngestTime::from_unix_ns(0);
    ClockReading {
        state: encode::state(state),
        max_error: error_ns.map(|ns| MaxError::from_ns(u64::try_from(ns).unwrap())),
        ..ClockReading::unsynchronized(wall, tidegate::core::id::BootId::default())
    }
}

#[test]
fn the_vectors_hold() {
    let ran = run_all(include_str!("data/clock_vectors.json"));
    let expected = GROUPS.iter().map(|(group, _, count)| ((*group).to_owned(), *count));
    let packets = ("chrony_packet".to_owned(), 2);
    assert_eq!(ran, expected.chain([packets]).collect());
    let not_applicable = NOT_APPLICABLE.len();
    assert_eq!(ran.values().sum::<usize>() + not_applicable, 101);
}

#[test]
fn the_vectors_of_another_file_hold() {
    #[expect(clippy::disallowed_methods, reason = "how a test is told what to run")]
    let Some(path) = std::env::var_os("TIDEGATE_CLOCK_VECTORS") else { return };
    let ran = run_all(&std::fs::read_to_string(path).unwrap());
    println!("{ran:?}");
    assert!(!ran.is_empty(), "no vector ran");
}
