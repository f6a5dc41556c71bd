//! `[[window]]`: what is computed on site.

use std::collections::BTreeMap;
use std::time::Duration;

use toml::de::DeValue;

use super::file::{Section, Wrong};
use super::page::Page;
use super::time::parse_zone;
use super::units::{YEAR, ms};
use super::value::{self, duration_text, quoted};
use crate::core::id::SourceId;
use crate::core::limits;
use crate::core::time::Span;
use crate::core::window::{Aggregate, Kind, LatePolicy, WindowSpec};
use crate::core::zone::Zone;

/// Windows that one reading of a sliding window may fall into.
const OVERLAP_MAX: u128 = 10_000;

/// The windows of a file; `sources` are the names of its sources. Those
/// that cannot be read are left out, after a problem was noted.
pub(super) fn windows(root: &Section<'_>, sources: &[&str]) -> Vec<WindowSpec> {
    let mut windows = Vec::new();
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for section in root.tables("window") {
        let line = section.line();
        let name = section.require("name", "\"pressure-10s\"", value::name);
        if let Some(first) = name.as_ref().and_then(|name| lines.get(name)) {
            let what = format!("is the name of the window at line {first} too");
            section.problem("name", what, "give each window its own name");
        }
        lines.extend(name.clone().map(|name| (name, line)));
        windows.extend(window(&section, name, sources));
    }
    if windows.len() > limits::WINDOWS_MAX {
        let what = format!("{} windows are too many", windows.len());
        root.problem("window", what, format!("use at most {}", limits::WINDOWS_MAX));
    }
    windows
}

fn window(section: &Section<'_>, name: Option<String>, sources: &[&str]) -> Option<WindowSpec> {
    let whole_ms = |least: Duration| move |value: &DeValue<'_>| span(value, least);
    let aggregates = {
        use Aggregate::{Count, Max, Mean, Min, Sum};
        vec![Count, Sum, Mean, Min, Max]
    };
    let names = section.read("sources", Vec::new(), |value| value::names(value, "source", sources));
    let version = value::integer(1..=u64::from(u32::MAX));
    let spec = WindowSpec {
        name: name.clone().unwrap_or_default().into(),
        version: u32::try_from(section.read("version", 1, version)).unwrap_or(u32::MAX),
        sources: names.iter().map(|name| SourceId::new(name)).collect(),
        entity: section.read("entity", "*".to_owned(), glob),
        property: section.read("property", "*".to_owned(), glob),
        kind: Kind::Session { gap: Span::ZERO },
        bound: section.read("bound", Span::from_secs(20), whole_ms(Duration::ZERO)),
        idle_after: section.read("idle_after", Span::from_secs(60), whole_ms(ms(100))),
        allowed_lateness: section.read(
            "allowed_lateness",
            Span::from_secs(60),
            whole_ms(Duration::ZERO),
        ),
        late_policy: late_policy(section),
        aggregates: section.read("aggregates", aggregates, aggregate_names),
        expected_interval: section.read("expected_interval", None, optional_span),
        idle_flush: section.read("idle_flush", None, optional_span),
        final_marker: section.read("final_marker", true, value::boolean),
        include_bad: section.read("include_bad", false, value::boolean),
        upstream: section.read("upstream", true, value::boolean),
    };
    let kind = kind(section);
    section.refuse_unknown();
    name?;
    Some(WindowSpec { kind: kind?, ..spec })
}

/// The kinds, and the keys of each.
const KINDS: [(&str, &[&str]); 4] = [
    ("tumbling", &["size", "offset"]),
    ("sliding", &["size", "slide", "offset"]),
    ("session", &["gap"]),
    ("calendar-day", &["zone"]),
];

