//! Columns of a frame: numbers as varints, equal neighbours as runs, decimal
//! fractions as integers.
//!
//! Plant data repeats itself: polls are regular, values have few decimals, facts about the
//! clock stay the same for hours. Each column uses whichever of its forms is shorter for
//! its numbers; the first byte says which.

use std::sync::Arc;

const PLAIN: u8 = 0;
const RUNS: u8 = 1;
/// Stands in place of a count of decimals where each number takes 8 bytes.
const BITS: u8 = 255;
const POWERS: [f64; 7] = [1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0];
/// Bound on scaled numbers: well below 2^53, up to where `f64` has every integer.
const SCALED_MAX: f64 = 1_125_899_906_842_624.0;

pub(super) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub(super) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Bytes that the varint of `value` takes.
pub(super) const fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Numbers, as runs of equal ones when that is shorter. Their count is not
/// stored.
pub(super) fn put_column(out: &mut Vec<u8>, values: &[u64]) {
    let Some(first) = values.first() else { return };
    let runs = 1 + values.windows(2).filter(|pair| pair[0] != pair[1]).count();
    if runs * 2 > values.len() {
        out.push(PLAIN);
        values.iter().for_each(|value| put_varint(out, *value));
        return;
    }
    out.push(RUNS);
    let (mut current, mut length) = (*first, 0);
    for value in values {
        if *value != current {
            put_varint(out, current);
            put_varint(out, length);
            (current, length) = (*value, 0);
        }
        length += 1;
    }
    put_varint(out, current);
    put_varint(out, length);
}

/// Text; one that equals its predecessor takes one byte.
pub(super) fn put_texts<'a>(out: &mut Vec<u8>, texts: impl Iterator<Item = &'a str>) {
    let mut previous: Option<&str> = None;
    for text in texts {
        if previous == Some(text) {
            out.push(0);
        } else {
            put_varint(out, text.len() as u64 + 1);
            out.extend_from_slice(text.as_bytes());
            previous = Some(text);
        }
    }
}

/// Floating-point numbers, every bit of them. Those with few decimals are
/// stored as integers; the others, among them NaN and -0.0, as they are.
pub(super) fn put_floats(out: &mut Vec<u8>, values: &[f64], scratch: &mut Vec<u64>) {
    if values.is_empty() {
        return;
    }
    let Some(decimals) = common_decimals(values) else {
        out.push(BITS);
        values.iter().for_each(|value| out.extend_from_slice(&value.to_bits().to_le_bytes()));
        return;
    };
    out.push(decimals);
    scratch.clear();
    scratch.extend(values.iter().map(|value| u64::from(scaled(*value, decimals).is_none())));
    put_column(out, scratch);
    scratch.clear();
    scratch.extend(values.iter().filter_map(|value| scaled(*value, decimals)).map(zigzag));
    put_column(out, scratch);
    for value in values.iter().filter(|value| scaled(**value, decimals).is_none()) {
        out.extend_from_slice(&value.to_bits().to_le_bytes());
    }
}

/// Decimals that fit most of the values, judged by a sample.
fn common_decimals(values: &[f64]) -> Option<u8> {
    let stride = values.len().div_ceil(16);
    let (mut decimals, mut found, mut looked_at) = (0, 0, 0);
    for value in values.iter().step_by(stride) {
        looked_at += 1;
        if let Some(needed) = (decimals..POWERS.len() as u8).find(|d| scaled(*value, *d).is_some())
        {
            decimals = needed;
            found += 1;
        }
    }
    (found * 2 > looked_at).then_some(decimals)
}

/// `value * 10^decimals` when it is an integer that gives back the same bits.
fn scaled(value: f64, decimals: u8) -> Option<i64> {
    let power = POWERS[usize::from(decimals)];
    let product = value * power;
    if product.is_nan() || product.abs() >= SCALED_MAX {
        return None;
    }
    let integer = (product + 0.5_f64.copysign(product)) as i64;
    ((integer as f64 / power).to_bits() == value.to_bits()).then_some(integer)
}

