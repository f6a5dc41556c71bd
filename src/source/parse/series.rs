//! Interning of series: a thousand readings of one share one allocation.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::config::Conversions;
use crate::core::reading::Series;

/// Series that one source keeps interned. Beyond, all are forgotten and learnt
/// again: a sender that invents names costs time, never memory.
const INTERNED_MAX: usize = 16 * 1024;

/// A bounded cache of series.
#[derive(Debug, Default)]
pub(super) struct Interner {
    known: HashMap<Box<[u8]>, Arc<Series>>,
    key: Vec<u8>,
    rename: BTreeMap<String, String>,
    unit: BTreeMap<String, String>,
}

impl Interner {
    /// For the names of a source that changes some.
    pub(super) fn new(conversions: &Conversions) -> Self {
        let Conversions { rename, unit, quality: _ } = conversions;
        Self { rename: rename.clone(), unit: unit.clone(), ..Self::default() }
    }

    /// The shared series of these names, as the source changes them.
    pub(super) fn series(
        &mut self,
        entity: &str,
        property: &str,
        unit: Option<&str>,
    ) -> Arc<Series> {
        // Lengths before names: no name can be mistaken for two.
        self.key.clear();
        self.key.extend_from_slice(&(entity.len() as u32).to_le_bytes());
        self.key.extend_from_slice(&(property.len() as u32).to_le_bytes());
        self.key.push(u8::from(unit.is_some()));
        for name in [entity, property, unit.unwrap_or_default()] {
            self.key.extend_from_slice(name.as_bytes());
        }
        if let Some(series) = self.known.get(self.key.as_slice()) {
            return Arc::clone(series);
        }
        if self.known.len() >= INTERNED_MAX {
            self.known.clear();
        }
        let property = self.rename.get(property).map_or(property, String::as_str);
        let unit = self.unit.get(property).map(String::as_str).or(unit);
        let series = Arc::new(Series {
            entity: entity.into(),
            property: property.into(),
            unit: unit.map(Box::from),
        });
        self.known.insert(self.key.as_slice().into(), Arc::clone(&series));
        series
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_share_and_different_names_do_not() {
        let mut interner = Interner::default();
        let first = interner.series("pump", "kpa", None);
        assert!(Arc::ptr_eq(&first, &interner.series("pump", "kpa", None)));
        assert!(!Arc::ptr_eq(&first, &interner.series("pumpk", "pa", None)));
        assert!(!Arc::ptr_eq(&first, &interner.series("pump", "kpa", Some(""))));
    }

    #[test]
    fn invented_names_do_not_pile_up() {
        let mut interner = Interner::default();
        for i in 0..3 * INTERNED_MAX {
            interner.series("pump", &i.to_string(), None);
            assert!(interner.known.len() <= INTERNED_MAX);
        }
    }
}
