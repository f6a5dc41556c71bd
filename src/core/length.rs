//! Lengths of time as people read them.
//!
//! There are two ways. [`bound_text`] is for what somebody may write into the
//! configuration; [`length_text`] is for logs and for the status, where two units
//! keep columns alike and a length that shrinks does not change its look.

use super::time::Span;

const MS_NS: u64 = 1_000_000;

/// As the configuration takes it: "500ms", "17.2s", "1m", "2h 5m", "3d 4h". No unit
/// stands there with a zero, and a length that is not zero is at least "1ms".
pub fn bound_text(span: Span) -> String {
    let ms = span.ns().unsigned_abs().div_ceil(MS_NS);
    let pair = |great: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{great}{unit}"),
        _ => format!("{great}{unit} {small}{small_unit}"),
    };
    let length = match ms {
        0..60_000 => below_a_minute(ms),
        60_000..3_600_000 => pair(ms / 60_000, "m", ms / 1_000 % 60, "s"),
        3_600_000..86_400_000 => pair(ms / 3_600_000, "h", ms / 60_000 % 60, "m"),
        _ => pair(ms / 86_400_000, "d", ms / 3_600_000 % 24, "h"),
    };
    signed(span, length)
}

/// By its two greatest units, to the nearest millisecond: "250ms", "45s", "1m 30s",
/// "2h 0m", "3d 4h".
pub fn length_text(span: Span) -> String {
    let ms = (span.ns().unsigned_abs() + MS_NS / 2) / MS_NS;
    let s = ms / 1_000;
    let length = match s {
        0..60 => below_a_minute(ms),
        60..3_600 => format!("{}m {}s", s / 60, s % 60),
        3_600..86_400 => format!("{}h {}m", s / 3_600, s / 60 % 60),
        _ => format!("{}d {}h", s / 86_400, s / 3_600 % 24),
    };
    signed(span, length)
}

fn below_a_minute(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms}ms"),
        _ if ms.is_multiple_of(1_000) => format!("{}s", ms / 1_000),
        _ => format!("{:.1}s", ms as f64 / 1e3),
    }
}

fn signed(span: Span, length: String) -> String {
    // Too short to be seen has no sign either.
    if span < Span::ZERO && length != "0ms" { format!("-{length}") } else { length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_has_no_zero_in_it_and_a_length_has_two_units() {
        for (span, as_bound, as_length) in [
            (Span::ZERO, "0ms", "0ms"),
            (Span::from_ns(1), "1ms", "0ms"),
            (Span::from_ns(-1), "-1ms", "0ms"),
            (Span::from_millis(250), "250ms", "250ms"),
            (Span::from_secs(45), "45s", "45s"),
            (Span::from_millis(17_240), "17.2s", "17.2s"),
            (Span::from_secs(60), "1m", "1m 0s"),
            (Span::from_secs(-90), "-1m 30s", "-1m 30s"),
            (Span::from_secs(7_200), "2h", "2h 0m"),
            (Span::from_secs(7_500), "2h 5m", "2h 5m"),
            (Span::from_secs(86_400), "1d", "1d 0h"),
            (Span::from_secs(100 * 3_600), "4d 4h", "4d 4h"),
            (Span::from_ns(i64::MIN), "-106751d 23h", "-106751d 23h"),
        ] {
            assert_eq!(
                (bound_text(span).as_str(), length_text(span).as_str()),
                (as_bound, as_length)
            );
        }
    }
}
