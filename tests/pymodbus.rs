//! Devices of pymodbus behind the real agent and a real broker, through outages of
//! both and a SIGKILL of the agent.
//!
//! Needs Mosquitto and a Python that has pymodbus: that of `TIDEGATE_PYTHON`, or
//! `python3`. With `TIDEGATE_REQUIRE_PYMODBUS` a missing one is a failure.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

#[path = "pymodbus/device.rs"]
mod device;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use device::{Devices, SerialServer, Told};
use serde_json::Value;
use support::process::{Mosquitto, Process, agent, has_mosquitto, status, wait};
use support::subscriber::{Inbox, subscribe};

const SOURCES: [&str; 3] = ["meter-hall-1", "meter-hall-2", "inverter"];

/// The example as it is, but for addresses, folders, the pace, and what a machine
/// without a trusted clock would wait for.
fn adapted(folder: &Path, broker: u16, serial: &str, inverter: u16) -> PathBuf {
    let mut text = std::fs::read_to_string("config/modbus.toml").unwrap();
    for (from, to) in [
        ("/var/lib/tidegate", format!("{}/data", folder.display())),
        ("mqtt://127.0.0.1:1883\"", format!("mqtt://127.0.0.1:{broker}\"\nreconnect_max = \"1s\"")),
        ("/dev/ttyUSB0", serial.to_owned()),
        ("192.0.2.10:502", format!("127.0.0.1:{inverter}")),
        ("poll = \"5s\"", "poll = \"300ms\"".to_owned()),
        ("poll = \"10s\"", "poll = \"300ms\"".to_owned()),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, &to);
    }
    text.push_str("\n[http]\nlisten = \"\"\n[clock]\nhold_unsynchronized = \"0s\"\n");
    let path = folder.join("tidegate.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// The readings of a source as they arrived, in the order of their numbers.
fn readings(inbox: &Inbox, source: &str) -> Vec<Value> {
    let own = inbox.readings.iter().filter(|(key, _)| key.0 == source);
    own.map(|(_, (_, _, bytes))| serde_json::from_slice(bytes).unwrap()).collect()
}

fn accepted(config: &Path) -> BTreeMap<String, u64> {
    let status = status(config);
    let sources = status["sources"].as_array().unwrap().iter();
    let books = |source: &Value| {
        (source["name"].as_str().unwrap().to_owned(), source["accepted"].as_u64().unwrap())
    };
    sources.map(books).collect()
}

/// Waits until the agent took so many more readings of every source.
fn wait_for_more(config: &Path, count: u64) {
    let before = accepted(config);
    wait("more readings of every source are taken", || {
        let now = accepted(config);
        before.iter().all(|(source, before)| now[source] >= before + count)
    });
}

/// What a value is in its `n`-th answer: the property, its unit, and the value or
/// why there is none. As in `server.py`.
fn meant(told: &Told) -> (&'static str, &'static str, &'static str, Result<f64, &'static str>) {
    let n = f64::from(told.n);
    match (told.unit, told.address) {
        (1, 0) => (SOURCES[0], "voltage_v", "V", Ok(230.0 + f64::from(told.n % 8) / 4.0)),
        (1, 12) => (SOURCES[0], "power_w", "W", Ok(1000.0 + 10.0 * n)),
        (1, 342) => (SOURCES[0], "energy_kwh", "kWh", Ok(n / 4.0)),
        (2, 342) => (SOURCES[1], "energy_kwh", "kWh", Ok(500.0 + n / 4.0)),
        (126, 83) if told.n % 4 == 3 => {
            (SOURCES[2], "power_w", "W", Err("0x8000 means not available"))
        }
        (126, 83) => (SOURCES[2], "power_w", "W", Ok(-n)),
        (126, 93) => (SOURCES[2], "energy_wh", "Wh", Ok(3_000_000_000.0 + n)),
        // In decimal: -299 * 0.1 is -29.9.
        (126, 103) => (SOURCES[2], "temperature", "Cel", Ok((n - 300.0) / 10.0)),
        other => panic!("nothing is configured at {other:?}"),
    }
}

fn ns(reading: &Value, key: &str) -> i64 {
    let text = reading[key].as_str().unwrap();
    chrono::DateTime::parse_from_rfc3339(text).unwrap().timestamp_nanos_opt().unwrap()
}

/// Every reading says what one answer of the device said, at the time of that answer;
/// no answer is told twice.
fn assert_told(source: &str, readings: &[Value], told: &[Told]) {
    let mut used = BTreeSet::new();
    let mut reasons = BTreeSet::new();
    for reading in readings {
        // The question went out, the device answered, the answer was there: the
        // middle of the first and the last is the event time.
        let (event, ingest) = (ns(reading, "event_time"), ns(reading, "ingest_time"));
        let asked = event - (ingest - event) - 1_000;
        let is_it = |told: &&Told| {
            let (of, property, unit, says) = meant(told);
            of == source
                && reading["property"] == property
                && reading["unit"] == unit
                && (asked..=ingest).contains(&told.at)
                && match says {
                    Ok(number) => {
                        reading["quality"] == "good" && reading["value"].as_f64() == Some(number)
                    }
                    Err(why) => reading["quality"] == "bad" && reading["quality_detail"] == why,
                }
        };
        if let Some(answer) = told.iter().find(is_it) {
            assert!(used.insert((answer.address, answer.n)), "told twice: {reading}");
            continue;
        }
        assert_eq!(reading["quality"], "bad", "nobody said this: {reading}");
        assert_eq!(reading["value"], Value::Null);
        assert_eq!(reading["flags"], serde_json::json!(["nonfinite"]));
        reasons.insert(reading["quality_detail"].as_str().unwrap().to_owned());
    }
    assert!(used.len() >= 60, "{source}: only {} answers arrived", used.len());
    assert!(!reasons.is_empty(), "{source}: the outage of the device was not said");
    for reason in reasons {
        let is_known = ["does not answer", "cannot connect to", "closes the connection"];
        assert!(is_known.iter().any(|known| reason.contains(known)), "{source}: {reason}");
    }
}

struct Plant {
    devices: Devices,
    broker: Mosquitto,
    config: PathBuf,
    log: PathBuf,
    agent: Option<Process>,
}

impl Plant {
    fn run(&mut self) {
        self.agent = Some(agent(&self.config, &self.log));
    }

    fn kill(&mut self) {
        self.agent.take().unwrap().kill();
    }
}

#[test]
fn meters_and_an_inverter_through_three_outages() {
    let name = "meters_and_an_inverter_through_three_outages";
    let Some(python) = device::python(name) else { return };
    if !has_mosquitto(name) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let broker = Mosquitto::start(folder.path());
    let inbox = subscribe(broker.port);
    let mut devices = Devices::new(python);
    devices.up();
    let line = SerialServer::before(devices.rtu_port);
    let config = adapted(folder.path(), broker.port, &line.path, devices.tcp_port);
    let log = folder.path().join("log");
    let mut plant = Plant { devices, broker, config, log, agent: None };

    plant.run();
    wait_for_more(&plant.config, 20);
    // The broker is away, and the agent is killed meanwhile.
    plant.broker.down();
    wait_for_more(&plant.config, 20);
    plant.kill();
    plant.run();
    wait_for_more(&plant.config, 20);
    plant.broker.up();
    wait("what was kept arrives", || readings(&inbox.lock().unwrap(), SOURCES[1]).len() >= 60);
    // The devices are away.
    plant.devices.down();
    let is_last_bad = |source: &&str| {
        let all = readings(&inbox.lock().unwrap(), source);
        all.last().is_some_and(|last| {
            last["quality"] == "bad" && last["quality_detail"] != "0x8000 means not available"
        })
    };
    wait("each source says so", || SOURCES.iter().all(is_last_bad));
    plant.devices.up();
    wait_for_more(&plant.config, 20);

    let taken = accepted(&plant.config);
    wait("everything arrives", || {
        let inbox = inbox.lock().unwrap();
        SOURCES.iter().all(|source| readings(&inbox, source).len() as u64 >= taken[*source])
    });
    assert_eq!(plant.agent.take().unwrap().stop(), Some(0));
    plant.devices.down();
    let inbox = inbox.lock().unwrap();
    assert_eq!(inbox.holes(), []);
    assert_eq!(inbox.confused, []);
    assert_eq!(inbox.gaps, [] as [Value; 0]);
    let told = plant.devices.told();
    for source in SOURCES {
        let all = readings(&inbox, source);
        let epochs: BTreeSet<&str> = all.iter().map(|one| one["epoch"].as_str().unwrap()).collect();
        assert_eq!(epochs.len(), 1, "one numbering through it all");
        assert_told(source, &all, &told);
    }
}
