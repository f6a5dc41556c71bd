//! Single values of the file: texts, numbers, durations, sizes, each with its
//! range and with words for what is wrong.

use std::fmt::{Debug, Display};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeValue;

use super::file::Wrong;
use super::{Address, Pointer, hints};
use crate::core::limits;
use crate::core::time::EventTime;

pub(super) type Checked<T> = Result<T, Wrong>;

/// Any text.
pub(super) fn text(value: &DeValue<'_>) -> Checked<String> {
    text_of(value, "a text", "put it in quotes")
}

/// A text of a form of its own, which quotes alone would not give it: `what` it is, with
/// its article, and what to write.
pub(super) fn text_of(value: &DeValue<'_>, what: &str, form: &str) -> Checked<String> {
    match value {
        DeValue::String(text) => Ok(text.clone().into_owned()),
        other => Err(Wrong::new(format!("is {}, not {what}", article(other)), form)),
    }
}

/// What `tracing` takes as a filter.
pub(super) fn log_filter(value: &DeValue<'_>) -> Checked<String> {
    let text = text(value)?;
    match tracing_subscriber::EnvFilter::try_new(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(Wrong::new(
            format!("{text:?} is no filter ({error})"),
            "write a level like \"info\", or \"info,tidegate::link=debug\"",
        )),
    }
}

fn article(value: &DeValue<'_>) -> String {
    match value.type_str() {
        kind @ ("array" | "integer") => format!("an {kind}"),
        kind => format!("a {kind}"),
    }
}

/// Letters, digits, `.`, `_`, `-`; 1 to 64 of them.
pub(super) fn name(value: &DeValue<'_>) -> Checked<String> {
    let name = text(value)?;
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if let Some(odd) = name.chars().find(|c| !is_allowed(*c)) {
        let what = format!("{name:?} has the character {odd:?}");
        return Err(Wrong::new(what, "use letters, digits, '.', '_' and '-'"));
    }
    if !(1..=64).contains(&name.len()) {
        let what = format!("has {} characters", name.len());
        return Err(Wrong::new(what, "use 1 to 64"));
    }
    Ok(name)
}

/// True or false.
pub(super) fn boolean(value: &DeValue<'_>) -> Checked<bool> {
    value.as_bool().ok_or_else(|| {
        Wrong::new(format!("is {}, not a boolean", article(value)), "write true or false")
    })
}

/// One word out of a list.
pub(super) fn one_of<T: Copy>(words: &[(&str, T)]) -> impl Fn(&DeValue<'_>) -> Checked<T> {
    move |value| {
        let word = text(value)?;
        let found = words.iter().find(|(known, _)| *known == word);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
            Wrong::new(format!("{word:?} is not known"), format!("use {}", known.join(" | ")))
        })
    }
}

/// A list of names, each once, each out of those `known`; `noun` says of what.
pub(super) fn names(value: &DeValue<'_>, noun: &str, known: &[&str]) -> Checked<Vec<String>> {
    let Some(array) = value.as_array() else {
        let what = format!("is {}, not a list", article(value));
        return Err(Wrong::new(what, "write [\"NAME\", \"NAME\"]"));
    };
    let mut names: Vec<String> = Vec::new();
    for element in array.iter() {
        let name = text(element.get_ref()).map_err(|wrong| {
            Wrong::new(format!("has an element that {}", wrong.what), wrong.fix)
        })?;
        if names.contains(&name) {
            return Err(Wrong::new(format!("names the {noun} {name:?} twice"), "leave one"));
        }
        if !known.contains(&name.as_str()) {
            let what = format!("there is no {noun} {name:?}");
            return Err(Wrong::new(what, suggestion(&name, noun, known)));
        }
        names.push(name);
    }
    Ok(names)
}

fn suggestion(name: &str, noun: &str, known: &[&str]) -> String {
    match hints::near(name, known) {
        Some(known) => format!("did you mean {known:?}?"),
        None if !known.is_empty() => format!("known here: {}", known.join(", ")),
        None => format!("write a [[{noun}]] of that name, or leave it out"),
    }
}

/// A whole number within a range.
pub(super) fn integer(range: RangeInclusive<u64>) -> impl Fn(&DeValue<'_>) -> Checked<u64> {
    move |value| {
        let DeValue::Integer(digits) = value else {
            let what = format!("is {}, not an integer", article(value));
            return Err(Wrong::new(what, span_text(&range)));
        };
        let number = u64::from_str_radix(digits.as_str(), digits.radix());
        number
            .ok()
            .filter(|number| range.contains(number))
            .ok_or_else(|| Wrong::new(format!("{digits} is out of range"), span_text(&range)))
    }
}

