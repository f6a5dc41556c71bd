use proptest::prelude::*;

use super::*;

fn sketch(values: &[f64]) -> Sketch {
    let mut sketch = Sketch::default();
    values.iter().for_each(|value| sketch.add(*value));
    sketch
}

fn exact(values: &[f64], parts: u64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (values.len() as u64 * parts).div_ceil(WHOLE).max(1);
    sorted[rank as usize - 1]
}

#[test]
fn one_value_is_every_quantile_exactly() {
    for value in [0.0, 412.5, -3.25, f64::MAX, f64::MIN_POSITIVE] {
        let sketch = sketch(&[value]);
        assert_eq!([0, 5_000, WHOLE].map(|parts| sketch.quantile(parts)), [Some(value); 3]);
    }
    assert_eq!(Sketch::default().quantile(5_000), None);
}

#[test]
fn quantiles_go_by_nearest_rank_over_both_signs_and_zero() {
    let sketch = sketch(&[-2.0, -1.0, 0.0, 1.0, 2.0]);
    let near = |parts, value: f64| {
        let found = sketch.quantile(parts).unwrap();
        assert!((found - value).abs() <= value.abs() * RELATIVE_ERROR, "{parts}: {found}");
    };
    near(1, -2.0);
    near(2_000, -2.0);
    near(2_001, -1.0);
    near(5_000, 0.0);
    near(6_001, 1.0);
    near(WHOLE, 2.0);
    assert_eq!((sketch.count(), sketch.min(), sketch.max()), (5, Some(-2.0), Some(2.0)));
}

#[test]
fn what_is_no_number_is_ignored() {
    let odd = sketch(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
    assert_eq!(odd, Sketch::default());
}

#[test]
fn bins_are_those_of_the_bits_on_every_machine() {
    let bytes = postcard::to_allocvec(&sketch(&[1.0, 1.0, 1.02, -8.0])).unwrap();
    let mut expected = vec![1];
    expected.extend((-8.0_f64).to_le_bytes());
    expected.extend(1.02_f64.to_le_bytes());
    // No zeros; two bins from 1023 * 64 on; one bin at 1026 * 64.
    expected.extend([0, 2, 0xc0, 0xff, 0x03, 2, 1, 1, 1, 0x80, 0x81, 0x04, 1]);
    assert_eq!(bytes, expected);
}

/// Forty decades over nine that are kept: the upper ones keep their error.
#[test]
fn beyond_the_bound_small_magnitudes_are_counted_together_whatever_the_order() {
    let values: Vec<f64> = (0..20_000).map(|i| 10_f64.powf(f64::from(i) / 500.0)).collect();
    let forward = sketch(&values);
    let backward = sketch(&values.iter().rev().copied().collect::<Vec<_>>());
    assert_eq!(forward, backward);
    assert_eq!(forward.positive.counts.len(), BINS_MAX);
    assert_eq!(forward.count(), 20_000);
    let p99 = forward.quantile(9_900).unwrap();
    let expected = exact(&values, 9_900);
    assert!((p99 - expected).abs() <= expected * RELATIVE_ERROR);
    let mut halves = sketch(&values[..7_000]);
    halves.merge(&sketch(&values[7_000..]));
    assert_eq!(halves, forward);
}

/// Within nine decades.
fn near_values() -> impl Strategy<Value = Vec<f64>> {
    let value =
        prop_oneof![1e-3..1e5_f64, -1e5..-1e-3_f64, 1.0..2.0_f64, (-2..5_i32).prop_map(f64::from),];
    prop::collection::vec(value, 1..200)
}

fn values() -> impl Strategy<Value = Vec<f64>> {
    let value = prop_oneof![-1e6..1e6_f64, 1.0..2.0_f64, Just(0.0), prop::num::f64::NORMAL];
    prop::collection::vec(value, 1..200)
}

proptest! {
    #[test]
    fn quantiles_are_within_the_stated_error(values in near_values(), parts in 0..=WHOLE) {
        let found = sketch(&values).quantile(parts).unwrap();
        let expected = exact(&values, parts);
        // The middle of a bin is itself rounded.
        let bound = expected.abs() * RELATIVE_ERROR * (1.0 + 1e-12);
        prop_assert!((found - expected).abs() <= bound, "{found} for {expected}");
    }

    #[test]
    fn any_split_in_any_order_is_one_pass(values in values(), cut in 0..200_usize) {
        let cut = cut.min(values.len());
        let mut merged = sketch(&values[cut..]);
        merged.merge(&sketch(&values[..cut]));
        prop_assert_eq!(&merged, &sketch(&values));
        let bytes = postcard::to_allocvec(&merged).unwrap();
        prop_assert_eq!(postcard::from_bytes::<Sketch>(&bytes).unwrap(), merged);
    }
}
