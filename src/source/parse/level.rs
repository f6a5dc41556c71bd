//! JSON opened one level at a time, and what is wrong with it in words for people.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Fault;

/// What an object holds, its values unopened.
pub(super) type Members<'a> = Vec<(Cow<'a, str>, &'a RawValue)>;

/// What a value is, for people.
pub(super) fn kind(raw: &RawValue) -> &'static str {
    match raw.get().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a text",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| {
        let mut what = error.to_string().replace(" at line 1 column ", " at column ");
        for jargon in ["expected value at", "expected ident at"] {
            if let Some(place) = what.strip_prefix(jargon) {
                what = format!("not JSON at{place}");
            }
        }
        let is_repeat = error.is_data() && what.starts_with(REPEATED);
        Fault::new(if is_repeat { "duplicate_key" } else { "syntax" }, what)
    })
}

pub(super) fn string(raw: &RawValue) -> Result<Cow<'_, str>, Fault> {
    parse::<Text<'_>>(raw.get()).map(|text| text.0)
}

/// The elements of an array, unopened.
pub(super) fn elements(raw: &RawValue) -> Result<Vec<&RawValue>, Fault> {
    parse::<Elements<'_>>(raw.get()).map(|elements| elements.0)
}

/// The members of the object that a line is. What is no JSON from its beginning on is
/// told so there, and what it may be.
pub(super) fn members_of_line(line: &str) -> Result<Members<'_>, Fault> {
    members_of_text(line).map_err(|fault| {
        let text = line.trim_start();
        if fault.kind != "syntax" || text.starts_with('{') {
            return fault;
        }
        let column = line.len() - text.len() + 1;
        let is_point = text.split_once(' ').is_some_and(|(_, fields)| fields.contains('='));
        let hint = if is_point { IS_POINT } else { "" };
        Fault::new("syntax", format!("not JSON at column {column}{hint}"))
    })
}

/// The members of an object, its values unopened.
pub(super) fn members(raw: &RawValue) -> Result<Members<'_>, Fault> {
    members_of_text(raw.get())
}

fn members_of_text(text: &str) -> Result<Members<'_>, Fault> {
    match parse::<Object<'_>>(text) {
        Ok(object) => Ok(object.0),
        // Right JSON of another shape is told apart from wrong JSON.
        Err(fault) => match serde_json::from_str::<&RawValue>(text) {
            Ok(raw) if !raw.get().starts_with('{') => {
                Err(Fault::new("shape", format!("expected an object, found {}", kind(raw))))
            }
            _ => Err(fault),
        },
    }
}

const REPEATED: &str = "repeated key";
const IS_POINT: &str = " (is it line protocol? then `format = \"influx\"`)";

/// Text borrowed from the line where it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

/// An object opened by one level.
struct Object<'a>(Members<'a>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = Object<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Members<'de> = Vec::with_capacity(8);
                while let Some(Text(key)) = map.next_key()? {
                    members.push((key, map.next_value()?));
                }
                if let Some(key) = repeated(&members) {
                    let shown: String = key.chars().take(60).collect();
                    return Err(serde::de::Error::custom(format!("{REPEATED} {shown:?}")));
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(ObjectVisitor)
    }
}

/// A key that comes twice.
fn repeated<'m>(members: &'m Members<'_>) -> Option<&'m str> {
    if members.len() <= 16 {
        let is_repeated = |i: usize| members[..i].iter().any(|(key, _)| *key == members[i].0);
        return (1..members.len()).find(|i| is_repeated(*i)).map(|i| members[i].0.as_ref());
    }
    let mut keys: Vec<&str> = members.iter().map(|(key, _)| key.as_ref()).collect();
    keys.sort_unstable();
    keys.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// An array opened by one level.
struct Elements<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for Elements<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ElementsVisitor;
        impl<'de> Visitor<'de> for ElementsVisitor {
            type Value = Elements<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(raw) = seq.next_element()? {
                    elements.push(raw);
                }
                Ok(Elements(elements))
            }
        }
        deserializer.deserialize_seq(ElementsVisitor)
    }
}
