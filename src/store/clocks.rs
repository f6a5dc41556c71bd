//! The stored form of [`ClockLedger`]. With the core's bounds (64 boots, 64 seals, 256
//! stretches sent) it stays below some 300 KiB; usually it is a few hundred bytes.

use serde::{Deserialize, Serialize};

use super::codes;
use crate::core::clock::boots::{Boot, Stretch};
use crate::core::clock::seal::Timeline;
use crate::core::clock::timeline::{Anchor, Anchored, Bounded, Suspends};
use crate::core::clock::{ClockSource, Seal, SentStretch};
use crate::core::id::{BootId, Epoch, Offset, Seq, SourceId};
use crate::core::seam::ClockLedger;
use crate::core::time::{TimebaseId, Uptime};

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct StoredLedger {
    timebase: u32,
    boots: Vec<StoredBoot>,
    seals: Vec<StoredTiming>,
    sent: Vec<StoredSent>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredBoot {
    id: [u8; 16],
    first_offset: u64,
    wall_offset_ns: i64,
    set_by: u8,
    source: u8,
    /// First, best and last anchor of each.
    stretches: Vec<[StoredAnchor; 3]>,
    suspends: Vec<StoredSuspends>,
    rate_ppb: Option<i64>,
    last_up_ns: u64,
}

/// Uptime, UTC, error; nanoseconds.
type StoredAnchor = (u64, i64, u64);

/// First uptime, last uptime, how many.
type StoredSuspends = (u64, u64, u32);

/// A seal of the core, about times; not to be confused with the seal of a segment.
#[derive(Debug, Serialize, Deserialize)]
struct StoredTiming {
    first: u64,
    end: u64,
    timelines: Vec<([u8; 16], StoredTimeline)>,
}

/// The order of the variants is stored: add at the end.
#[derive(Debug, Serialize, Deserialize)]
enum StoredTimeline {
    Anchored {
        anchors: Vec<StoredAnchor>,
        suspends: Vec<StoredSuspends>,
        rate_ppb: i64,
        rate_error_ppb: u64,
        source: u8,
    },
    Bounded {
        after_ns: i64,
        uptime_before_ns: u64,
        before_ns: i64,
        uptime_after_ns: u64,
        rate_error_ppb: u64,
        is_wall_plausible: bool,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredSent {
    source: String,
    epoch: (u32, u32),
    boot: [u8; 16],
    timebase: u32,
    first_seq: u64,
    last_seq: u64,
    first_up_ns: u64,
    last_up_ns: u64,
    wall_less_up_ns: (i64, i64),
    correction: Option<u64>,
}

impl StoredLedger {
    pub(super) fn of(ledger: &ClockLedger) -> Self {
        Self {
            timebase: ledger.timebase.0,
            boots: ledger.boots.iter().map(stored_boot).collect(),
            seals: ledger.seals.iter().map(stored_timing).collect(),
            sent: ledger.sent.iter().map(stored_sent).collect(),
        }
    }

    pub(super) fn into_ledger(self) -> ClockLedger {
        ClockLedger {
            timebase: TimebaseId(self.timebase),
            boots: self.boots.into_iter().map(boot).collect(),
            seals: self.seals.into_iter().map(timing).collect(),
            sent: self.sent.into_iter().map(sent).collect(),
        }
    }
}

/// The clock source of a code; unknown for one that this version does not know.
fn source_of(code: u8) -> ClockSource {
    codes::clock_of(code).unwrap_or_default()
}

fn stored_anchor(anchor: &Anchor) -> StoredAnchor {
    (anchor.up.ns(), anchor.utc_ns, anchor.error_ns)
}

fn anchor((up_ns, utc_ns, error_ns): StoredAnchor) -> Anchor {
    Anchor { up: Uptime::from_ns(up_ns), utc_ns, error_ns }
}

fn stored_suspends(some: &Suspends) -> StoredSuspends {
    (some.first.ns(), some.last.ns(), some.count)
}

fn suspends((first_ns, last_ns, count): StoredSuspends) -> Suspends {
    Suspends { first: Uptime::from_ns(first_ns), last: Uptime::from_ns(last_ns), count }
}

fn stored_boot(boot: &Boot) -> StoredBoot {
    let stretches = boot.stretches.iter().map(|s| [&s.first, &s.best, &s.last].map(stored_anchor));
    StoredBoot {
        id: boot.id.0,
        first_offset: boot.first_offset.0,
        wall_offset_ns: boot.wall_offset_ns,
        set_by: codes::clock_code(boot.set_by),
        source: codes::clock_code(boot.source),
        stretches: stretches.collect(),
        suspends: boot.suspends.iter().map(stored_suspends).collect(),
        rate_ppb: boot.rate_ppb,
        last_up_ns: boot.last_up.ns(),
    }
}

fn boot(stored: StoredBoot) -> Boot {
    let stretches = stored.stretches.into_iter().map(|anchors| {
        let [first, best, last] = anchors.map(anchor);
        Stretch { first, best, last }
    });
    Boot {
        id: BootId(stored.id),
        first_offset: Offset(stored.first_offset),
        wall_offset_ns: stored.wall_offset_ns,
        set_by: source_of(stored.set_by),
        source: source_of(stored.source),
        stretches: stretches.collect(),
        suspends: stored.suspends.into_iter().map(suspends).collect(),
        rate_ppb: stored.rate_ppb,
        last_up: Uptime::from_ns(stored.last_up_ns),
    }
}

fn stored_timing(seal: &Seal) -> StoredTiming {
    let timelines =
        seal.timelines.iter().map(|(boot, timeline)| (boot.0, stored_timeline(timeline)));
    StoredTiming { first: seal.first.0, end: seal.end.0, timelines: timelines.collect() }
}

fn timing(stored: StoredTiming) -> Seal {
    let timelines = stored.timelines.into_iter().map(|(boot, line)| (BootId(boot), timeline(line)));
    Seal { first: Offset(stored.first), end: Offset(stored.end), timelines: timelines.collect() }
}

fn stored_timeline(timeline: &Timeline) -> StoredTimeline {
    match timeline {
        Timeline::Anchored(anchored) => StoredTimeline::Anchored {
            anchors: anchored.anchors.iter().map(stored_anchor).collect(),
            suspends: anchored.suspends.iter().map(stored_suspends).collect(),
            rate_ppb: anchored.rate_ppb,
            rate_error_ppb: anchored.rate_error_ppb,
            source: codes::clock_code(anchored.source),
        },
        Timeline::Bounded(bounded) => StoredTimeline::Bounded {
            after_ns: bounded.after_ns,
            uptime_before_ns: bounded.uptime_before_ns,
            before_ns: bounded.before_ns,
            uptime_after_ns: bounded.uptime_after_ns,
            rate_error_ppb: bounded.rate_error_ppb,
            is_wall_plausible: bounded.is_wall_plausible,
        },
    }
}

fn timeline(stored: StoredTimeline) -> Timeline {
    match stored {
        StoredTimeline::Anchored { anchors, suspends: slept, rate_ppb, rate_error_ppb, source } => {
            Timeline::Anchored(Anchored {
                anchors: anchors.into_iter().map(anchor).collect(),
                suspends: slept.into_iter().map(suspends).collect(),
                rate_ppb,
                rate_error_ppb,
                source: source_of(source),
            })
        }
        StoredTimeline::Bounded {
            after_ns,
            uptime_before_ns,
            before_ns,
            uptime_after_ns,
            rate_error_ppb,
            is_wall_plausible,
        } => Timeline::Bounded(Bounded {
            after_ns,
            uptime_before_ns,
            before_ns,
            uptime_after_ns,
            rate_error_ppb,
            is_wall_plausible,
        }),
    }
}

fn stored_sent(stretch: &SentStretch) -> StoredSent {
    StoredSent {
        source: stretch.source.as_str().to_owned(),
        epoch: (stretch.epoch.number, stretch.epoch.nonce),
        boot: stretch.boot.0,
        timebase: stretch.timebase.0,
        first_seq: stretch.first_seq.0,
        last_seq: stretch.last_seq.0,
        first_up_ns: stretch.first_up.ns(),
        last_up_ns: stretch.last_up.ns(),
        wall_less_up_ns: stretch.wall_less_up_ns,
        correction: stretch.correction.map(|offset| offset.0),
    }
}

fn sent(stored: StoredSent) -> SentStretch {
    SentStretch {
        source: SourceId::new(&stored.source),
        epoch: Epoch { number: stored.epoch.0, nonce: stored.epoch.1 },
        boot: BootId(stored.boot),
        timebase: TimebaseId(stored.timebase),
        first_seq: Seq(stored.first_seq),
        last_seq: Seq(stored.last_seq),
        first_up: Uptime::from_ns(stored.first_up_ns),
        last_up: Uptime::from_ns(stored.last_up_ns),
        wall_less_up_ns: stored.wall_less_up_ns,
        correction: stored.correction.map(Offset),
    }
}

#[cfg(test)]
#[path = "clocks_tests.rs"]
mod tests;
