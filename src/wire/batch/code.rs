//! The codes of [`Provenance`](super::Provenance): places in these lists. Only
//! ever append.

use crate::core::clock::{ClockSource, ClockState};
use crate::core::reading::{Origin, Quality};

pub(super) const QUALITIES: [Quality; 3] = [Quality::Good, Quality::Uncertain, Quality::Bad];

pub(super) const ORIGINS: [Origin; 7] = [
    Origin::Device,
    Origin::DeviceCorrected,
    Origin::Gateway,
    Origin::Restamped,
    Origin::Substituted,
    Origin::Bounded,
    Origin::Unknown,
];

pub(super) const CLOCKS: [ClockSource; 8] = [
    ClockSource::Gnss,
    ClockSource::Ptp,
    ClockSource::Ntp,
    ClockSource::Rtc,
    ClockSource::Manual,
    ClockSource::FreeRunning,
    ClockSource::Saved,
    ClockSource::Unknown,
];

pub(super) const STATES: [ClockState; 4] = [
    ClockState::Synchronized,
    ClockState::Holdover,
    ClockState::Stepped,
    ClockState::Unsynchronized,
];

pub(super) const fn quality(quality: Quality) -> u8 {
    match quality {
        Quality::Good => 0,
        Quality::Uncertain => 1,
        Quality::Bad => 2,
    }
}

pub(super) const fn origin(origin: Origin) -> u8 {
    match origin {
        Origin::Device => 0,
        Origin::DeviceCorrected => 1,
        Origin::Gateway => 2,
        Origin::Restamped => 3,
        Origin::Substituted => 4,
        Origin::Bounded => 5,
        Origin::Unknown => 6,
    }
}

pub(super) const fn clock(clock: ClockSource) -> u8 {
    match clock {
        ClockSource::Gnss => 0,
        ClockSource::Ptp => 1,
        ClockSource::Ntp => 2,
        ClockSource::Rtc => 3,
        ClockSource::Manual => 4,
        ClockSource::FreeRunning => 5,
        ClockSource::Saved => 6,
        ClockSource::Unknown => 7,
    }
}

pub(super) const fn state(state: ClockState) -> u8 {
    match state {
        ClockState::Synchronized => 0,
        ClockState::Holdover => 1,
        ClockState::Stepped => 2,
        ClockState::Unsynchronized => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_a_place_in_its_list() {
        assert!((0..).zip(QUALITIES).all(|(code, one)| quality(one) == code));
        assert!((0..).zip(ORIGINS).all(|(code, one)| origin(one) == code));
        assert!((0..).zip(CLOCKS).all(|(code, one)| clock(one) == code));
        assert!((0..).zip(STATES).all(|(code, one)| state(one) == code));
    }
}
