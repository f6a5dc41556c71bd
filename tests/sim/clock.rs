//! The machine's clocks: a crystal that drifts, a wall clock that is steered,
//! stepped or starts in 1970, a daemon that reports how wrong it may be, suspend
//! and restarts. The truth is the world's own time.

use std::collections::BTreeMap;

use tidegate::core::clock::kernel::KernelClock;
use tidegate::core::clock::{BootFacts, ClockFacts};
use tidegate::core::id::BootId;
use tidegate::core::reading::Arrival;
use tidegate::core::seam::Now;
use tidegate::core::time::{IngestTime, MonoTime, Span};

use crate::rng::Rng;

/// UTC at the world's time zero, in nanoseconds since the UNIX epoch.
pub const EPOCH_NS: i64 = 1_796_000_000_000_000_000;
/// The daemon asks its server so often.
const POLL_NS: i64 = 16_000_000_000;
/// What a network may do to one answer.
const JITTER_NS: u64 = 4_000_000;
/// Beyond this the daemon steps instead of slewing.
const STEP_NS: i64 = 100_000_000;
const SLEW_PPB: i64 = 150_000;
const PHASE_LIMIT_US: i64 = 16_000_000;

#[derive(Clone, Debug)]
pub struct Machine {
    boots: u8,
    /// World time at which everything below holds, in ns.
    at_ns: i64,
    wall_ns: i64,
    raw_ns: u64,
    boottime_ns: i64,
    suspended_ns: u64,
    /// The crystal's error; constant within a boot.
    drift_ppb: i64,
    /// What the daemon has learnt of it, and a slew until a world time.
    steer_ppb: i64,
    slew_ppb: i64,
    slew_until_ns: i64,
    /// The network to the time server is there.
    pub has_server: bool,
    next_poll_ns: i64,
    /// Kernel: `maxerror` at the last update, and when that was.
    bound: Option<(i64, i64)>,
    /// What the battery-backed clock said at the boot, and the world's time then.
    rtc_ns: Option<i64>,
    booted_ns: i64,
    saved_ns: Option<i64>,
    /// A server that is this wrong and does not say so.
    pub lie_ns: i64,
    /// The truth about every arrival.
    pub arrivals: BTreeMap<([u8; 16], u64), i64>,
}

impl Machine {
    pub fn new(rng: &mut Rng) -> Self {
        let mut machine = Self {
            boots: 0,
            at_ns: 0,
            wall_ns: 0,
            raw_ns: 0,
            boottime_ns: 0,
            suspended_ns: 0,
            drift_ppb: 0,
            steer_ppb: 0,
            slew_ppb: 0,
            slew_until_ns: 0,
            has_server: false,
            next_poll_ns: 0,
            bound: None,
            rtc_ns: None,
            booted_ns: 0,
            saved_ns: None,
            lie_ns: 0,
            arrivals: BTreeMap::new(),
        };
        machine.boot(0, rng);
        machine
    }

    /// The machine starts: without a clock, with a saved one, or by a battery.
    pub fn boot(&mut self, now_us: u64, rng: &mut Rng) {
        self.advance(now_us);
        self.boots += 1;
        let truth_ns = EPOCH_NS + self.at_ns;
        (self.rtc_ns, self.saved_ns) = (None, None);
        self.booted_ns = self.at_ns;
        let start_ns = match rng.between(0, 3) {
            0 => 20_000_000_000,
            1 => {
                let saved = truth_ns - rng.between(0, 864_000_000_000_000) as i64;
                self.saved_ns = Some(saved);
                saved
            }
            _ => {
                let kept = truth_ns + rng.between(0, 1_000_000_000) as i64;
                self.rtc_ns = Some(kept);
                kept
            }
        };
        self.wall_ns = start_ns;
        (self.raw_ns, self.boottime_ns, self.suspended_ns) = (0, 0, 0);
        self.drift_ppb = rng.between(0, 180_000) as i64 - 90_000;
        (self.steer_ppb, self.slew_ppb, self.slew_until_ns) = (0, 0, 0);
        self.bound = None;
        self.next_poll_ns = self.at_ns + rng.between(1_000_000_000, 20_000_000_000) as i64;
    }

    pub fn facts_of_boot(&self) -> BootFacts {
        let time = |ns: Option<i64>| ns.map(IngestTime::from_unix_ns);
        // The battery-backed clock runs on, whoever sets the other; it is read to the
        // second.
        let up_ns = self.at_ns - self.booted_ns;
        let rtc_ns = self.rtc_ns.map(|ns| (ns + up_ns) / 1_000_000_000 * 1_000_000_000);
        BootFacts {
            boot: self.id(),
            is_set_by_rtc: self.rtc_ns.is_some(),
            rtc: time(rtc_ns),
            saved: time(self.saved_ns),
        }
    }

    pub fn id(&self) -> BootId {
        BootId([self.boots; 16])
    }

