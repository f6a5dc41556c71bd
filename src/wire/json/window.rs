//! What windows say: results and late readings.

use super::{
    head, key, key_number, key_text, key_time, key_word, quoted, reading_open, shown_by_serde,
};
use crate::core::window::{Aggregate, Coverage, LateReading, Number, WindowResult};

/// Appends a window's result. `timebase` is there only where the gateway stamped
/// readings of it, `watermark` once there is one, an aggregate where it is
/// defined. A number that is not finite is `null`.
pub fn window_result(gateway: &str, result: &WindowResult, out: &mut Vec<u8>) {
    head(gateway, result.source.as_str(), &result.epoch, out);
    key_number("seq", result.seq.0, out);
    key_text("window", &result.window, out);
    key_number("version", u64::from(result.version), out);
    key_text("entity", &result.series.entity, out);
    key_text("property", &result.series.property, out);
    key_time("start", result.start.unix_ns(), out);
    key_time("end", result.end.unix_ns(), out);
    if result.timebase.0 != 0 {
        key_number("timebase", u64::from(result.timebase.0), out);
    }
    key_number("revision", u64::from(result.revision), out);
    key_word("status", result.status.as_str(), out);
    key_number("count", result.count, out);
    for (aggregate, number) in &result.values {
        // The count is always there, whether asked for or not.
        if let Some(number) = number.filter(|_| *aggregate != Aggregate::Count) {
            key(aggregate.as_str(), out);
            written(number, out);
        }
    }
    if let Some(watermark) = result.watermark {
        key_time("watermark", watermark.unix_ns(), out);
    }
    coverage(&result.coverage, out);
    key_time("materialized_at", result.at.unix_ns(), out);
    out.push(b'}');
}

/// Appends a late reading: the reading, and what it was late for. `watermark`
/// and `window_end` are left out where there is none.
pub fn late_reading(gateway: &str, late: &LateReading, out: &mut Vec<u8>) {
    reading_open(gateway, &late.record, out);
    key_text("window", &late.window, out);
    key_number("version", u64::from(late.version), out);
    key_word("reason", late.reason.as_str(), out);
    if let Some(watermark) = late.watermark {
        key_time("watermark", watermark.unix_ns(), out);
    }
    if let Some(window_end) = late.window_end {
        key_time("window_end", window_end.unix_ns(), out);
    }
    out.push(b'}');
}

/// `expected` is left out where nothing says how many, the clock where no reading
/// had one; the rest of the counts and both facts only where there is something
/// to tell.
fn coverage(coverage: &Coverage, out: &mut Vec<u8>) {
    key("coverage", out);
    out.push(b'{');
    if let Some(expected) = coverage.expected {
        out.extend_from_slice(br#""expected":"#);
        shown_by_serde(&expected, out);
        out.push(b',');
    }
    out.extend_from_slice(br#""received":"#);
    shown_by_serde(&coverage.received, out);
    key_number("duplicates", coverage.duplicates, out);
    key("excluded_idle", out);
    out.push(b'[');
    for (i, source) in coverage.excluded_idle.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        quoted(source.as_str(), out);
    }
    out.push(b']');
    if let Some(worst) = coverage.worst_clock {
        key_word("worst_clock", worst.as_str(), out);
    }
    if let Some(max_error) = coverage.max_error {
        key_number("max_error_us", max_error.micros_ceil(), out);
    }
    let counts =
        [("bad", coverage.bad), ("uncertain", coverage.uncertain), ("adjusted", coverage.adjusted)];
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        key_number(name, count, out);
    }
    for (name, is_so) in [("clock_step", coverage.clock_step), ("flushed", coverage.flushed)] {
        if is_so {
            key(name, out);
            out.extend_from_slice(b"true");
        }
    }
    out.push(b'}');
}

fn written(number: Number, out: &mut Vec<u8>) {
    match number {
        Number::Int(integer) => shown_by_serde(&integer, out),
        Number::Real(real) if !real.is_finite() => out.extend_from_slice(b"null"),
        Number::Real(real) => shown_by_serde(&real, out),
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
