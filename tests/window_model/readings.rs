//! What the tests feed.

use super::*;

pub(crate) const AGGREGATES: [Aggregate; 6] = [
    Aggregate::Count,
    Aggregate::Sum,
    Aggregate::Min,
    Aggregate::Max,
    Aggregate::First,
    Aggregate::Last,
];

/// One thing that an operator is told.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Reading(Input),
    Idle(SourceId),
    Flush,
    Step(TimebaseId),
}

/// Flink's policy, no bound, no lateness, final records.
pub(crate) fn spec(kind: Kind) -> WindowSpec {
    WindowSpec {
        name: "model".into(),
        version: 1,
        sources: Vec::new(),
        entity: "*".into(),
        property: "*".into(),
        kind,
        bound: Span::ZERO,
        idle_after: Span::from_secs(60),
        allowed_lateness: Span::ZERO,
        late_policy: LatePolicy::SideOutput,
        aggregates: AGGREGATES.to_vec(),
        expected_interval: None,
        idle_flush: None,
        final_marker: true,
        include_bad: false,
        upstream: false,
    }
}

/// A good reading of a device, `at_ms` in.
pub(crate) fn input(key: u8, at_ms: i64, seq: u64, value: i64) -> Input {
    let series = Series { entity: format!("pump-{key}").into(), property: "p".into(), unit: None };
    Input {
        source: SourceId::new("plc"),
        series: Arc::new(series),
        sample: Sample {
            at: EventTime::from_unix_ns(at_ms * 1_000_000),
            seq: Seq(seq),
            value: Number::Int(i128::from(value)),
        },
        quality: Quality::Good,
        state: ClockState::Synchronized,
        max_error: Some(MaxError::from_ns(1_000)),
        timebase: TimebaseId(0),
        ingest: IngestTime::from_unix_ns(at_ms * 1_000_000),
        moves_watermark: true,
    }
}

/// Readings that move on and jitter around zero, of three series and two
/// sources; sometimes bad, gateway-stamped, adrift, or silent.
pub(crate) fn inputs(count: usize) -> impl Strategy<Value = Vec<Event>> {
    let one = (0_u8..3, -60_i64..60, -999_i64..999, 0_u8..100, 0_i64..40);
    prop::collection::vec(one, 1..count).prop_map(|ones| {
        let mut now_ms = -200;
        let event = |(number, (key, jitter, value, dice, lag))| {
            now_ms += i64::from(dice % 9);
            match dice {
                97 => return Event::Idle(SourceId::new("plc")),
                98 => return Event::Flush,
                99 => return Event::Idle(SourceId::new("meter")),
                96 => return Event::Step(TimebaseId(1)),
                _ => {}
            }
            let mut input = input(key, now_ms + jitter, number as u64 + 1, value);
            input.ingest = IngestTime::from_unix_ns((now_ms + lag) * 1_000_000);
            if dice % 3 == 0 {
                input.source = SourceId::new("meter");
            }
            if dice % 10 == 1 {
                input.timebase = TimebaseId(1);
            }
            if dice % 10 == 2 {
                input.quality = Quality::Bad;
            }
            input.moves_watermark = dice % 11 != 3;
            Event::Reading(input)
        };
        ones.into_iter().enumerate().map(event).collect()
    })
}
