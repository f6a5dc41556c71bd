//! The late policies of other systems, held against what their documentation
//! says.

use super::*;

const SECOND: i64 = 1_000;
/// Ten minutes past midnight, as in the table below.
const TEN_PAST: i64 = 600 * SECOND;

fn operator(policy: LatePolicy, change: impl FnOnce(&mut WindowSpec)) -> Operator {
    let size = Span::from_secs(1);
    let mut spec = spec(Kind::Tumbling { size, offset: Span::ZERO });
    spec.late_policy = policy;
    change(&mut spec);
    Operator::new(Arc::new(spec))
}

/// Kafka Streams 3.7, `Windows`: "windows will continue to accept new records
/// until stream_time >= window_end + grace_period".
#[test]
fn kafka_streams_closes_a_window_when_stream_time_reaches_its_end_and_the_grace() {
    for (stream_time_ms, is_taken) in [(5_999, true), (6_000, false)] {
        let mut operator =
            operator(LatePolicy::Grace, |spec| spec.allowed_lateness = Span::from_secs(5));
        let mut out = Vec::new();
        operator.reading(&input(0, 500, 1, 1), &mut out);
        operator.reading(&input(0, stream_time_ms, 2, 1), &mut out);
        out.clear();
        operator.reading(&input(0, 999, 3, 1), &mut out);
        let is_late = out.iter().any(|output| matches!(output, Output::Late(_)));
        assert_eq!(is_late, !is_taken, "at stream time {stream_time_ms} ms");
    }
}

/// Kafka Streams, `TimeWindows.ofSizeWithNoGrace`: closed with its end.
#[test]
fn kafka_streams_without_grace_closes_a_window_with_its_end() {
    let mut operator = operator(LatePolicy::Grace, |spec| spec.allowed_lateness = Span::ZERO);
    let mut out = Vec::new();
    operator.reading(&input(0, 1_000, 1, 1), &mut out);
    operator.reading(&input(0, 999, 2, 1), &mut out);
    assert!(matches!(out.as_slice(), [Output::Late(_)]), "{out:?}");
}

/// Azure Stream Analytics, "Configuring event ordering policies": the table of
/// five events with a late arrival policy of 15 s and an out-of-order policy of
/// 8 s. Its last row (00:10:35, arrived at 00:10:45) is left out: it becomes
/// 00:10:37 there, which is its arrival less 8 s, where the rule in words and the
/// watermark of the same documentation go by the greatest event time, 00:10:42,
/// and leave it where it is; Tidegate follows the rule.
#[test]
fn azure_stream_analytics_moves_what_is_older_than_its_arrival_allows() {
    let rows = [(0, 40, 25, true), (30, 41, 30, false), (42, 42, 42, false), (38, 43, 38, false)];
    let policy =
        LatePolicy::Adjust { late_arrival: Span::from_secs(15), out_of_order: Span::from_secs(8) };
    let mut operator = operator(policy, |_| {});
    let mut out = Vec::new();
    for (seq, (event_s, arrival_s, _, _)) in rows.iter().enumerate() {
        let mut reading = input(0, TEN_PAST + event_s * SECOND, seq as u64, 1);
        reading.ingest = IngestTime::from_unix_ns((TEN_PAST + arrival_s * SECOND) * 1_000_000);
        operator.reading(&reading, &mut out);
    }
    // What closes all windows.
    let mut last = input(0, TEN_PAST + 90 * SECOND, 99, 1);
    last.ingest = IngestTime::from_unix_ns((TEN_PAST + 90 * SECOND) * 1_000_000);
    operator.reading(&last, &mut out);
    let fired = out.iter().filter_map(|output| match output {
        Output::Fired(firing) => {
            let start_s = (Millis::floor(firing.start).0 - TEN_PAST) / SECOND;
            Some((start_s, firing.coverage.adjusted > 0))
        }
        _ => None,
    });
    let mut expected: Vec<(i64, bool)> = rows.iter().map(|row| (row.2, row.3)).collect();
    expected.sort_unstable();
    assert_eq!(fired.collect::<Vec<_>>(), expected);
}
