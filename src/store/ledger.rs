//! The stored forms of the numbers that are done with, per epoch, and of the gap records
//! that are not acknowledged yet.

use serde::{Deserialize, Serialize};

use super::codes;
use crate::core::id::{Epoch, Offset, Seq, SourceId};
use crate::core::reading::GapRecord;
use crate::core::seam::SeqSet;
use crate::core::time::{EventTime, IngestTime};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredHanded {
    source: String,
    epoch: (u32, u32),
    through: u64,
    ranges: Vec<(u64, u64)>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredOpenGap {
    offset: u64,
    source: String,
    epoch: (u32, u32),
    first_seq: u64,
    last_seq: Option<u64>,
    reason: u8,
    event_times: (Option<i64>, Option<i64>),
    at: i64,
}

impl StoredHanded {
    pub(super) fn of(((source, epoch), set): (&(SourceId, Epoch), &SeqSet)) -> Self {
        Self {
            source: source.as_str().to_owned(),
            epoch: (epoch.number, epoch.nonce),
            through: set.through.0,
            ranges: set.ranges.iter().map(|(first, last)| (first.0, last.0)).collect(),
        }
    }

    pub(super) fn into_handed(self) -> ((SourceId, Epoch), SeqSet) {
        let epoch = Epoch { number: self.epoch.0, nonce: self.epoch.1 };
        let ranges = self.ranges.into_iter().map(|(first, last)| (Seq(first), Seq(last)));
        let set = SeqSet { through: Seq(self.through), ranges: ranges.collect() };
        ((SourceId::new(&self.source), epoch), set)
    }
}

impl StoredOpenGap {
    pub(super) fn of((offset, gap): &(Offset, GapRecord)) -> Self {
        let ns = |time: Option<EventTime>| time.map(EventTime::unix_ns);
        Self {
            offset: offset.0,
            source: gap.source.as_str().to_owned(),
            epoch: (gap.epoch.number, gap.epoch.nonce),
            first_seq: gap.first_seq.0,
            last_seq: gap.last_seq.map(|seq| seq.0),
            reason: codes::reason_code(gap.reason),
            event_times: (ns(gap.first_event_time), ns(gap.last_event_time)),
            at: gap.at.unix_ns(),
        }
    }

    /// `None` for a reason that this version does not know.
    pub(super) fn into_gap(self) -> Option<(Offset, GapRecord)> {
        let time = |ns: Option<i64>| ns.map(EventTime::from_unix_ns);
        let gap = GapRecord {
            source: SourceId::new(&self.source),
            epoch: Epoch { number: self.epoch.0, nonce: self.epoch.1 },
            first_seq: Seq(self.first_seq),
            last_seq: self.last_seq.map(Seq),
            reason: codes::reason_of(self.reason)?,
            first_event_time: time(self.event_times.0),
            last_event_time: time(self.event_times.1),
            at: IngestTime::from_unix_ns(self.at),
        };
        Some((Offset(self.offset), gap))
    }
}
