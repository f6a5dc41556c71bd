//! The kernel's clocks, and what it says about their quality.
//!
//! `adjtimex` takes the timekeeping lock, so it is asked at most once a second;
//! the two clock reads of a turn cost some 150 ns. Judging what it says is the
//! core's work (`core::clock::quality`).

use std::io;

use rustix::time::{ClockId, clock_gettime};

use super::clocks::{Look, nanoseconds};
use crate::core::clock::kernel::KernelClock;
use crate::core::reading::Arrival;
use crate::core::seam::Now;
use crate::core::time::{IngestTime, MonoTime, Span};

/// Nanoseconds since boot, suspend included.
pub fn mono() -> MonoTime {
    MonoTime::from_ns(u64::try_from(nanoseconds(clock_gettime(ClockId::Boottime))).unwrap_or(0))
}

/// The wall clock.
pub fn wall() -> IngestTime {
    IngestTime::from_unix_ns(nanoseconds(clock_gettime(ClockId::Realtime)))
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
        let look = Look::take();
        Now {
            mono: MonoTime::from_ns(look.boot_ns),
            wall: IngestTime::from_unix_ns(look.real_ns),
            raw_ns: look.raw_ns,
            suspended_ns: look.boot_ns - look.mono_ns,
            span_ns: look.span_ns,
        }
    }

    /// The arrival of something just now.
    pub fn arrival(&self) -> Arrival {
        let now = self.now();
        Arrival { ingest: now.wall, uptime: now.uptime(), half_round_trip: Span::ZERO }
    }
}

/// What `adjtimex` says; reads only, needs no privilege.
///
/// # Errors
/// A sandbox forbids the call (`EPERM`, `ENOSYS`).
pub fn sample() -> io::Result<KernelClock> {
    let (code, timex) = adjtimex()?;
    Ok(KernelClock {
        code,
        status: timex.status,
        max_error_us: wide(timex.maxerror),
        est_error_us: wide(timex.esterror),
        offset: wide(timex.offset),
        freq: wide(timex.freq),
        tick: wide(timex.tick),
        tai: timex.tai,
    })
}

/// A `c_long`, which has 32 bits on ARMv7.
fn wide(value: impl Into<i64>) -> i64 {
    value.into()
}

/// The return code (`TIME_OK` …) and the values.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::clock::kernel::PHASE_LIMIT_US;

    #[test]
    fn monotonic_time_goes_on_and_wall_time_is_after_2020() {
        let clock = HostClock::new();
        let first = clock.now();
        let second = clock.now();
        assert!(second.mono >= first.mono && first.mono > MonoTime::from_ns(0));
        assert!(first.wall > IngestTime::from_unix_ns(1_577_836_800_000_000_000));
    }

    #[test]
    fn the_sample_is_within_what_the_kernel_can_say() {
        let kernel = sample().unwrap();
        assert!((0..=5).contains(&kernel.code), "{kernel:?}");
        assert!((0..=PHASE_LIMIT_US).contains(&kernel.max_error_us), "{kernel:?}");
        assert!((9_000..=11_000).contains(&kernel.tick), "{kernel:?}");
        // 500 ppm, in parts per million times 65,536.
        assert!(kernel.freq.abs() <= 500 << 16, "{kernel:?}");
    }
}
