//! After a long outage: the backlog drains to Mosquitto beside live readings, and
//! those do not wait for it.
//!
//! `TIDEGATE_SOAK=7200000 cargo test --release --test drain -- --nocapture` is an
//! outage of two hours at 1,000 readings a second, drained at full speed beside
//! 1,000 live ones a second; it prints how late those came, and judges it.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]
#![expect(clippy::print_stdout, reason = "the long run prints figures")]
#![expect(
    clippy::disallowed_methods,
    reason = "the long run measures time, and is asked for by hand"
)]

use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{Packet, Publish};
use rumqttc::v5::{Client, Event, MqttOptions};
use serde_json::Value;
use support::feeder::Feeder;
use support::process::{Mosquitto, agent, configure, free_port, has_mosquitto, status, wait};

mod support;

/// Readings that the outage leaves behind in the plain suite.
const BACKLOG: u64 = 60_000;
/// What the drain is held to there, so that it lasts; the long run has no bound.
const PACE: &str = "backfill_rate = \"12000/s\"";
/// Live readings go in groups, the next when the one before has arrived.
const GROUP: u64 = 20;
/// Those of the long run.
const LIVE_PER_SECOND: u64 = 1_000;

/// How long the backlog of a long run is, if one is asked for.
fn asked_for() -> Option<u64> {
    let wanted = std::env::var("TIDEGATE_SOAK").ok();
    wanted?.parse().ok()
}

/// What a consumer saw.
#[derive(Default)]
struct Seen {
    backlog: AtomicU64,
    live: AtomicU64,
    /// Of the backlog, when the first live reading came.
    backlog_at_first_live: AtomicU64,
    /// Milliseconds from acceptance to arrival of each live reading.
    took_ms: Mutex<Vec<u64>>,
    /// What should not have come so.
    wrong: Mutex<Vec<String>>,
}

impl Seen {
    /// Each source comes whole, in order, once, and on its own lane.
    fn take(&self, publish: &Publish) {
        let reading: Value = serde_json::from_slice(&publish.payload).unwrap();
        let (count, lane) = match reading["source"].as_str() {
            Some("in") => (&self.backlog, "backfill"),
            _ => (&self.live, "live"),
        };
        let seq = count.load(Ordering::SeqCst) + 1;
        let properties = publish.properties.as_ref().unwrap();
        let is_on_lane =
            properties.user_properties.iter().any(|(key, value)| key == "lane" && value == lane);
        if reading["seq"] != seq || reading["value"] != seq || !is_on_lane {
            self.wrong.lock().unwrap().push(format!("{lane} {seq}: {reading}, {properties:?}"));
        }
        if lane == "live" {
            if seq == 1 {
                let backlog = self.backlog.load(Ordering::SeqCst);
                self.backlog_at_first_live.store(backlog, Ordering::SeqCst);
            }
            let accepted = reading["ingest_time"].as_str().unwrap();
            let accepted =
                SystemTime::from(chrono::DateTime::parse_from_rfc3339(accepted).unwrap());
            let took = SystemTime::now().duration_since(accepted).unwrap_or_default();
            self.took_ms.lock().unwrap().push(took.as_millis() as u64);
        }
        count.store(seq, Ordering::SeqCst);
    }
}