fn kind(section: &Section<'_>) -> Option<Kind> {
    let words = KINDS.map(|(word, keys)| (word, (word, keys)));
    let Some((word, keys)) = section.require("kind", "\"tumbling\"", value::one_of(&words)) else {
        keys_of_any_kind(section);
        return None;
    };
    for key in ["size", "slide", "offset", "gap", "zone"] {
        if !keys.contains(&key) {
            let what = format!("means nothing for a {word} window");
            let fix = format!("its keys are {}; or change kind", keys.join(", "));
            section.out_of_place(key, what, fix);
        }
    }
    let length = |key, example| section.require(key, example, |value| span(value, ms(1)));
    let offset = |step: Option<Span>, key: &str| {
        let offset = section.read("offset", Span::ZERO, signed_span);
        if step.is_some_and(|step| offset.ns().abs() >= step.ns()) {
            section.problem("offset", format!("is not less than {key}"), "lower it");
        }
        offset
    };
    let kind = match word {
        "tumbling" => {
            let size = length("size", "\"10s\"");
            let offset = offset(size, "size");
            Kind::Tumbling { size: size?, offset }
        }
        "sliding" => {
            let size = length("size", "\"1m\"");
            let slide = length("slide", "\"10s\"");
            let offset = offset(slide, "slide");
            let (size, slide) = (size?, slide?);
            let overlap = size.ns().unsigned_abs().div_ceil(slide.ns().unsigned_abs().max(1));
            if u128::from(overlap) > OVERLAP_MAX {
                let what = format!("puts each reading into {overlap} windows");
                section.problem("slide", what, format!("use at least size / {OVERLAP_MAX}"));
            }
            Kind::Sliding { size, slide, offset }
        }
        "session" => Kind::Session { gap: length("gap", "\"1m\"")? },
        _ => Kind::CalendarDay { zone: section.require("zone", "\"Europe/Berlin\"", zone)? },
    };
    Some(kind)
}

/// Where the kind is not known: whatever it will be, these values must be right.
fn keys_of_any_kind(section: &Section<'_>) {
    for key in ["size", "slide", "gap"] {
        section.read(key, None, |value| span(value, ms(1)).map(Some));
    }
    section.read("offset", Span::ZERO, signed_span);
    section.read("zone", None, |value| zone(value).map(Some));
}

fn late_policy(section: &Section<'_>) -> LatePolicy {
    let tolerance = |value: &DeValue<'_>| span(value, Duration::ZERO);
    let policies = [("side-output", 0), ("grace", 1), ("adjust", 2)];
    let policy = section.read("late_policy", 0, value::one_of(&policies));
    if policy == 2 {
        return LatePolicy::Adjust {
            late_arrival: section.read("late_arrival", Span::from_secs(5), tolerance),
            out_of_order: section.read("out_of_order", Span::ZERO, tolerance),
        };
    }
    for key in ["late_arrival", "out_of_order"] {
        let what = "means nothing unless late times are adjusted";
        section.out_of_place(key, what, "write late_policy = \"adjust\" or leave it out");
    }
    if policy == 1 { LatePolicy::Grace } else { LatePolicy::SideOutput }
}

/// A length of whole milliseconds, up to 366 days.
fn span(value: &DeValue<'_>, least: Duration) -> Result<Span, Wrong> {
    let length = value::duration(least..=YEAR)(value)?;
    if length.subsec_nanos().is_multiple_of(1_000_000) {
        return Ok(Span::from_std(length));
    }
    Err(Wrong::new("is not a whole number of milliseconds", "windows know no smaller unit"))
}

/// The same with a sign.
fn signed_span(value: &DeValue<'_>) -> Result<Span, Wrong> {
    match value {
        DeValue::String(text) if text.starts_with('-') => {
            let length = DeValue::String(text[1..].to_owned().into());
            span(&length, Duration::ZERO).map(|span| Span::from_ns(-span.ns()))
        }
        other => span(other, Duration::ZERO),
    }
}

/// A length from 1 ms on, or "none".
fn optional_span(value: &DeValue<'_>) -> Result<Option<Span>, Wrong> {
    match value {
        DeValue::String(text) if text == "none" => Ok(None),
        other => span(other, ms(1)).map(Some),
    }
}

fn zone(value: &DeValue<'_>) -> Result<Zone, Wrong> {
    parse_zone(&value::text(value)?)
}

fn glob(value: &DeValue<'_>) -> Result<String, Wrong> {
    let glob = value::text(value)?;
    if (1..=limits::NAME_BYTES_MAX).contains(&glob.len()) {
        return Ok(glob);
    }
    let fix = format!("use 1 to {}, \"*\" for all", limits::NAME_BYTES_MAX);
    Err(Wrong::new(format!("has {} bytes", glob.len()), fix))
}

