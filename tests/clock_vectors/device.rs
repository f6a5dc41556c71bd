//! Device times held against the gateway's clock, and the policies.

use serde_json::{Value, json};
use tidegate::core::agent::{OnBadTime, SourceSettings};
use tidegate::core::reading::{DeviceTime, Flags, Origin};
use tidegate::core::skew::{SkewFilter, SourceClock};
use tidegate::core::stamp::judge::{Claim, judge};
use tidegate::core::stamp::{Verdict, stamp};
use tidegate::core::time::{EventTime, MaxError, Span};

use crate::{arrival, check_keys, clock, flag, int, upper};

const KEYS: &[&str] = &[
    "d",
    "g",
    "e_g",
    "g_state",
    "policy",
    "live",
    "l_max_ns",
    "l_typ_ns",
    "declared_err_ns",
    "dev_unsync",
    "floor_ns",
    "theta_ns",
];

pub(crate) fn run(input: &Value) -> Value {
    if input.get("offsets_ms").is_some() {
        return min_filter(input);
    }
    check_keys(input, KEYS);
    let settings = settings(input);
    let clock = clock(input["g_state"].as_str().unwrap(), int(input, "e_g"));
    let arrival = arrival(int(input, "g").unwrap(), 0);
    let at = EventTime::from_unix_ns(int(input, "d").unwrap());
    let is_unset = flag(input, "dev_unsync").unwrap_or(false);
    let flags = if is_unset { Flags::DEVICE_UNSYNC } else { Flags::NONE };
    let declared = int(input, "declared_err_ns").map(|ns| MaxError::from_ns(ns.unsigned_abs()));
    let skew = int(input, "theta_ns").map(Span::from_ns);
    let claim = Claim { at, max_error: declared, flags };
    let judged = judge(&settings, &clock, arrival.ingest, &claim, skew);
    let mut out = json!({
        "flags": upper(judged.flags),
        "lane": if judged.is_quarantined { "quarantine" } else { "main" },
        "event_time": judged.event_time.unix_ns(),
        "origin": origin(judged.origin),
        "max_err_ns": judged.max_error.map(MaxError::ns),
    });
    if let Some(first) = judged.first_event_time {
        out["orig_time"] = first.unix_ns().into();
    }
    if declared.is_none() && skew.is_none() {
        // The whole of stamping says the same.
        let time = Some(DeviceTime { at, utc_offset_s: None, flags });
        let stamped = stamp(&settings, &clock, &arrival, time, &mut SourceClock::default());
        match stamped.verdict {
            Verdict::Quarantine { flags, reason } => {
                assert!(judged.is_quarantined && flags == judged.flags, "{reason}");
            }
            Verdict::Stamp(stamp) => {
                let said = (stamp.event_time, stamp.origin, stamp.max_error, stamp.flags);
                let (event_time, origin) = (judged.event_time, judged.origin);
                assert_eq!(said, (event_time, origin, judged.max_error, judged.flags));
                assert_eq!(stamp.first_event_time, judged.first_event_time);
                assert_eq!((stamp.state, stamp.clock), (clock.state, clock.source));
            }
        }
    }
    out
}

fn settings(input: &Value) -> SourceSettings {
    let default = SourceSettings::DEFAULT;
    SourceSettings {
        on_bad_time: match input.get("policy").map_or("keep", |policy| policy.as_str().unwrap()) {
            "keep" => OnBadTime::Flag,
            "substitute" => OnBadTime::Substitute,
            "quarantine" => OnBadTime::Quarantine,
            "correct" => OnBadTime::Correct,
            other => panic!("the policy {other:?} is not known"),
        },
        is_live: flag(input, "live").unwrap_or(default.is_live),
        latency_max: int(input, "l_max_ns").map_or(default.latency_max, Span::from_ns),
        latency_typical: int(input, "l_typ_ns").map_or(default.latency_typical, Span::from_ns),
        earliest: int(input, "floor_ns").map_or(default.earliest, EventTime::from_unix_ns),
        ..default
    }
}

fn min_filter(input: &Value) -> Value {
    check_keys(input, &["offsets_ms", "l_min_ms"]);
    let mut filter = SkewFilter::default();
    for (at, offset) in (0..).zip(input["offsets_ms"].as_array().unwrap()) {
        filter.add(at, Span::from_millis(offset.as_i64().unwrap()));
    }
    let least = filter.least().unwrap();
    let skew = filter.skew(Span::from_millis(int(input, "l_min_ms").unwrap())).unwrap();
    json!({ "min_ms": least.ns() / 1_000_000, "theta_ms": skew.ns() / 1_000_000 })
}

const fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Device => "device",
        Origin::DeviceCorrected => "device_corrected",
        Origin::Gateway => "gateway",
        Origin::Restamped => "restamped",
        Origin::Substituted => "substituted",
        Origin::Bounded => "bounded",
        Origin::Unknown => "unknown",
    }
}
