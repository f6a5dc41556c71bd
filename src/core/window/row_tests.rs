use proptest::prelude::*;

use super::super::aggregate::{Accumulator, Sample};
use super::super::pane::{Taken, merges};
use super::super::spec::{Aggregate, Kind};
use super::*;
use crate::core::clock::ClockState;
use crate::core::id::Seq;
use crate::core::reading::Quality;
use crate::core::time::{EventTime, Span};
use crate::core::window::Number;

const ALL: [Aggregate; 14] = {
    let mut all = [Aggregate::Count; 14];
    let mut i = 0;
    while i < all.len() {
        all[i] = Aggregate::NAMES[i].0;
        i += 1;
    }
    all
};

fn sliding(size: i64, slide: i64) -> Assigner {
    let [size, slide] = [size, slide].map(Span::from_millis);
    Assigner::new(&Kind::Sliding { size, slide, offset: Span::ZERO })
}

fn taken(at: i64, value: f64) -> Taken {
    Taken {
        sample: Sample {
            at: EventTime::from_unix_ns(at * 1_000_000),
            seq: Seq(at.unsigned_abs()),
            value: Number::Real(value),
        },
        at,
        quality: Quality::Good,
        state: ClockState::Synchronized,
        max_error: None,
        is_adjusted: false,
        is_aggregated: true,
    }
}

fn add(row: &mut Row, assigner: &mut Assigner, wanted: &[Aggregate], at: i64, value: f64) {
    let (content, _) = row.content(assigner.slice(at), || Content::new(wanted));
    content.add(&taken(at, value));
}

fn indices(assigner: &Assigner, end: i64) -> Range<i64> {
    let Assigner::Fixed(fixed) = assigner else { panic!("sliding") };
    fixed.window(end)
}

/// The merges of each firing and final record of a window that moves on by one
/// slide, on average, one reading a slide.
fn merges_a_slide(slices: i64, late_every: i64) -> f64 {
    let mut assigner = sliding(slices * 10, 10);
    let mut row = Row::default();
    let (from, to) = (2 * slices, 6 * slices);
    let mut before = 0;
    for slide in 0..to {
        if slide == from {
            before = merges();
        }
        add(&mut row, &mut assigner, &[Aggregate::Max], slide * 10, slide as f64);
        if slide % late_every == late_every - 1 {
            let late = slide * 10 - slices * 5;
            add(&mut row, &mut assigner, &[Aggregate::Max], late, -1.0);
        }
        let end = (slide + 1) * 10;
        let window = row.window(indices(&assigner, end), Pass::Firing).unwrap();
        let max = window.values.values(&[Aggregate::Max], None)[0].1;
        assert_eq!(max, Some(Number::Real(slide as f64)));
        row.drop_until(end);
    }
    (merges() - before) as f64 / (to - from) as f64
}

#[test]
fn a_slide_costs_four_merges_however_long_the_window_is() {
    for slices in [6, 60, 600, 4_096, 5_000] {
        let each = merges_a_slide(slices, i64::MAX);
        assert!(each <= 4.1, "{slices} slices: {each}");
    }
}

#[test]
fn a_late_reading_costs_the_logarithm_of_the_window() {
    let [short, long] = [64, 4_096].map(|slices| merges_a_slide(slices, 1));
    assert!(short <= 3.0 * 6.0 + 4.0, "{short}");
    assert!(long <= 3.0 * 12.0 + 4.0, "{long}");
}

#[test]
fn slices_are_found_by_index_with_and_without_gaps() {
    let mut assigner = sliding(50, 10);
    let mut row = Row::default();
    for slide in [40, 3, -7, 4, 5, 41, 12, -8] {
        add(&mut row, &mut assigner, &[], slide * 10, 1.0);
    }
    let found: Vec<i64> = row.bounds().map(|bounds| bounds.index).collect();
    assert_eq!(found, [-8, -7, 3, 4, 5, 12, 40, 41]);
    for index in -10..45 {
        let from = found.iter().copied().find(|found| *found >= index);
        assert_eq!(row.first_from(index).map(|bounds| bounds.index), from, "{index}");
    }
    assert_eq!(row.first_from(i64::MAX), None);
    assert_eq!(row.first_from(i64::MIN).map(|bounds| bounds.index), Some(-8));
}

/// Readings in some disorder, among them windows that are looked at.
#[derive(Clone, Copy, Debug)]
enum Act {
    Add(i64, f64),
    Look(i64, bool),
    Drop(i64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let one = (0_u8..10, -150_i64..150, -1e6..1e6_f64);
    prop::collection::vec(one, 1..150).prop_map(|ones| {
        let act = |(now, (dice, jitter, value)): (usize, (u8, i64, f64))| {
            let at = now as i64 * 4 - 300 + jitter;
            match dice {
                0..6 => Act::Add(at, value),
                6..9 => Act::Look(at, dice == 8),
                _ => Act::Drop(at - 250),
            }
        };
        ones.into_iter().enumerate().map(act).collect()
    })
}

fn pass(is_closing: bool) -> Pass {
    if is_closing { Pass::Closing } else { Pass::Firing }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// To the last bit, whatever was looked at before: as from a checkpoint that
    /// was taken just then. And as one merge of slice after slice, but for rounding.
    #[test]
    fn what_a_window_holds_does_not_depend_on_what_was_asked(
        acts in acts(), size in 1_i64..200, slide in 1_i64..40,
    ) {
        let mut assigner = sliding(size, slide);
        let (mut row, mut dropped) = (Row::default(), i64::MIN);
        for act in acts {
            match act {
                Act::Add(at, value) if !assigner.slice(at).is_between() => {
                    add(&mut row, &mut assigner, &ALL, at, value);
                }
                Act::Add(..) => {}
                Act::Drop(end) => {
                    row.drop_until(end);
                    dropped = dropped.max(end);
                }
                Act::Look(at, is_closing) => {
                    let Assigner::Fixed(fixed) = &assigner else { panic!("sliding") };
                    let end = fixed.end_at(at);
                    let indices = fixed.window(end);
                    if end <= dropped {
                        continue;
                    }
                    let mut fresh = Row::restored(row.stored(), &assigner).unwrap();
                    let expected = fresh.window(indices.clone(), Pass::Firing).map(Cow::into_owned);
                    let parts: Vec<Slice> = row.stored().range(end - size..end)
                        .map(|(_, slice)| slice.clone()).collect();
                    let found = row.window(indices, pass(is_closing)).map(Cow::into_owned);
                    prop_assert_eq!(&found, &expected);
                    prop_assert_eq!(found.is_none(), parts.is_empty());
                    let Some(found) = found else { continue };
                    let mut folded = Content::new(&ALL);
                    parts.iter().for_each(|part| folded.merge(&part.content));
                    prop_assert_eq!(&found.tally, &folded.tally);
                    same_but_for_rounding(&found.values, &folded.values)?;
                }
            }
        }
    }
}

fn same_but_for_rounding(a: &Accumulator, b: &Accumulator) -> Result<(), TestCaseError> {
    for (a, b) in a.values(&ALL, None).into_iter().zip(b.values(&ALL, None)) {
        match (a, b) {
            (
                (
                    Aggregate::Sum
                    | Aggregate::Mean
                    | Aggregate::Stddev
                    | Aggregate::Twa
                    | Aggregate::Rate,
                    Some(Number::Real(x)),
                ),
                (_, Some(Number::Real(y))),
            ) => {
                prop_assert!((x - y).abs() <= 1e-6, "{a:?} {b:?}");
            }
            _ => prop_assert_eq!(a, b),
        }
    }
    Ok(())
}
