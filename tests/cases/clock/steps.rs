//! T-03: the clock goes back two hours and then forward a day while the broker
//! is away.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::clock::{Gateway, max_error_ns, ns, seen};
use crate::support::broker::Log;
use crate::support::script::Script;
use crate::support::shim::{SATURATED, VOUCHED, truth_ns};

const HOUR_NS: i64 = 3_600_000_000_000;
const RATE_PER_S: u64 = 5;

#[tokio::test(flavor = "multi_thread")]
async fn t_03_steps_of_the_clock_in_an_outage_stop_and_hurry_nothing() {
    let test = "t_03_steps_of_the_clock_in_an_outage_stop_and_hurry_nothing";
    let Some(mut gateway) = Gateway::new(test, "hold_unsynchronized = \"0s\"").await else {
        return;
    };
    gateway.add_simulated("plc", RATE_PER_S);
    gateway.clock.set(0, VOUCHED);
    gateway.run();
    gateway.wait_for_state("synchronized");
    let began_ns = truth_ns();
    let accepted = |status: &Value| {
        let sources = status["sources"].as_array().unwrap();
        sources.iter().find(|source| source["name"] == "plc").unwrap()["accepted"].as_u64().unwrap()
    };
    let two_seconds_more = || {
        let wanted = accepted(&gateway.status()) + 2 * RATE_PER_S;
        gateway.wait_for_status("readings go on", |status| accepted(status) >= wanted);
    };
    gateway.wait(|log| seen(log, "readings/plc").len() > 3).await;
    // From now on the broker sends everybody away, so each attempt is seen.
    gateway.broker.set_script(Script { connack_code: 0x88, ..Script::default() });
    gateway.broker.close_all();
    gateway.wait_for_status("the uplink is down", |status| status["uplink"]["state"] != "up");
    two_seconds_more();
    // Every step makes the kernel forget who vouched for the clock.
    gateway.clock.set(-2 * HOUR_NS, SATURATED);
    gateway.wait_for_status("back", |status| status["clock"]["steps"]["back"] == 1);
    two_seconds_more();
    let before_forward = gateway.broker.connects().len();
    let forward_at = now();
    gateway.clock.set(22 * HOUR_NS, SATURATED);
    gateway.wait_for_status("forward", |status| status["clock"]["steps"]["forward"] == 1);
    two_seconds_more();
    two_seconds_more();
    let tries = gateway.broker.connects().len() - before_forward;
    // One may have been due, the others are a second apart at least.
    assert!(tries as u64 <= 2 + forward_at.elapsed().as_secs(), "{tries} attempts");
    let waiting = accepted(&gateway.status());
    gateway.broker.set_script(Script::default());
    let up_at = now();
    gateway.wait_for_status("the uplink is up", |status| status["uplink"]["state"] == "up");
    assert!(up_at.elapsed() < Duration::from_secs(20), "the backoff is 2 s at most");
    gateway.wait(|log| seen(log, "readings/plc").len() as u64 > waiting).await;
    let ended_ns = truth_ns();
    let log = gateway.broker.log();
    assert_numbered(&log);
    assert_every_reading_shows_the_step(&log, (began_ns, ended_ns));
    let (first, last) = paced(&log);
    assert!(last - first < 60_000_000_000, "the clock that they are paced by was not set");
}

