//! InfluxDB line protocol, by its public specification:
//! `measurement,tag=value field=1.5,other="text" 1772366400000000000`.
//!
//! Measurement and tags name the entity, each field is a property, all of a
//! point share its instant. Rules, beyond or where the specification is silent:
//! - a backslash escapes `,`, space and (not in the measurement) `=`; in a quoted
//!   text `"`, `\`, and `n`, `r`, `t` for the control characters; before all else
//!   it is a backslash;
//! - a tag or a field that comes twice makes the point ambiguous: refused;
//! - integers keep every digit; what does not fit 64 bits, and a number that is
//!   not finite, is refused, never rounded;
//! - control characters belong into quoted texts only;
//! - a timestamp is nanoseconds since 1970, unless the source's `time_unit` says
//!   otherwise; without one the gateway stamps the point.

use std::borrow::Cow;
use std::sync::Arc;

use super::series::Interner;
use super::{Fault, check_name, time};
use crate::config::{EntityPart, EntityTemplate, Format, Source, TimeUnit};
use crate::core::limits::SOURCE_BATCH_MAX;
use crate::core::reading::{DeviceTime, Flags, Quality, Reading, Value};

/// Turns points of one source into readings.
#[derive(Debug)]
pub struct InfluxParser {
    /// `None`: the measurement and the tags in the order of their keys.
    entity: Option<EntityTemplate>,
    unit: TimeUnit,
    interner: Interner,
}

/// What can end a name, and be escaped in it.
const MEASUREMENT: &[u8] = b", ";
const KEY: &[u8] = b",= ";

type Tags<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

impl InfluxParser {
    /// For the points of this source.
    pub fn new(source: &Source) -> Self {
        let written = source.entity.as_deref().filter(|_| source.format == Format::Influx);
        let unit = match source.time_unit {
            TimeUnit::Auto => TimeUnit::Nanos,
            unit => unit,
        };
        Self {
            // The configuration holds none that cannot be parsed.
            entity: written.and_then(|text| EntityTemplate::parse(text).ok()),
            unit,
            interner: Interner::new(&source.conversions),
        }
    }

    /// Appends the readings of one point to `readings`: one a field, at most
    /// [`SOURCE_BATCH_MAX`]; none for a comment.
    ///
    /// # Errors
    /// Why the point is refused; `readings` is then as it was.
    pub fn parse(&mut self, point: &str, readings: &mut Vec<Reading>) -> Result<(), Fault> {
        let point = point.trim_start_matches(' ');
        if point.starts_with('#') {
            return match point.bytes().find(|byte| byte.is_ascii_control() && *byte != b'\t') {
                Some(byte) => Err(odd(byte, "a comment")),
                None => Ok(()),
            };
        }
        if is_json(point) {
            return Err(syntax("not line protocol (is it JSON? then `format = \"json\"`)"));
        }
        let mut cursor = Cursor { text: point, at: 0 };
        let measurement = cursor.name(MEASUREMENT, "measurement")?;
        let tags = tags(&mut cursor)?;
        let entity = self.entity_of(&measurement, &tags)?;
        check_name(&entity, "entity")?;
        let fields = fields(&mut cursor)?;
        let device_time = self.device_time(&mut cursor)?;
        readings.reserve(fields.len());
        for (property, value) in fields {
            readings.push(Reading {
                series: self.interner.series(&entity, &property, None),
                value,
                quality: Quality::Good,
                quality_detail: None,
                device_time,
                id: None,
                flags: Flags::NONE,
            });
        }
        Ok(())
    }

    fn entity_of(&self, measurement: &str, tags: &Tags<'_>) -> Result<String, Fault> {
        let Some(template) = &self.entity else { return Ok(canonical(measurement, tags)) };
        let mut entity = String::new();
        for part in template.parts() {
            match part {
                EntityPart::Text(text) => entity.push_str(text),
                EntityPart::Measurement => entity.push_str(measurement),
                EntityPart::Tag(wanted) => {
                    let found = tags.iter().find(|(key, _)| key == wanted);
                    let missing =
                        || Fault::new("no_entity", format!("the point has no tag {wanted:?}"));
                    entity.push_str(&found.ok_or_else(missing)?.1);
                }
            }
        }
        Ok(entity)
    }

