//! The four clocks of the machine, read together.
//!
//! `CLOCK_REALTIME` is an opinion about UTC: it steps and is slewed.
//! `CLOCK_MONOTONIC` is slewed alike and stands still in suspend,
//! `CLOCK_BOOTTIME` is the same with suspend counted, and `CLOCK_MONOTONIC_RAW`
//! is the crystal alone. What their differences mean, the core decides.
//!
//! A look costs some 400 ns. A preemption in its midst would look like a step,
//! so each look measures its own length and one that took too long is repeated.

use std::fmt;
use std::io;
use std::time::Duration;

use rustix::time::{
    ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic, clock_settime,
};

use crate::core::time::IngestTime;

/// A look of at most this length is good enough at once.
pub const SPAN_GOOD_NS: u64 = 50_000;
/// Looks after which the best one is taken if its span is at most [`SPAN_GOOD_NS`].
const TRIES_FEW: u32 = 5;
/// Looks after which the best one is taken whatever its span.
const TRIES_MAX: u32 = 20;
/// In the self-test the clocks must have moved after this.
const TEST_PAUSE: Duration = Duration::from_millis(20);

/// One look at the clocks, all in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// `CLOCK_REALTIME`: since the UNIX epoch.
    pub real_ns: i64,
    /// `CLOCK_MONOTONIC`: since boot, suspend excluded, slewed. Read before and
    /// after the others, this is the middle, and never above `boot_ns`.
    pub mono_ns: u64,
    /// `CLOCK_MONOTONIC_RAW`: since boot, suspend excluded, never slewed.
    pub raw_ns: u64,
    /// `CLOCK_BOOTTIME`: since boot, suspend included, slewed.
    pub boot_ns: u64,
    /// How long the look took by `CLOCK_MONOTONIC`: the others were read within
    /// it.
    pub span_ns: u64,
}

impl Look {
    /// Looks, again when it took more than 50 µs: then the shortest of five
    /// tries counts, or of twenty when none of the five was shorter.
    pub fn take() -> Self {
        shortest(once)
    }

    /// Whether even the best try took too long; differences of this look and
    /// another are uncertain by their spans.
    pub const fn is_noisy(&self) -> bool {
        self.span_ns > SPAN_GOOD_NS
    }
}

fn once() -> Look {
    let before_ns = since_boot(ClockId::Monotonic);
    let real_ns = nanoseconds(clock_gettime(ClockId::Realtime));
    let raw_ns = since_boot(ClockId::MonotonicRaw);
    let boot_ns = since_boot(ClockId::Boottime);
    let span_ns = since_boot(ClockId::Monotonic).saturating_sub(before_ns);
    let mono_ns = (before_ns + span_ns / 2).min(boot_ns);
    Look { real_ns, mono_ns, raw_ns, boot_ns, span_ns }
}

fn shortest(mut look: impl FnMut() -> Look) -> Look {
    let mut best = look();
    if !best.is_noisy() {
        return best;
    }
    for tries in 1..TRIES_MAX {
        if tries >= TRIES_FEW && !best.is_noisy() {
            break;
        }
        let next = look();
        if next.span_ns < best.span_ns {
            best = next;
        }
    }
    best
}

fn since_boot(id: ClockId) -> u64 {
    u64::try_from(nanoseconds(clock_gettime(id))).unwrap_or(0)
}

/// A `timespec` as nanoseconds, saturating at 292 years.
pub(super) fn nanoseconds(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// A clock of this machine that cannot be used: no reading may be stamped.
#[derive(Debug)]
pub struct ClockFailure {
    clock: &'static str,
    fault: Fault,
}

#[derive(Debug)]
enum Fault {
    Unreadable(io::Error),
    Frozen,
}

impl fmt::Display for ClockFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fault {
            Fault::Unreadable(error) => write!(f, "{} cannot be read: {error}", self.clock)?,
            Fault::Frozen => write!(f, "{} stands still", self.clock)?,
        }
        write!(f, "; no reading can be stamped. On 32-bit machines a container does this whose ")?;
        write!(f, "host has libseccomp before 2.4.2 or Docker before 19.03.9: update the host")
    }
}

impl std::error::Error for ClockFailure {}

/// Each clock with the name that the documentation of the system gives it.
const CLOCKS: [(ClockId, &str); 4] = [
    (ClockId::Realtime, "CLOCK_REALTIME"),
    (ClockId::Monotonic, "CLOCK_MONOTONIC"),
    (ClockId::MonotonicRaw, "CLOCK_MONOTONIC_RAW"),
    (ClockId::Boottime, "CLOCK_BOOTTIME"),
];