/// Subscribes to the readings, for as long as the test runs, whatever the broker does.
fn consume(port: u16) -> Arc<Seen> {
    let seen = Arc::new(Seen::default());
    let mut options = MqttOptions::new("consumer", "127.0.0.1", port);
    // The broker keeps for it what comes before it is there again.
    options.set_clean_start(false).set_session_expiry_interval(Some(u32::MAX));
    options.set_keep_alive(Duration::from_secs(60));
    let (client, mut connection) = Client::new(options, 100);
    let is_subscribed = Arc::new(AtomicBool::new(false));
    let (shared, subscribed) = (Arc::clone(&seen), Arc::clone(&is_subscribed));
    client.subscribe("tidegate/gw/readings/#", QoS::AtLeastOnce).unwrap();
    std::thread::spawn(move || {
        // It lives as long as its connection.
        let _client = client;
        for event in connection.iter() {
            match event {
                Ok(Event::Incoming(Packet::SubAck(_))) => subscribed.store(true, Ordering::SeqCst),
                Ok(Event::Incoming(Packet::Publish(publish))) => shared.take(&publish),
                Ok(_) => {}
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    });
    wait("the consumer is subscribed", || is_subscribed.load(Ordering::SeqCst));
    seen
}

/// Sends live readings until the backlog is gone; how many.
fn feed_live(port: u16, seen: &Seen, backlog: u64, is_long: bool) -> u64 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut sent = 0;
    while seen.backlog.load(Ordering::SeqCst) < backlog {
        for number in sent + 1..=sent + GROUP {
            let line = format!("{{\"entity\":\"e\",\"property\":\"n\",\"value\":{number}}}\n");
            stream.write_all(line.as_bytes()).unwrap();
        }
        sent += GROUP;
        if is_long {
            std::thread::sleep(Duration::from_secs(1) * GROUP as u32 / LIVE_PER_SECOND as u32);
        } else {
            wait("a live group arrives", || seen.live.load(Ordering::SeqCst) >= sent);
        }
    }
    sent
}

/// The depth, the rates and the time left of one status fit each other.
fn watch_status(config: &Path) {
    let mut judged = 0;
    wait("the status says how long the drain will take", || {
        let status = status(config);
        let uplink = &status["uplink"];
        let number = |value: &Value| value.as_f64().unwrap();
        let (backlog, backfill) = (number(&uplink["backlog"]), number(&uplink["backfill"]));
        assert!(backfill <= backlog, "{uplink}");
        let shrinks_by = number(&uplink["acknowledged_per_s"]) - number(&status["accepted_per_s"]);
        if let Some(left_s) = uplink["drain_eta_s"].as_f64().filter(|_| backlog > 0.0) {
            // Each number is rounded by itself.
            let expected = backlog / shrinks_by;
            assert!((left_s - expected).abs() <= 0.01 * expected + 0.1, "{expected}: {status}");
            judged += 1;
        }
        backlog == 0.0 || judged >= 3
    });
    assert!(judged >= 3, "the backlog was gone before its end could be told");
}

fn peak_mib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

/// Figures of the long run.
fn report(seen: &Seen, since: Instant, pid: u32) {
    let mut took_ms = seen.took_ms.lock().unwrap().clone();
    took_ms.sort_unstable();
    let at = |part: f64| took_ms[((took_ms.len() - 1) as f64 * part) as usize];
    let (count, seconds) = (took_ms.len(), since.elapsed().as_secs_f64());
    let (p50, p99, most) = (at(0.5), at(0.99), at(1.0));
    println!(
        "drained in {seconds:.0} s beside {count} live readings, accepted to arrived: \
         p50 {p50}, p99 {p99}, greatest {most} ms; peak resident {:.1} MiB",
        peak_mib(pid)
    );
    assert!(p99 < 2_000, "live readings wait for the backlog");
}

#[test]
fn live_readings_overtake_the_backlog_of_an_outage_and_both_come_whole_and_in_order() {
    if !has_mosquitto("drain") {
        return;
    }
    let backlog = asked_for().unwrap_or(BACKLOG);
    let is_long = asked_for().is_some();
    let folder = tempfile::tempdir().unwrap();
    let mut broker = Mosquitto::start(folder.path());
    let seen = consume(broker.port);
    broker.down();
    let (input, live_input) = (free_port(), free_port());
    let journal = if is_long { "max_bytes = \"8GiB\"" } else { "commit_interval = \"10ms\"" };
    let config = configure(folder.path(), broker.port, input, journal);
    let text = std::fs::read_to_string(&config).unwrap();
    let reconnect = "reconnect_max = \"1s\"\n";
    assert!(text.contains(reconnect));
    let pace = if is_long { "" } else { PACE };
    let text = text.replace(reconnect, &format!("{reconnect}{pace}\n"));
    let live = format!(
        "[[source]]\nname = \"live\"\ntype = \"listen\"\naddress = \"127.0.0.1:{live_input}\"\n"
    );
    std::fs::write(&config, text + &live).unwrap();
    let log = folder.path().join("agent.log");
    let filled = agent(&config, &log);
    Feeder::start(input, "e", backlog).join();
    if is_long {
        println!("filled with {backlog}: peak resident {:.1} MiB", peak_mib(filled.0.id()));
    }
    // A power cut in the outage; and rates begin anew.
    filled.kill();
    let running = agent(&config, &log);
    let pid = running.0.id();
    wait("the backlog is known", || status(&config)["uplink"]["backlog"] == backlog);

    broker.up();
    let since = Instant::now();
    wait("the backlog begins to drain", || seen.backlog.load(Ordering::SeqCst) > 0);
    let sent = std::thread::scope(|scope| {
        scope.spawn(|| watch_status(&config));
        feed_live(live_input, &seen, backlog, is_long)
    });
    wait("all live ones have come", || seen.live.load(Ordering::SeqCst) == sent);
    wait("nothing waits", || status(&config)["uplink"]["backlog"] == 0);
    assert_eq!(*seen.wrong.lock().unwrap(), [] as [String; 0]);
    assert!(seen.backlog_at_first_live.load(Ordering::SeqCst) < backlog, "it waited for the rest");
    let last = status(&config);
    for (books, count) in [(&last["sources"][0], backlog), (&last["sources"][1], sent)] {
        assert_eq!(books["acknowledged"].as_u64(), Some(count));
        assert_eq!((&books["evicted"], &books["lost"]), (&0.into(), &0.into()));
    }
    if is_long {
        report(&seen, since, pid);
    }
    assert_eq!(running.stop(), Some(0));
}
