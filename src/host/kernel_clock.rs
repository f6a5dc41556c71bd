//! The kernel's clocks, and what it says about their quality.
//!
//! `adjtimex` takes the timekeeping lock, so it is asked at most once a second;
//! the two clock reads of a turn cost some 150 ns. Judging what it says is the
//! core's work (`core::clock::quality`).

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::time::{ClockId, clock_gettime};

use super::clocks::nanoseconds;
use crate::core::clock::kernel;
use crate::core::clock::{ClockReading, ClockSource, ClockState, KernelClock};
use crate::core::id::BootId;
use crate::core::reading::Arrival;
use crate::core::seam::Now;
use crate::core::time::{IngestTime, MaxError, MonoTime, Span, TimebaseId};

/// How long an answer of `adjtimex` is used.
const SAMPLE_INTERVAL: Span = Span::from_secs(1);

/// At this `esterror` nobody has ever set one.
const ESTIMATE_UNSET_US: i64 = 16_000_000;

/// `STA_NANO` of `linux/timex.h`: `offset` is in nanoseconds.
const STA_NANO: i32 = 0x2000;

/// Nanoseconds since boot, suspend included.
pub fn mono() -> MonoTime {
    MonoTime::from_ns(u64::try_from(nanoseconds(clock_gettime(ClockId::Boottime))).unwrap_or(0))
}

/// The wall clock.
pub fn wall() -> IngestTime {
    IngestTime::from_unix_ns(nanoseconds(clock_gettime(ClockId::Realtime)))
}

/// The machine's clocks, with the kernel's word on them. Shared by the driver
/// and every source.
#[derive(Debug)]
pub struct HostClock {
    boot: BootId,
    sample: Mutex<Option<Sample>>,
    said_unreadable: AtomicBool,
}

/// The newest answer of `adjtimex`, judged.
#[derive(Clone, Copy, Debug)]
struct Sample {
    taken: MonoTime,
    source: ClockSource,
    state: ClockState,
    max_error: Option<MaxError>,
}

impl HostClock {
    /// The clocks of this run of the machine.
    pub fn new(boot: BootId) -> Self {
        Self { boot, sample: Mutex::new(None), said_unreadable: AtomicBool::new(false) }
    }

    /// One look at everything.
    pub fn now(&self) -> Now {
        let mono = mono();
        let wall = wall();
        let Sample { source, state, max_error, .. } = self.sample(mono);
        let timebase = TimebaseId(1);
        Now {
            mono,
            clock: ClockReading { wall, source, state, max_error, timebase, boot: self.boot },
        }
    }

    /// The arrival of something just now.
    pub fn arrival(&self) -> Arrival {
        Arrival { ingest: wall(), uptime: mono() }
    }

    fn sample(&self, now: MonoTime) -> Sample {
        // A panic while the lock is held cannot leave a half-written sample.
        let mut cached = self.sample.lock().unwrap_or_else(PoisonError::into_inner);
        match *cached {
            Some(sample) if now.since(sample.taken) < SAMPLE_INTERVAL => sample,
            _ => *cached.insert(self.take_sample(now)),
        }
    }

    fn take_sample(&self, taken: MonoTime) -> Sample {
        match kernel_clock() {
            Ok(kernel) => {
                let (state, max_error) = kernel.judge();
                Sample { taken, source: discipline(&kernel, state), state, max_error }
            }
            Err(error) => {
                if !self.said_unreadable.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        %error,
                        "adjtimex cannot be read: the clock counts as unsynchronized"
                    );
                }
                let (source, state) = (ClockSource::Unknown, ClockState::Unsynchronized);
                Sample { taken, source, state, max_error: None }
            }
        }
    }
}

/// Who disciplines the clock, as far as the kernel's values show: phc2sys and
/// ptp4l never touch `esterror`, every NTP daemon sets it.
fn discipline(kernel: &KernelClock, state: ClockState) -> ClockSource {
    if !state.is_trusted() {
        ClockSource::Unknown
    } else if kernel.est_error_us >= ESTIMATE_UNSET_US {
        ClockSource::Ptp
    } else {
        ClockSource::Ntp
    }
}

/// What `adjtimex` says; reads only, needs no privilege.
///
/// # Errors
/// A sandbox forbids the call (`EPERM`, `ENOSYS`).
pub fn kernel_clock() -> io::Result<KernelClock> {
    let (_, timex) = adjtimex()?;
    let (max_error_us, est_error_us, offset) =
        (wide(timex.maxerror), wide(timex.esterror), wide(timex.offset));
    let unit_ns = if timex.status & STA_NANO != 0 { 1 } else { 1_000 };
    let offset_ns = offset.saturating_mul(unit_ns);
    Ok(KernelClock { max_error_us, est_error_us, offset_ns, status: timex.status })
}

/// What `adjtimex` says, in the kernel's own units; reads only, needs no
/// privilege. Takes the timekeeping lock: once a second is often enough.
///
/// # Errors
/// A sandbox forbids the call (`EPERM`, `ENOSYS`).
pub fn sample() -> io::Result<kernel::KernelClock> {
    let (code, timex) = adjtimex()?;
    Ok(kernel::KernelClock {
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

    fn kernel(est_error_us: i64) -> KernelClock {
        KernelClock { max_error_us: 500, est_error_us, offset_ns: 0, status: 0 }
    }

    #[test]
    fn monotonic_time_goes_on_and_wall_time_is_after_2020() {
        let clock = HostClock::new(BootId([7; 16]));
        let first = clock.now();
        let second = clock.now();
        assert!(second.mono >= first.mono && first.mono > MonoTime::from_ns(0));
        assert!(first.clock.wall > IngestTime::from_unix_ns(1_577_836_800_000_000_000));
        assert_eq!(first.clock.boot, BootId([7; 16]));
    }

    #[test]
    fn the_sample_is_within_what_the_kernel_can_say() {
        let kernel = sample().unwrap();
        assert!((0..=5).contains(&kernel.code), "{kernel:?}");
        assert!((0..=kernel::PHASE_LIMIT_US).contains(&kernel.max_error_us), "{kernel:?}");
        assert!((9_000..=11_000).contains(&kernel.tick), "{kernel:?}");
        // 500 ppm, in parts per million times 65,536.
        assert!(kernel.freq.abs() <= 500 << 16, "{kernel:?}");
    }

    #[test]
    fn a_bound_is_given_exactly_when_the_clock_is_trusted() {
        let reading = HostClock::new(BootId::default()).now().clock;
        assert_eq!(reading.state.is_trusted(), reading.max_error.is_some());
    }

    #[test]
    fn the_source_is_named_by_what_the_daemons_leave_behind() {
        let synchronized = ClockState::Synchronized;
        assert_eq!(discipline(&kernel(80), synchronized), ClockSource::Ntp);
        assert_eq!(discipline(&kernel(0), synchronized), ClockSource::Ntp);
        assert_eq!(discipline(&kernel(16_000_000), synchronized), ClockSource::Ptp);
        assert_eq!(discipline(&kernel(80), ClockState::Unsynchronized), ClockSource::Unknown);
    }
}
