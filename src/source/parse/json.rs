//! JSON lines: one object a line, as the contract has it, or another shape by
//! the pointers of `[source.map]`.
//!
//! Rules, beyond strict JSON:
//! - integers keep every digit; one beyond 64 bits is refused, never rounded;
//! - a member that comes twice in one object makes the line ambiguous: refused;
//! - `null` says nothing: no reading for that property. A line that gives no
//!   reading at all is refused;
//! - a surrogate without its partner is no text: refused, inside composites too;
//! - composites keep their text, up to [`NESTING_MAX`] levels.
//!
//! Objects are opened one level at a time ([`level`]), so that no depth of nesting
//! reaches the stack.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::level::{self, Members, elements, kind, members, string};
use super::series::Interner;
use super::{Fault, check_name, time};
use crate::config::{Format, Pointer, Source, SourceMap, TimeUnit};
use crate::core::limits::{NESTING_MAX, SOURCE_BATCH_MAX};
use crate::core::reading::{DeviceTime, Flags, Quality, Reading, Value};

/// Turns lines of one source into readings.
#[derive(Debug)]
pub struct JsonParser {
    map: SourceMap,
    unit: TimeUnit,
    entity: Option<String>,
    qualities: BTreeMap<String, Quality>,
    interner: Interner,
}

/// Names that came beside a line, for what it does not name itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a> {
    /// The entity, before that of the source.
    pub entity: Option<&'a str>,
    /// The property of its value.
    pub property: Option<&'a str>,
}

/// What all readings of one line share.
struct Common<'a> {
    entity: Cow<'a, str>,
    unit: Option<Cow<'a, str>>,
    quality: Quality,
    device_time: Option<DeviceTime>,
    id: Option<Arc<str>>,
}

impl JsonParser {
    /// For the lines of this source.
    pub fn new(source: &Source) -> Self {
        Self {
            map: source.map.clone(),
            unit: source.time_unit,
            // Written for the other format it is a template of that.
            entity: source.entity.clone().filter(|_| source.format == Format::Json),
            qualities: source.conversions.quality.clone(),
            interner: Interner::new(&source.conversions),
        }
    }

    /// For lines of no configured source; times that are numbers by magnitude.
    pub fn with_map(map: SourceMap) -> Self {
        Self {
            map,
            unit: TimeUnit::Auto,
            entity: None,
            qualities: BTreeMap::new(),
            interner: Interner::default(),
        }
    }

    /// Appends the readings of one line to `readings`: at least one, at most
    /// [`SOURCE_BATCH_MAX`].
    ///
    /// # Errors
    /// Why the line is refused; `readings` is then as it was.
    pub fn parse(&mut self, line: &str, readings: &mut Vec<Reading>) -> Result<(), Fault> {
        self.parse_of(line, Names::default(), readings)
    }

    /// The same of a line that came with names for what it does not name itself.
    ///
    /// # Errors
    /// Those of [`JsonParser::parse`].
    pub fn parse_of(
        &mut self,
        line: &str,
        names: Names<'_>,
        readings: &mut Vec<Reading>,
    ) -> Result<(), Fault> {
        let before = readings.len();
        let result =
            self.parse_line(line, names, readings).and_then(|top| match readings.len() - before {
                0 => Err(Fault::new("no_value", self.why_no_value(&top))),
                1..=SOURCE_BATCH_MAX => Ok(()),
                count => {
                    let what = format!("{count} readings in one line; at most {SOURCE_BATCH_MAX}");
                    Err(Fault::new("too_many", what))
                }
            });
        if result.is_err() {
            readings.truncate(before);
        }
        result
    }

