//! The clock in words: one wording for the commands, the API and the page.

use super::clock::{Clock, Event};
use crate::core::length::length_text;
use crate::core::time::Span;

/// What to do about a clock that nobody vouches for.
const REMEDY: &str = "run chronyd, or `tidegate clock set now --error 2s`";

/// The state and its bound: "synchronized by NTP, within 12 ms".
pub(crate) fn state(clock: &Clock) -> String {
    let source = setter(&clock.source);
    let within = clock.max_error_us.map(|us| format!(", within {}", error(us)));
    let within = within.unwrap_or_default();
    match clock.state.as_str() {
        "synchronized" => format!("synchronized by {source}{within}"),
        "holdover" => format!("holdover, last set by {source}{within}"),
        "stepped" => {
            format!("stepped: it was set, and nobody has vouched for it since; {REMEDY}")
        }
        _ => {
            let origin = origin(&clock.source);
            format!("unsynchronized: nobody vouches for it{origin}; {REMEDY}")
        }
    }
}

fn setter(source: &str) -> &str {
    match source {
        "manual" => "an operator",
        "rtc" => "the battery-backed clock",
        "gnss" => "GNSS",
        "ntp" => "NTP",
        "ptp" => "PTP",
        other => other,
    }
}

fn origin(source: &str) -> &'static str {
    match source {
        "rtc" => "; the battery-backed clock set it at boot",
        "saved" => "; it began at a time saved before the last shutdown",
        "free_running" => "; it runs free",
        "manual" => "; an operator's word on it is too old",
        _ => "",
    }
}

/// Everything there is to say: the state, what waits for the clock, the last step.
pub(crate) fn all(clock: &Clock) -> Vec<String> {
    [Some(state(clock)), waiting(clock), last_step(clock)].into_iter().flatten().collect()
}

/// What waits for the clock, if something does.
pub(crate) fn waiting(clock: &Clock) -> Option<String> {
    let held_for = clock.held_for_s?;
    let (open, most) = (clock.open_readings, length(held_for.ceil()));
    let noun = if open == 1 { "reading" } else { "readings" };
    Some(format!("waits for the clock: {open} {noun}, at most {most} more"))
}

/// The newest step, if one is remembered.
pub(crate) fn last_step(clock: &Clock) -> Option<String> {
    let event = clock.events.iter().rfind(|event| event.kind == "step")?;
    Some(format!("last step: {} at {}", moved(event)?, event.at))
}

/// "back 2h 0m".
pub(crate) fn moved(event: &Event) -> Option<String> {
    let delta_s = event.delta_s?;
    let direction = if delta_s < 0.0 { "back" } else { "forward" };
    Some(format!("{direction} {}", length(delta_s.abs())))
}

/// A bound, rounded up: "12 ms".
pub(crate) fn error(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000 => tenths(us.div_ceil(100), "ms"),
        10_000..1_000_000 => format!("{} ms", us.div_ceil(1_000)),
        _ => tenths(us.div_ceil(100_000), "s"),
    }
}

fn tenths(tenths: u64, unit: &str) -> String {
    match tenths % 10 {
        0 => format!("{} {unit}", tenths / 10),
        rest => format!("{}.{rest} {unit}", tenths / 10),
    }
}

/// A length of time to the second: of what has not lasted one yet, "0s".
pub(crate) fn whole(seconds: f64) -> String {
    if seconds < 1.0 { "0s".to_owned() } else { length(seconds.floor()) }
}

/// A length of time as the status has it, in seconds: "2h 0m".
pub(crate) fn length(seconds: f64) -> String {
    length_text(Span::from_secs_f64(seconds))
}