    fn device_time(&self, cursor: &mut Cursor<'_>) -> Result<Option<DeviceTime>, Fault> {
        let text = cursor.rest().trim_end_matches(' ');
        if text.is_empty() {
            return Ok(None);
        }
        let digits = text.strip_prefix('-').unwrap_or(text);
        if let Some((_, beyond)) = text.split_once(' ') {
            return Err(syntax(format!("{:?} after the timestamp", shown(beyond))));
        }
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Fault::new("time", format!("{:?} is not a timestamp", shown(text))));
        }
        time::parse_number(text, self.unit).map(Some)
    }
}

/// The series as the protocol itself would write it, tags in the order of their
/// keys: whatever order they came in, it is the same entity.
fn canonical(measurement: &str, tags: &Tags<'_>) -> String {
    let mut sorted: Vec<_> = tags.iter().collect();
    sorted.sort_unstable();
    let mut entity = String::new();
    escape(&mut entity, measurement, MEASUREMENT);
    for (key, value) in sorted {
        entity.push(',');
        escape(&mut entity, key, KEY);
        entity.push('=');
        escape(&mut entity, value, KEY);
    }
    entity
}

fn escape(into: &mut String, text: &str, special: &[u8]) {
    for c in text.chars() {
        if u8::try_from(c).is_ok_and(|byte| special.contains(&byte)) {
            into.push('\\');
        }
        into.push(c);
    }
}

fn tags<'a>(cursor: &mut Cursor<'a>) -> Result<Tags<'a>, Fault> {
    let mut tags = Tags::new();
    while cursor.take(b',') {
        let key = cursor.name(KEY, "tag")?;
        if !cursor.take(b'=') {
            return Err(syntax(format!("the tag {:?} has no value", shown(&key))));
        }
        let value = cursor.name(KEY, "tag value")?;
        if tags.iter().any(|(known, _)| *known == key) {
            let what = format!("the tag {:?} comes twice", shown(&key));
            return Err(Fault::new("duplicate_key", what));
        }
        if tags.len() >= TAGS_MAX {
            return Err(Fault::new("too_many", format!("more than {TAGS_MAX} tags")));
        }
        tags.push((key, value));
    }
    if !cursor.take(b' ') {
        return Err(syntax(match cursor.peek() {
            None => "the line ends before its fields".to_owned(),
            Some(byte) => format!("{:?} among the tags", char::from(byte)),
        }));
    }
    cursor.skip_spaces();
    Ok(tags)
}

/// Tags of one point: each is compared with those before it.
const TAGS_MAX: usize = 256;

fn fields<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<(Cow<'a, str>, Value)>, Fault> {
    let mut fields: Vec<(Cow<'a, str>, Value)> = Vec::new();
    loop {
        let key = cursor.name(KEY, "field")?;
        check_name(&key, "property")?;
        if !cursor.take(b'=') {
            return Err(syntax(format!("the field {:?} has no value", shown(&key))));
        }
        let value = value(cursor, &key)?;
        if fields.iter().any(|(known, _)| *known == key) {
            let what = format!("the field {:?} comes twice", shown(&key));
            return Err(Fault::new("duplicate_key", what));
        }
        if fields.len() >= SOURCE_BATCH_MAX {
            let what = format!("more than {SOURCE_BATCH_MAX} fields in one point");
            return Err(Fault::new("too_many", what));
        }
        fields.push((key, value));
        if !cursor.take(b',') {
            break;
        }
    }
    match cursor.peek() {
        None => {}
        Some(b' ') => cursor.skip_spaces(),
        Some(byte) => {
            return Err(syntax(format!("{:?} after a field's value", char::from(byte))));
        }
    }
    Ok(fields)
}

fn value(cursor: &mut Cursor<'_>, key: &str) -> Result<Value, Fault> {
    if cursor.take(b'"') {
        return cursor.quoted().map(|text| Value::Text(Arc::from(text.as_ref()))).ok_or_else(
            || syntax(format!("the text of field {:?} has no closing quote", shown(key))),
        );
    }
    let text = cursor.until(b", ");
    let wrong = |kind, what: &str| {
        Fault::new(kind, format!("in {:?}: {:?} {what}", shown(key), shown(text)))
    };
    let Some(last) = text.bytes().last() else {
        return Err(syntax(format!("the field {:?} has no value", shown(key))));
    };
    match text {
        "t" | "T" | "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "f" | "F" | "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        _ => {}
    }
    let is_whole =
        |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let digits = &text[..text.len() - text.chars().last().map_or(0, char::len_utf8)];
    match last {
        b'i' if is_whole(digits.strip_prefix('-').unwrap_or(digits)) => {
            digits.parse().map(Value::I64).map_err(|_| wrong("range", "needs over 64 bits"))
        }
        b'u' if is_whole(digits) => digits
            .parse::<u64>()
            .map(|number| i64::try_from(number).map_or(Value::U64(number), Value::I64))
            .map_err(|_| wrong("range", "needs over 64 bits")),
        _ => float(text).ok_or_else(|| wrong("syntax", "is not a value")).and_then(|number| {
            let is_finite = number.is_finite();
            is_finite.then_some(Value::F64(number)).ok_or_else(|| wrong("range", "is too large"))
        }),
    }
}

/// Digits with a sign, a point and an exponent; none of the words that Rust takes
/// for numbers.
fn float(text: &str) -> Option<f64> {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '.'))
        && text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    is_number.then(|| text.parse().ok()).flatten()
}