    fn parse_line<'a>(
        &mut self,
        line: &'a str,
        names: Names<'_>,
        readings: &mut Vec<Reading>,
    ) -> Result<Members<'a>, Fault> {
        let top = level::members_of_line(line)?;
        let map = &self.map;
        let entity = text_or_integer(find(&top, &map.entity)?, "entity")?;
        let default = names.entity.or(self.entity.as_deref());
        let entity = entity.or(default.map(Cow::Borrowed));
        let common = Common {
            entity: entity.ok_or_else(|| Fault::new("no_entity", "the line names no entity"))?,
            unit: text(find(&top, &map.unit)?, "unit")?,
            quality: quality(find(&top, &map.quality)?, &self.qualities)?,
            device_time: self.device_time(find(&top, &map.time)?)?,
            id: text_or_integer(find(&top, &map.id)?, "id")?.map(|id| Arc::from(id.as_ref())),
        };
        let interner = &mut self.interner;
        let property = text(find(&top, &map.property)?, "property")?;
        let property = property.or(names.property.map(Cow::Borrowed));
        if let Some(raw) = find(&top, &map.value)? {
            let property = property
                .ok_or_else(|| Fault::new("no_property", "the line has a value and no property"))?;
            add(interner, &common, &property, raw, readings)?;
        }
        if map.values.names().is_empty() {
            for (name, raw) in top.iter().filter(|(name, _)| !map.leads_into(name)) {
                add(interner, &common, name, raw, readings)?;
            }
        } else if let Some(raw) = find(&top, &map.values)? {
            for (name, raw) in members(raw).map_err(|fault| within(fault, "values"))? {
                add(interner, &common, &name, raw, readings)?;
            }
        }
        Ok(top)
    }

    /// Of a line in which all is right but that there is nothing in it.
    fn why_no_value(&self, top: &Members<'_>) -> String {
        let SourceMap { value, values, .. } = &self.map;
        let is_null =
            |pointer| matches!(find_even_null(top, pointer), Ok(Some(raw)) if raw.get() == "null");
        if is_null(value) {
            return "value is null: no value".to_owned();
        }
        match find(top, values) {
            Ok(Some(raw)) if raw.get().contains("null") => {
                "all of values is null: no value".to_owned()
            }
            Ok(Some(_)) => "values is empty: no value".to_owned(),
            _ if values.names().is_empty() => {
                "the line holds no value: no member beside those of [source.map], or all null"
                    .to_owned()
            }
            _ => format!("the line holds no value: nothing at {value} or {values}"),
        }
    }

    fn device_time(&self, raw: Option<&RawValue>) -> Result<Option<DeviceTime>, Fault> {
        let Some(raw) = raw else { return Ok(None) };
        let text = raw.get();
        match text.as_bytes().first() {
            Some(b'"') => time::parse_text(&string(raw)?, self.unit).map(Some),
            Some(b'-' | b'0'..=b'9') => time::parse_number(text, self.unit).map(Some),
            _ => Err(Fault::new("time", format!("time is {}, not text or number", kind(raw)))),
        }
    }
}

impl SourceMap {
    /// Whether a pointer other than `values` leads into this member.
    fn leads_into(&self, name: &str) -> bool {
        let Self { entity, property, value, time, unit, quality, id, values: _ } = self;
        [entity, property, value, time, unit, quality, id]
            .iter()
            .any(|pointer| pointer.names().first().is_some_and(|first| first == name))
    }
}

fn add(
    interner: &mut Interner,
    common: &Common<'_>,
    property: &str,
    raw: &RawValue,
    readings: &mut Vec<Reading>,
) -> Result<(), Fault> {
    let value = value(raw).map_err(|fault| within(fault, property))?;
    let Some(value) = value else { return Ok(()) };
    let unit = common.unit.as_deref();
    for (what, name) in [("entity", common.entity.as_ref()), ("property", property)] {
        check_name(name, what)?;
        if name.is_empty() {
            return Err(Fault::new("name", format!("{what} is empty")));
        }
    }
    readings.push(Reading {
        series: interner.series(&common.entity, property, unit),
        value,
        quality: common.quality,
        quality_detail: None,
        device_time: common.device_time,
        id: common.id.clone(),
        flags: Flags::NONE,
    });
    Ok(())
}

fn within(fault: Fault, name: &str) -> Fault {
    let shown: String = name.chars().take(60).collect();
    Fault::new(fault.kind, format!("in {shown:?}: {}", fault.what))
}

/// Follows a pointer; `None` where it leads nowhere or to `null`.
fn find<'a>(top: &Members<'a>, pointer: &Pointer) -> Result<Option<&'a RawValue>, Fault> {
    let found = find_even_null(top, pointer)?;
    Ok(found.filter(|raw| raw.get() != "null"))
}

