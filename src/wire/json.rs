//! The format `json`: one compact object a payload, keys in the contract's
//! order. Written by hand into a buffer that the caller reuses; a reading costs
//! no allocation.
//!
//! What is unknown is left out, except a value that is not a finite number:
//! that is `null`, with quality `bad` and the flag `nonfinite`.

mod retained;
mod window;

use std::fmt::Display;
use std::io::Write as _;

pub use self::retained::retained_frontier;
pub use self::window::{late_reading, window_result};
use super::time;
use crate::core::clock::{ClockEvent, ClockEventKind, ClockState, Correction};
use crate::core::order::Place;
use crate::core::reading::{Flags, GapRecord, Origin, Quality, Record, Stamp, Value};
use crate::core::seam::{Frontier, LinkStatus};

/// Appends a reading.
pub fn reading(gateway: &str, record: &Record, out: &mut Vec<u8>) {
    reading_open(gateway, record, out);
    out.push(b'}');
}

/// Appends readings of one source and numbering as one object: what they share
/// is said once.
pub fn batch(gateway: &str, records: &[Record], out: &mut Vec<u8>) {
    let Some(first) = records.first() else { return };
    head(gateway, first.source.as_str(), &first.epoch, out);
    key("readings", out);
    for (at, record) in records.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"[{\"seq\":" } else { b",{\"seq\":" });
        shown_by_serde(&record.seq.0, out);
        reading_rest(record, out);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
}

