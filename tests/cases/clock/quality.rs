//! T-02: what the kernel says, and the label on a reading.

use crate::clock::{Gateway, max_error_ns, ns, seen};
use crate::support::process;
use crate::support::shim::{SATURATED, VOUCHED, showing};

/// What the kernel says (status and `maxerror`, or an error), and the label.
type Row = (&'static str, Option<(&'static str, i64)>, &'static str);

const ROWS: [Row; 7] = [
    (VOUCHED, Some(("0x2001", 9_776)), "synchronized"),
    // chronyd without rtcsync.
    ("5 8256 9776 100 0 0 10000 0", Some(("0x2040", 9_776)), "synchronized"),
    (SATURATED, Some(("0x0040", 16_000_000)), "unsynchronized"),
    // For one second at the cap the kernel still says that all is well.
    ("0 8193 16000000 100 0 0 10000 37", Some(("0x2001", 16_000_000)), "unsynchronized"),
    ("EPERM", None, "unsynchronized"),
    (VOUCHED, Some(("0x2001", 9_776)), "synchronized"),
    ("ENOSYS", None, "unsynchronized"),
];

const NO_WAIT: &str = "hold_unsynchronized = \"0s\"\nrestamp_settle = \"0s\"";

async fn label_each_row(gateway: &Gateway, rows: &[Row]) {
    for (number, (kernel, shown, label)) in (1..).zip(rows) {
        gateway.clock.set(0, kernel);
        gateway.wait_for_status(kernel, |status| {
            let kernel = &status["clock"]["kernel"];
            match shown {
                Some((flags, error_us)) => {
                    kernel["status"] == *flags && kernel["max_error_us"] == *error_us
                }
                None => kernel.is_null(),
            }
        });
        assert_eq!(gateway.status()["clock"]["state"], *label, "{kernel}");
        let sent = gateway.send(number);
        let reading = gateway.received(number).await;
        assert_eq!(reading["time"]["state"], *label, "{kernel}: {reading}");
        // A bound, wherever there is one, is kept to.
        if reading["time"].get("max_error_us").is_some() {
            sent.assert_near(ns(&reading["event_time"]), max_error_ns(&reading["time"]));
        }
        if *label == "synchronized" {
            // 9,876 us at the sample; it grows by 15 us a second for five at most.
            let error_us = reading["time"]["max_error_us"].as_i64().unwrap();
            assert!((9_876..=9_952).contains(&error_us), "{reading}");
            assert_eq!(reading["time"]["origin"], "gateway", "{reading}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t_02_the_label_of_a_clock_follows_maxerror_and_not_the_flag() {
    let test = "t_02_the_label_of_a_clock_follows_maxerror_and_not_the_flag";
    let Some(mut gateway) = Gateway::new(test, NO_WAIT).await else { return };
    gateway.clock.set(0, ROWS[0].0);
    gateway.run();
    label_each_row(&gateway, &ROWS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t_02_a_clock_that_was_never_vouched_for_has_no_bound() {
    let test = "t_02_a_clock_that_was_never_vouched_for_has_no_bound";
    let Some(mut gateway) = Gateway::new(test, NO_WAIT).await else { return };
    gateway.clock.set(0, SATURATED);
    gateway.run();
    label_each_row(&gateway, &ROWS[2..5]).await;
    let readings = seen(&gateway.broker.log(), "readings/in");
    for reading in readings {
        let time = &reading["time"];
        assert_eq!(time["origin"], "gateway", "{reading}");
        assert!(time.get("max_error_us").is_none() && time["uptime_ns"].is_u64(), "{reading}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_forbids_adjtimex_is_said_once_and_vouches_for_nothing() {
    let test = "a_sandbox_that_forbids_adjtimex_is_said_once_and_vouches_for_nothing";
    let Some(mut gateway) = Gateway::new(test, NO_WAIT).await else { return };
    gateway.clock.set(0, "EPERM");
    gateway.run();
    gateway.send(1);
    let reading = gateway.received(1).await;
    assert_eq!(reading["time"]["state"], "unsynchronized", "{reading}");
    assert_eq!(reading["time"]["origin"], "gateway", "{reading}");
    assert!(reading["time"].get("max_error_us").is_none(), "{reading}");
    // Three more looks, at one a second.
    let uptime_s = || gateway.status()["clock"]["uptime_s"].as_f64().unwrap();
    let since_s = uptime_s();
    process::wait("three seconds of the agent's own", || uptime_s() > since_s + 3.0);
    gateway.send(2);
    assert_eq!(gateway.received(2).await["time"]["state"], "unsynchronized");
    assert!(gateway.status()["clock"]["kernel"].is_null());
    let log = gateway.log();
    assert_eq!(log.matches("adjtimex cannot be read").count(), 1, "{log}");
    assert!(seen(&gateway.broker.log(), "corrections/in").is_empty());
}

/// systemd-timesyncd steps the clock and vouches for it in one `adjtimex`: the
/// kernel is never seen without a bound in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_and_its_vouching_in_one_call_end_in_a_synchronized_clock() {
    let test = "a_step_and_its_vouching_in_one_call_end_in_a_synchronized_clock";
    let Some(mut gateway) = Gateway::new(test, NO_WAIT).await else { return };
    gateway.clock.set(showing(20), SATURATED);
    gateway.run();
    gateway.wait_for_state("unsynchronized");
    // Seen a second later: `maxerror` has begun to grow.
    gateway.clock.set(0, "0 8193 500 0 0 0 10000 0");
    gateway.wait_for_state("synchronized");
    let sent = gateway.send(1);
    let reading = gateway.received(1).await;
    assert_eq!(reading["time"]["state"], "synchronized", "{reading}");
    // Its error is not reported, so a quarter of a second is assumed.
    assert_eq!(max_error_ns(&reading["time"]) / 1_000_000, 250, "{reading}");
    sent.assert_near(ns(&reading["event_time"]), max_error_ns(&reading["time"]));
}
