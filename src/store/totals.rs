//! The stored form of saved totals: beside the state of a segment, and in its head
//! and seal.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::core::id::{Offset, SourceId};
use crate::core::reading::Series;
use crate::core::values::decimal::Decimal;
use crate::core::values::totals::{SavedTotals, Total};

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct StoredTotals {
    through: u64,
    totals: Vec<StoredTotal>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredTotal {
    source: String,
    entity: String,
    property: String,
    unit: Option<String>,
    mantissa: i128,
    exponent: i32,
    is_real: bool,
}

impl StoredTotals {
    pub(super) fn of(saved: &SavedTotals) -> Self {
        let all = saved.totals.iter().flat_map(|(source, totals)| {
            totals.iter().map(move |(series, total)| {
                let (mantissa, exponent) = total.sum.parts();
                StoredTotal {
                    source: source.as_str().to_owned(),
                    entity: series.entity.to_string(),
                    property: series.property.to_string(),
                    unit: series.unit.as_ref().map(ToString::to_string),
                    mantissa,
                    exponent,
                    is_real: total.is_real,
                }
            })
        });
        Self { through: saved.through.0, totals: all.collect() }
    }

    pub(super) fn into_saved(self) -> SavedTotals {
        let mut saved = SavedTotals { through: Offset(self.through), ..SavedTotals::default() };
        for one in self.totals {
            let Some(sum) = Decimal::from_parts((one.mantissa, one.exponent)) else { continue };
            let series = Series {
                entity: one.entity.into(),
                property: one.property.into(),
                unit: one.unit.map(Into::into),
            };
            let of_source = saved.totals.entry(SourceId::new(&one.source)).or_default();
            of_source.insert(Arc::new(series), Total { sum, is_real: one.is_real });
        }
        saved
    }
}
