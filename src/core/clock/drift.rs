//! How an error bound grows while the clock is not corrected.

/// Drift of a disciplined oscillator since its last correction: 15 ppm, the PHI
/// of RFC 5905.
pub const DISCIPLINED_PPB: u64 = 15_000;

/// `rate_ppb` parts per billion of `elapsed_ns`, rounded up.
pub const fn grow(elapsed_ns: u64, rate_ppb: u64) -> u64 {
    let product = elapsed_ns as u128 * rate_ppb as u128;
    let grown = product.div_ceil(1_000_000_000);
    if grown > u64::MAX as u128 { u64::MAX } else { grown as u64 }
}
