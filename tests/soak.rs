//! A large backlog on a small machine: the real binary is fed with the broker
//! down, killed, started again and drained to Mosquitto. Prints a table.
//!
//! `TIDEGATE_SOAK=10000000 cargo test --release --test soak -- --nocapture`
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]
#![expect(clippy::print_stdout, reason = "its output is the table")]

use std::io::{BufWriter, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use support::feeder::Feeder;
use support::process::{
    Mosquitto, Process, agent, configure, free_port, has_mosquitto, status, wait,
};

mod support;

/// What the whole process may take, whatever waits; in KiB.
const RESIDENT_KIB_MAX: u64 = 48 * 1024;

static ALONE: Mutex<()> = Mutex::new(());

fn readings() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a longer run is asked for by hand")]
    let wanted = std::env::var("TIDEGATE_SOAK").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(200_000)
}

/// Peak resident memory of a process, in KiB.
fn peak_kib(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.0.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

/// One line of the table; the peak is held to its bound.
fn row(what: &str, since: Instant, process: &Process, status: &serde_json::Value) {
    let (took, peak) = (since.elapsed().as_secs_f64(), peak_kib(process));
    let on_disk = status["journal"]["bytes"].as_u64().unwrap();
    println!(
        "{what:<22} {took:>7.2} s  peak {:>5.1} MiB  on disk {:>6.1} MB  {} waiting",
        peak as f64 / 1024.0,
        on_disk as f64 / 1e6,
        status["uplink"]["backlog"]
    );
    assert!(peak < RESIDENT_KIB_MAX, "{what}: {peak} KiB");
}

/// How the readings come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// With receipts: the sender waits for those of 20,000 lines.
    Acknowledged,
    /// Without: as fast as the agent reads.
    Unasked,
}

/// Feeds `count` lines and waits until all of them are durable.
fn fill(way: Way, config: &Path, input: u16, count: u64) {
    if way == Way::Acknowledged {
        return Feeder::start(input, "soak", count).join();
    }
    wait("the agent listens", || TcpStream::connect(("127.0.0.1", input)).is_ok());
    let stream = TcpStream::connect(("127.0.0.1", input)).unwrap();
    let mut stream = BufWriter::with_capacity(256 * 1024, stream);
    for n in 1..=count {
        writeln!(stream, "{{\"entity\":\"soak\",\"property\":\"n\",\"value\":{n}}}").unwrap();
    }
    drop(stream.into_inner().unwrap());
    wait("all is durable", || {
        let status = status(config);
        status["sources"][0]["accepted"] == count && status["journal"]["uncommitted"] == 0
    });
}

#[test]
fn b_07_memory_does_not_grow_with_the_backlog() {
    fill_kill_and_drain(Way::Acknowledged);
}

#[test]
fn b_07_memory_does_not_grow_with_the_backlog_of_a_sender_that_never_waits() {
    fill_kill_and_drain(Way::Unasked);
}

#[expect(clippy::disallowed_methods, reason = "it measures time, and judges nothing by it")]
fn fill_kill_and_drain(way: Way) {
    if !has_mosquitto("b_07") {
        return;
    }
    // One after the other: these are figures.
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let count = readings();
    let folder = tempfile::tempdir().unwrap();
    let mut broker = Mosquitto::start(folder.path());
    broker.down();
    let input = free_port();
    let config = configure(folder.path(), broker.port, input, "max_bytes = \"8GiB\"");
    let live_input = free_port();
    let text = std::fs::read_to_string(&config).unwrap();
    let text = match way {
        Way::Acknowledged => text,
        Way::Unasked => text.replace("acknowledge = true", "acknowledge = false"),
    };
    let live = "[[source]]\nname = \"live\"\ntype = \"listen\"\nacknowledge = true\n";
    let text = format!("{text}{live}address = \"127.0.0.1:{live_input}\"\n");
    std::fs::write(&config, text).unwrap();
    let log = folder.path().join("agent.log");
    println!("{count} readings, {way:?}");

    let running = agent(&config, &log);
    let since = Instant::now();
    fill(way, &config, input, count);
    row("filled", since, &running, &status(&config));
    let since = Instant::now();
    // Several reports of an agent that has nothing to do but try its broker.
    let idle_from = status(&config)["uptime_s"].as_f64().unwrap();
    wait("it was idle", || status(&config)["uptime_s"].as_f64().unwrap() > idle_from + 2.0);
    row("idle", since, &running, &status(&config));
    running.kill();

    broker.up();
    let since = Instant::now();
    let running = agent(&config, &log);
    let first = status(&config);
    row("ready after SIGKILL", since, &running, &first);
    assert_eq!(first["sources"][0]["accepted"].as_u64(), Some(count));
    let live = Feeder::start(live_input, "live", 1_000);
    wait("live readings are taken while the backlog drains", || live.acked() == 1_000);
    live.join();
    wait("all is drained", || status(&config)["uplink"]["backlog"] == 0);
    let last = status(&config);
    row("drained", since, &running, &last);
    for (books, count) in [(&last["sources"][0], count), (&last["sources"][1], 1_000)] {
        assert_eq!(books["acknowledged"].as_u64(), Some(count));
        assert_eq!((&books["evicted"], &books["lost"]), (&0.into(), &0.into()));
    }
    assert_eq!(running.stop(), Some(0));
}
