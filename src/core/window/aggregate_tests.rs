use proptest::prelude::*;

use super::super::line::POINTS_MAX;
use super::*;

const ALL: [Aggregate; 14] = {
    let mut all = [Aggregate::Count; 14];
    let mut i = 0;
    while i < all.len() {
        all[i] = Aggregate::NAMES[i].0;
        i += 1;
    }
    all
};
const S: i64 = 1_000_000_000;

fn sample(at_s: i64, value: Number) -> Sample {
    Sample { at: EventTime::from_unix_ns(at_s * S), seq: Seq(at_s.unsigned_abs()), value }
}

fn filled(wanted: &[Aggregate], samples: &[Sample]) -> Accumulator {
    let mut filled = Accumulator::new(wanted);
    samples.iter().for_each(|sample| filled.add(sample));
    filled
}

/// The one value that is wanted, of readings a second apart.
fn of(wanted: Aggregate, values: &[Number]) -> Option<Number> {
    let samples: Vec<Sample> = (0..).zip(values).map(|(at, value)| sample(at, *value)).collect();
    filled(&[wanted], &samples).values(&[wanted], None)[0].1
}

fn ints(values: &[i128]) -> Vec<Number> {
    values.iter().map(|value| Number::Int(*value)).collect()
}

fn reals(values: &[f64]) -> Vec<Number> {
    values.iter().map(|value| Number::Real(*value)).collect()
}

#[test]
fn integers_keep_every_digit() {
    let values = ints(&[i128::from(u64::MAX), i128::from(u64::MAX), -1]);
    assert_eq!(of(Aggregate::Sum, &values), Some(Number::Int(36_893_488_147_419_103_229)));
    assert_eq!(of(Aggregate::Min, &values), Some(Number::Int(-1)));
    assert_eq!(of(Aggregate::Max, &values), Some(Number::Int(i128::from(u64::MAX))));
    assert_eq!(of(Aggregate::Range, &values), Some(Number::Int(1 << 64)));
    assert_eq!(of(Aggregate::First, &values), Some(values[0]));
    assert_eq!(of(Aggregate::Last, &values), Some(Number::Int(-1)));
    assert_eq!(of(Aggregate::Count, &values), Some(Number::Int(3)));
    assert_eq!(of(Aggregate::Sum, &ints(&[i128::MAX, 5])), Some(Number::Int(i128::MAX)));
}

#[test]
fn integers_among_reals_are_reals_whenever_the_first_real_came() {
    let mixed = [Number::Int(1 << 53), Number::Int(1), Number::Real(0.5), Number::Int(-3)];
    for shift in 0..4 {
        let mut values = mixed;
        values.rotate_left(shift);
        assert_eq!(of(Aggregate::Sum, &values), Some(Number::Real(9_007_199_254_740_990.0)));
        assert_eq!(of(Aggregate::Min, &values), Some(Number::Real(-3.0)));
        assert_eq!(of(Aggregate::Max, &values), Some(Number::Real(9_007_199_254_740_992.0)));
    }
}

#[test]
fn sums_of_reals_are_compensated() {
    assert_eq!(of(Aggregate::Sum, &reals(&[1.0, 1e100, 1.0, -1e100])), Some(Number::Real(2.0)));
    assert_eq!(of(Aggregate::Sum, &reals(&[0.1; 10])), Some(Number::Real(1.0)));
    assert_eq!(of(Aggregate::Mean, &reals(&[0.1; 10])), Some(Number::Real(0.1)));
    assert_eq!(of(Aggregate::Sum, &reals(&[f64::MAX, f64::MAX])), None);
}

#[test]
fn what_is_no_number_is_not_counted() {
    let odd =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(|value| sample(1, Number::Real(value)));
    assert_eq!(filled(&ALL, &odd), Accumulator::new(&ALL));
    let empty = Accumulator::new(&ALL).values(&ALL, None);
    assert_eq!(empty[0], (Aggregate::Count, Some(Number::Int(0))));
    assert!(empty[1..].iter().all(|(_, value)| value.is_none()), "{empty:?}");
}