/// A number, whole or not, within a range.
pub(super) fn number(range: RangeInclusive<f64>) -> impl Fn(&DeValue<'_>) -> Checked<f64> {
    move |value| {
        let written = match value {
            DeValue::Integer(digits) if digits.radix() == 10 => digits.as_str(),
            DeValue::Float(digits) => digits.as_str(),
            _ => {
                let what = format!("is {}, not a number", article(value));
                return Err(Wrong::new(what, span_text(&range)));
            }
        };
        let number = written.parse::<f64>().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| Wrong::new(format!("{written} is out of range"), span_text(&range)))
    }
}

fn span_text<T: Display>(range: &RangeInclusive<T>) -> String {
    format!("use {} to {}", range.start(), range.end())
}

/// A length of time as people write it: `500ms`, `1h 30m`.
pub(super) fn duration(
    range: RangeInclusive<Duration>,
) -> impl Fn(&DeValue<'_>) -> Checked<Duration> {
    move |value| {
        let written = match value {
            DeValue::String(written) => written,
            other => {
                let what = format!("is {}, not a duration", article(other));
                return Err(Wrong::new(what, "write a text with its unit, like \"500ms\""));
            }
        };
        let length = humantime::parse_duration(written).map_err(|error| {
            Wrong::new(
                format!("{written:?} is not a duration ({error})"),
                "write it like \"500ms\", \"20s\" or \"1h 30m\"",
            )
        })?;
        if range.contains(&length) {
            return Ok(length);
        }
        let (least, most) = (duration_text(*range.start()), duration_text(*range.end()));
        Err(Wrong::new(format!("{written:?} is out of range"), format!("use {least} to {most}")))
    }
}

/// A duration as it is written in a file.
pub(super) fn duration_text(length: Duration) -> String {
    humantime::format_duration(length).to_string()
}

/// What `read` takes, or "none".
pub(super) fn or_none<T>(
    read: impl Fn(&DeValue<'_>) -> Checked<T>,
) -> impl Fn(&DeValue<'_>) -> Checked<Option<T>> {
    move |value| match value {
        DeValue::String(written) if written == "none" => Ok(None),
        other => read(other).map(Some),
    }
}

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A number of bytes: `64MiB`, `1GiB`.
pub(super) fn size(range: RangeInclusive<u64>) -> impl Fn(&DeValue<'_>) -> Checked<u64> {
    move |value| {
        let written = match value {
            DeValue::String(written) => written,
            other => {
                let what = format!("is {}, not a size", article(other));
                return Err(Wrong::new(what, "write a text with its unit, like \"64MiB\""));
            }
        };
        let bytes = parse_size(written)?;
        if range.contains(&bytes) {
            return Ok(bytes);
        }
        let (least, most) = (size_text(*range.start()), size_text(*range.end()));
        Err(Wrong::new(format!("{written:?} is out of range"), format!("use {least} to {most}")))
    }
}

fn parse_size(written: &str) -> Checked<u64> {
    let end = written.find(|c: char| !c.is_ascii_digit()).unwrap_or(written.len());
    let (digits, unit) = (&written[..end], written[end..].trim());
    let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let Some(factor) = factor else {
        let what = match unit {
            "" => format!("{written:?} has no unit"),
            unit => format!("{written:?} has the unknown unit {unit:?}"),
        };
        return Err(Wrong::new(what, "use B, KiB, MiB or GiB, like \"64MiB\""));
    };
    let bytes = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(factor));
    bytes.ok_or_else(|| {
        Wrong::new(format!("{written:?} is not a size"), "write a whole number and its unit")
    })
}

/// A size in the largest unit that says it exactly.
pub(super) fn size_text(bytes: u64) -> String {
    let fits = |factor: u64| bytes >= factor && bytes.is_multiple_of(factor);
    let exact = UNITS.iter().find(|(_, factor)| fits(*factor));
    exact.map_or_else(|| format!("{bytes}B"), |(unit, factor)| format!("{}{unit}", bytes / factor))
}

/// A path, or nothing when the text is empty.
pub(super) fn optional_path(value: &DeValue<'_>) -> Checked<Option<PathBuf>> {
    let path = text(value)?;
    Ok((!path.is_empty()).then(|| PathBuf::from(path)))
}

/// A path that must not be empty.
pub(super) fn path(value: &DeValue<'_>) -> Checked<PathBuf> {
    optional_path(value)?.ok_or_else(|| Wrong::new("is empty", "write a path"))
}

