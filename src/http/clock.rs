//! The clock as the status says it, in the same stable form: durations are
//! seconds, errors microseconds, rates parts per million, and what is not known
//! is `null`. Fields are added, never renamed.

use serde::{Deserialize, Serialize};

use super::words;
use crate::core::clock::chrony::ChronyReport;
use crate::core::clock::kernel::{KernelClock, KernelVerdict};
use crate::core::clock::ptp::PtpReport;
use crate::core::clock::{ClockEvent, ClockEventKind};
use crate::core::status::ClockStatus;
use crate::core::time::{IngestTime, Span};

/// The clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// What disciplines it: `gnss`, `ptp`, `ntp`, `rtc`, `manual`,
    /// `free_running`, `saved` or `unknown`.
    pub source: String,
    /// How far it can be trusted: `synchronized`, `holdover`, `stepped` or
    /// `unsynchronized`.
    pub state: String,
    /// Bound on its error in microseconds, rounded up.
    pub max_error_us: Option<u64>,
    /// Counts the stretches between steps.
    pub timebase: u32,
    /// This run of the machine.
    pub boot: String,
    /// Seconds since it began, by the crystal alone.
    pub uptime_s: f64,
    /// For how long it has been synchronized without interruption.
    pub synchronized_for_s: Option<f64>,
    /// How the crystal runs, positive when it is slow; once learnt.
    pub rate_ppm: Option<f64>,
    /// Steps since the agent started.
    pub steps: Steps,
    /// The newest events, oldest first.
    pub events: Vec<Event>,
    /// Entries of the journal that may still get a better time.
    pub open_readings: u64,
    /// The longest that they may still wait; absent where none waits.
    pub held_for_s: Option<f64>,
    /// Readings delivered with a corrected time since the agent started.
    pub restamped: u64,
    /// Readings delivered with nothing but bounds for their time since the agent
    /// started.
    pub bounded: u64,
    /// Corrections that the broker does not have yet.
    pub corrections_waiting: u64,
    /// What the kernel says; `null` when it cannot be asked.
    pub kernel: Option<Kernel>,
    /// What chronyd says; `null` when it does not answer.
    pub chrony: Option<Chrony>,
    /// What ptp4l says; `null` when it does not answer.
    pub ptp: Option<Ptp>,
    /// When systemd-timesyncd last accepted a server's answer; `null` when it has
    /// not since boot.
    pub timesyncd_at: Option<String>,
    /// All this for people: first the state and its bound, as in "synchronized by
    /// NTP, within 12 ms", then what waits for the clock, then its last step.
    #[serde(default)]
    pub words: Vec<String>,
}

/// Steps of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// To a later time.
    pub forward: u64,
    /// To an earlier time.
    pub back: u64,
}

/// Something that happened to the clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// `boot`, `step`, `leap`, `suspend`, `stall`, `fast_slew`, `state` or
    /// `vouched`.
    pub kind: String,
    /// By how much, or for how long; positive is forward.
    pub delta_s: Option<f64>,
    /// How hard a daemon steers (`fast_slew`).
    pub ppm: Option<i32>,
    /// The wall clock just after.
    pub at: String,
    /// The state before.
    pub from: String,
    /// The state after.
    pub to: String,
}

/// The kernel's word (`adjtimex`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Its own bound, as read.
    pub max_error_us: i64,
    /// Its own estimate, as read.
    pub est_error_us: i64,
    /// The `STA_` bits, as in `0x2001`.
    pub status: String,
    /// What its bound is worth: `reported`, `zeroed_timesyncd`,
    /// `zeroed_phc2sys`, `saturated` or `failed`.
    pub kind: String,
    /// `none`, `insert_pending`, `delete_pending`, `in_progress` or `just_done`.
    pub leap: String,
    /// The correction of the rate that it applies now.
    pub rate_ppm: f64,
}

/// chronyd's word (`chronyc tracking`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chrony {
    /// The reference in hexadecimal, as chronyc prints it.
    pub ref_id: String,
    /// Hops from a reference clock; 0 when unknown.
    pub stratum: u16,
    /// False when it calls itself not synchronised.
    pub leap_ok: bool,
    /// What is still to be corrected; positive: the clock is slow.
    pub correction_us: f64,
    /// Path delay to the reference.
    pub root_delay_us: f64,
    /// Accumulated error to the reference.
    pub root_dispersion_us: f64,
    /// Bound on the error of its rate.
    pub skew_ppm: f64,
    /// Since its last update; `null` while it has no reference.
    pub age_s: Option<f64>,
    /// Whether a live source stands behind it.
    pub fresh: bool,
}

/// ptp4l's word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ptp {
    /// Whether a grandmaster is there.
    pub grandmaster: bool,
    /// Offset from it.
    pub offset_us: f64,
    /// Mean path delay to it.
    pub path_delay_us: f64,
    /// Its `clockClass` (6 synchronized, 7 and others in holdover).
    pub clock_class: u8,
    /// Its `clockAccuracy`, as in `0x21`.
    pub clock_accuracy: String,
    /// Whether UTC can be told from its time at all.
    pub utc_known: bool,
}

