//! The format `postcard-batch`.

use crate::core::reading::Record;

/// The content type of a batch, for MQTT 5.
pub const CONTENT_TYPE: &str = "application/vnd.tidegate.batch";

/// Appends readings of one source and numbering.
pub fn encode(gateway: &str, records: &[Record], out: &mut Vec<u8>) {
    super::json::batch(gateway, records, out);
}
