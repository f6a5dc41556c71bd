//! The boot ledger: what is remembered of a boot's clock after its end.
//!
//! Readings of a boot that was never synchronized can still be placed between the boots
//! around it that were. So a boot is remembered while readings of it may wait, and so is
//! the last synchronized boot before.

use super::timeline::{Anchor, Anchored, Bounded, Suspends};
use super::{ClockSource, drift};
use crate::core::id::{BootId, Offset};
use crate::core::seam::Now;
use crate::core::time::Uptime;

/// Boots that are remembered; with more, the oldest are forgotten. A gateway that restarts
/// more often than this between two synchronizations gets wider bounds.
pub const BOOTS_MAX: usize = 64;
/// Stretches of synchronized clock that one boot remembers.
const STRETCHES_MAX: usize = 20;
/// Suspends (or groups of them) that one boot remembers.
const SUSPENDS_MAX: usize = 16;

/// An uninterrupted time of synchronized clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Its beginning: the nearest anchor for what came before.
    pub first: Anchor,
    /// The anchor that bounds the time before the stretch most tightly; often from
    /// after the daemon settled.
    pub best: Anchor,
    /// Its end so far: the nearest anchor for what comes after.
    pub last: Anchor,
}

/// One boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Which.
    pub id: BootId,
    /// Its entries in the journal begin here or later.
    pub first_offset: Offset,
    /// Wall time less boot time at the last look: constant between steps.
    pub wall_offset_ns: i64,
    /// What set the wall clock at boot.
    pub set_by: ClockSource,
    /// What disciplined it when it was last synchronized.
    pub source: ClockSource,
    /// When it was synchronized, ascending.
    pub stretches: Vec<Stretch>,
    /// Its suspends, ascending.
    pub suspends: Vec<Suspends>,
    /// How its crystal runs (true seconds per second of uptime, less one, in
    /// parts per billion), once learnt.
    pub rate_ppb: Option<i64>,
    /// Its uptime when last seen.
    pub last_up: Uptime,
}

impl Boot {
    /// A boot just begun.
    pub fn begun(id: BootId, first_offset: Offset, set_by: ClockSource, now: &Now) -> Self {
        Self {
            id,
            first_offset,
            wall_offset_ns: now.wall_offset_ns(),
            set_by,
            source: ClockSource::Unknown,
            stretches: Vec::new(),
            suspends: Vec::new(),
            rate_ppb: None,
            last_up: now.uptime(),
        }
    }

    /// The clock is synchronized at this moment. `is_new` begins a stretch.
    pub fn anchor(&mut self, anchor: Anchor, is_new: bool) {
        let fresh = Stretch { first: anchor, best: anchor, last: anchor };
        let Some(stretch) = self.stretches.last_mut().filter(|_| !is_new) else {
            if self.stretches.len() == STRETCHES_MAX {
                // The second oldest goes: the first bounds everything before it.
                self.stretches.remove(1);
            }
            return self.stretches.push(fresh);
        };
        stretch.last = anchor;
        if seen_at(&anchor, stretch.first.up) < seen_at(&stretch.best, stretch.first.up) {
            stretch.best = anchor;
        }
    }

    /// The machine slept.
    pub fn suspended(&mut self, up: Uptime) {
        if self.suspends.len() == SUSPENDS_MAX {
            let second = self.suspends.remove(1);
            self.suspends[0].last = second.last;
            self.suspends[0].count += second.count;
        }
        self.suspends.push(Suspends { first: up, last: up, count: 1 });
    }

    /// Whether it was ever synchronized.
    pub fn is_anchored(&self) -> bool {
        !self.stretches.is_empty()
    }

    /// Its anchors as a timeline. `raw_ppb` bounds a crystal whose rate is not
    /// known.
    pub fn timeline(&self, raw_ppb: u64) -> Option<Anchored> {
        let mut anchors: Vec<Anchor> = Vec::with_capacity(3 * self.stretches.len());
        for anchor in self.stretches.iter().flat_map(|s| [s.first, s.best, s.last]) {
            if anchors.last() != Some(&anchor) {
                anchors.push(anchor);
            }
        }
        (!anchors.is_empty()).then(|| Anchored {
            anchors,
            suspends: self.suspends.clone(),
            rate_ppb: self.rate_ppb.unwrap_or(0),
            rate_error_ppb: if self.rate_ppb.is_some() { drift::DISCIPLINED_PPB } else { raw_ppb },
            source: self.source,
        })
    }
}

/// The bound that an anchor gives for an earlier uptime.
fn seen_at(anchor: &Anchor, up: Uptime) -> u64 {
    anchor.error_ns.saturating_add(drift::grow(anchor.up.distance_ns(up), drift::DISCIPLINED_PPB))
}

/// The bounds on UTC during `boots[at]` that its neighbours give: `None` without a
/// synchronized boot after it. Without one before it, UTC is after `floor_ns`.
pub fn bounded(boots: &[Boot], at: usize, floor_ns: i64, raw_ppb: u64) -> Option<Bounded> {
    let (before, rest) = (boots.get(..at)?, boots.get(at..)?);
    let this = rest.first()?;
    let next = rest.iter().position(Boot::is_anchored)?;
    // UTC when the next synchronized boot began.
    let start = rest[next].timeline(raw_ppb)?.interval(Uptime::from_ns(0));
    let known = before.iter().rposition(Boot::is_anchored);
    let after_ns = match known {
        Some(known) => before[known].timeline(raw_ppb)?.interval(before[known].last_up).low_ns,
        None => floor_ns.into(),
    };
    let between = &before[known.map_or(0, |known| known + 1)..];
    let sum = |boots: &[Boot]| boots.iter().map(|boot| boot.last_up.ns()).sum();
    Some(Bounded {
        after_ns: i64::try_from(after_ns).ok()?,
        uptime_before_ns: sum(between),
        before_ns: i64::try_from(start.high_ns).ok()?,
        uptime_after_ns: sum(&rest[..next]),
        rate_error_ppb: raw_ppb,
        is_wall_plausible: matches!(this.set_by, ClockSource::Rtc | ClockSource::Saved),
    })
}

/// Forgets boots that are not needed: not by an entry from `frontier` on, nor for a
/// correction (`is_awaited`), nor as a bound for such boots.
pub fn prune(boots: &mut Vec<Boot>, frontier: Offset, is_awaited: impl Fn(BootId) -> bool) {
    // The boot of the frontier's entry: the last that begins at or before it.
    let waiting = boots.iter().rposition(|boot| boot.first_offset <= frontier).unwrap_or(0);
    let awaited = boots.iter().position(|boot| is_awaited(boot.id)).unwrap_or(waiting);
    let oldest = waiting.min(awaited);
    let keep = boots[..oldest].iter().rposition(Boot::is_anchored).unwrap_or(oldest);
    let over = boots.len().saturating_sub(BOOTS_MAX);
    boots.drain(..keep.max(over));
}
