//! `[source.time]`: how the readings of a source are stamped.

use std::time::Duration;

use toml::de::DeValue;

use super::file::{Section, Wrong};
use super::units::{HOUR, YEAR, secs};
use super::value;
use crate::core::agent::{OnAmbiguousTime, OnBadTime, OnNonexistentTime, SourceSettings};
use crate::core::time::{EventTime, Span};
use crate::core::zone::{self, Zone};

/// 2015-01-01T00:00:00Z: older stamps come from clocks that were never set.
const EARLIEST: EventTime = EventTime::from_unix_ns(1_420_070_400_000_000_000);

/// `[source.time]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceTime {
    /// Whether the device's event time is used when there is one.
    pub trusts_device: bool,
    /// The zone of device times without an offset; `None` takes them as UTC.
    pub zone: Option<Zone>,
    /// What becomes of a local time that happens twice, when nothing tells which
    /// it is.
    pub ambiguous: OnAmbiguousTime,
    /// What becomes of a local time that never happens.
    pub nonexistent: OnNonexistentTime,
    /// Whether readings come as they are taken, rather than in batches.
    pub live: bool,
    /// The longest a live reading takes from the device to this gateway.
    pub latency_max: Duration,
    /// How long it usually takes; at most `latency_max`.
    pub latency_typical: Duration,
    /// How far ahead of the gateway a device stamp is believed.
    pub future_limit: Duration,
    /// Device stamps before this are implausible.
    pub earliest: EventTime,
    /// When the device was made; its stamps before this are implausible.
    pub manufactured: Option<EventTime>,
    /// What becomes of an implausible device stamp.
    pub on_bad_time: OnBadTime,
    /// How far out of order readings may come.
    pub bound: Duration,
}

impl SourceTime {
    /// What the agent needs to know of it; drops no repeats.
    pub(super) fn settings(&self) -> SourceSettings {
        SourceSettings {
            trusts_device: self.trusts_device,
            future_limit: Span::from_std(self.future_limit),
            earliest: self.manufactured.map_or(self.earliest, |made| made.max(self.earliest)),
            on_bad_time: self.on_bad_time,
            zone: self.zone,
            on_ambiguous_time: self.ambiguous,
            on_nonexistent_time: self.nonexistent,
            latency_max: Span::from_std(self.latency_max),
            latency_typical: Span::from_std(self.latency_typical),
            is_live: self.live,
            bound: Span::from_std(self.bound),
            dedupe: None,
            values: None,
        }
    }
}

pub(super) const POLICIES: [(&str, OnBadTime); 4] = [
    ("flag", OnBadTime::Flag),
    ("substitute", OnBadTime::Substitute),
    ("quarantine", OnBadTime::Quarantine),
    ("correct", OnBadTime::Correct),
];
pub(super) const AMBIGUOUS: [(&str, OnAmbiguousTime); 3] = [
    ("earlier", OnAmbiguousTime::Earlier),
    ("later", OnAmbiguousTime::Later),
    ("quarantine", OnAmbiguousTime::Quarantine),
];
pub(super) const NONEXISTENT: [(&str, OnNonexistentTime); 2] =
    [("shift", OnNonexistentTime::Shift), ("quarantine", OnNonexistentTime::Quarantine)];

pub(super) fn source_time(section: Section<'_>, is_live: bool) -> SourceTime {
    let trust = value::one_of(&[("device", true), ("gateway", false)]);
    let latency = || value::duration(Duration::ZERO..=HOUR);
    let length = || value::duration(Duration::ZERO..=YEAR);
    let time = SourceTime {
        trusts_device: section.read("trust", true, trust),
        zone: section.read("zone", None, optional_zone),
        ambiguous: section.read("ambiguous", OnAmbiguousTime::Earlier, value::one_of(&AMBIGUOUS)),
        nonexistent: section.read(
            "nonexistent",
            OnNonexistentTime::Shift,
            value::one_of(&NONEXISTENT),
        ),
        live: section.read("live", is_live, value::boolean),
        latency_max: section.read("latency_max", secs(2), latency()),
        latency_typical: section.read("latency_typical", Duration::ZERO, latency()),
        future_limit: section.read("future_limit", secs(300), length()),
        earliest: section.read("earliest", EARLIEST, value::instant),
        manufactured: section.read("manufactured", None, optional_day),
        on_bad_time: section.read("on_bad_time", OnBadTime::Flag, value::one_of(&POLICIES)),
        bound: section.read("bound", secs(20), length()),
    };
    if time.latency_typical > time.latency_max {
        section.problem("latency_typical", "is more than latency_max", "lower it");
    }
    section.refuse_unknown();
    time
}

/// A time zone, or nothing when the text is empty.
fn optional_zone(value: &DeValue<'_>) -> Result<Option<Zone>, Wrong> {
    let written = value::text(value)?;
    if written.is_empty() {
        return Ok(None);
    }
    parse_zone(&written).map(Some)
}

/// A time zone or an offset.
pub(super) fn parse_zone(written: &str) -> Result<Zone, Wrong> {
    written.parse().map_err(|_| {
        let what = format!("{written:?} is no time zone");
        match near(written) {
            Some(name) => Wrong::new(what, format!("did you mean {name:?}?")),
            None => Wrong::new(
                what,
                "write a name of the IANA database like \"Europe/Berlin\", \
                 or an offset like \"+02:00\"",
            ),
        }
    })
}

/// The zone that was probably meant: compared as a whole and by its last part,
/// without regard to case.
fn near(written: &str) -> Option<&'static str> {
    let place = |name: &str| name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let whole = written.to_ascii_lowercase();
    let last = place(written);
    let distance = |name: &str| {
        let to_whole = strsim::damerau_levenshtein(&name.to_ascii_lowercase(), &whole);
        // A right place in a wrong region is near too, yet less than a typo.
        let to_place = strsim::damerau_levenshtein(&place(name), &last) + 1;
        to_whole.min(to_place)
    };
    let found = zone::names().map(|name| (distance(name), name)).min()?;
    (found.0 <= 1 + last.len() / 4).then_some(found.1)
}

/// An instant or a day (its first instant, UTC), or nothing when the text is
/// empty.
fn optional_day(value: &DeValue<'_>) -> Result<Option<EventTime>, Wrong> {
    const FORM: &str = "write it like \"2019-05-01\" or \"2019-05-01T00:00:00Z\"";
    let written = match value {
        DeValue::Datetime(written) => written.to_string(),
        other => value::text_of(other, "a time", FORM)?,
    };
    if written.is_empty() {
        return Ok(None);
    }
    match written.parse::<chrono::NaiveDate>() {
        Ok(day) => {
            let midnight = day.and_time(chrono::NaiveTime::MIN).and_utc();
            midnight.timestamp_nanos_opt().map(|ns| Some(EventTime::from_unix_ns(ns))).ok_or_else(
                || {
                    let what = format!("{written:?} is not between 1678 and 2262");
                    Wrong::new(what, "write the year in which the device was made")
                },
            )
        }
        Err(_) => value::instant(value).map(Some).map_err(|wrong| Wrong::new(wrong.what, FORM)),
    }
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;
