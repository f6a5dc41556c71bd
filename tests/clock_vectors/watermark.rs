//! Which readings move a watermark, and where the others go.

use serde_json::{Value, json};
use tidegate::core::agent::SourceSettings;
use tidegate::core::reading::{Flags, Origin, Stamp};
use tidegate::core::skew::SourceClock;
use tidegate::core::stamp::lane::{StampLane, lane, watermark};
use tidegate::core::stamp::{Verdict, stamp};
use tidegate::core::time::{EventTime, MaxError, Span};

use crate::{arrival, check_keys, clock, int};

pub(crate) fn run(input: &Value) -> Value {
    check_keys(input, &["readings", "out_of_orderness_ns"]);
    let bound = Span::from_ns(int(input, "out_of_orderness_ns").unwrap());
    let mut at: Option<EventTime> = None;
    let mut out = Vec::new();
    for reading in input["readings"].as_array().unwrap() {
        let stamp = stamp_of(reading);
        let arrival = arrival(int(reading, "arrival").unwrap(), 0).ingest;
        let arrival_error =
            MaxError::from_ns(int(reading, "arrival_err").unwrap_or(0).unsigned_abs());
        let lane = lane(&stamp, arrival, arrival_error);
        if lane == StampLane::Main {
            at = Some(watermark(at, &stamp, arrival, bound));
        }
        let watermark = at.map(EventTime::unix_ns);
        out.push(json!({ "id": reading["id"], "lane": lane.as_str(), "watermark": watermark }));
    }
    Value::Array(out)
}

/// A stamp as another clock made it.
fn stamp_of(reading: &Value) -> Stamp {
    check_keys(
        reading,
        &["id", "event_time", "arrival", "arrival_err", "state", "err_ns", "flags"],
    );
    let event_ns = int(reading, "event_time").unwrap();
    let clock = clock(reading["state"].as_str().unwrap(), int(reading, "err_ns"));
    let settings = SourceSettings::DEFAULT;
    let stamped =
        stamp(&settings, &clock, &arrival(event_ns, 0), None, &mut SourceClock::default());
    let Verdict::Stamp(stamp) = stamped.verdict else { panic!("{stamped:?}") };
    let named = reading.get("flags").map(|flags| flags.as_array().unwrap().as_slice());
    let flags = named.unwrap_or_default().iter().fold(Flags::NONE, |flags, name| {
        let name = name.as_str().unwrap().to_lowercase();
        let flag = Flags::NAMES.iter().find(|(_, known)| *known == name).unwrap().0;
        flags.with(flag)
    });
    Stamp { origin: Origin::Device, flags, ..stamp }
}
