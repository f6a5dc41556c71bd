//! What the log said last, in the status.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// One line of the log, of level `info` and above, as it was written:
///
/// ```json
/// {"at":"2026-11-30T01:02:03.000000000Z","level":"warn","text":"the uplink is down",
///  "facts":{"uplink":"main","cause":"network","reason":"connection refused","backlog":12}}
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// When, by the gateway's clock then.
    pub at: String,
    /// `error`, `warn` or `info`.
    pub level: String,
    /// What happened; the same words for the same kind of fact.
    pub text: String,
    /// The particulars: numbers, booleans and texts, as the line has them. `unsaid` counts
    /// the same facts that the log left out within the minute before.
    pub facts: Facts,
}

/// The particulars of a line, by name, in the order in which it gives them: whom it is
/// about first. An object in JSON; reading keeps the order of what is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts(pub Vec<(String, Value)>);

impl Facts {
    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl Serialize for Facts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Facts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Facts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Facts, A::Error> {
        let mut facts = Vec::new();
        while let Some(fact) = map.next_entry()? {
            facts.push(fact);
        }
        Ok(Facts(facts))
    }
}
