//! What the log said last, in the status.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One line of the log, of level `info` and above, as it was written:
///
/// ```json
/// {"at":"2026-11-30T01:02:03.000000000Z","level":"warn","text":"the uplink is down",
///  "facts":{"backlog":12,"cause":"network","reason":"connection refused","uplink":"main"}}
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// When, by the gateway's clock then.
    pub at: String,
    /// `error`, `warn` or `info`.
    pub level: String,
    /// What happened; the same words for the same kind of fact.
    pub text: String,
    /// The particulars, by name: numbers, booleans and texts. `unsaid` counts the
    /// same facts that the log left out within the minute before.
    pub facts: BTreeMap<String, Value>,
}
