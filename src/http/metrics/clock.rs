//! What is measured of the clock.

use prometheus_client::registry::Registry;

use super::{Counters, Gauges, Labels, add, set, store};
use crate::core::clock::{ClockSource, ClockState};
use crate::http::clock::Clock;

/// Everything that can discipline a clock.
const CLOCK_SOURCES: [ClockSource; 8] = [
    ClockSource::Gnss,
    ClockSource::Ptp,
    ClockSource::Ntp,
    ClockSource::Rtc,
    ClockSource::Manual,
    ClockSource::FreeRunning,
    ClockSource::Saved,
    ClockSource::Unknown,
];

/// What is measured of the clock.
#[derive(Debug)]
pub(super) struct ClockMetrics {
    state: Gauges,
    max_error: Gauges,
    source: Gauges,
    steps: Counters,
    open: Gauges,
    corrections: Gauges,
    retimed: Counters,
}

impl ClockMetrics {
    pub(super) fn new(r: &mut Registry) -> Self {
        Self {
            state: add(
                r,
                "clock_state",
                "By how far it is trusted: 0 unsynchronized, 1 stepped, 2 holdover, 3 synchronized",
            ),
            max_error: add(
                r,
                "clock_max_error_seconds",
                "Bound on the clock's error; absent while nothing bounds it",
            ),
            source: add(r, "clock_source", "1 for what disciplines the clock now"),
            steps: add(r, "clock_steps", "Steps of the wall clock"),
            open: add(
                r,
                "clock_open_readings",
                "Readings in the journal that may still get a better time",
            ),
            corrections: add(
                r,
                "clock_corrections_waiting",
                "Corrections that the broker does not have yet",
            ),
            retimed: add(
                r,
                "readings_retimed",
                "Readings sent with a corrected time, or with nothing but bounds",
            ),
        }
    }

    pub(super) fn take_over(&self, clock: &Clock) {
        let none = Labels::new();
        let label = |name, word: &str| vec![(name, word.to_owned())];
        set(&self.state, &none, Some(clock_number(&clock.state)));
        set(&self.max_error, &none, clock.max_error_us.map(|us| us as f64 / 1e6));
        // One source at a time: the others are absent.
        for word in CLOCK_SOURCES.map(ClockSource::as_str) {
            let is_it = (word == clock.source).then_some(1.0);
            set(&self.source, &label("source", word), is_it);
        }
        store(&self.steps, &label("direction", "forward"), clock.steps.forward);
        store(&self.steps, &label("direction", "back"), clock.steps.back);
        set(&self.open, &none, Some(clock.open_readings as f64));
        set(&self.corrections, &none, Some(clock.corrections_waiting as f64));
        store(&self.retimed, &label("origin", "restamped"), clock.restamped);
        store(&self.retimed, &label("origin", "bounded"), clock.bounded);
    }
}

/// By how far it is trusted.
pub(super) fn clock_number(state: &str) -> f64 {
    let order = [
        ClockState::Unsynchronized,
        ClockState::Stepped,
        ClockState::Holdover,
        ClockState::Synchronized,
    ];
    order.iter().position(|known| known.as_str() == state).unwrap_or(0) as f64
}