/// Appends a reading for an output that wants them in order: as it goes up, with
/// `"late":true` or `"early":true` where its place is not kept.
pub fn ordered_reading(gateway: &str, record: &Record, place: Place, out: &mut Vec<u8>) {
    reading_open(gateway, record, out);
    match place {
        Place::InOrder => {}
        Place::Late => out.extend_from_slice(br#","late":true"#),
        Place::Early => out.extend_from_slice(br#","early":true"#),
    }
    out.push(b'}');
}

/// A reading without its last brace.
fn reading_open(gateway: &str, record: &Record, out: &mut Vec<u8>) {
    head(gateway, record.source.as_str(), &record.epoch, out);
    key_number("seq", record.seq.0, out);
    reading_rest(record, out);
}

/// What follows the sequence number.
fn reading_rest(record: &Record, out: &mut Vec<u8>) {
    let (quality, flags) = quality_and_flags(record);
    optional_text("id", record.id.as_deref(), out);
    key_text("entity", &record.series.entity, out);
    key_text("property", &record.series.property, out);
    key("value", out);
    value(&record.value, out);
    optional_text("unit", record.series.unit.as_deref(), out);
    key_word("quality", quality_word(quality), out);
    optional_text("quality_detail", record.quality_detail.as_deref(), out);
    key_time("event_time", record.stamp.event_time.unix_ns(), out);
    key_time("ingest_time", record.stamp.ingest_time.unix_ns(), out);
    stamp(&record.stamp, out);
    key("flags", out);
    flag_names(flags, out);
}

/// What is said of a reading's quality, and its flags: also what its value says
/// by itself.
pub(super) fn quality_and_flags(record: &Record) -> (Quality, Flags) {
    let flags = record.stamp.flags;
    match record.value {
        Value::F64(number) if !number.is_finite() => (Quality::Bad, flags.with(Flags::NONFINITE)),
        Value::Composite(_) => (record.quality, flags.with(Flags::COMPOSITE)),
        _ => (record.quality, flags),
    }
}

/// Whether the evidence for the time is written too: wherever the clock was not
/// synchronized when it stamped, or the time was found out later.
pub(super) fn shows_uptime(stamp: &Stamp) -> bool {
    let is_retimed = matches!(stamp.origin, Origin::Restamped | Origin::Bounded);
    is_retimed || stamp.state != ClockState::Synchronized
}

/// Appends a gap record. `last_seq` is left out when nobody knows how far the
/// damage went, the event times when none is known.
pub fn gap(gateway: &str, gap: &GapRecord, out: &mut Vec<u8>) {
    head(gateway, gap.source.as_str(), &gap.epoch, out);
    key_number("first_seq", gap.first_seq.0, out);
    if let Some(last_seq) = gap.last_seq {
        key_number("last_seq", last_seq.0, out);
    }
    key_word("reason", gap.reason.as_str(), out);
    if let Some(first) = gap.first_event_time {
        key_time("first_event_time", first.unix_ns(), out);
    }
    if let Some(last) = gap.last_event_time {
        key_time("last_event_time", last.unix_ns(), out);
    }
    key_time("at", gap.at.unix_ns(), out);
    out.push(b'}');
}

/// Appends a correction.
pub fn correction(gateway: &str, correction: &Correction, out: &mut Vec<u8>) {
    head(gateway, correction.source.as_str(), &correction.epoch, out);
    key_number("first_seq", correction.first_seq.0, out);
    key_number("last_seq", correction.last_seq.0, out);
    key_shown("boot", &correction.boot, out);
    key_number("timebase", u64::from(correction.timebase.0), out);
    key("shift_ns", out);
    shown_by_serde(&correction.shift.ns(), out);
    key_number("max_error_us", correction.max_error.micros_ceil(), out);
    key_time("at", correction.at.unix_ns(), out);
    out.push(b'}');
}

/// Appends a clock event. `delta_ns` is left out where the kind has no length,
/// `ppm` is there for a fast slew only, `max_error_us` is left out when nothing
/// bounds the error.
pub fn clock_event(gateway: &str, event: &ClockEvent, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"v":1"#);
    key_text("gateway", gateway, out);
    key_word("event", event.kind.as_str(), out);
    if let Some(delta) = event.kind.delta() {
        key("delta_ns", out);
        shown_by_serde(&delta.ns(), out);
    }
    if let ClockEventKind::FastSlew { ppm } = event.kind {
        key("ppm", out);
        shown_by_serde(&ppm, out);
    }
    key_shown("boot", &event.boot, out);
    key_number("uptime_ns", event.uptime.ns(), out);
    key_number("timebase", u64::from(event.timebase.0), out);
    key_time("at", event.at.unix_ns(), out);
    key_word("state_before", event.state_before.as_str(), out);
    key_word("state", event.state.as_str(), out);
    key_word("clock", event.clock.as_str(), out);
    if let Some(max_error) = event.max_error {
        key_number("max_error_us", max_error.micros_ceil(), out);
    }
    out.push(b'}');
}

/// Appends a delivery frontier. `complete_before` is left out before the first
/// plausible reading.
pub fn frontier(gateway: &str, frontier: &Frontier, out: &mut Vec<u8>) {
    head(gateway, frontier.source.as_str(), &frontier.epoch, out);
    key_number("through_seq", frontier.through_seq.0, out);
    if let Some(complete_before) = frontier.complete_before {
        key_time("complete_before", complete_before.unix_ns(), out);
    }
    key_number("pending", frontier.pending, out);
    key_time("at", frontier.at.unix_ns(), out);
    out.push(b'}');
}

/// Appends what the status topic says: `"status":"online"` or `"offline"`.
pub fn link_status(gateway: &str, status: &LinkStatus, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"v":1"#);
    key_text("gateway", gateway, out);
    key_word("status", if status.is_online { "online" } else { "offline" }, out);
    key_shown("epoch", &status.epoch, out);
    key_number("pending", status.pending, out);
    key_word("clock", status.clock.as_str(), out);
    key_time("at", status.at.unix_ns(), out);
    out.push(b'}');
}

/// Appends the will, which the broker publishes on the status topic when the
/// connection ends without a goodbye. It is fixed at CONNECT, so it can say
/// neither when nor what is pending; its reason tells it from a clean stop.
pub fn will(gateway: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"v":1"#);
    key_text("gateway", gateway, out);
    key_word("status", "offline", out);
    key_word("reason", "connection_lost", out);
    out.push(b'}');
}

fn head(gateway: &str, source: &str, epoch: &impl Display, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"v":1"#);
    key_text("gateway", gateway, out);
    key_text("source", source, out);
    key_shown("epoch", epoch, out);
}

fn stamp(stamp: &Stamp, out: &mut Vec<u8>) {
    out.extend_from_slice(br#","time":{"origin":""#);
    out.extend_from_slice(origin_word(stamp.origin).as_bytes());
    out.push(b'"');
    key_word("clock", stamp.clock.as_str(), out);
    key_word("state", stamp.state.as_str(), out);
    if let Some(max_error) = stamp.max_error {
        key_number("max_error_us", max_error.micros_ceil(), out);
    }
    key_number("timebase", u64::from(stamp.timebase.0), out);
    if let Some(first) = stamp.first_event_time {
        key_time("first_event_time", first.unix_ns(), out);
    }
    if let Some(seconds_east) = stamp.utc_offset_s {
        key("offset", out);
        out.push(b'"');
        time::utc_offset(seconds_east, out);
        out.push(b'"');
    }
    if shows_uptime(stamp) {
        key_shown("boot", &stamp.boot, out);
        key_number("uptime_ns", stamp.uptime.ns(), out);
    }
    out.push(b'}');
}

fn value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::F64(number) if !number.is_finite() => out.extend_from_slice(b"null"),
        Value::F64(number) => shown_by_serde(number, out),
        Value::I64(number) => shown_by_serde(number, out),
        Value::U64(number) => shown_by_serde(number, out),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Text(text) => quoted(text, out),
        Value::Composite(json) => out.extend_from_slice(json.as_bytes()),
    }
}

fn flag_names(flags: Flags, out: &mut Vec<u8>) {
    out.push(b'[');
    for (i, name) in flags.names().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.push(b'"');
        out.extend_from_slice(name.as_bytes());
        out.push(b'"');
    }
    out.push(b']');
}

