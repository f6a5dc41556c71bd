//! Readings that left under an unsynchronized clock, and their correction.
//!
//! They are never sent again with another time: a name means one content. Once
//! the clock is known, one record per source and timebase says by how much their
//! times are to be shifted and how exact that is.

use super::drift;
use super::seal::Timeline;
use super::timeline::Interval;
use crate::core::id::{BootId, Epoch, Offset, Seq, SourceId};
use crate::core::reading::{Record, Stamp};
use crate::core::time::{IngestTime, MaxError, Span, TimebaseId, Uptime};

/// A stretch is not extended beyond this, so that one shift stays exact: a
/// crystal off by 100 ppm moves 0.36 s in it.
const STRETCH_MAX_NS: u64 = 3_600_000_000_000;
/// Stretches that may wait for their correction. With more, existing ones are extended all
/// the same.
const STRETCHES_MAX: usize = 256;

/// What readings that left under a bad clock are to be corrected by: add
/// `shift` to the event time of those with origin `gateway` or `substituted`
/// that carry this boot and timebase, and to the ingest time of all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    /// The source.
    pub source: SourceId,
    /// The numbering.
    pub epoch: Epoch,
    /// The first of them.
    pub first_seq: Seq,
    /// The last of them.
    pub last_seq: Seq,
    /// The boot they were stamped in.
    pub boot: BootId,
    /// The timebase they were stamped in.
    pub timebase: TimebaseId,
    /// To be added to their times.
    pub shift: Span,
    /// Bound on the error of the corrected times.
    pub max_error: MaxError,
    /// When this was found out.
    pub at: IngestTime,
}

/// Readings of one source and timebase that went out as stamped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentStretch {
    /// The source.
    pub source: SourceId,
    /// The numbering.
    pub epoch: Epoch,
    /// The boot.
    pub boot: BootId,
    /// The timebase.
    pub timebase: TimebaseId,
    /// The first of them.
    pub first_seq: Seq,
    /// The last of them.
    pub last_seq: Seq,
    /// Least uptime among them.
    pub first_up: Uptime,
    /// Greatest uptime among them.
    pub last_up: Uptime,
    /// Least and greatest difference of wall time and uptime among them.
    pub wall_less_up_ns: (i64, i64),
    /// Where their correction is in the journal, once it is.
    pub correction: Option<Offset>,
}

/// Whether a reading that leaves with this stamp will need a correction: nothing
/// bounds the error of its time.
pub fn is_unbounded(stamp: &Stamp) -> bool {
    !stamp.state.is_trusted() && stamp.max_error.is_none()
}

/// Whether the correction of one of these stretches applies, or will apply, to the
/// reading.
pub fn is_noted(sent: &[SentStretch], record: &Record) -> bool {
    sent.iter().rev().any(|stretch| stretch.holds(record))
}

/// Notes that a reading goes out as stamped.
pub fn note(sent: &mut Vec<SentStretch>, record: &Record) {
    let stamp = &record.stamp;
    let offset_ns = wall_less_up_ns(stamp);
    let is_crowded = sent.len() >= STRETCHES_MAX;
    let known = sent.iter_mut().rev().find(|stretch| {
        let spans_ns = stamp.uptime.max(stretch.last_up).since_ns(stretch.first_up);
        stretch.correction.is_none()
            && stretch.source == record.source
            && stretch.epoch == record.epoch
            && stretch.boot == stamp.boot
            && stretch.timebase == stamp.timebase
            && (is_crowded || spans_ns <= STRETCH_MAX_NS)
    });
    let Some(stretch) = known else {
        return sent.push(SentStretch {
            source: record.source.clone(),
            epoch: record.epoch,
            boot: stamp.boot,
            timebase: stamp.timebase,
            first_seq: record.seq,
            last_seq: record.seq,
            first_up: stamp.uptime,
            last_up: stamp.uptime,
            wall_less_up_ns: (offset_ns, offset_ns),
            correction: None,
        });
    };
    stretch.first_seq = stretch.first_seq.min(record.seq);
    stretch.last_seq = stretch.last_seq.max(record.seq);
    stretch.first_up = stretch.first_up.min(stamp.uptime);
    stretch.last_up = stretch.last_up.max(stamp.uptime);
    let (least, greatest) = stretch.wall_less_up_ns;
    stretch.wall_less_up_ns = (least.min(offset_ns), greatest.max(offset_ns));
}

fn wall_less_up_ns(stamp: &Stamp) -> i64 {
    stamp.ingest_time.unix_ns().wrapping_sub(stamp.uptime.ns() as i64)
}

impl SentStretch {
    fn holds(&self, record: &Record) -> bool {
        let stamp = &record.stamp;
        let (least, greatest) = self.wall_less_up_ns;
        self.source == record.source
            && self.epoch == record.epoch
            && self.boot == stamp.boot
            && self.timebase == stamp.timebase
            && (self.first_seq..=self.last_seq).contains(&record.seq)
            && (self.first_up..=self.last_up).contains(&stamp.uptime)
            && (least..=greatest).contains(&wall_less_up_ns(stamp))
    }

    /// The correction that `timeline` gives, unless its anchors contradict each
    /// other.
    pub fn corrected(&self, timeline: &Timeline, at: IngestTime) -> Option<Correction> {
        let less_up = |up: Uptime| {
            let Interval { low_ns, high_ns } = timeline.interval(up);
            (low_ns <= high_ns)
                .then(|| (low_ns - i128::from(up.ns()), high_ns - i128::from(up.ns())))
        };
        let (first, last) = (less_up(self.first_up)?, less_up(self.last_up)?);
        // Between the ends of the stretch, UTC less uptime strays by no more than the
        // crystal does.
        let length_ns = self.last_up.since_ns(self.first_up);
        let stray = i128::from(drift::grow(length_ns, timeline.stray_ppb()).div_ceil(2));
        let (least, greatest) = self.wall_less_up_ns;
        let shift = Interval {
            low_ns: first.0.min(last.0) - stray - i128::from(greatest),
            high_ns: first.1.max(last.1) + stray - i128::from(least),
        };
        Some(Correction {
            source: self.source.clone(),
            epoch: self.epoch,
            first_seq: self.first_seq,
            last_seq: self.last_seq,
            boot: self.boot,
            timebase: self.timebase,
            shift: Span::from_ns(shift.middle_ns()),
            max_error: MaxError::from_ns(shift.half_ns()),
            at,
        })
    }
}
