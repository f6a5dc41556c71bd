//! `[source.dedupe]`: which readings of a source are repeats.

use std::time::Duration;

use super::file::Section;
use super::value;
use crate::core::dedupe::{By, Rule};
use crate::core::time::Span;

const DAY: Duration = Duration::from_secs(24 * 3_600);

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

pub(super) fn source_dedupe(section: Section<'_>) -> SourceDedupe {
    let horizon = value::duration(Duration::from_secs(1)..=DAY * 30);
    let dedupe = SourceDedupe {
        key: section.read("key", None, value::one_of(&KEYS)),
        horizon: section.read("horizon", Duration::from_secs(3_600), horizon),
        entries_max: section.read("entries_max", 100_000, value::integer(1..=1_000_000)) as usize,
    };
    section.refuse_unknown();
    dedupe
}

#[cfg(test)]
#[path = "dedupe_tests.rs"]
mod tests;
