use super::*;
use crate::core::clock::ClockState;
use crate::core::reading::Flags;
use crate::core::time::EventTime;
use crate::readings;

const INGEST_NS: i64 = 1_796_000_523_000_000_000;

/// Of a reading that comes so many ms after its event.
fn stamp(lag_ms: i64) -> Stamp {
    let event_time = EventTime::from_unix_ns(INGEST_NS - lag_ms * 1_000_000);
    Stamp { event_time, ..readings::stamp(INGEST_NS) }
}

fn lateness(lags_ms: impl IntoIterator<Item = i64>) -> Lateness {
    let mut lateness = Lateness::default();
    lags_ms.into_iter().for_each(|ms| lateness.add(Span::from_millis(ms)));
    lateness
}

fn advice(lags_ms: impl IntoIterator<Item = i64>) -> Advice {
    lateness(lags_ms).quantiles().unwrap().advice()
}

#[test]
fn quantiles_are_near_and_the_greatest_is_exact() {
    let quantiles = lateness((1..=100_000).chain([-700])).quantiles().unwrap();
    let expected = [
        (quantiles.p50, 50_000),
        (quantiles.p95, 95_000),
        (quantiles.p99, 99_000),
        (quantiles.p999, 99_900),
        (quantiles.p9999, 99_990),
    ];
    for (found, ms) in expected {
        let off_ns = (found.ns() - ms * 1_000_000).abs();
        assert!(off_ns <= ms * 10_000, "{found} for {ms} ms");
    }
    assert_eq!((quantiles.count, quantiles.max), (100_001, Span::from_millis(100_000)));
    assert_eq!(Lateness::default().quantiles(), None);
}

#[test]
fn bounds_are_rounded_up_to_what_people_write() {
    let one = |ms| advice([ms]).fast;
    assert_eq!(one(-5_000), Span::from_millis(100));
    assert_eq!(one(99), Span::from_millis(100));
    assert_eq!(one(100), Span::from_millis(200), "the error of the sketch has room");
    assert_eq!(one(17_200), Span::from_secs(20));
    assert_eq!(one(40 * 86_400_000), Span::from_secs(41 * 86_400));
}

#[test]
fn advice_says_both_bounds_and_how_sure_they_are() {
    let few = advice([300; 400]);
    assert_eq!((few.fast, few.correction), (Span::from_millis(500), Span::from_millis(500)));
    let expected = "bound = \"500ms\" for fast answers (99 of 100 readings came within 300ms); \
                    bound = \"500ms\" for corrections (all came within 300ms); \
                    both are guesses, measured on 400 readings only";
    assert_eq!(few.words, expected);
    let nearly = advice([300; 289]).words;
    assert_eq!(nearly, "no bound yet: 289 readings are too few to go by, 11 more are needed");
    let many = advice((0..200_000).map(|i| if i % 1_000 == 0 { 250_000 } else { 300 }));
    assert_eq!((many.fast, many.correction), (Span::from_millis(500), Span::from_secs(300)));
    assert!(many.words.contains("corrections (9,999 of 10,000 came within 4m "), "{}", many.words);
    assert!(!many.words.contains("guess"), "{}", many.words);
}

#[test]
fn only_stamps_that_say_something_count() {
    let source = SourceId::new("plc");
    let mut book = LatenessBook::default();
    book.saw(&source, &stamp(1_000));
    book.saw(&source, &Stamp { origin: Origin::Gateway, ..stamp(0) });
    let silent = [
        Stamp { flags: Flags::FUTURE, ..stamp(-900_000) },
        Stamp { flags: Flags::PAST, ..stamp(900_000_000) },
        Stamp { flags: Flags::DEVICE_UNSYNC, ..stamp(5) },
        Stamp { state: ClockState::Unsynchronized, ..stamp(5) },
        Stamp { state: ClockState::Stepped, ..stamp(5) },
        Stamp { origin: Origin::Substituted, ..stamp(5) },
    ];
    silent.iter().for_each(|stamp| book.saw(&source, stamp));
    let quantiles = book.quantiles();
    assert_eq!(quantiles.len(), 1);
    assert_eq!((quantiles[&source].count, quantiles[&source].max), (2, Span::from_secs(1)));
}

#[test]
fn a_book_survives_its_bytes_and_refuses_others() {
    let mut book = LatenessBook::default();
    for ms in [5, 300, -20] {
        book.saw(&SourceId::new("plc"), &stamp(ms));
    }
    let bytes = book.to_bytes();
    assert!(bytes.len() < 100, "{}", bytes.len());
    assert_eq!(LatenessBook::from_bytes(&bytes), Some(book));
    assert_eq!(LatenessBook::from_bytes(&[]), Some(LatenessBook::default()));
    assert_eq!(LatenessBook::from_bytes(&[2, 0]), None);
    assert_eq!(LatenessBook::from_bytes(&bytes[..bytes.len() - 1]), None);
}

#[test]
fn merged_is_as_measured_together() {
    let mut merged = lateness([1, 2, -3]);
    merged.merge(&lateness([4_000, 0]));
    assert_eq!(merged, lateness([1, 2, -3, 4_000, 0]));
}
