//! Facts about this machine: its clocks, its disk, its memory, its boot, its signals,
//! its terminal and its service manager. Knows nothing of Tidegate but the core's types.

pub mod boot;
mod carried;
pub mod chrony;
pub mod clocks;
pub mod disk;
pub mod journald;
pub mod kernel_clock;
pub mod memory;
pub mod ptp;
pub mod sampler;
pub mod signal;
pub mod step_watch;
pub mod systemd;
pub mod terminal;
pub mod timesyncd;

pub use kernel_clock::HostClock;

/// A random number from the operating system, for backoff and epoch nonces.
///
/// Falls back to the low bits of the monotonic clock where the system has no
/// randomness to give (a sandbox without `getrandom`): these numbers keep
/// things apart, they guard no secret.
pub fn draw() -> u64 {
    getrandom::u64()
        .unwrap_or_else(|_| kernel_clock::mono().ns().wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
