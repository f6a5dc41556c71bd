//! The terms for a clock's quality: what disciplines it, how far it can be
//! trusted, and all of it at one instant.

use crate::core::id::BootId;
use crate::core::time::{IngestTime, MaxError, TimebaseId};

/// What disciplines the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClockSource {
    /// A satellite receiver.
    Gnss,
    /// IEEE 1588.
    Ptp,
    /// NTP, by whichever daemon.
    Ntp,
    /// The battery-backed clock that set the time at boot.
    Rtc,
    /// An operator.
    Manual,
    /// Nothing but its own oscillator.
    FreeRunning,
    /// A time saved before shutdown: a lower bound.
    Saved,
    /// Not known.
    #[default]
    Unknown,
}

impl ClockSource {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            ClockSource::Gnss => "gnss",
            ClockSource::Ptp => "ptp",
            ClockSource::Ntp => "ntp",
            ClockSource::Rtc => "rtc",
            ClockSource::Manual => "manual",
            ClockSource::FreeRunning => "free_running",
            ClockSource::Saved => "saved",
            ClockSource::Unknown => "unknown",
        }
    }
}

/// How far the clock can be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClockState {
    /// A live source bounds its error.
    Synchronized,
    /// It was synchronized and coasts; the bound grows.
    Holdover,
    /// It was set, and has not been synchronized since.
    Stepped,
    /// Nothing bounds its error.
    #[default]
    Unsynchronized,
}

impl ClockState {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            ClockState::Synchronized => "synchronized",
            ClockState::Holdover => "holdover",
            ClockState::Stepped => "stepped",
            ClockState::Unsynchronized => "unsynchronized",
        }
    }

    /// Whether other times may be judged by this clock: a gateway in 1970 must not flag the
    /// times of a good PLC as lying in the future.
    pub const fn is_trusted(self) -> bool {
        matches!(self, ClockState::Synchronized | ClockState::Holdover)
    }
}

/// Everything read from the clock at one instant, taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// Wall time.
    pub wall: IngestTime,
    /// What disciplines the clock.
    pub source: ClockSource,
    /// How far it can be trusted.
    pub state: ClockState,
    /// Bound on |wall − UTC|.
    pub max_error: Option<MaxError>,
    /// The stretch between steps.
    pub timebase: TimebaseId,
    /// This run of the machine.
    pub boot: BootId,
}

impl ClockReading {
    /// A reading of a clock that is not synchronized.
    pub fn unsynchronized(wall: IngestTime, boot: BootId) -> Self {
        Self {
            wall,
            source: ClockSource::Unknown,
            state: ClockState::Unsynchronized,
            max_error: None,
            timebase: TimebaseId(1),
            boot,
        }
    }
}
