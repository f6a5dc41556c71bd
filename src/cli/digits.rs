//! Numbers as people read them.

use crate::http::words::whole;

/// With a comma between thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 reading`, `1,234 readings`.
pub(super) fn counted(number: u64, one: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {one}{plural}", grouped(number))
}

/// Bytes in the unit that people use: `12.3 MB`.
pub(super) fn bytes(number: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if number < 1_000 {
        return format!("{number} bytes");
    }
    let (mut size, mut unit) = (number as f64 / 1e3, 0);
    // What would round to a thousand is one of the next unit.
    while size >= 999.5 && unit < UNITS.len() - 1 {
        (size, unit) = (size / 1e3, unit + 1);
    }
    let decimals = usize::from(size < 99.95);
    format!("{size:.decimals$} {}", UNITS[unit])
}

/// A length of time to the second, as people say it.
pub(super) fn seconds(seconds: f64) -> String {
    whole(seconds)
}

/// How long ago something was.
pub(super) fn ago(s: f64) -> String {
    if s < 1.0 { "just now".to_owned() } else { format!("{} ago", seconds(s)) }
}

/// A rate per second: one decimal below 10.
pub(super) fn rate(per_s: f64) -> String {
    let is_whole = per_s >= 10.0 || per_s == 0.0;
    if is_whole { grouped(per_s.round() as u64) } else { format!("{per_s:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_people_read_them() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([1, 0, 1_234].map(|n| counted(n, "reading"))[2], "1,234 readings");
        assert_eq!(counted(1, "reading"), "1 reading");
        let sizes =
            [0, 999, 1_000, 99_949, 99_950, 999_499, 999_500, 12_345_678, 5_000_000_000_000];
        let said = [
            "0 bytes",
            "999 bytes",
            "1.0 kB",
            "99.9 kB",
            "100 kB",
            "999 kB",
            "1.0 MB",
            "12.3 MB",
            "5.0 TB",
        ];
        assert_eq!(sizes.map(bytes), said);
    }
}
