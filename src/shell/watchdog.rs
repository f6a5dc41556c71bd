//! Feeds systemd's watchdog, and only with the truth: the driver has turned and
//! the store thread has answered since the last time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// One line for `systemctl status`.
fn line(report: &Report) -> String {
    let (uplink, waiting) = (&report.uplink.state, report.journal.readings);
    let trouble = report.degraded.first().map(|one| format!("; {}", one.detail));
    format!("uplink {uplink}, {waiting} readings wait{}", trouble.unwrap_or_default())
}
