//! A daemon's updates, as they show in the kernel's `maxerror`: it falls at each
//! and grows by 500 us a second between them.

use super::combine::Update;
use super::kernel::{KernelClock, TICK_ERROR_US};
use crate::core::time::Uptime;

/// The daemon's updates, as the kernel's `maxerror` shows them.
#[derive(Clone, Debug, Default)]
pub struct Updates {
    last_max_error_us: Option<(i64, Uptime)>,
    last: Option<(Uptime, u64)>,
    intervals_ns: Vec<u64>,
    is_new: bool,
}

impl Updates {
    /// Takes a sample. An update of the daemon shows as a `maxerror` lower than growth
    /// explains. One tick of slack is given, because the kernel adds to it after the
    /// second's boundary.
    pub fn saw(&mut self, kernel: &KernelClock, up: Uptime) {
        let before = self.last_max_error_us.replace((kernel.max_error_us, up));
        let known = self.last;
        self.note(kernel, before, up);
        // The update that the first sample shows may be old.
        self.is_new = before.is_some() && self.last.is_some() && self.last != known;
    }

    fn note(&mut self, kernel: &KernelClock, before: Option<(i64, Uptime)>, up: Uptime) {
        let verdict = kernel.judge();
        let Some(error_ns) = verdict.error_ns else {
            self.last = None;
            return;
        };
        if let Some(age_ns) = kernel.zeroed_age_ns() {
            let at = Uptime::from_ns(up.ns().saturating_sub(age_ns));
            if self.last.is_none_or(|(last, _)| at.since_ns(last) > 1_500_000_000) {
                self.updated(at, error_ns);
            }
            return;
        }
        let is_update = before.is_none_or(|(max_error_us, since)| {
            let seconds = (up.since_ns(since) / 1_000_000_000) as i64;
            kernel.max_error_us < max_error_us + TICK_ERROR_US * (seconds - 1).max(0)
        });
        if is_update || self.last.is_none() {
            self.updated(up, error_ns);
        }
    }

    fn updated(&mut self, at: Uptime, error_ns: u64) {
        if let Some((last, _)) = self.last {
            if self.intervals_ns.len() == 4 {
                self.intervals_ns.remove(0);
            }
            self.intervals_ns.push(at.since_ns(last));
        }
        self.last = Some((at, error_ns));
    }

    /// Whether the newest sample showed an update that came after the sample before it.
    /// A kernel that gave no bound in that sample and gives one now has had an update too.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// What is known of them at `up`.
    pub fn update(&self, kernel: Option<&KernelClock>, up: Uptime) -> Update {
        let greatest = self.intervals_ns.iter().copied().max();
        Update {
            age_ns: self.last.map(|(at, _)| up.since_ns(at)),
            interval_ns: greatest.filter(|_| self.intervals_ns.len() >= 2),
            error_ns: self.last.map(|(_, error_ns)| error_ns),
            rate_ppb: kernel.map_or(0, KernelClock::rate_ppb),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After each sample, a second apart: whether it showed an update.
    fn news(samples: &[(i64, i64)]) -> Vec<bool> {
        let mut updates = Updates::default();
        let seconds = (1..).map(|second| Uptime::from_ns(second * 1_000_000_000));
        let shown = samples.iter().zip(seconds).map(|((max_error_us, est_error_us), up)| {
            let kernel = KernelClock {
                code: 0,
                status: 0x2001,
                max_error_us: *max_error_us,
                est_error_us: *est_error_us,
                offset: 0,
                freq: 0,
                tick: 10_000,
                tai: 37,
            };
            updates.saw(&kernel, up);
            updates.is_new()
        });
        shown.collect()
    }

    #[test]
    fn a_bound_that_was_there_at_the_first_sample_may_be_old_and_later_ones_are_new() {
        assert_eq!(news(&[(9_776, 100), (10_276, 100), (9_800, 100)]), [false, false, true]);
    }

    #[test]
    fn a_kernel_that_has_just_been_given_a_bound_has_had_an_update() {
        let capped = (16_000_000, 16_000_000);
        assert_eq!(news(&[capped, (9_776, 100), (10_276, 100)]), [false, true, false]);
        // timesyncd writes zero; it has grown by the time of the sample.
        assert_eq!(news(&[capped, (500, 0), (1_000, 0), (500, 0)]), [false, true, false, true]);
    }
}
