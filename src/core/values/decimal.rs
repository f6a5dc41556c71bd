//! Sums of numbers as they were written: 0.1 and 0.2 are 0.3.
//!
//! A floating-point number is taken as the shortest decimal that is read as it; up to 15
//! digits, that is what a device or a line wrote. Decimals add up without error as long as
//! the sum has no more than 38 digits. With more, the last digits are rounded, some twenty
//! digits beyond what a reading can hold.

/// `mantissa` · 10^`exponent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decimal {
    mantissa: i128,
    exponent: i32,
}

impl Decimal {
    /// A whole number.
    pub const fn whole(number: i128) -> Self {
        Self { mantissa: number, exponent: 0 }
    }

    /// The shortest decimal that reads as this number; `None` when it is not finite.
    pub fn of(number: f64) -> Option<Self> {
        if !number.is_finite() {
            return None;
        }
        // Like "-1.2345e-7": never more than 17 digits.
        let written = format!("{number:e}");
        let (digits, exponent) = written.split_once('e')?;
        let places = digits.split_once('.').map_or(0, |(_, places)| places.len());
        let mantissa = digits.replace('.', "").parse().ok()?;
        Some(Self { mantissa, exponent: exponent.parse::<i32>().ok()? - places as i32 }.plain())
    }

    /// Its parts, as they are stored.
    pub const fn parts(self) -> (i128, i32) {
        (self.mantissa, self.exponent)
    }

    /// The inverse of [`Decimal::parts`]; `None` for parts that no reading can lead to.
    pub fn from_parts((mantissa, exponent): (i128, i32)) -> Option<Self> {
        (-1_000..1_000).contains(&exponent).then_some(Self { mantissa, exponent })
    }

    /// The number if it is whole.
    pub fn as_whole(self) -> Option<i128> {
        let Self { mantissa, exponent } = self.plain();
        mantissa.checked_mul(10_i128.checked_pow(u32::try_from(exponent).ok()?)?)
    }

    /// The nearest floating-point number; `None` beyond the greatest.
    pub fn as_f64(self) -> Option<f64> {
        let written = format!("{}e{}", self.mantissa, self.exponent);
        written.parse::<f64>().ok().filter(|number| number.is_finite())
    }

    /// The sum of both, exact to its 38th digit.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        if self.mantissa == 0 || other.mantissa == 0 {
            return if self.mantissa == 0 { other } else { self };
        }
        let (fine, coarse) = match self.exponent <= other.exponent {
            true => (self, other),
            false => (other, self),
        };
        // As fine as both fit; at the latest, one place above the coarser.
        for exponent in fine.exponent..=coarse.exponent {
            let both = (fine.at(exponent), coarse.at(exponent));
            if let (Some(a), Some(b)) = both
                && let Some(mantissa) = a.checked_add(b)
            {
                return Self { mantissa, exponent }.plain();
            }
        }
        let exponent = coarse.exponent + 1;
        let [a, b] = [fine, coarse].map(|one| one.at(exponent).unwrap_or(0));
        Self { mantissa: a.saturating_add(b), exponent }
    }

    /// The mantissa that belongs to another exponent, rounded half to even where
    /// that is coarser; `None` when it does not fit.
    fn at(self, exponent: i32) -> Option<i128> {
        let places = exponent.abs_diff(self.exponent);
        if exponent <= self.exponent {
            return self.mantissa.checked_mul(10_i128.checked_pow(places)?);
        }
        let Some(unit) = 10_i128.checked_pow(places) else { return Some(0) };
        let (quotient, rest) = (self.mantissa / unit, self.mantissa % unit);
        let half = (rest.unsigned_abs() * 2).cmp(&unit.unsigned_abs());
        let is_up = half.is_gt() || (half.is_eq() && quotient % 2 != 0);
        Some(if is_up { quotient + self.mantissa.signum() } else { quotient })
    }

    /// Without zeros at the end of a fraction.
    fn plain(mut self) -> Self {
        if self.mantissa == 0 {
            return Self::default();
        }
        while self.exponent < 0 && self.mantissa % 10 == 0 {
            (self.mantissa, self.exponent) = (self.mantissa / 10, self.exponent + 1);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(terms: &[f64]) -> f64 {
        let terms = terms.iter().map(|term| Decimal::of(*term).unwrap());
        terms.fold(Decimal::default(), Decimal::plus).as_f64().unwrap()
    }

    #[test]
    fn decimals_add_up_as_they_are_written() {
        assert_eq!(sum(&[0.1, 0.2]), 0.3);
        assert_eq!(sum(&[0.1; 1_000]), 100.0);
        assert_eq!(sum(&[1e16, 1.0, -1e16]), 1.0);
        assert_eq!(sum(&[1e-9, 1e9, -1e9]), 1e-9);
        assert_eq!(sum(&[-0.5, 0.25]), -0.25);
        assert_eq!(sum(&[-0.0, 0.0]), 0.0);
    }

    #[test]
    fn what_lies_far_apart_is_rounded_far_behind_what_a_number_can_say() {
        assert_eq!(sum(&[1e300, 1e-300]), 1e300);
        assert_eq!(sum(&[1e-300, 1e300, -1e300]), 0.0);
        assert_eq!(sum(&[1e22, 1e-15, -1e22]), 1e-15);
        assert_eq!(sum(&[f64::MAX, -f64::MAX, 5e-324]), 5e-324);
        let most = Decimal::whole(i128::MAX);
        assert_eq!(most.plus(most).as_f64(), Some(i128::MAX as f64 * 2.0));
        let greatest = Decimal::of(f64::MAX).unwrap();
        assert_eq!(greatest.plus(greatest).as_f64(), None);
    }

    #[test]
    fn every_number_comes_back_and_no_other_does() {
        for number in [0.0, 1.5, -2.25e-7, 123_456_789.123, f64::MAX, f64::MIN_POSITIVE, 5e-324] {
            let decimal = Decimal::of(number).unwrap();
            assert_eq!(decimal.as_f64(), Some(number));
            assert_eq!(Decimal::from_parts(decimal.parts()), Some(decimal));
        }
        assert_eq!(Decimal::of(f64::NAN), None);
        assert_eq!(Decimal::of(f64::INFINITY), None);
        assert_eq!(Decimal::of(3.0).unwrap().as_whole(), Some(3));
        assert_eq!(Decimal::of(1e20).unwrap().as_whole(), Some(10_i128.pow(20)));
        assert_eq!(Decimal::of(0.5).unwrap().as_whole(), None);
    }
}