#[test]
fn the_spread_is_that_of_a_sample() {
    let values = reals(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
    assert_eq!(of(Aggregate::Stddev, &values), Some(Number::Real((32.0_f64 / 7.0).sqrt())));
    assert_eq!(of(Aggregate::Stddev, &values[..1]), None);
    assert_eq!(of(Aggregate::Stddev, &ints(&[7, 7])), Some(Number::Real(0.0)));
}

#[test]
fn ends_go_by_event_time_and_ties_by_number() {
    let at = |at_s: i64, seq: u64, int: i128| Sample {
        at: EventTime::from_unix_ns(at_s * S),
        seq: Seq(seq),
        value: Number::Int(int),
    };
    let samples = [at(5, 3, 30), at(1, 9, 90), at(5, 4, 40), at(1, 8, 80), at(3, 10, 0)];
    let wanted = [Aggregate::First, Aggregate::Last];
    let expected =
        [(Aggregate::First, Some(Number::Int(80))), (Aggregate::Last, Some(Number::Int(40)))];
    assert_eq!(filled(&wanted, &samples).values(&wanted, None), expected);
}

fn twa(samples: &[Sample], window: Option<(i64, i64)>) -> Option<Number> {
    let at = |at_s| EventTime::from_unix_ns(at_s * S);
    let window = window.map(|(start, end)| (at(start), at(end)));
    filled(&[Aggregate::Twa], samples).values(&[Aggregate::Twa], window)[0].1
}

#[test]
fn values_weigh_as_long_as_they_stood() {
    // 10 for 1 s, 20 for 3 s, 40 to the end of the window: 4 s.
    let samples =
        [sample(4, Number::Int(20)), sample(3, Number::Int(10)), sample(7, Number::Int(40))];
    let expected = (10.0 / 8.0) + 20.0 * (3.0 / 8.0) + 40.0 * (4.0 / 8.0);
    assert_eq!(twa(&samples, Some((0, 11))), Some(Number::Real(expected)));
    assert_eq!(twa(&samples, None), Some(Number::Real(10.0 / 4.0 + 20.0 * (3.0 / 4.0))));
    assert_eq!(twa(&samples[..1], None), Some(Number::Real(20.0)), "no time passes");
    assert_eq!(twa(&samples[..1], Some((0, 10))), Some(Number::Real(20.0)));
}

#[test]
fn what_stands_still_has_its_own_value_as_mean() {
    for value in [412.3, -0.1, 1.0 / 3.0, f64::MAX, -f64::MAX, 7e-300] {
        let samples: Vec<Sample> =
            [0, 1, 8, 9, 27, 100].map(|at| sample(at, Number::Real(value))).into();
        assert_eq!(twa(&samples, Some((0, 301))), Some(Number::Real(value)));
    }
}

#[test]
fn a_counter_that_falls_began_anew_at_zero() {
    // 5 up, reset and 3 up, 4 up: 12 in 3 s.
    assert_eq!(of(Aggregate::Rate, &ints(&[10, 15, 3, 7])), Some(Number::Real(4.0)));
    assert_eq!(of(Aggregate::Rate, &reals(&[1.5])), None);
    let at_once = [sample(1, Number::Int(1)), sample(1, Number::Int(5))];
    assert_eq!(filled(&[Aggregate::Rate], &at_once).values(&[Aggregate::Rate], None)[0].1, None);
}

#[test]
fn what_is_not_wanted_is_not_kept() {
    let plain = [Aggregate::Count, Aggregate::Sum, Aggregate::Min, Aggregate::Max];
    let samples: Vec<Sample> =
        (0..1_000).map(|at| sample(at, Number::Int(i128::from(at)))).collect();
    let plain = filled(&plain, &samples);
    assert_eq!(plain.weight(), size_of::<Accumulator>());
    assert!(size_of::<Accumulator>() <= 96, "{}", size_of::<Accumulator>());
    assert_eq!(plain.values(&[Aggregate::P50, Aggregate::First], None).len(), 2);
    assert!(plain.values(&[Aggregate::Twa], None)[0].1.is_none());
    let bytes = postcard::to_allocvec(&plain).unwrap();
    assert_eq!(bytes.len(), 10, "{bytes:?}");
    assert!(filled(&[Aggregate::Twa], &samples).weight() >= 24_000);
}

/// A day at 1 Hz in a shuffled order: thinned alike, and near the truth.
#[test]
fn long_windows_are_thinned_alike_in_any_order() {
    let value = |at: i64| Number::Int(i128::from((at / 7_200) % 2 * 100));
    let day: Vec<Sample> = (0..86_400).map(|at| sample(at, value(at))).collect();
    let shuffled: Vec<Sample> = (0..86_400).map(|i| day[i * 7_919 % 86_400]).collect();
    let wanted = [Aggregate::Twa, Aggregate::Rate];
    let one = filled(&wanted, &day);
    assert_eq!(one, filled(&wanted, &shuffled));
    let mut merged = Accumulator::new(&wanted);
    shuffled.chunks(10_000).for_each(|part| merged.merge(&filled(&wanted, part)));
    assert_eq!(one, merged);
    assert!(one.weight() < 2 * POINTS_MAX * 24 + 1_000, "{}", one.weight());
    let Some(Number::Real(mean)) = twa(&day, Some((0, 86_400))) else { panic!("none") };
    assert!((mean - 50.0).abs() < 0.1, "{mean}");
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        any::<i64>().prop_map(|int| Number::Int(int.into())),
        (-50..50_i128).prop_map(Number::Int),
        (-1e9..1e9_f64).prop_map(Number::Real),
    ]
}