/// Whether it is an object of JSON. No point is one: it does not end with a brace.
fn is_json(point: &str) -> bool {
    point.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(point).is_ok()
}

fn syntax(what: impl Into<String>) -> Fault {
    Fault::new("syntax", what)
}

fn odd(byte: u8, place: &str) -> Fault {
    syntax(format!("the control character {byte:#04x} in {place}"))
}

fn shown(text: &str) -> String {
    text.chars().take(60).collect()
}

/// Reads a point from the front.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, wanted: u8) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn skip_spaces(&mut self) {
        self.at = self.text.len() - self.rest().trim_start_matches(' ').len();
    }

    /// What comes before the first of these bytes.
    fn until(&mut self, ends: &[u8]) -> &'a str {
        let rest = self.rest();
        let length = rest.bytes().position(|byte| ends.contains(&byte)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// A name up to the first of `special` that is not escaped; never empty.
    fn name(&mut self, special: &[u8], what: &str) -> Result<Cow<'a, str>, Fault> {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let mut unescaped: Option<String> = None;
        let (mut from, mut at) = (0, 0);
        while let Some(byte) = bytes.get(at) {
            if *byte == b'\\' && bytes.get(at + 1).is_some_and(|next| special.contains(next)) {
                unescaped.get_or_insert_default().push_str(&rest[from..at]);
                from = at + 1;
                at += 2;
                continue;
            }
            if special.contains(byte) {
                break;
            }
            if byte.is_ascii_control() {
                return Err(odd(*byte, &format!("a {what}")));
            }
            at += 1;
        }
        self.at += at;
        if at == 0 {
            return Err(syntax(format!("a {what} is missing")));
        }
        Ok(match unescaped {
            None => Cow::Borrowed(&rest[..at]),
            Some(mut text) => {
                text.push_str(&rest[from..at]);
                Cow::Owned(text)
            }
        })
    }

    /// A text up to its closing quote; `None` when there is none.
    fn quoted(&mut self) -> Option<Cow<'a, str>> {
        let rest = self.rest();
        let mut unescaped: Option<String> = None;
        let mut from = 0;
        let mut at = 0;
        loop {
            at += memchr::memchr2(b'"', b'\\', &rest.as_bytes()[at..])?;
            if rest.as_bytes()[at] == b'"' {
                break;
            }
            let meant = match rest.as_bytes().get(at + 1)? {
                b'"' => '"',
                b'\\' => '\\',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                _ => {
                    at += 1;
                    continue;
                }
            };
            let text = unescaped.get_or_insert_default();
            text.push_str(&rest[from..at]);
            text.push(meant);
            at += 2;
            from = at;
        }
        self.at += at + 1;
        Some(match unescaped {
            None => Cow::Borrowed(&rest[..at]),
            Some(mut text) => {
                text.push_str(&rest[from..at]);
                Cow::Owned(text)
            }
        })
    }
}
