//! `[source.dedupe]`: which readings of a source are repeats.

use std::time::Duration;

use super::file::Section;
use super::units::{DAY, HOUR, secs};
use super::{Format, Source, value};
use crate::core::dedupe::{By, Rule};
use crate::core::time::Span;

/// `[source.dedupe]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceDedupe {
    /// What names a reading within its series; `None` takes every reading.
    pub key: Option<By>,
    /// How long a name is known; 1 s to 30 d.
    pub horizon: Duration,
    /// Names that are known at once; 1 to 1,000,000.
    pub entries_max: usize,
}

impl Default for SourceDedupe {
    fn default() -> Self {
        Self { key: None, horizon: HOUR, entries_max: 100_000 }
    }
}

impl SourceDedupe {
    /// What the agent needs to know of it.
    pub(super) fn rule(&self) -> Option<Rule> {
        Some(Rule {
            by: self.key?,
            horizon: Span::from_std(self.horizon),
            entries_max: self.entries_max,
        })
    }
}

pub(super) const KEYS: [(&str, Option<By>); 3] =
    [("none", None), ("id", Some(By::Id)), ("event_time", Some(By::EventTime))];

/// Reads `[source.dedupe]`. `source` holds the keys read before; its format and map
/// decide which keys can work.
pub(super) fn source_dedupe(section: Section<'_>, source: &Source) -> SourceDedupe {
    let horizon = value::duration(secs(1)..=30 * DAY);
    let default = SourceDedupe::default();
    let entries_max = default.entries_max as u64;
    let dedupe = SourceDedupe {
        key: section.read("key", default.key, value::one_of(&KEYS)),
        horizon: section.read("horizon", default.horizon, horizon),
        entries_max: section.read("entries_max", entries_max, value::integer(1..=1_000_000))
            as usize,
    };
    if source.format == Format::Influx && dedupe.key == Some(By::Id) {
        let what = "has nothing to go by: points of the line protocol have no id";
        section.problem("key", what, "use \"event_time\"");
        section.refuse_unknown();
        return dedupe;
    }
    let map = &source.map;
    let named_by = match dedupe.key {
        Some(By::Id) => Some(("id", &map.id)),
        Some(By::EventTime) => Some(("time", &map.time)),
        None => None,
    };
    if let Some((part, _)) = named_by.filter(|(_, pointer)| pointer.names().is_empty()) {
        let what = format!("has nothing to go by: source.map.{part} is \"\"");
        section.problem("key", what, format!("say in source.map.{part} where it is"));
    }
    section.refuse_unknown();
    dedupe
}

#[cfg(test)]
#[path = "dedupe_tests.rs"]
mod tests;