fn samples(value: impl Strategy<Value = Number>) -> impl Strategy<Value = Vec<Sample>> {
    let sample = (-50..50_i64, 0..10_u64, value).prop_map(|(at_s, seq, value)| Sample {
        at: EventTime::from_unix_ns(at_s * S),
        seq: Seq(seq),
        value,
    });
    prop::collection::vec(sample, 1..60)
}

/// What does not depend on rounding.
const EXACT: [Aggregate; 11] = {
    use Aggregate::{Count, First, Last, Max, Min, P50, P95, P99, Range, Rate, Twa};
    [Count, Min, Max, Range, First, Last, Twa, Rate, P50, P95, P99]
};

fn magnitude(samples: &[Sample]) -> f64 {
    samples.iter().map(|sample| sample.value.to_f64().abs()).sum()
}

proptest! {
    #[test]
    fn any_split_and_any_order_is_one_pass_exactly(
        samples in samples(number()),
        (cut, turn) in (0..60_usize, 0..60_usize),
    ) {
        let whole = filled(&EXACT, &samples);
        let mut turned = samples.clone();
        turned.rotate_left(turn % samples.len());
        turned.reverse();
        let (left, right) = turned.split_at(cut.min(turned.len()));
        let mut merged = filled(&EXACT, right);
        merged.merge(&filled(&EXACT, left));
        merged.merge(&Accumulator::new(&EXACT));
        prop_assert_eq!(merged.values(&EXACT, None), whole.values(&EXACT, None));
        prop_assert_eq!(merged.count(), samples.len() as u64);
    }

    #[test]
    fn integers_sum_exactly_however_split(
        samples in samples(any::<i64>().prop_map(|int| Number::Int(int.into()))),
        cut in 0..60_usize,
    ) {
        let wanted = [Aggregate::Sum, Aggregate::Mean];
        let (left, right) = samples.split_at(cut.min(samples.len()));
        let mut merged = filled(&wanted, right);
        merged.merge(&filled(&wanted, left));
        prop_assert_eq!(&merged, &filled(&wanted, &samples));
        let exact: i128 = samples.iter().map(|sample| match sample.value {
            Number::Int(int) => int,
            Number::Real(_) => 0,
        }).sum();
        prop_assert_eq!(merged.values(&wanted, None)[0].1, Some(Number::Int(exact)));
    }

    #[test]
    fn reals_sum_and_spread_within_rounding_however_split(
        samples in samples((-1e9..1e9_f64).prop_map(Number::Real)),
        cut in 0..60_usize,
    ) {
        let wanted = [Aggregate::Sum, Aggregate::Stddev];
        let (left, right) = samples.split_at(cut.min(samples.len()));
        let mut merged = filled(&wanted, right);
        merged.merge(&filled(&wanted, left));
        let [a, b] = [filled(&wanted, &samples), merged].map(|one| {
            one.values(&wanted, None).iter().map(|(_, value)| value.map_or(0.0, Number::to_f64)).collect::<Vec<_>>()
        });
        let ulp = a[0].abs() * f64::EPSILON;
        let second_order = (samples.len() as f64).powi(2) * 2_f64.powi(-104) * magnitude(&samples);
        prop_assert!((a[0] - b[0]).abs() <= ulp + second_order, "{} {}", a[0], b[0]);
        prop_assert!((a[1] - b[1]).abs() <= 1e-12 * magnitude(&samples), "{} {}", a[1], b[1]);
    }

    #[test]
    fn what_is_stored_goes_on_as_if_never_stored(
        samples in samples(number()),
        cut in 0..60_usize,
    ) {
        let (left, right) = samples.split_at(cut.min(samples.len()));
        let bytes = postcard::to_allocvec(&filled(&ALL, left)).unwrap();
        let mut restored: Accumulator = postcard::from_bytes(&bytes).unwrap();
        right.iter().for_each(|sample| restored.add(sample));
        prop_assert_eq!(restored, filled(&ALL, &samples));
    }
}
