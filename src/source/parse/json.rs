//! JSON readings: one object a line.
//!
//! An object is taken apart one level at a time into names and raw values, so
//! that numbers keep every digit and deep nesting cannot overflow a stack. The
//! rules where JSON leaves a choice: a key that comes twice is refused; `null`
//! is "no value"; an integer beyond 64 bits is refused, never rounded; text
//! with a lone surrogate is refused, never mended.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Reject, time};
use crate::config::{Pointer, Source, SourceMap, TimeUnit};
use crate::core::limits::{NAME_BYTES_MAX, NESTING_MAX};
use crate::core::reading::{DeviceTime, Flags, Quality, Reading, Series, Value};

/// Series that one parser keeps at hand; beyond, it starts over.
const SERIES_KEPT: usize = 20_000;

/// A parser with the settings of one source and the series it has seen.
#[derive(Debug)]
pub struct Parser {
    map: SourceMap,
    default_entity: Option<String>,
    time_unit: TimeUnit,
    series: HashMap<String, Arc<Series>>,
    key: String,
}

/// The members of one object, in order.
type Members<'a> = Vec<(Cow<'a, str>, &'a RawValue)>;

/// The parts of a line that are not values.
struct Common<'a> {
    entity: Cow<'a, str>,
    unit: Option<Cow<'a, str>>,
    quality: Quality,
    id: Option<Cow<'a, str>>,
    time: Option<DeviceTime>,
}

impl Parser {
    /// A parser for a source with these settings.
    pub fn new(source: &Source) -> Self {
        Self {
            map: source.map.clone(),
            default_entity: source.entity.clone(),
            time_unit: source.time_unit,
            series: HashMap::new(),
            key: String::new(),
        }
    }

    /// The readings of one line.
    ///
    /// # Errors
    /// The whole line, with the reason; nothing of it is taken then.
    pub fn line(&mut self, line: &[u8]) -> Result<Vec<Reading>, Reject> {
        let text = std::str::from_utf8(line).map_err(|error| {
            Reject::new("not_utf8", format!("not UTF-8 at byte {}", error.valid_up_to() + 1))
        })?;
        let root: &RawValue = serde_json::from_str(text)
            .map_err(|error| Reject::new("syntax", format!("not JSON: {error}")))?;
        let document = Document { members: members(root)? };
        let readings = self.readings(&document)?;
        if readings.is_empty() {
            return Err(Reject::new("no_value", "the object carries no value"));
        }
        Ok(readings)
    }

    fn readings(&mut self, document: &Document<'_>) -> Result<Vec<Reading>, Reject> {
        let common = self.common(document)?;
        let mut readings = Vec::new();
        if let Some(raw) = document.find(&self.map.value)? {
            let property = document.find(&self.map.property)?.ok_or_else(|| {
                Reject::new("no_property", "a value without a property: add \"property\"")
            })?;
            let property = string(property, "property")?;
            self.reading(&common, &property, raw, &mut readings)?;
        }
        if self.map.values.names().is_empty() {
            for (name, raw) in &document.members {
                if !is_named(&self.map, name) {
                    self.reading(&common, name, raw, &mut readings)?;
                }
            }
        } else if let Some(values) = document.find(&self.map.values)? {
            for (name, raw) in members(values)? {
                self.reading(&common, &name, raw, &mut readings)?;
            }
        }
        Ok(readings)
    }

