//! What two looks at the clocks show, and what anchors and neighbouring boots
//! say about a stamp.

use serde_json::{Value, json};
use tidegate::core::clock::detect::{self, Change};
use tidegate::core::clock::kernel::{KernelClock, Leap};
use tidegate::core::clock::timeline::{Anchor, Anchored, Bounded, FirstStamp, Suspends};
use tidegate::core::clock::{ClockSource, ClockState};
use tidegate::core::seam::Now;
use tidegate::core::time::{IngestTime, MonoTime, Uptime};

use crate::{check_keys, int, upper};

pub(crate) fn detect(input: &Value) -> Value {
    check_keys(input, &["samples", "poll_ns"]);
    let samples: Vec<(Now, Leap)> = input["samples"].as_array().unwrap().iter().map(look).collect();
    let poll_ns = int(input, "poll_ns").unwrap() as u64;
    let pairs = || samples.iter().zip(&samples[1..]);
    let found = pairs().flat_map(|((before, leap_before), (now, leap_now))| {
        detect::changes(before, now, (*leap_before, *leap_now), poll_ns)
    });
    let mut got = json!({ "events": found.map(event).collect::<Vec<Value>>() });
    // The vector for slewing has no other event.
    if got["events"] == json!([]) {
        let ppm = pairs().filter_map(|((before, _), (now, _))| detect::slew_ppm(before, now));
        let fast = ppm.map(|ppm| (ppm * 10.0).round() / 10.0).find(|ppm| ppm.abs() > 400.0);
        if let Some(ppm) = fast {
            got["slew_ppm"] = ppm.into();
        }
    }
    got
}

fn look(sample: &Value) -> (Now, Leap) {
    check_keys(sample, &["R", "M", "W", "B", "rc", "status"]);
    let clock = |key: &str| int(sample, key).unwrap();
    let now = Now {
        mono: MonoTime::from_ns(clock("B") as u64),
        wall: IngestTime::from_unix_ns(clock("R")),
        raw_ns: clock("W") as u64,
        suspended_ns: (clock("B") - clock("M")) as u64,
        span_ns: 0,
    };
    let kernel = KernelClock {
        code: int(sample, "rc").unwrap_or(0) as i32,
        status: int(sample, "status").unwrap_or(0) as i32,
        max_error_us: 0,
        est_error_us: 0,
        offset: 0,
        freq: 0,
        tick: 10_000,
        tai: 0,
    };
    (now, kernel.judge().leap)
}

fn event(change: Change) -> Value {
    match change {
        Change::Suspend(by) => json!({ "type": "suspend", "suspended_ns": by.ns() }),
        Change::Step(by) => json!({ "type": "step", "delta_ns": by.ns() }),
        Change::Stall(by) => json!({ "type": "stall", "gap_ns": by.ns() }),
        Change::Leap(by) => {
            let direction = if by.ns() < 0 { "insert" } else { "delete" };
            json!({ "type": "leap", "direction": direction, "delta_ns": by.ns() })
        }
    }
}

pub(crate) fn restamp(input: &Value) -> Value {
    check_keys(
        input,
        &["u", "anchors", "as_read", "stamp_state", "stamp_err", "phi_ppb", "rho_ppb"],
    );
    let up = Uptime::from_ns(int(input, "u").unwrap() as u64);
    let mut anchors = Vec::new();
    let mut suspends = Vec::new();
    for anchor in input["anchors"].as_array().unwrap() {
        check_keys(anchor, &["up", "real", "err", "susp_between"]);
        let at = Uptime::from_ns(int(anchor, "up").unwrap() as u64);
        anchors.push(Anchor {
            up: at,
            utc_ns: int(anchor, "real").unwrap(),
            error_ns: int(anchor, "err").unwrap() as u64,
        });
        if let Some(count) = int(anchor, "susp_between") {
            suspends.push(Suspends { first: at, last: at, count: count as u32 });
        }
    }
    let anchored = Anchored {
        anchors,
        suspends,
        rate_ppb: int(input, "phi_ppb").unwrap_or(0),
        rate_error_ppb: int(input, "rho_ppb").unwrap_or(100_000) as u64,
        source: ClockSource::Ntp,
    };
    let as_read = int(input, "as_read").unwrap();
    let first = FirstStamp {
        up,
        wall_ns: as_read,
        state: state(input["stamp_state"].as_str().unwrap()),
        error_ns: input["stamp_err"].as_u64(),
    };
    let retimed = anchored.retime(&first);
    let mut got = json!({
        "event_time": retimed.utc_ns,
        "origin": if retimed.is_restamped { "restamped" } else { "gateway" },
        "max_err_ns": retimed.error_ns,
        "restamped": retimed.is_restamped,
        "flags": upper(retimed.flags),
    });
    if retimed.is_restamped {
        got["orig_time"] = as_read.into();
    }
    got
}

fn state(word: &str) -> ClockState {
    use ClockState::{Holdover, Stepped, Synchronized, Unsynchronized};
    let known = [Unsynchronized, Stepped, Holdover, Synchronized];
    known.into_iter().find(|state| state.as_str() == word).unwrap()
}

pub(crate) fn multi_boot(input: &Value) -> Value {
    check_keys(
        input,
        &["prev_end", "prev_end_err", "uptimes", "next_start", "next_start_err", "i", "u"],
    );
    let number = |key: &str| int(input, key).unwrap();
    let uptimes: Vec<u64> =
        input["uptimes"].as_array().unwrap().iter().map(|up| up.as_u64().unwrap()).collect();
    let at = number("i") as usize;
    let bounded = Bounded {
        after_ns: number("prev_end") - number("prev_end_err"),
        uptime_before_ns: uptimes[..at].iter().sum(),
        before_ns: number("next_start") + number("next_start_err"),
        uptime_after_ns: uptimes[at..].iter().sum(),
        rate_error_ppb: 100_000,
        is_wall_plausible: false,
    };
    let up = Uptime::from_ns(number("u") as u64);
    let interval = bounded.interval(up);
    let unknown = ClockState::Unsynchronized;
    let first = FirstStamp { up, wall_ns: 0, state: unknown, error_ns: None };
    let retimed = bounded.retime(&first);
    json!({
        "utc_lo": i64::try_from(interval.low_ns).unwrap(),
        "utc_hi": i64::try_from(interval.high_ns).unwrap(),
        "event_time": retimed.utc_ns,
        "max_err_ns": retimed.error_ns,
        "origin": if retimed.is_restamped { "bounded" } else { "gateway" },
    })
}
