//! The field cases, one file per area, by their id.

mod json;
