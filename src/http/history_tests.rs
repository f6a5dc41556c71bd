//! What is kept, and what is given up.

use super::*;
use crate::core::window::ResultStatus;
use crate::http::stream::tests::result;

/// Of series `entity` the window that ends at this second.
fn ended(entity: &str, end_s: i64) -> Arc<WindowResult> {
    let (start, end) = (end_s - 10, end_s);
    let at = |s: i64| EventTime::from_unix_ns(s * 1_000_000_000);
    let one = result("w", entity, 1);
    Arc::new(WindowResult { start: at(start), end: at(end), ..(*one).clone() })
}

/// Series and end in seconds of what is kept.
fn kept(history: &History) -> Vec<(String, i64)> {
    let said = |one: &Arc<WindowResult>| {
        (one.series.entity.to_string(), one.end.unix_ns() / 1_000_000_000)
    };
    history.all().map(said).collect()
}

fn pairs(expected: &[(&str, i64)]) -> Vec<(String, i64)> {
    expected.iter().map(|(entity, end)| ((*entity).to_owned(), *end)).collect()
}

#[test]
fn a_series_keeps_its_newest_windows_in_the_order_of_time() {
    let mut history = History::new(3, BYTES_MAX);
    for end in [20, 10, 40, 30, 50] {
        history.note(&ended("b", end));
    }
    history.note(&ended("a", 10));
    // Of long ago: there is no place for it any more.
    history.note(&ended("b", 10));
    assert_eq!(kept(&history), pairs(&[("a", 10), ("b", 30), ("b", 40), ("b", 50)]));
}

#[test]
fn what_comes_later_for_a_window_replaces_what_was_said() {
    let mut history = History::new(3, BYTES_MAX);
    let first = ended("a", 10);
    let revised = Arc::new(WindowResult { revision: 2, ..(*first).clone() });
    let gone = Arc::new(WindowResult { status: ResultStatus::Retracted, ..(*revised).clone() });
    for (one, bytes) in
        [(&first, weight(&first)), (&revised, weight(&revised)), (&gone, weight(&gone))]
    {
        history.note(one);
        let all: Vec<&Arc<WindowResult>> = history.all().collect();
        assert_eq!((all, history.bytes), (vec![one], bytes));
    }
}

#[test]
fn a_new_timebase_is_newer_whatever_its_times_say() {
    let mut history = History::new(2, BYTES_MAX);
    let stepped = WindowResult { timebase: TimebaseId(1), ..(*ended("a", 10)).clone() };
    history.note(&ended("a", 20));
    history.note(&ended("a", 30));
    history.note(&Arc::new(stepped));
    assert_eq!(kept(&history), pairs(&[("a", 30), ("a", 10)]));
}

#[test]
fn when_bytes_run_out_the_longest_series_gives_up_its_oldest() {
    let bytes = weight(&ended("a", 10));
    let mut history = History::new(PER_SERIES_MAX, 4 * bytes);
    for end in [10, 20, 30] {
        history.note(&ended("a", end));
    }
    history.note(&ended("b", 10));
    history.note(&ended("c", 10));
    assert_eq!(kept(&history), pairs(&[("a", 20), ("a", 30), ("b", 10), ("c", 10)]));
    history.note(&ended("d", 10));
    assert_eq!(kept(&history), pairs(&[("a", 30), ("b", 10), ("c", 10), ("d", 10)]));
    // More series than there is room for: somebody goes, and the bound holds.
    ["e", "f", "g"].iter().for_each(|entity| history.note(&ended(entity, 10)));
    assert_eq!((kept(&history).len(), history.bytes), (4, 4 * bytes));
    assert_eq!((history.kept.len(), history.by_length.len()), (4, 4));
}

#[test]
fn the_bound_holds_some_thousands_of_results() {
    let values = vec![(Aggregate::Mean, Some(Number::Real(1.5))); 5];
    let one = WindowResult { values, ..(*ended("a", 10)).clone() };
    let count = BYTES_MAX / weight(&one);
    assert!((7_000..9_000).contains(&count), "{count}");
}