    fn common<'a>(&self, document: &Document<'a>) -> Result<Common<'a>, Reject> {
        let entity = match document.find(&self.map.entity)? {
            Some(raw) => scalar(raw, "entity")?,
            None => Cow::Owned(self.default_entity.clone().unwrap_or_default()),
        };
        let unit = document.find(&self.map.unit)?.filter(is_some);
        let quality = document.find(&self.map.quality)?.filter(is_some);
        let id = document.find(&self.map.id)?.filter(is_some);
        let time = document.find(&self.map.time)?.filter(is_some);
        if entity.is_empty() {
            return Err(Reject::new("no_entity", "no entity: add \"entity\", or set entity for the source"));
        }
        Ok(Common {
            entity,
            unit: unit.map(|raw| string(raw, "unit")).transpose()?,
            quality: quality.map(self::quality).transpose()?.unwrap_or_default(),
            id: id.map(|raw| scalar(raw, "id")).transpose()?,
            time: time.map(|raw| self.time(raw)).transpose()?,
        })
    }

    fn time(&self, raw: &RawValue) -> Result<DeviceTime, Reject> {
        if raw.get().starts_with('"') {
            time::text(&string(raw, "time")?, self.time_unit)
        } else {
            time::number(raw.get(), self.time_unit)
        }
    }

    fn reading(
        &mut self,
        common: &Common<'_>,
        property: &str,
        raw: &RawValue,
        readings: &mut Vec<Reading>,
    ) -> Result<(), Reject> {
        let Some(value) = value(raw, property)? else { return Ok(()) };
        let mut device_time = common.time;
        if let (Value::Composite(_), Some(time)) = (&value, &mut device_time) {
            time.flags = time.flags.with(Flags::COMPOSITE);
        }
        readings.push(Reading {
            series: self.series(&common.entity, property, common.unit.as_deref())?,
            value,
            quality: common.quality,
            quality_detail: None,
            device_time,
            id: common.id.as_deref().map(Arc::from),
        });
        Ok(())
    }

    fn series(&mut self, entity: &str, property: &str, unit: Option<&str>) -> Result<Arc<Series>, Reject> {
        for (name, text) in [("entity", entity), ("property", property), ("unit", unit.unwrap_or(""))] {
            if text.len() > NAME_BYTES_MAX {
                let reason = format!("{name} of {} bytes: at most {NAME_BYTES_MAX}", text.len());
                return Err(Reject::new("too_long", reason));
            }
        }
        if property.is_empty() {
            return Err(Reject::new("no_property", "an empty property name"));
        }
        self.key.clear();
        for (text, end) in [(entity, '\u{1F}'), (property, '\u{1F}'), (unit.unwrap_or("\u{1E}"), '\u{1F}')] {
            self.key.push_str(text);
            self.key.push(end);
        }
        if let Some(known) = self.series.get(&self.key) {
            let is_same = &*known.entity == entity
                && &*known.property == property
                && known.unit.as_deref() == unit;
            if is_same {
                return Ok(known.clone());
            }
        }
        if self.series.len() >= SERIES_KEPT {
            self.series.clear();
        }
        let series = Arc::new(Series {
            entity: entity.into(),
            property: property.into(),
            unit: unit.map(Into::into),
        });
        self.series.insert(self.key.clone(), series.clone());
        Ok(series)
    }
}

/// One line, taken apart at its first level.
struct Document<'a> {
    members: Members<'a>,
}

impl<'a> Document<'a> {
    /// What a pointer leads to; the empty one leads nowhere.
    fn find(&self, pointer: &Pointer) -> Result<Option<&'a RawValue>, Reject> {
        let Some((first, rest)) = pointer.names().split_first() else { return Ok(None) };
        let Some(mut at) = member(&self.members, first) else { return Ok(None) };
        for name in rest {
            if !at.get().starts_with('{') {
                return Ok(None);
            }
            let Some(next) = member(&members(at)?, name) else { return Ok(None) };
            at = next;
        }
        Ok(Some(at))
    }
}

fn member<'a>(members: &Members<'a>, name: &str) -> Option<&'a RawValue> {
    members.iter().find(|(key, _)| key == name).map(|(_, raw)| *raw)
}

fn is_some(raw: &&RawValue) -> bool {
    raw.get() != "null"
}

/// Whether a pointer of the map leads into this member of the line.
fn is_named(map: &SourceMap, name: &str) -> bool {
    [&map.entity, &map.property, &map.value, &map.time, &map.unit, &map.quality, &map.id]
        .iter()
        .any(|pointer| pointer.names().first().is_some_and(|first| first == name))
}

