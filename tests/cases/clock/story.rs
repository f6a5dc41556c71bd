//! Power comes back, the clock is at 1970 and so is what leaves; the link goes,
//! the clock is set, the link comes back.

use serde_json::Value;

use crate::clock::{Gateway, Sent, max_error_ns, ns, reading, seen};
use crate::support::shim::{SATURATED, VOUCHED, showing};

/// When the agent is killed and started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killed {
    Never,
    BeforeTheStep,
    /// The clock is set while nobody looks.
    AcrossTheStep,
    AfterTheStep,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_boot_in_1970_is_repaired_once_the_clock_is_set() {
    tell("a_boot_in_1970_is_repaired_once_the_clock_is_set", Killed::Never).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_boot_in_1970_is_repaired_by_an_agent_killed_before_the_step() {
    let test = "a_boot_in_1970_is_repaired_by_an_agent_killed_before_the_step";
    tell(test, Killed::BeforeTheStep).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_boot_in_1970_is_repaired_by_an_agent_killed_across_the_step() {
    let test = "a_boot_in_1970_is_repaired_by_an_agent_killed_across_the_step";
    tell(test, Killed::AcrossTheStep).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_boot_in_1970_is_repaired_by_an_agent_killed_after_the_step() {
    let test = "a_boot_in_1970_is_repaired_by_an_agent_killed_after_the_step";
    tell(test, Killed::AfterTheStep).await;
}

async fn tell(test: &str, killed: Killed) {
    let clock = "hold_unsynchronized = \"0s\"\nrestamp_settle = \"1s\"";
    let Some(mut gateway) = Gateway::new(test, clock).await else { return };
    let ahead_ns = showing(20);
    gateway.clock.set(ahead_ns, SATURATED);
    gateway.run();
    let early = gateway.send(1);
    let first = gateway.received(1).await;
    assert_flagged(&first);
    gateway.cut();
    let waiting: Vec<Sent> = (2..=6).map(|number| gateway.send(number)).collect();
    if killed == Killed::BeforeTheStep {
        gateway.kill();
        gateway.run();
    }
    if killed == Killed::AcrossTheStep {
        gateway.kill();
    }
    gateway.clock.set(0, VOUCHED);
    if killed == Killed::AcrossTheStep {
        gateway.run();
    }
    gateway.wait_for_state("synchronized");
    if killed == Killed::AfterTheStep {
        gateway.kill();
        gateway.run();
    }
    let late = gateway.send(7);
    gateway.broker.refuse(false);
    for (number, sent) in (2..).zip(&waiting) {
        assert_restamped(&gateway.received(number).await, *sent);
    }
    let last = gateway.received(7).await;
    assert_eq!(last["time"]["origin"], "gateway", "{last}");
    assert_eq!(last["time"]["state"], "synchronized", "{last}");
    late.assert_near(ns(&last["event_time"]), max_error_ns(&last["time"]));
    gateway.wait(|log| !seen(log, "corrections/in").is_empty()).await;
    gateway.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    assert_corrected(&gateway, &first, early);
    assert_noted(&gateway, ahead_ns);
}

fn assert_flagged(first: &Value) {
    let time = &first["time"];
    assert_eq!((&time["state"], &time["origin"]), (&"unsynchronized".into(), &"gateway".into()));
    assert!(time.get("max_error_us").is_none(), "{first}");
    assert!(time["boot"].is_string() && time["uptime_ns"].is_u64(), "{first}");
    assert!(first["event_time"].as_str().unwrap().starts_with("1970-01-01T00:0"), "{first}");
}

fn assert_restamped(reading: &Value, sent: Sent) {
    let time = &reading["time"];
    assert_eq!(time["origin"], "restamped", "{reading}");
    assert_eq!(time["state"], "synchronized", "{reading}");
    assert!(time["first_event_time"].as_str().unwrap().starts_with("1970-01-01T00:0"));
    let error_ns = max_error_ns(time);
    // 9.876 ms by the kernel, and the crystal for the minutes of this test.
    assert!((9_876_000..100_000_000).contains(&error_ns), "{reading}");
    sent.assert_near(ns(&reading["event_time"]), error_ns);
}

/// What left too early gets one correction, and is not sent again.
fn assert_corrected(gateway: &Gateway, first: &Value, early: Sent) {
    let log = gateway.broker.log();
    let corrections = seen(&log, "corrections/in");
    assert_eq!(corrections.len(), 1, "{corrections:?}");
    let correction = &corrections[0];
    for key in ["source", "epoch"] {
        assert_eq!(correction[key], first[key], "{correction}");
    }
    for key in ["boot", "timebase"] {
        assert_eq!(correction[key], first["time"][key], "{correction}");
    }
    assert_eq!((&correction["first_seq"], &correction["last_seq"]), (&1.into(), &1.into()));
    let shifted_ns = ns(&first["event_time"]) + correction["shift_ns"].as_i64().unwrap();
    assert!(max_error_ns(correction) < 100_000_000, "{correction}");
    early.assert_near(shifted_ns, max_error_ns(correction));
    let readings = seen(&log, "readings/in");
    let mut seqs: Vec<u64> = readings.iter().map(|it| it["seq"].as_u64().unwrap()).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=7).collect::<Vec<_>>(), "no hole, and one content a name");
    assert_eq!(reading(&log, 1).unwrap(), *first);
}

/// The clock's own story is told beside.
fn assert_noted(gateway: &Gateway, ahead_ns: i64) {
    let events = seen(&gateway.broker.log(), "clock");
    let of = |kind: &str| events.iter().filter(|it| it["event"] == kind).collect::<Vec<_>>();
    assert_eq!(of("boot").len(), 1, "{events:?}");
    assert!(of("boot")[0]["at"].as_str().unwrap().starts_with("1970-01-01T00:0"), "{events:?}");
    assert_eq!(of("step").len(), 1, "{events:?}");
    let step = of("step")[0];
    let delta_ns = step["delta_ns"].as_i64().unwrap();
    // As far as two looks at two clocks are exact.
    assert!((delta_ns + ahead_ns).abs() < 100_000_000, "{step}");
    assert_eq!(step["state"], "stepped", "{step}");
    let last_states = of("state").last().map(|it| it["state"].clone());
    assert_eq!(last_states, Some("synchronized".into()), "{events:?}");
}
