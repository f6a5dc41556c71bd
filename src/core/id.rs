//! Names of things. `(gateway, source, epoch, seq)` names one reading for ever.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What the source of a window's results begins with. No configured name of a source
/// can: it has no colon.
const WINDOW: &str = "window:";

/// The configured name of a source: letters, digits, `.`, `_`, `-` (and
/// `window:NAME` for a window's results). Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SourceId(Arc<str>);

impl SourceId {
    /// The source of that name.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The source that the results of a window are booked under: `window:NAME`.
    pub fn of_window(window: &str) -> Self {
        Self(format!("{WINDOW}{window}").into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether what it produces are results of a window.
    pub fn is_window(&self) -> bool {
        is_window(&self.0)
    }
}

/// [`SourceId::is_window`] of a source's name.
pub fn is_window(source: &str) -> bool {
    source.starts_with(WINDOW)
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which uplink: its place in the configuration, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UplinkId(pub u8);

/// Position of a reading within its source: 1, 2, 3 … without holes, durable,
/// never reused within its epoch. Zero means "none yet".
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Seq(pub u64);

impl Seq {
    /// The one after this.
    #[must_use]
    pub const fn next(self) -> Seq {
        Seq(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Position in this gateway's journal, over all sources. Counts every entry,
/// readings and gap records alike.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Offset(pub u64);

impl Offset {
    /// The position `entries` further on.
    #[must_use]
    pub const fn plus(self, entries: u64) -> Offset {
        Offset(self.0 + entries)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One numbering of one gateway's sources. A new one starts only when the old
/// cannot be continued; its random part keeps two lost stores apart.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Epoch {
    /// Counts the numberings of this gateway as far as its disk and its brokers know
    /// them, from 1.
    pub number: u32,
    /// Random, drawn when the epoch began.
    pub nonce: u32,
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:08x}", self.number, self.nonce)
    }
}

/// This run of the machine: `/proc/sys/kernel/random/boot_id` on Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BootId(pub [u8; 16]);

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// One group commit, counted from 1 within this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitId(pub u64);

/// One publish, counted from 1 within this process. Not the MQTT packet
/// identifier, which only `link` knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublishId(pub u64);

/// A source's claim to an acknowledgement, given back to it once its batch is
/// durable. The driver hands them out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiptId(pub u64);

/// One segment of the journal; also the name of its folder.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct SegmentId(pub u32);

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_as_the_contract_writes_them() {
        let epoch = Epoch { number: 1, nonce: 0x9f3a_6c21 };
        assert_eq!(epoch.to_string(), "1-9f3a6c21");
        assert_eq!(Epoch { number: 2, nonce: 7 }.to_string(), "2-00000007");
        assert_eq!(SegmentId(7).to_string(), "000007");
        let window = SourceId::of_window("pressure-10s");
        assert_eq!((window.as_str(), window.is_window()), ("window:pressure-10s", true));
        assert!(!SourceId::new("window").is_window());
        assert_eq!(BootId([0xab; 16]).to_string(), "abababab-abab-abab-abab-abababababab");
    }
}