/// Reads what the functions above wrote. Gives `None` for bytes that they cannot have
/// written; never panics.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(head)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*byte)
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                return None;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(super) fn small<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.varint()?).ok()
    }

    /// `count` numbers into `out`, replacing what was there.
    pub(super) fn column(&mut self, count: usize, out: &mut Vec<u64>) -> Option<()> {
        out.clear();
        if count == 0 {
            return Some(());
        }
        match self.byte()? {
            PLAIN => {
                for _ in 0..count {
                    out.push(self.varint()?);
                }
            }
            RUNS => {
                while out.len() < count {
                    let value = self.varint()?;
                    let length: usize = self.small()?;
                    if length == 0 || length > count - out.len() {
                        return None;
                    }
                    out.resize(out.len() + length, value);
                }
            }
            _ => return None,
        }
        Some(())
    }

    pub(super) fn texts(&mut self, count: usize) -> Option<Vec<Arc<str>>> {
        let mut texts: Vec<Arc<str>> = Vec::new();
        for _ in 0..count {
            let text = match self.varint()? {
                0 => Arc::clone(texts.last()?),
                length => {
                    let bytes = self.take(usize::try_from(length - 1).ok()?)?;
                    Arc::from(std::str::from_utf8(bytes).ok()?)
                }
            };
            texts.push(text);
        }
        Some(texts)
    }

    pub(super) fn floats(&mut self, count: usize, scratch: &mut Vec<u64>) -> Option<Vec<f64>> {
        if count == 0 {
            return Some(Vec::new());
        }
        let decimals = self.byte()?;
        if decimals == BITS {
            return (0..count).map(|_| self.bits()).collect();
        }
        let power = *POWERS.get(usize::from(decimals))?;
        self.column(count, scratch)?;
        let is_exception: Vec<bool> = scratch.iter().map(|flag| *flag != 0).collect();
        let integers = is_exception.iter().filter(|is_exception| !**is_exception).count();
        self.column(integers, scratch)?;
        let mut integers = scratch.iter();
        let mut values = Vec::with_capacity(count);
        for is_exception in is_exception {
            values.push(match is_exception {
                true => self.bits()?,
                false => unzigzag(*integers.next()?) as f64 / power,
            });
        }
        Some(values)
    }

    fn bits(&mut self) -> Option<f64> {
        let bytes: [u8; 8] = self.take(8)?.try_into().ok()?;
        Some(f64::from_bits(u64::from_le_bytes(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_constant_column_takes_four_bytes() {
        let mut out = Vec::new();
        put_column(&mut out, &[7; 256]);
        assert_eq!(out, [RUNS, 7, 0x80, 2]);
    }

    #[test]
    fn one_decimal_takes_two_bytes_a_number() {
        let values: Vec<f64> = (0..256_i32).map(|n| f64::from(1_000 + n) / 10.0).collect();
        let mut out = Vec::new();
        put_floats(&mut out, &values, &mut Vec::new());
        assert_eq!(out.len(), 1 + 4 + 1 + 2 * 256);
    }

    #[test]
    fn varint_lengths_are_what_varints_take() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::MAX >> 1, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value), "{value}");
            assert_eq!(Cursor::new(&out).varint(), Some(value));
        }
    }

    proptest! {
        #[test]
        fn columns_round_trip(values in prop::collection::vec(prop_oneof![0..3_u64, any::<u64>()], 0..300)) {
            let (mut out, mut back) = (Vec::new(), Vec::new());
            put_column(&mut out, &values);
            prop_assert_eq!(Cursor::new(&out).column(values.len(), &mut back), Some(()));
            prop_assert_eq!(back, values);
        }

        #[test]
        fn floats_keep_every_bit(values in prop::collection::vec(
            prop_oneof![any::<u64>().prop_map(f64::from_bits), (-5_000..5_000_i32).prop_map(|n| f64::from(n) / 100.0)], 0..300)) {
            let mut out = Vec::new();
            put_floats(&mut out, &values, &mut Vec::new());
            let back = Cursor::new(&out).floats(values.len(), &mut Vec::new()).unwrap();
            let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&back), bits(&values));
        }

        #[test]
        fn zigzag_round_trips(value in any::<i64>()) {
            prop_assert_eq!(unzigzag(zigzag(value)), value);
        }
    }
}