/// The `time` object of a reading that is stamped now and carries no time of its
/// own, as it goes up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Who says when: `gateway`.
    pub origin: String,
    /// What disciplines the clock.
    pub clock: String,
    /// How far it can be trusted.
    pub state: String,
    /// Bound on its error; left out when nothing bounds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_error_us: Option<u64>,
    /// The stretch between steps.
    pub timebase: u32,
    /// This run of the machine; left out under a synchronized clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// Time since it began; left out under a synchronized clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uptime_ns: Option<u64>,
}

impl Clock {
    /// The form of `status`.
    pub fn new(status: &ClockStatus) -> Self {
        let ClockStatus { reading, facts, .. } = status;
        let kernel = facts.kernel.as_ref().zip(status.kernel.as_ref());
        let mut clock = Self {
            source: reading.source.as_str().to_owned(),
            state: reading.state.as_str().to_owned(),
            max_error_us: reading.max_error.map(|error| error.micros_ceil()),
            timebase: reading.timebase.0,
            boot: reading.boot.to_string(),
            uptime_s: rounded(status.uptime.ns() as f64 / 1e9),
            synchronized_for_s: status.synchronized_for.map(seconds),
            rate_ppm: status.rate_ppb.map(ppm),
            steps: Steps { forward: status.steps.0, back: status.steps.1 },
            events: status.events.iter().map(event).collect(),
            open_readings: status.open,
            held_for_s: status.held_for.map(seconds),
            restamped: status.retimed.0,
            bounded: status.retimed.1,
            corrections_waiting: status.uncorrected as u64,
            kernel: kernel.map(|(clock, verdict)| self::kernel(clock, verdict)),
            chrony: facts.chrony.as_ref().map(|(report, _)| chrony(report, reading.wall)),
            ptp: facts.ptp.as_ref().map(ptp),
            timesyncd_at: facts.timesyncd_at.map(|at| at.to_string()),
            words: Vec::new(),
        };
        clock.words = words::all(&clock);
        clock
    }

    /// Whether its word on the time counts: synchronized, or in holdover.
    pub fn is_trusted(&self) -> bool {
        matches!(self.state.as_str(), "synchronized" | "holdover")
    }

    /// How a reading without a time of its own is stamped now.
    pub fn stamp(&self) -> Stamp {
        // The evidence goes with every time of a clock that is not synchronized.
        let has_evidence = self.state != "synchronized";
        Stamp {
            origin: "gateway".to_owned(),
            clock: self.source.clone(),
            state: self.state.clone(),
            max_error_us: self.max_error_us,
            timebase: self.timebase,
            boot: has_evidence.then(|| self.boot.clone()),
            // Whole milliseconds, as the status has them.
            uptime_ns: has_evidence.then(|| (self.uptime_s * 1e3).round() as u64 * 1_000_000),
        }
    }
}

fn event(event: &ClockEvent) -> Event {
    let ppm = match event.kind {
        ClockEventKind::FastSlew { ppm } => Some(ppm),
        _ => None,
    };
    Event {
        kind: event.kind.as_str().to_owned(),
        // A step may be as short as a millisecond.
        delta_s: event.kind.delta().map(|by| (by.as_secs_f64() * 1e6).round() / 1e6),
        ppm,
        at: event.at.to_string(),
        from: event.state_before.as_str().to_owned(),
        to: event.state.as_str().to_owned(),
    }
}

fn kernel(clock: &KernelClock, verdict: &KernelVerdict) -> Kernel {
    Kernel {
        max_error_us: clock.max_error_us,
        est_error_us: clock.est_error_us,
        status: format!("{:#06x}", clock.status),
        kind: verdict.kind.as_str().to_owned(),
        leap: verdict.leap.as_str().to_owned(),
        rate_ppm: ppm(clock.rate_ppb()),
    }
}

fn chrony(report: &ChronyReport, wall: IngestTime) -> Chrony {
    let verdict = report.judge(wall.unix_ns());
    Chrony {
        ref_id: format!("{:08X}", report.ref_id),
        stratum: report.stratum,
        leap_ok: report.is_synchronised,
        correction_us: micros(report.correction_ns),
        root_delay_us: micros(report.root_delay_ns),
        root_dispersion_us: micros(report.root_dispersion_ns),
        skew_ppm: rounded(report.skew_ppm),
        age_s: verdict.is_synchronized.then(|| rounded(verdict.age_ns as f64 / 1e9)),
        fresh: verdict.is_fresh,
    }
}

fn ptp(report: &PtpReport) -> Ptp {
    Ptp {
        grandmaster: report.has_grandmaster,
        offset_us: micros(report.master_offset_ns),
        path_delay_us: micros(report.path_delay_ns),
        clock_class: report.clock_class,
        clock_accuracy: format!("{:#04x}", report.clock_accuracy),
        utc_known: report.is_utc_offset_valid && report.is_ptp_timescale,
    }
}

fn micros(ns: i64) -> f64 {
    ns as f64 / 1e3
}

fn ppm(ppb: i64) -> f64 {
    ppb as f64 / 1e3
}

fn seconds(span: Span) -> f64 {
    rounded(span.as_secs_f64())
}

/// Three decimals are enough, and keep the text short.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
