//! The kernel's clocks, and what it says about their quality.
//!
//! `adjtimex` takes the timekeeping lock, so it is asked at most once a second;
//! the two clock reads of a turn cost some 150 ns. Judging what it says is the
//! core's work (`core::clock::quality`).

use std::io;

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::core::clock::kernel::KernelClock;
use crate::core::reading::Arrival;
use crate::core::seam::Now;
use crate::core::time::{IngestTime, MonoTime};

/// Nanoseconds since boot, suspend included.
pub fn mono() -> MonoTime {
    MonoTime::from_ns(u64::try_from(nanoseconds(clock_gettime(ClockId::Boottime))).unwrap_or(0))
}

/// The wall clock.
pub fn wall() -> IngestTime {
    IngestTime::from_unix_ns(nanoseconds(clock_gettime(ClockId::Realtime)))
}

fn nanoseconds(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// The machine's clocks. Shared by the driver and every source.
#[derive(Debug, Default)]
pub struct HostClock;

impl HostClock {
    /// The clocks of this machine.
    pub fn new() -> Self {
        Self
    }

    /// One look at everything.
    pub fn now(&self) -> Now {
        let mono = mono();
        let wall = wall();
        let raw = nanoseconds(clock_gettime(ClockId::MonotonicRaw));
        let slewed = nanoseconds(clock_gettime(ClockId::Monotonic));
        let suspended = (mono.ns() as i64 - slewed).max(0);
        Now { mono, wall, raw_ns: raw as u64, suspended_ns: suspended as u64, span_ns: 0 }
    }

    /// The arrival of something just now.
    pub fn arrival(&self) -> Arrival {
        let now = self.now();
        Arrival { ingest: now.wall, uptime: now.uptime() }
    }
}

/// What `adjtimex` says; reads only, needs no privilege.
///
/// # Errors
/// A sandbox forbids the call (`EPERM`, `ENOSYS`).
pub fn sample() -> io::Result<KernelClock> {
    let (code, timex) = adjtimex()?;
    // `c_long` has 32 bits on ARMv7.
    Ok(KernelClock {
        code,
        status: timex.status,
        max_error_us: timex.maxerror as i64,
        est_error_us: timex.esterror as i64,
        offset: timex.offset as i64,
        freq: timex.freq as i64,
        tick: timex.tick as i64,
        tai: timex.tai as i32,
    })
}

#[expect(unsafe_code, reason = "the C library's only door to the kernel's clock quality")]
fn adjtimex() -> io::Result<(i32, libc::timex)> {
    // SAFETY: `timex` is plain numbers, for which all zeros are a valid value;
    // `modes` = 0 asks the kernel to change nothing.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live, writable `timex` of the C library's own
    // layout; the call keeps no reference to it.
    let code = unsafe { libc::adjtimex(&raw mut timex) };
    if code >= 0 {
        return Ok((code, timex));
    }
    let refused = io::Error::last_os_error();
    // musl goes through `clock_adjtime`, which some sandboxes forbid while they
    // allow `adjtimex` itself. With 32-bit musl the layouts differ.
    #[cfg(not(all(target_env = "musl", target_pointer_width = "32")))]
    {
        // SAFETY: as above; here the C library's layout is the kernel's.
        let code = unsafe { libc::syscall(libc::SYS_adjtimex, &raw mut timex) };
        if code >= 0 {
            return Ok((code as i32, timex));
        }
    }
    Err(refused)
}