fn find_even_null<'a>(top: &Members<'a>, pointer: &Pointer) -> Result<Option<&'a RawValue>, Fault> {
    let Some((first, rest)) = pointer.names().split_first() else { return Ok(None) };
    let get = |members: &Members<'a>, name: &str| {
        members.iter().find(|(key, _)| key == name).map(|(_, raw)| *raw)
    };
    let mut found = get(top, first);
    for name in rest {
        match found {
            Some(raw) if raw.get().starts_with('{') => found = get(&members(raw)?, name),
            _ => return Ok(None),
        }
    }
    Ok(found)
}

fn text<'a>(raw: Option<&'a RawValue>, what: &str) -> Result<Option<Cow<'a, str>>, Fault> {
    let Some(raw) = raw else { return Ok(None) };
    if !raw.get().starts_with('"') {
        return Err(Fault::new("shape", format!("{what} is {}, not a text", kind(raw))));
    }
    let text = string(raw).map_err(|fault| within(fault, what))?;
    check_name(&text, what)?;
    Ok(Some(text))
}

/// A name that some devices write as an integer: the digits are the name.
fn text_or_integer<'a>(
    raw: Option<&'a RawValue>,
    what: &str,
) -> Result<Option<Cow<'a, str>>, Fault> {
    let digits = raw
        .map(RawValue::get)
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'));
    match digits {
        Some(digits) => {
            check_name(digits, what)?;
            Ok(Some(Cow::Borrowed(digits)))
        }
        None => text(raw, what),
    }
}

/// `known` are the source's own words, and may be numbers.
fn quality(raw: Option<&RawValue>, known: &BTreeMap<String, Quality>) -> Result<Quality, Fault> {
    let Some(word) = text_or_integer(raw, "quality")? else { return Ok(Quality::Good) };
    if let Some(quality) = known.get(word.as_ref()) {
        return Ok(*quality);
    }
    match word.as_ref() {
        "good" => Ok(Quality::Good),
        "uncertain" => Ok(Quality::Uncertain),
        "bad" => Ok(Quality::Bad),
        word => {
            let shown: String = word.chars().take(60).collect();
            let what = format!(
                "quality {shown:?} is not good, uncertain or bad; \
                 what it means can be said in the source's `quality`"
            );
            Err(Fault::new("shape", what))
        }
    }
}

/// A value; `None` for null.
fn value(raw: &RawValue) -> Result<Option<Value>, Fault> {
    let text = raw.get();
    Ok(Some(match text.as_bytes().first() {
        Some(b'{' | b'[') => {
            check_composite(raw)?;
            Value::Composite(text.into())
        }
        Some(b'"') => Value::Text(Arc::from(string(raw)?.as_ref())),
        Some(b't') => Value::Bool(true),
        Some(b'f') => Value::Bool(false),
        Some(b'n') => return Ok(None),
        _ => number(text)?,
    }))
}

/// A number whose syntax is known to be right.
pub(super) fn number(text: &str) -> Result<Value, Fault> {
    let shown = || text.chars().take(40).collect::<String>();
    if text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        return match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::F64(number)),
            _ => Err(Fault::new("range", format!("{} is too large for a number", shown()))),
        };
    }
    if let Ok(number) = text.parse::<i64>() {
        return Ok(Value::I64(number));
    }
    text.parse::<u64>()
        .map(Value::U64)
        .map_err(|_| Fault::new("range", format!("the integer {} needs over 64 bits", shown())))
}

/// Walks a composite level by level: depth, keys and texts must all be right.
fn check_composite(raw: &RawValue) -> Result<(), Fault> {
    if depth(raw.get()) > NESTING_MAX {
        return Err(Fault::new("nesting", format!("nested more than {NESTING_MAX} levels")));
    }
    let mut open = vec![raw];
    while let Some(raw) = open.pop() {
        match raw.get().as_bytes().first() {
            Some(b'{') => open.extend(members(raw)?.into_iter().map(|(_, raw)| raw)),
            Some(b'[') => open.extend(elements(raw)?),
            Some(b'"') => drop(string(raw)?),
            _ => {}
        }
    }
    Ok(())
}

/// Levels of objects and arrays in a text whose syntax is known to be right.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