const fn quality_word(quality: Quality) -> &'static str {
    match quality {
        Quality::Good => "good",
        Quality::Uncertain => "uncertain",
        Quality::Bad => "bad",
    }
}

const fn origin_word(origin: Origin) -> &'static str {
    match origin {
        Origin::Device => "device",
        Origin::DeviceCorrected => "device_corrected",
        Origin::Gateway => "gateway",
        Origin::Restamped => "restamped",
        Origin::Substituted => "substituted",
        Origin::Bounded => "bounded",
        Origin::Unknown => "unknown",
    }
}

/// Every key but the first of an object.
fn key(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn key_text(name: &str, text: &str, out: &mut Vec<u8>) {
    key(name, out);
    quoted(text, out);
}

fn optional_text(name: &str, text: Option<&str>, out: &mut Vec<u8>) {
    if let Some(text) = text {
        key_text(name, text, out);
    }
}

/// A word of ours, which needs no escape.
fn key_word(name: &str, word: &str, out: &mut Vec<u8>) {
    key(name, out);
    out.push(b'"');
    out.extend_from_slice(word.as_bytes());
    out.push(b'"');
}

/// A name of ours by its `Display`, which needs no escape.
fn key_shown(name: &str, shown: &impl Display, out: &mut Vec<u8>) {
    key(name, out);
    out.push(b'"');
    // A vector takes every write.
    let _ = write!(out, "{shown}");
    out.push(b'"');
}

fn key_number(name: &str, number: u64, out: &mut Vec<u8>) {
    key(name, out);
    shown_by_serde(&number, out);
}

fn key_time(name: &str, unix_ns: i64, out: &mut Vec<u8>) {
    key(name, out);
    out.push(b'"');
    time::rfc3339(unix_ns, out);
    out.push(b'"');
}

/// `serde_json` has the fast and shortest exact forms of numbers.
fn shown_by_serde(number: &impl serde::Serialize, out: &mut Vec<u8>) {
    // A vector takes every write, and a finite number has a form.
    let _ = serde_json::to_writer(out, number);
}

fn quoted(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut clean_from = 0;
    for (i, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[clean_from..i]);
        escaped(byte, out);
        clean_from = i + 1;
    }
    out.extend_from_slice(&bytes[clean_from..]);
    out.push(b'"');
}

fn escaped(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 15)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
