//! Local times in the two nights of the year.

use serde_json::{Value, json};
use tidegate::core::time::{EventTime, IngestTime, MaxError, Span};
use tidegate::core::zone::{DecidedBy, Hints, Kind, Zone, resolve};

use crate::{check_keys, flag, int};

const KEYS: &[&str] =
    &["naive", "zone", "su", "arrival", "arrival_err", "live", "last_utc", "l_typ_ns"];

pub(crate) fn run(input: &Value) -> Value {
    check_keys(input, KEYS);
    let zone: Zone = input["zone"].as_str().unwrap().parse().unwrap();
    let naive: chrono::NaiveDateTime = input["naive"].as_str().unwrap().parse().unwrap();
    let is_live = flag(input, "live").unwrap_or(true);
    let error = MaxError::from_ns(int(input, "arrival_err").unwrap_or(0).unsigned_abs());
    let arrival = int(input, "arrival").filter(|_| is_live);
    let hints = Hints {
        is_summer: flag(input, "su"),
        arrival: arrival.map(|ns| (IngestTime::from_unix_ns(ns), error)),
        latency: Span::from_ns(int(input, "l_typ_ns").unwrap_or(0)),
        previous: int(input, "last_utc").map(EventTime::from_unix_ns),
        prefers_later: false,
    };
    let local_ns = naive.and_utc().timestamp_nanos_opt().unwrap();
    let resolved = resolve(zone, local_ns, &hints).unwrap();
    let mut out = json!({
        "utc": resolved.at.unix_ns(),
        "offset_min": resolved.offset_s / 60,
        "flags": ["NO_OFFSET"],
        "kind": "unique",
    });
    match resolved.kind {
        Kind::Unique => {}
        Kind::Gap => {
            out["kind"] = "gap".into();
            out["flags"] = json!(["NO_OFFSET", "DST_GAP"]);
        }
        Kind::Fold { by, alternative } => {
            out["kind"] = "fold".into();
            out["flags"] = json!(["NO_OFFSET", "DST_FOLD"]);
            out["resolved_by"] = match by {
                DecidedBy::SummerBit => "su_bit",
                DecidedBy::Arrival => "arrival",
                DecidedBy::Continuity => "continuity",
                DecidedBy::Default => "earlier_default",
            }
            .into();
            out["alternative"] = alternative.unix_ns().into();
        }
    }
    out
}