#[tokio::test(flavor = "multi_thread")]
async fn t_03_windows_go_on_closing_after_steps_back_and_forward() {
    let test = "t_03_windows_go_on_closing_after_steps_back_and_forward";
    let Some(mut gateway) = Gateway::new(test, "hold_unsynchronized = \"0s\"").await else {
        return;
    };
    gateway.add_simulated("plc", RATE_PER_S);
    gateway.add_window("by-device", "in");
    gateway.add_window("by-gateway", "plc");
    gateway.clock.set(0, VOUCHED);
    gateway.run();
    gateway.wait_for_state("synchronized");
    // The devices' own clock is right all the time, and one second goes by with
    // each of their readings.
    let began_ms = truth_ns() / 1_000_000_000 * 1_000;
    gateway.send_at(0, began_ms);
    gateway.send_at(1, began_ms + 1_000);
    let closed = |log: &Log| seen(log, "windows/by-device").len();
    gateway.wait(|log| closed(log) == 1).await;
    let steps = [(-2 * HOUR_NS, "back"), (22 * HOUR_NS, "forward")];
    for (number, (offset_ns, direction)) in (2..).zip(steps) {
        gateway.clock.set(offset_ns, SATURATED);
        gateway.wait_for_status(direction, |status| status["clock"]["steps"][direction] == 1);
        gateway.send_at(number, began_ms + 1_000 * number as i64);
        gateway.wait(|log| closed(log) as u64 == number).await;
        let hour_ns = offset_ns / HOUR_NS * HOUR_NS + began_ms * 1_000_000;
        let is_of_this_clock = |result: &Value| (ns(&result["start"]) - hour_ns).abs() < HOUR_NS;
        gateway.wait(|log| seen(log, "windows/by-gateway").iter().any(is_of_this_clock)).await;
    }
    let log = gateway.broker.log();
    let results = seen(&log, "windows/by-device");
    let starts: Vec<i64> = results.iter().map(|it| ns(&it["start"]) / 1_000_000).collect();
    assert_eq!(starts, [began_ms, began_ms + 1_000, began_ms + 2_000]);
    assert!(results.iter().all(|it| it["count"] == 1 && it["status"] == "final"), "{results:?}");
    assert_eq!(seen(&log, "late/by-device"), Vec::<Value>::new());
    assert_eq!(log.connects.len(), 1, "no keep-alive runs by the wall clock");
}

#[expect(clippy::disallowed_methods, reason = "a deadline in real time")]
fn now() -> Instant {
    Instant::now()
}

fn assert_numbered(log: &Log) {
    let readings = seen(log, "readings/plc");
    let seqs: Vec<u64> = readings.iter().map(|it| it["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "no hole, in order");
}

/// Readings after a step are called stepped, and have a time by the crystal from
/// before the steps, which is right.
fn assert_every_reading_shows_the_step(log: &Log, (began_ns, ended_ns): (i64, i64)) {
    let readings = seen(log, "readings/plc");
    let mut stretches = std::collections::BTreeMap::<u64, Vec<Value>>::new();
    for reading in readings {
        stretches.entry(reading["time"]["timebase"].as_u64().unwrap()).or_default().push(reading);
    }
    let stretches: Vec<_> = stretches.into_values().collect();
    assert_eq!(stretches.len(), 3, "two steps");
    for reading in &stretches[0] {
        assert_eq!(reading["time"]["state"], "synchronized", "{reading}");
    }
    for (stretch, ahead_ns) in stretches[1..].iter().zip([-2 * HOUR_NS, 22 * HOUR_NS]) {
        assert!(stretch.len() as u64 >= 2 * RATE_PER_S, "{}", stretch.len());
        for reading in stretch {
            let time = &reading["time"];
            assert_eq!(time["state"], "stepped", "{reading}");
            assert_eq!(time["origin"], "restamped", "{reading}");
            let event_ns = ns(&reading["event_time"]);
            let error_ns = max_error_ns(time);
            assert!(error_ns < 100_000_000, "{reading}");
            assert!((began_ns..=ended_ns).contains(&event_ns), "{reading}");
            let off_ns = ns(&time["first_event_time"]) - event_ns - ahead_ns;
            assert!(off_ns.abs() <= error_ns, "{reading}");
        }
    }
}

/// The readings are as far apart as the crystal says: no pause, no burst.
/// The first and the last uptime.
fn paced(log: &Log) -> (u64, u64) {
    let readings = seen(log, "readings/plc");
    let with_uptime = readings.iter().filter_map(|it| it["time"]["uptime_ns"].as_u64());
    let ups: Vec<u64> = with_uptime.collect();
    for pair in ups.windows(2) {
        assert!(pair[1] >= pair[0] && pair[1] - pair[0] < 5_000_000_000, "{pair:?}");
    }
    let (first, last) = (ups[0], *ups.last().unwrap());
    let expected = (last - first) * RATE_PER_S / 1_000_000_000;
    let count = ups.len() as u64;
    // Generous: a busy machine is late, then makes up for it.
    assert!(count.abs_diff(expected) <= 3 * RATE_PER_S, "{count} for {expected}");
    (first, last)
}