/// Whether the clocks can be read and move, once at the start; takes 20 ms.
/// After it succeeded, [`Look::take`] and the other readers cannot fail.
///
/// # Errors
/// A clock cannot be read, or `CLOCK_REALTIME` or `CLOCK_MONOTONIC_RAW` stands
/// still (an old sandbox on a 32-bit machine shows 1970 for ever).
pub fn self_test() -> Result<(), ClockFailure> {
    let before = read_all(read)?;
    std::thread::sleep(TEST_PAUSE);
    have_moved(before, read_all(read)?)
}

fn read(id: ClockId) -> io::Result<i64> {
    Ok(nanoseconds(clock_gettime_dynamic(DynamicClockId::Known(id))?))
}

/// All of [`CLOCKS`], in their order.
fn read_all(read: impl Fn(ClockId) -> io::Result<i64>) -> Result<[i64; 4], ClockFailure> {
    let mut found = [0; 4];
    for (value, (id, clock)) in found.iter_mut().zip(CLOCKS) {
        *value =
            read(id).map_err(|error| ClockFailure { clock, fault: Fault::Unreadable(error) })?;
    }
    Ok(found)
}

fn have_moved(before: [i64; 4], after: [i64; 4]) -> Result<(), ClockFailure> {
    for at in [0, 2] {
        // Wall time may be stepped back meanwhile: that is movement too.
        if before[at] == after[at] {
            return Err(ClockFailure { clock: CLOCKS[at].1, fault: Fault::Frozen });
        }
    }
    Ok(())
}

/// Sets the wall clock of the whole machine, for an operator who asked for it.
///
/// # Errors
/// The process lacks `CAP_SYS_TIME`, or the time is before boot.
pub fn set_wall(to: IngestTime) -> io::Result<()> {
    let (seconds, nanoseconds) =
        (to.unix_ns().div_euclid(1_000_000_000), to.unix_ns().rem_euclid(1_000_000_000));
    clock_settime(ClockId::Realtime, Timespec { tv_sec: seconds, tv_nsec: nanoseconds })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(span_ns: u64) -> Look {
        Look { real_ns: 0, mono_ns: 0, raw_ns: 0, boot_ns: 0, span_ns }
    }

    /// The span taken and the number of looks, when they take so long.
    fn chosen(spans: &[u64]) -> (u64, usize) {
        let mut tries = 0;
        let best = shortest(|| {
            tries += 1;
            look(spans.get(tries - 1).copied().unwrap_or(90_000))
        });
        (best.span_ns, tries)
    }

    #[test]
    fn a_short_look_is_taken_at_once_and_a_long_one_tried_again() {
        assert_eq!(chosen(&[50_000, 1]), (50_000, 1));
        assert_eq!(chosen(&[50_001, 700, 30_000, 600, 800, 1]), (600, 5));
        assert_eq!(chosen(&[99_000, 99_000, 99_000, 99_000, 99_000, 200, 1]), (200, 6));
        assert_eq!(chosen(&[60_000]), (60_000, 20));
        assert!(look(50_001).is_noisy() && !look(50_000).is_noisy());
    }

    #[test]
    fn the_clocks_of_a_look_belong_together() {
        let first = Look::take();
        let second = Look::take();
        assert!(first.boot_ns >= first.mono_ns);
        assert!(second.boot_ns >= first.boot_ns && second.raw_ns >= first.raw_ns);
        assert!(second.mono_ns + second.span_ns >= first.mono_ns);
        assert!(first.real_ns > 1_577_836_800_000_000_000, "after 2020");
    }

    #[test]
    fn the_self_test_passes_here_and_names_the_clock_that_fails() {
        self_test().unwrap();
        let frozen = have_moved([5, 1, 7, 1], [6, 1, 7, 1]).unwrap_err();
        assert!(frozen.to_string().starts_with("CLOCK_MONOTONIC_RAW stands still; no reading"));
        let stopped = have_moved([5, 1, 7, 1], [5, 2, 8, 2]).unwrap_err();
        assert!(stopped.to_string().starts_with("CLOCK_REALTIME stands still"));
        assert!(have_moved([5, 1, 7, 1], [4, 1, 8, 1]).is_ok());
        let forbidden = read_all(|id| match id {
            ClockId::Boottime => Err(io::Error::from_raw_os_error(libc::EPERM)),
            _ => Ok(1),
        });
        let said = forbidden.unwrap_err().to_string();
        assert!(said.starts_with("CLOCK_BOOTTIME cannot be read: Operation not permitted"));
    }
}