fn aggregate_names(value: &DeValue<'_>) -> Result<Vec<Aggregate>, Wrong> {
    let known = Aggregate::NAMES.map(|(_, name)| name);
    let written = value.as_array().into_iter().flat_map(|array| array.iter());
    for name in written.filter_map(|name| name.get_ref().as_str()) {
        if let Some(meant) = alias(name).filter(|_| !known.contains(&name)) {
            let what = format!("there is no aggregate {name:?}");
            return Err(Wrong::new(what, format!("did you mean {meant:?}?")));
        }
    }
    let names = value::names(value, "aggregate", &known)?;
    if names.is_empty() {
        return Err(Wrong::new("is empty", format!("use some of {}", known.join(", "))));
    }
    Ok(names.iter().filter_map(|name| Aggregate::from_name(name)).collect())
}

/// Our name of an aggregate that has another one elsewhere, or is written another way.
fn alias(name: &str) -> Option<&'static str> {
    let letters = name.chars().filter(|c| c.is_ascii_alphanumeric());
    let plain: String = letters.map(|c| c.to_ascii_lowercase()).collect();
    let digits: String = plain.chars().filter(char::is_ascii_digit).collect();
    let word = plain.replace(&digits, "");
    let is_percentile = ["", "p", "q", "th", "pth", "pct", "perc", "percentile", "quantile"]
        .contains(&word.as_str());
    match (plain.as_str(), digits.as_str()) {
        ("avg" | "average" | "avrg" | "arithmeticmean", _) => Some("mean"),
        ("std" | "stdev" | "sd" | "sigma" | "standarddeviation" | "stddevsamp", _) => {
            Some("stddev")
        }
        ("median", _) => Some("p50"),
        ("minimum", _) => Some("min"),
        ("maximum", _) => Some("max"),
        ("total", _) => Some("sum"),
        ("n" | "number" | "samples", _) => Some("count"),
        ("oldest", _) => Some("first"),
        ("newest" | "latest", _) => Some("last"),
        ("spread", _) => Some("range"),
        ("timeweightedaverage" | "timeweightedmean" | "twavg", _) => Some("twa"),
        (_, "50" | "050" | "05") if is_percentile => Some("p50"),
        (_, "95" | "095") if is_percentile => Some("p95"),
        (_, "99" | "099") if is_percentile => Some("p99"),
        _ => None,
    }
}

/// Writes a window as it is read.
pub(super) fn print(page: &mut Page, window: &WindowSpec) {
    let length = |span: Span| duration_text(span.to_std());
    let optional = |span: Option<Span>| span.map_or("none".to_owned(), length);
    page.head("[[window]]");
    page.text("name", &window.name);
    page.raw("version", window.version);
    page.list("sources", window.sources.iter().map(SourceId::as_str));
    page.text("entity", &window.entity);
    page.text("property", &window.property);
    match &window.kind {
        Kind::Tumbling { size, offset } => {
            page.text("kind", "tumbling");
            page.text("size", &length(*size));
            page.raw("offset", signed(*offset));
        }
        Kind::Sliding { size, slide, offset } => {
            page.text("kind", "sliding");
            page.text("size", &length(*size));
            page.text("slide", &length(*slide));
            page.raw("offset", signed(*offset));
        }
        Kind::Session { gap } => {
            page.text("kind", "session");
            page.text("gap", &length(*gap));
        }
        Kind::CalendarDay { zone } => {
            page.text("kind", "calendar-day");
            page.text("zone", &zone.to_string());
        }
    }
    page.text("bound", &length(window.bound));
    page.text("idle_after", &length(window.idle_after));
    page.text("allowed_lateness", &length(window.allowed_lateness));
    match window.late_policy {
        LatePolicy::SideOutput => page.text("late_policy", "side-output"),
        LatePolicy::Grace => page.text("late_policy", "grace"),
        LatePolicy::Adjust { late_arrival, out_of_order } => {
            page.text("late_policy", "adjust");
            page.text("late_arrival", &length(late_arrival));
            page.text("out_of_order", &length(out_of_order));
        }
    }
    page.list("aggregates", window.aggregates.iter().map(|one| one.as_str()));
    page.text("expected_interval", &optional(window.expected_interval));
    page.text("idle_flush", &optional(window.idle_flush));
    page.raw("final_marker", window.final_marker);
    page.raw("include_bad", window.include_bad);
    page.raw("upstream", window.upstream);
}

fn signed(span: Span) -> String {
    let sign = if span.ns() < 0 { "-" } else { "" };
    let length = Duration::from_nanos(span.ns().unsigned_abs());
    quoted(format!("{sign}{}", duration_text(length)))
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