fn members(raw: &RawValue) -> Result<Members<'_>, Reject> {
    if !raw.get().starts_with('{') {
        return Err(Reject::new("not_an_object", "not a JSON object"));
    }
    let mut reader = serde_json::Deserializer::from_str(raw.get());
    let members = reader.deserialize_map(MembersVisitor);
    members.map_err(|error| Reject::new("syntax", error.to_string()))
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Members::with_capacity(map.size_hint().unwrap_or(8));
        while let Some(Name(key)) = map.next_key::<Name<'de>>()? {
            if members.iter().any(|(known, _)| *known == key) {
                return Err(A::Error::custom(format!("the key {key:?} comes twice")));
            }
            members.push((key, map.next_value()?));
        }
        Ok(members)
    }
}

/// A key, borrowed where it has no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de> serde::Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}

fn string<'a>(raw: &'a RawValue, name: &str) -> Result<Cow<'a, str>, Reject> {
    serde_json::from_str::<Name<'a>>(raw.get())
        .map(|name| name.0)
        .map_err(|error| Reject::new("syntax", format!("{name}: {error}")))
}

/// Text, or a number or boolean as it is written: devices have numbers for names.
fn scalar<'a>(raw: &'a RawValue, name: &str) -> Result<Cow<'a, str>, Reject> {
    match raw.get().as_bytes().first() {
        Some(b'"') => {
            let text = string(raw, name)?;
            if text.len() > NAME_BYTES_MAX {
                let reason = format!("{name} of {} bytes: at most {NAME_BYTES_MAX}", text.len());
                return Err(Reject::new("too_long", reason));
            }
            Ok(text)
        }
        Some(b'{' | b'[' | b'n') => {
            Err(Reject::new("syntax", format!("{name} must be text or a number")))
        }
        _ => Ok(Cow::Borrowed(raw.get())),
    }
}

fn quality(raw: &RawValue) -> Result<Quality, Reject> {
    match &*string(raw, "quality")? {
        "good" => Ok(Quality::Good),
        "uncertain" => Ok(Quality::Uncertain),
        "bad" => Ok(Quality::Bad),
        other => {
            let shown: String = other.chars().take(40).collect();
            Err(Reject::new("quality", format!("quality {shown:?}: good, uncertain or bad")))
        }
    }
}

fn value(raw: &RawValue, property: &str) -> Result<Option<Value>, Reject> {
    let text = raw.get();
    Ok(Some(match text.as_bytes().first() {
        Some(b'n') => return Ok(None),
        Some(b't') => Value::Bool(true),
        Some(b'f') => Value::Bool(false),
        Some(b'"') => Value::Text(string(raw, property)?.into()),
        Some(b'{' | b'[') => composite(text, property)?,
        _ => number(text, property)?,
    }))
}

fn number(text: &str, property: &str) -> Result<Value, Reject> {
    if !text.contains(['.', 'e', 'E']) {
        if let Ok(number) = text.parse::<i64>() {
            return Ok(Value::I64(number));
        }
        return text.parse::<u64>().map(Value::U64).map_err(|_| {
            let shown: String = text.chars().take(60).collect();
            Reject::new("number", format!("{property}: {shown} does not fit 64 bits; send it as text"))
        });
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Value::F64(number)),
        _ => {
            let shown: String = text.chars().take(60).collect();
            Err(Reject::new("number", format!("{property}: {shown} is beyond a 64-bit float")))
        }
    }
}

fn composite(text: &str, property: &str) -> Result<Value, Reject> {
    let depth = nesting(text);
    if depth > NESTING_MAX {
        let reason = format!("{property}: nested {depth} levels deep, at most {NESTING_MAX}");
        return Err(Reject::new("too_deep", reason));
    }
    // The text is JSON; this finds text in it that is no Unicode, and numbers
    // that no reader takes.
    serde_json::from_str::<serde_json::Value>(text)
        .map_err(|error| Reject::new("syntax", format!("{property}: {error}")))?;
    Ok(Value::Composite(text.into()))
}

/// How deep a JSON text nests, without recursion.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