    pub fn now(&mut self, now_us: u64) -> Now {
        self.advance(now_us);
        Now {
            mono: MonoTime::from_ns(self.boottime_ns as u64),
            wall: IngestTime::from_unix_ns(self.wall_ns),
            raw_ns: self.raw_ns,
            suspended_ns: self.suspended_ns,
            span_ns: 500,
        }
    }

    pub fn arrival(&mut self, now_us: u64) -> Arrival {
        let now = self.now(now_us);
        let truth_ns = EPOCH_NS + self.at_ns;
        self.arrivals.insert((self.id().0, now.uptime().ns()), truth_ns);
        Arrival { ingest: now.wall, uptime: now.uptime(), half_round_trip: Span::ZERO }
    }

    pub fn facts(&mut self, now_us: u64) -> ClockFacts {
        self.advance(now_us);
        let is_slewing = self.slew_until_ns > self.at_ns;
        let steer_ppb = self.steer_ppb + if is_slewing { self.slew_ppb } else { 0 };
        let max_error_us = self.bound.map_or(PHASE_LIMIT_US, |(bound_ns, at_ns)| {
            let age_s = (self.at_ns - at_ns) / 1_000_000_000;
            (bound_ns / 1_000 + 1 + 500 * age_s).min(PHASE_LIMIT_US)
        });
        let is_known = max_error_us < PHASE_LIMIT_US;
        let kernel = KernelClock {
            code: if is_known { 0 } else { 5 },
            status: if is_known { 0x2000 } else { 0x2040 },
            max_error_us,
            est_error_us: if is_known { 100 } else { PHASE_LIMIT_US },
            offset: 0,
            freq: steer_ppb * 65_536 / 1_000,
            tick: 10_000,
            tai: 0,
        };
        ClockFacts { kernel: Some(kernel), has_daemon: true, ..ClockFacts::default() }
    }

    /// A hand on the clock: the kernel forgets who vouched for it.
    pub fn set(&mut self, now_us: u64, by_ns: i64) {
        self.advance(now_us);
        self.wall_ns += by_ns;
        self.bound = None;
        self.slew_until_ns = 0;
    }

    /// The machine slept until now: the crystal did not count.
    pub fn slept(&mut self, until_us: u64) {
        let slept_ns = until_us as i64 * 1_000 - self.at_ns;
        self.at_ns += slept_ns;
        self.wall_ns += slept_ns;
        self.boottime_ns += slept_ns;
        self.suspended_ns += slept_ns as u64;
        self.next_poll_ns = self.next_poll_ns.max(self.at_ns + 500_000_000);
    }

    fn advance(&mut self, now_us: u64) {
        let to_ns = now_us as i64 * 1_000;
        while self.at_ns < to_ns {
            let mut until = to_ns;
            if self.slew_until_ns > self.at_ns {
                until = until.min(self.slew_until_ns);
            }
            if self.has_server && self.next_poll_ns > self.at_ns {
                until = until.min(self.next_poll_ns);
            }
            self.run(until - self.at_ns);
            if self.has_server && self.next_poll_ns <= self.at_ns {
                self.poll();
            }
        }
    }

    fn run(&mut self, true_ns: i64) {
        let scaled = |ns: i64, ppb: i64| (ns as i128 * ppb as i128 / 1_000_000_000) as i64;
        let raw_ns = true_ns + scaled(true_ns, self.drift_ppb);
        let is_slewing = self.slew_until_ns > self.at_ns;
        let steer_ppb = self.steer_ppb + if is_slewing { self.slew_ppb } else { 0 };
        let steered_ns = raw_ns + scaled(raw_ns, steer_ppb);
        self.raw_ns += raw_ns as u64;
        self.wall_ns += steered_ns;
        self.boottime_ns += steered_ns;
        // Slewing moves the monotonic clock with the boot clock: their
        // difference is suspend alone.
        self.at_ns += true_ns;
    }

    /// The daemon has an answer of its server.
    fn poll(&mut self) {
        self.next_poll_ns = self.at_ns + POLL_NS;
        // A cheap hash of the time: what the network did to this answer.
        let mixed = (self.at_ns as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let jitter_ns = (mixed % (2 * JITTER_NS)) as i64 - JITTER_NS as i64;
        let truth_ns = EPOCH_NS + self.at_ns + self.lie_ns;
        let off_ns = self.wall_ns - truth_ns + jitter_ns;
        self.steer_ppb = -self.drift_ppb + (mixed % 8_000) as i64 - 4_000;
        if off_ns.abs() > STEP_NS {
            self.wall_ns -= off_ns;
            self.slew_until_ns = 0;
            self.bound = Some((JITTER_NS as i64, self.at_ns));
            return;
        }
        self.slew_ppb = if off_ns > 0 { -SLEW_PPB } else { SLEW_PPB };
        self.slew_until_ns =
            self.at_ns + (i128::from(off_ns.abs()) * 1_000_000_000 / i128::from(SLEW_PPB)) as i64;
        self.bound = Some((off_ns.abs() + JITTER_NS as i64, self.at_ns));
    }
}
