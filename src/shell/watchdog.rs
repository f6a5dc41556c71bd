//! Two watchdogs. One feeds systemd's watchdog, but only if the driver has turned and the
//! store thread has answered since the last time. The other watches the store thread
//! alone, whether systemd asks or not: sled, or the kernel, may hang for good on a dying
//! disk, and then only a new process helps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::Report;
use crate::host::systemd;

/// What is watched.
pub(super) struct Watched {
    pub(super) turns: Arc<AtomicU64>,
    /// Advances with each answer of the store thread, which the driver pings.
    pub(super) heartbeat: Arc<AtomicU64>,
    pub(super) reports: watch::Receiver<Arc<Report>>,
}

/// Runs for ever; returns at once when systemd does not ask for signs of life.
pub(super) async fn run(watched: Watched) {
    let Some(timeout) = systemd::watchdog_timeout() else { return };
    let mut ticks = interval(timeout / 4);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = (0, 0);
    loop {
        ticks.tick().await;
        let beats =
            (watched.turns.load(Ordering::Relaxed), watched.heartbeat.load(Ordering::Relaxed));
        if beats.0 != seen.0 && beats.1 != seen.1 {
            seen = beats;
            systemd::feed_watchdog();
            systemd::status(&line(&watched.reports.borrow()));
        }
    }
}

/// Looks within the time that an answer may take.
const LOOKS: u32 = 5;

/// Ends when the store thread has not answered for `limit` although it was asked:
/// the driver asks once a second while it turns. Time in which the whole process
/// stood still (stopped, or starved) does not count.
pub(super) async fn store_hangs(turns: Arc<AtomicU64>, heartbeat: Arc<AtomicU64>, limit: Duration) {
    let mut ticks = interval(limit / LOOKS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut patience = Patience::default();
    loop {
        ticks.tick().await;
        let turned = turns.load(Ordering::Relaxed);
        if turned == patience.turns {
            // Such a look does not count. If looks and turns come equally often, every second
            // one would be such: the next comes sooner.
            ticks.reset_after(limit / LOOKS / 4);
        }
        if patience.ends(turned, heartbeat.load(Ordering::Relaxed)) {
            return;
        }
    }
}

/// What the last looks have shown.
#[derive(Debug, Default)]
struct Patience {
    turns: u64,
    beats: u64,
    looks: u32,
}

impl Patience {
    /// One more look. True when none of the last [`LOOKS`] in which the driver
    /// turned saw an answer.
    fn ends(&mut self, turns: u64, beats: u64) -> bool {
        if beats != self.beats {
            self.looks = 0;
        } else if turns != self.turns {
            self.looks += 1;
        }
        (self.turns, self.beats) = (turns, beats);
        self.looks >= LOOKS
    }
}

/// One line for `systemctl status`.
fn line(report: &Report) -> String {
    let (uplink, waiting) = (&report.uplink.state, report.journal.readings);
    let trouble = report.degraded.first().map(|one| format!("; {}", one.detail));
    format!("uplink {uplink}, {waiting} readings wait{}", trouble.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_with_the_fifth_look_without_an_answer() {
        let mut patience = Patience::default();
        assert!((1..=4).all(|turns| !patience.ends(turns, 0)));
        assert!(patience.ends(5, 0));
    }

    #[test]
    fn an_answer_renews_it() {
        let mut patience = Patience::default();
        assert!((1..=4).all(|turns| !patience.ends(turns, 0)));
        assert!(!patience.ends(5, 1));
        assert!((6..=9).all(|turns| !patience.ends(turns, 1)));
        assert!(patience.ends(10, 1));
    }

    #[test]
    fn a_process_that_stands_still_is_not_a_store_that_hangs() {
        let mut patience = Patience::default();
        assert!((0..100).all(|_| !patience.ends(7, 0)));
    }
}
