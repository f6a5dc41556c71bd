//! Time quality in the words of others.

use serde_json::{Value, json};
use tidegate::core::clock::encode::{
    TimeQuality, c37_118_msg_tq, error_exponent, iec61850_time_quality,
    miniseed_max_estimated_error, miniseed_timing_quality, rfc5424_time_quality,
};
use tidegate::core::clock::{ClockSource, ClockState};
use tidegate::core::reading::Origin;
use tidegate::core::time::MaxError;

use crate::{check_keys, flag, int};

const KEYS: &[&str] = &["origin", "source", "state", "max_err_ns", "leap_known", "clock_failure"];

pub(crate) fn run(input: &Value) -> Value {
    check_keys(input, KEYS);
    let word = |key: &str| input[key].as_str().unwrap();
    let (origin, source, state) =
        (origin(word("origin")), source(word("source")), state(word("state")));
    let error = int(input, "max_err_ns").map(|ns| MaxError::from_ns(ns.unsigned_abs()));
    let quality = TimeQuality {
        origin,
        source,
        state,
        error_exponent: error_exponent(error),
        is_leap: false,
        has_flags: false,
    };
    let tq = quality.pack();
    assert_eq!(TimeQuality::unpack(tq), Some(quality));
    let leap_known = flag(input, "leap_known").unwrap_or(false);
    let failure = flag(input, "clock_failure").unwrap_or(false);
    let iec61850 = iec61850_time_quality(state, error, leap_known, failure);
    json!({
        "err_exp": quality.error_exponent,
        "tq_u16": tq,
        "tq_hex": format!("{tq:#06x}"),
        "iec61850_time_quality": format!("{iec61850:#04x}"),
        "c37_118_msg_tq": format!("0x{:X}", c37_118_msg_tq(source, state, error)),
        "rfc5424": rfc5424_time_quality(state, error),
        "mseed_timing_quality": miniseed_timing_quality(error),
        "mseed_max_estimated_error_s": miniseed_max_estimated_error(error),
    })
}

fn origin(word: &str) -> Origin {
    match word {
        "unknown" => Origin::Unknown,
        "device" => Origin::Device,
        "device_corrected" => Origin::DeviceCorrected,
        "gateway" => Origin::Gateway,
        "restamped" => Origin::Restamped,
        "substituted" => Origin::Substituted,
        "bounded" => Origin::Bounded,
        other => panic!("the origin {other:?} is not known"),
    }
}

fn source(word: &str) -> ClockSource {
    let all = [
        ClockSource::Unknown,
        ClockSource::Gnss,
        ClockSource::Ptp,
        ClockSource::Ntp,
        ClockSource::Rtc,
        ClockSource::Manual,
        ClockSource::FreeRunning,
        ClockSource::Saved,
    ];
    all.into_iter().find(|source| source.as_str() == word).unwrap()
}

pub(crate) fn state(word: &str) -> ClockState {
    let all = [
        ClockState::Unsynchronized,
        ClockState::Stepped,
        ClockState::Holdover,
        ClockState::Synchronized,
    ];
    all.into_iter().find(|state| state.as_str() == word).unwrap()
}
