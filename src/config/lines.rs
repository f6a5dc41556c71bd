//! The keys of sources that read lines: their format, and what names the entity.

use std::fmt;

use toml::de::DeValue;

use super::file::{Section, Wrong};
use super::template::{Piece, pieces};
use super::value;
use crate::core::limits::NAME_BYTES_MAX;

/// How the lines of a source are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// InfluxDB line protocol.
    Influx,
}

pub(super) const FORMATS: [(&str, Format); 2] =
    [("json", Format::Json), ("influx", Format::Influx)];

impl Format {
    /// From its word in the configuration and in requests.
    pub fn from_word(word: &str) -> Option<Self> {
        FORMATS.iter().find(|(known, _)| *known == word).map(|(_, format)| *format)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(super::page::word(&FORMATS, *self))
    }
}

/// What the entity of a point is made of: `{measurement}/{tag:host}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityTemplate(Vec<EntityPart>);

/// One part of an [`EntityTemplate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntityPart {
    /// As it stands.
    Text(String),
    /// The point's measurement.
    Measurement,
    /// The value of the tag of this name.
    Tag(String),
}

impl EntityTemplate {
    /// From its text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let part = |piece| match piece {
            Piece::Text(text) => Ok(EntityPart::Text(text.to_owned())),
            Piece::Key("measurement") => Ok(EntityPart::Measurement),
            Piece::Key(key) => match key.strip_prefix("tag:") {
                Some(name) if !name.is_empty() => Ok(EntityPart::Tag(name.to_owned())),
                _ => Err(format!("{{{key}}} is not known")),
            },
        };
        pieces(text)?.into_iter().map(part).collect::<Result<_, _>>().map(Self)
    }

    /// Its parts in their order.
    pub fn parts(&self) -> &[EntityPart] {
        &self.0
    }
}

/// The key `format`.
pub(super) fn format(section: &Section<'_>) -> Format {
    section.read("format", Format::Json, value::one_of(&FORMATS))
}

/// The key `entity`, which means something else in each format.
pub(super) fn entity(section: &Section<'_>, format: Format) -> Option<String> {
    section.read("entity", None, |value: &DeValue<'_>| {
        let entity = value::text(value)?;
        if entity.len() > NAME_BYTES_MAX {
            let fix = format!("use at most {NAME_BYTES_MAX}");
            return Err(Wrong::new(format!("has {} bytes", entity.len()), fix));
        }
        if format == Format::Influx {
            EntityTemplate::parse(&entity)
                .map_err(|what| Wrong::new(what, "use {measurement}, {tag:NAME} and fixed text"))?;
        }
        Ok(Some(entity).filter(|entity| !entity.is_empty()))
    })
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
