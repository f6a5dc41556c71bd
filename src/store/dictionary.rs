//! Names of sources and series, stored once per segment.
//!
//! Frames refer to names by number. Each segment has numbers of its own, so that it can be
//! read, moved and deleted by itself. A name is written in the commit that first uses it.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::envelope::{self, Broken};
use crate::core::id::SourceId;
use crate::core::reading::Series;

/// Names after which a new segment is begun. It bounds the memory of the writer, however
/// many names sources use.
pub(super) const NAMES_MAX: usize = 16 * 1024;
/// Series remembered by address; with more, all are forgotten.
const ADDRESSES_MAX: usize = 4 * 1024;

/// What a number stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Source(SourceId),
    Series(Arc<Series>),
}

#[derive(Serialize, Deserialize)]
enum StoredName {
    Source(String),
    Series { entity: Box<str>, property: Box<str>, unit: Option<Box<str>> },
}

impl Name {
    pub(super) fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        let stored = match self {
            Name::Source(source) => StoredName::Source(source.as_str().to_owned()),
            Name::Series(series) => StoredName::Series {
                entity: series.entity.clone(),
                property: series.property.clone(),
                unit: series.unit.clone(),
            },
        };
        envelope::pack(&stored)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Broken> {
        Ok(match envelope::unpack(bytes)? {
            StoredName::Source(name) => Name::Source(SourceId::new(&name)),
            StoredName::Series { entity, property, unit } => {
                Name::Series(Arc::new(Series { entity, property, unit }))
            }
        })
    }
}

/// Gives numbers to names while frames are written.
#[derive(Clone, Debug, Default)]
pub(super) struct NameWriter {
    next: u32,
    sources: HashMap<SourceId, u32>,
    series: HashMap<Arc<Series>, u32>,
    /// Sources intern their series, so the address nearly always answers. The
    /// `Arc` beside it keeps the address from being used again.
    by_address: HashMap<usize, (Arc<Series>, u32)>,
    last_source: Option<(SourceId, u32)>,
    added: Vec<(u32, Name)>,
}

impl NameWriter {
    /// A writer for a segment that has these names already.
    pub(super) fn with(known: impl IntoIterator<Item = (u32, Name)>) -> Self {
        let mut writer = Self::default();
        for (id, name) in known {
            writer.next = writer.next.max(id.saturating_add(1));
            match name {
                Name::Source(source) => writer.sources.insert(source, id),
                Name::Series(series) => writer.series.insert(series, id),
            };
        }
        writer
    }

    /// Gives only numbers above `last` from now on: those up to it are in use, even if their
    /// names cannot be read.
    pub(super) fn begin_after(&mut self, last: Option<u32>) {
        self.next = self.next.max(last.map_or(0, |id| id.saturating_add(1)));
    }

    pub(super) fn is_full(&self) -> bool {
        self.sources.len() + self.series.len() >= NAMES_MAX
    }

    pub(super) fn source(&mut self, source: &SourceId) -> u32 {
        if let Some((last, id)) = &self.last_source
            && last == source
        {
            return *id;
        }
        let id = match self.sources.get(source) {
            Some(id) => *id,
            None => {
                let id = self.add(Name::Source(source.clone()));
                self.sources.insert(source.clone(), id);
                id
            }
        };
        self.last_source = Some((source.clone(), id));
        id
    }

    pub(super) fn series(&mut self, series: &Arc<Series>) -> u32 {
        let address = Arc::as_ptr(series) as usize;
        if let Some((_, id)) = self.by_address.get(&address) {
            return *id;
        }
        let id = match self.series.get(series) {
            Some(id) => *id,
            None => {
                let id = self.add(Name::Series(Arc::clone(series)));
                self.series.insert(Arc::clone(series), id);
                id
            }
        };
        if self.by_address.len() >= ADDRESSES_MAX {
            self.by_address.clear();
        }
        self.by_address.insert(address, (Arc::clone(series), id));
        id
    }

    /// The names given since the last call, to be written with the frames.
    pub(super) fn take_added(&mut self) -> Vec<(u32, Name)> {
        std::mem::take(&mut self.added)
    }

    fn add(&mut self, name: Name) -> u32 {
        let id = self.next;
        self.next += 1;
        self.added.push((id, name));
        id
    }
}

/// Names met while reading, by number.
#[derive(Debug, Default)]
pub(super) struct NameCache {
    known: Vec<Option<Name>>,
}

impl NameCache {
    /// The name of a number; `load` reads it when it is first needed.
    pub(super) fn get(
        &mut self,
        id: u32,
        load: &mut dyn FnMut(u32) -> Option<Name>,
    ) -> Option<&Name> {
        let slot = id as usize;
        // Numbers are dense; a huge one can only come from damaged bytes.
        if slot >= 4 * NAMES_MAX {
            return None;
        }
        if slot >= self.known.len() {
            self.known.resize(slot + 1, None);
        }
        if self.known[slot].is_none() {
            self.known[slot] = load(id);
        }
        self.known[slot].as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(entity: &str, unit: Option<&str>) -> Arc<Series> {
        let unit = unit.map(Into::into);
        Arc::new(Series { entity: entity.into(), property: "level".into(), unit })
    }

    #[test]
    fn equal_names_share_a_number_and_are_written_once() {
        let mut names = NameWriter::default();
        let first = names.series(&series("tank", Some("m")));
        assert_eq!(names.series(&series("tank", Some("m"))), first);
        assert_ne!(names.series(&series("tank", None)), first);
        assert_ne!(names.source(&SourceId::new("tank")), first);
        assert_eq!(names.take_added().len(), 3);
        assert_eq!(names.take_added().len(), 0);
    }

    #[test]
    fn a_reopened_dictionary_goes_on_counting() {
        let old = series("tank", None);
        let mut names = NameWriter::with([(4, Name::Series(Arc::clone(&old)))]);
        assert_eq!(names.series(&old), 4);
        assert_eq!(names.source(&SourceId::new("plc")), 5);
    }

    #[test]
    fn names_round_trip() {
        for name in [Name::Source(SourceId::new("plc")), Name::Series(series("ö", Some("°C")))] {
            assert_eq!(Name::decode(&name.encode().unwrap()), Ok(name));
        }
    }
}
