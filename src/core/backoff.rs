//! The next delay from the number of attempts and a draw given by the caller.

use super::time::Span;

/// Exponential with full jitter: a random part of `min × 2^attempts`, bounded
/// by `max`, and never below `min`. `draw` is a random number over all of u64.
///
/// Full jitter keeps a thousand gateways from calling a restarted broker in one
/// breath.
pub fn delay(attempts: u32, min: Span, max: Span, draw: u64) -> Span {
    let factor = 1_i64 << attempts.min(30);
    let ceiling = min.ns().saturating_mul(factor).min(max.ns()).max(min.ns());
    let width = (ceiling - min.ns()) as u128 + 1;
    let jitter = (u128::from(draw) * width) >> 64;
    Span::from_ns(min.ns() + jitter as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Span = Span::from_secs(1);
    const MAX: Span = Span::from_secs(60);

    #[test]
    fn grows_to_the_maximum_and_stays() {
        assert_eq!(delay(0, MIN, MAX, u64::MAX), MIN);
        assert_eq!(delay(3, MIN, MAX, u64::MAX), Span::from_secs(8));
        assert_eq!(delay(6, MIN, MAX, u64::MAX), MAX);
        assert_eq!(delay(u32::MAX, MIN, MAX, u64::MAX), MAX);
    }

    #[test]
    fn the_draw_spreads_it_evenly_and_never_below_the_minimum() {
        assert_eq!(delay(6, MIN, MAX, 0), MIN);
        let middle = delay(6, MIN, MAX, u64::MAX / 2);
        assert_eq!(middle, Span::from_millis(30_500));
    }
}
