//! Steps, leap seconds and suspends, told apart by comparing clocks.
//!
//! Wall time less boot time stands still to a nanosecond between steps, even
//! while a daemon slews by hundreds of ppm; boot time less monotonic time grows
//! only in suspend. So two looks at the clocks show what happened between them.
//! A pause of a whole virtual machine stops all of them together and cannot be
//! seen here; the next synchronization shows it as a step.

use super::kernel::Leap;
use crate::core::seam::Now;
use crate::core::time::Span;

/// A smaller step cannot be told from the noise of reading two clocks.
pub const STEP_MIN_NS: i64 = 1_000_000;
/// A look that took longer than this is noisy.
const NOISY_SPAN_NS: u64 = 50_000;
/// Looks are taken once a second; this many missed ones are a stall.
const STALL_LOOKS: u64 = 5;
/// The length of a leap second.
const SECOND_NS: i64 = 1_000_000_000;

/// What happened between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The machine slept.
    Suspend(Span),
    /// The wall clock jumped; positive: forward.
    Step(Span),
    /// A leap second: negative when one was inserted.
    Leap(Span),
    /// No look was taken for this long.
    Stall(Span),
}

/// Compares two looks, `poll_ns` apart by plan. `leap_before` and `leap_now` are what the
/// kernel said of leap seconds at each.
pub fn changes(
    before: &Now,
    now: &Now,
    (leap_before, leap_now): (Leap, Leap),
    poll_ns: u64,
) -> Vec<Change> {
    let mut found = Vec::new();
    let suspended_ns = now.suspended_ns.wrapping_sub(before.suspended_ns) as i64;
    if suspended_ns.abs() >= threshold(before, now) {
        found.push(Change::Suspend(Span::from_ns(suspended_ns)));
    }
    if let Some(by) = step_between(before.wall_offset_ns(), before.span_ns, now) {
        let is_second = (by.ns().unsigned_abs() as i64 - SECOND_NS).abs() < STEP_MIN_NS;
        let is_announced = matches!(leap_now, Leap::InProgress | Leap::JustDone)
            || matches!(leap_before, Leap::InsertPending | Leap::DeletePending);
        found.push(if is_second && is_announced { Change::Leap(by) } else { Change::Step(by) });
    }
    let elapsed_ns = now.raw_ns.saturating_sub(before.raw_ns);
    if elapsed_ns > STALL_LOOKS * poll_ns {
        found.push(Change::Stall(Span::from_ns(elapsed_ns as i64)));
    }
    found
}

/// The step that `now` shows against a known difference of wall and boot time.
pub fn step_between(wall_offset_ns: i64, span_ns: u64, now: &Now) -> Option<Span> {
    let by_ns = now.wall_offset_ns().saturating_sub(wall_offset_ns);
    let threshold = noise(span_ns).max(noise(now.span_ns)).max(STEP_MIN_NS);
    (by_ns.saturating_abs() >= threshold).then_some(Span::from_ns(by_ns))
}

/// How fast the clock ran against its crystal between two looks, in parts per
/// million.
pub fn slew_ppm(before: &Now, now: &Now) -> Option<f64> {
    let elapsed_ns = now.raw_ns.checked_sub(before.raw_ns).filter(|ns| *ns > 0)?;
    let monotonic = |look: &Now| look.mono.ns().wrapping_sub(look.suspended_ns);
    let slewed_ns = monotonic(now).wrapping_sub(monotonic(before)) as i64;
    Some((slewed_ns - elapsed_ns as i64) as f64 / elapsed_ns as f64 * 1e6)
}

fn threshold(before: &Now, now: &Now) -> i64 {
    noise(before.span_ns).max(noise(now.span_ns)).max(STEP_MIN_NS)
}

/// The step that a noisy look may show although there was none, in nanoseconds.
fn noise(span_ns: u64) -> i64 {
    if span_ns <= NOISY_SPAN_NS { 0 } else { span_ns.saturating_mul(4).min(i64::MAX as u64) as i64 }
}
