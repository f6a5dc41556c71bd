//! The window engine against a naive one: the last word on every window is what
//! one pass over all accepted readings of that window gives.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use tidegate::core::clock::ClockState;
use tidegate::core::id::{Seq, SourceId};
use tidegate::core::reading::{Quality, Series};
use tidegate::core::time::{EventTime, IngestTime, MaxError, Span, TimebaseId};
use tidegate::core::window::assign::windows;
use tidegate::core::window::{
    Accumulator, Aggregate, Firing, Input, Kind, LatePolicy, Millis, Number, Operator,
    OperatorState, Output, ResultStatus, Sample, WindowSpec,
};
use tidegate::core::zone::Zone;

#[path = "window_model/cases.rs"]
mod cases;
#[path = "window_model/naive.rs"]
mod naive;
#[path = "window_model/originals.rs"]
mod originals;
#[path = "window_model/readings.rs"]
mod readings;

use naive::{Naive, last_words};
use readings::{AGGREGATES, Event, input, inputs, spec};

fn kinds() -> impl Strategy<Value = Kind> {
    let ms = Span::from_millis;
    prop_oneof![
        (1_i64..40, -5_i64..5).prop_map(move |(size, offset)| Kind::Tumbling {
            size: ms(size),
            offset: ms(offset % size)
        }),
        (1_i64..40, 1_i64..30, -5_i64..5).prop_map(move |(size, slide, offset)| Kind::Sliding {
            size: ms(size),
            slide: ms(slide),
            offset: ms(offset % slide)
        }),
        (1_i64..20).prop_map(move |gap| Kind::Session { gap: ms(gap) }),
        Just(Kind::CalendarDay { zone: "Europe/Berlin".parse().unwrap_or(Zone::Fixed(0)) }),
    ]
}

fn policies() -> impl Strategy<Value = LatePolicy> {
    prop_oneof![
        3 => Just(LatePolicy::SideOutput),
        1 => Just(LatePolicy::Grace),
        1 => (0_i64..30, 0_i64..30).prop_map(|(late, order)| LatePolicy::Adjust {
            late_arrival: Span::from_millis(late),
            out_of_order: Span::from_millis(order),
        }),
    ]
}

fn specs() -> impl Strategy<Value = Arc<WindowSpec>> {
    (kinds(), policies(), 0_i64..30, 0_i64..40, any::<bool>()).prop_map(
        |(kind, policy, bound, lateness, final_marker)| {
            let mut spec = spec(kind);
            spec.late_policy = policy;
            spec.bound = Span::from_millis(bound);
            spec.allowed_lateness = Span::from_millis(lateness);
            spec.final_marker = final_marker;
            Arc::new(spec)
        },
    )
}

/// Feeds everything; what came out of each step.
fn feed(operator: &mut Operator, events: &[Event]) -> Vec<Vec<Output>> {
    let one = |event: &Event| {
        let mut out = Vec::new();
        match event {
            Event::Reading(input) => operator.reading(input, &mut out),
            Event::Idle(source) => operator.source_idle(source, &mut out),
            Event::Flush => operator.flush(&mut out),
            Event::Step(timebase) => operator.clock_step(*timebase, &mut out),
        }
        out
    };
    events.iter().map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Also: revisions count 1, 2, 3; nothing follows a final record; the total
    /// of what the windows hold is what was accepted.
    #[test]
    fn the_last_word_is_what_one_pass_gives(spec in specs(), events in inputs(120)) {
        let mut operator = Operator::new(Arc::clone(&spec));
        let mut naive = Naive::new(&spec);
        let mut told = Vec::new();
        for event in &events {
            let before = match event {
                Event::Reading(input) => operator.watermark_of(input.timebase),
                _ => None,
            };
            let out = feed(&mut operator, std::slice::from_ref(event)).concat();
            naive.take(event, before, &out);
            told.extend(out);
        }
        for timebase in [0, 1] {
            let mut out = Vec::new();
            if timebase == 0 {
                operator.watermark(Millis(i64::MAX), &mut out);
            } else {
                operator.clock_step(TimebaseId(1), &mut out);
            }
            told.extend(out);
        }
        prop_assert_eq!(operator.pane_count(), 0);
        let found = last_words(&told);
        let expected = naive.windows();
        prop_assert_eq!(found, expected);
    }

    /// Cut anywhere: the rest comes out as if nothing had been, to the last bit.
    #[test]
    fn a_restored_operator_goes_on_as_before(
        spec in specs(), mut events in inputs(80), cut in 0_usize..80,
    ) {
        let mut spec = WindowSpec::clone(&spec);
        spec.aggregates = Aggregate::NAMES.map(|(aggregate, _)| aggregate).to_vec();
        let spec = Arc::new(spec);
        for event in &mut events {
            if let Event::Reading(Input { sample: Sample { value, .. }, .. }) = event
                && let Number::Int(int) = *value
            {
                *value = Number::Real(int as f64 / 7.0);
            }
        }
        let cut = cut.min(events.len());
        let mut whole = Operator::new(Arc::clone(&spec));
        feed(&mut whole, &events[..cut]);
        let bytes = postcard::to_allocvec(&whole.checkpoint()).unwrap();
        let state: OperatorState = postcard::from_bytes(&bytes).unwrap();
        let mut restored = Operator::restore(Arc::clone(&spec), state).unwrap();
        prop_assert_eq!(&postcard::to_allocvec(&restored.checkpoint()).unwrap(), &bytes);
        let expected = feed(&mut whole, &events[cut..]);
        prop_assert_eq!(feed(&mut restored, &events[cut..]), expected);
        let ends = [&whole, &restored].map(|operator| {
            postcard::to_allocvec(&operator.checkpoint()).unwrap()
        });
        prop_assert_eq!(&ends[0], &ends[1]);
    }

    /// W-07: with nothing late, the order of arrival does not show.
    #[test]
    fn sessions_do_not_depend_on_the_order_of_arrival(
        times in prop::collection::vec(0_i64..300, 1..20), gap in 1_i64..40, turn in 0_usize..20,
    ) {
        let mut spec = spec(Kind::Session { gap: Span::from_millis(gap) });
        spec.bound = Span::from_millis(1_000);
        let spec = Arc::new(spec);
        let results = |times: &[i64]| {
            let mut operator = Operator::new(Arc::clone(&spec));
            let mut out = Vec::new();
            for at in times {
                operator.reading(&input(0, *at, *at as u64 + 1, *at), &mut out);
            }
            operator.watermark(Millis(i64::MAX), &mut out);
            last_words(&out)
        };
        let mut other = times.clone();
        other.reverse();
        other.rotate_left(turn % times.len());
        prop_assert_eq!(results(&times), results(&other));
        let total: u64 = results(&times).values().map(|found| found.0).sum();
        prop_assert_eq!(total, times.len() as u64);
    }
}