/// An instant: RFC 3339 with an offset, as text or as a TOML date-time.
pub(super) fn instant(value: &DeValue<'_>) -> Checked<EventTime> {
    const FORM: &str = "write it like \"2015-01-01T00:00:00Z\"";
    let written = match value {
        DeValue::Datetime(written) => written.to_string(),
        other => text_of(other, "a time", FORM)?,
    };
    let parsed = chrono::DateTime::parse_from_rfc3339(&written).ok();
    parsed.and_then(|time| time.timestamp_nanos_opt()).map(EventTime::from_unix_ns).ok_or_else(
        || {
            let what = format!("{written:?} is not a time between 1678 and 2262");
            Wrong::new(what, FORM)
        },
    )
}

/// A JSON pointer (RFC 6901), or nothing when the text is empty.
pub(super) fn pointer(value: &DeValue<'_>) -> Checked<Pointer> {
    let written = text(value)?;
    Pointer::parse(&written).ok_or_else(|| {
        Wrong::new(
            format!("{written:?} is not a JSON pointer"),
            "write it like \"/device/name\" ('~' as \"~0\", '/' in a name as \"~1\")",
        )
    })
}

/// `IP:PORT` or `unix:/path`.
pub(super) fn address(value: &DeValue<'_>) -> Checked<Address> {
    const FORM: &str = "write it like \"127.0.0.1:7000\" or \"unix:/run/tidegate/in.sock\"";
    let written = text_of(value, "an address", FORM)?;
    if let Some(path) = written.strip_prefix("unix:") {
        // The kernel takes 107 bytes and a NUL.
        if !path.starts_with('/') || path.len() > 107 {
            let what = format!("{written:?} is not the address of a Unix socket");
            return Err(Wrong::new(what, "write unix: and an absolute path of at most 107 bytes"));
        }
        return Ok(Address::Unix(path.into()));
    }
    let parsed = written.parse().map(Address::Tcp);
    parsed.map_err(|_| Wrong::new(format!("{written:?} is not an address"), FORM))
}

/// `IP:PORT` of somebody who is asked over UDP.
pub(super) fn udp_address(value: &DeValue<'_>) -> Checked<SocketAddr> {
    const FORM: &str = "write it like \"127.0.0.1:323\" or \"[::1]:323\"";
    let written = text_of(value, "an address", FORM)?;
    let parsed = written.parse().ok().filter(|address: &SocketAddr| address.port() > 0);
    parsed.ok_or_else(|| Wrong::new(format!("{written:?} is not an address"), FORM))
}

/// A topic template: levels with `{gateway}`, `{source}`, `{entity}`,
/// `{property}` in them.
pub(super) fn topic(value: &DeValue<'_>) -> Checked<String> {
    const KNOWN: [&str; 4] = ["gateway", "source", "entity", "property"];
    let fix = "use {gateway}, {source}, {entity}, {property} and fixed text without + and #";
    let written = text(value)?;
    if !(1..=limits::TOPIC_BYTES_MAX).contains(&written.len()) {
        let fix = format!("use 1 to {}", limits::TOPIC_BYTES_MAX);
        return Err(Wrong::new(format!("has {} bytes", written.len()), fix));
    }
    if let Some(odd) = written.chars().find(|c| matches!(c, '+' | '#') || c.is_control()) {
        return Err(Wrong::new(format!("has the character {odd:?}"), fix));
    }
    if written.starts_with('$') {
        return Err(Wrong::new("starts with '$', which brokers keep for themselves", fix));
    }
    let mut places = 0;
    let mut rest = written.as_str();
    while let Some(at) = rest.find(['{', '}']) {
        let inside = rest[at..].strip_prefix('{').and_then(|inside| inside.split_once('}'));
        let Some((key, after)) = inside else {
            return Err(Wrong::new("has a brace without its partner", fix));
        };
        if !KNOWN.contains(&key) {
            return Err(Wrong::new(format!("{{{key}}} is not known"), fix));
        }
        places += 1;
        rest = after;
    }
    if places > limits::TOPIC_PLACES_MAX {
        let fix = format!("use at most {}", limits::TOPIC_PLACES_MAX);
        return Err(Wrong::new(format!("has {places} placeholders"), fix));
    }
    Ok(written)
}

/// A value as TOML text.
pub(super) fn quoted(text: impl Debug + Into<String>) -> String {
    toml::Value::String(text.into()).to_string()
}
