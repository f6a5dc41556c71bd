//! Field cases of the uplink: connections that do not last, clients that throw
//! each other out, names that are no topics.

use std::io::Write;
use std::path::Path;

use crate::agent::{Plant, first_seen};
use crate::support::feeder::Feeder;
use crate::support::process::{
    Mosquitto, agent, configure, free_port, has_mosquitto, status, wait,
};
use crate::support::script::Script;
use crate::support::subscriber::subscribe;

/// What a process holds.
#[derive(Debug)]
struct Holdings {
    descriptors: usize,
    threads: usize,
    resident_kib: u64,
}

fn holdings(pid: u32) -> Holdings {
    let process = Path::new("/proc").join(pid.to_string());
    let count = |what: &str| std::fs::read_dir(process.join(what)).unwrap().count();
    let status = std::fs::read_to_string(process.join("status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident_kib = resident.trim().trim_end_matches(" kB").parse().unwrap();
    Holdings { descriptors: count("fd"), threads: count("task"), resident_kib }
}

/// Established connections to this port of the loopback, from the client's side.
fn established_to(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!("0100007F:{port:04X}");
    let is_one = |line: &&str| {
        let mut fields = line.split_whitespace().skip(2);
        fields.next() == Some(remote.as_str()) && fields.next() == Some("01")
    };
    table.lines().filter(is_one).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn o_09_five_hundred_reconnects_leave_nothing_behind() {
    let script = Script { close_at: Some(1), ..Script::default() };
    let keys = "reconnect_min = \"10ms\"";
    let mut plant = Plant::new(script, keys, &[("in", "")]).await;
    plant.rewrite("reconnect_max = \"1s\"", "reconnect_max = \"20ms\"");
    plant.run();
    plant.feed("in", 100).join();
    let port = plant.broker.port();
    plant.wait(|log| log.connects.len() >= 10).await;
    let early = holdings(plant.pid());
    for connects in (20..=510).step_by(10) {
        plant.wait(|log| log.connects.len() >= connects).await;
        assert!(established_to(port) <= 1);
    }
    let late = holdings(plant.pid());
    assert!(late.descriptors.abs_diff(early.descriptors) <= 3, "{early:?} {late:?}");
    assert!(late.threads.abs_diff(early.threads) <= 2, "{early:?} {late:?}");
    let grown_kib = late.resident_kib.saturating_sub(early.resident_kib);
    assert!(grown_kib < 8 * 1024, "{early:?} {late:?}");
    plant.broker.set_script(Script::default());
    plant.wait(|log| first_seen(log, "in").len() == 100).await;
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    assert_eq!(first_seen(&plant.broker.log(), "in"), (1..=100).collect::<Vec<_>>());
    assert_eq!(plant.status()["sources"][0]["lost"], 0, "none is blamed for it");
}

#[test]
fn m_05_two_with_one_client_id_are_named_and_lose_nothing() {
    if !has_mosquitto("m_05") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let broker = Mosquitto::start(folder.path());
    let inbox = subscribe(broker.port);
    let boxes = ["one", "two"].map(|name| {
        let home = folder.path().join(name);
        std::fs::create_dir(&home).unwrap();
        let input = free_port();
        let config = configure(&home, broker.port, input, "commit_interval = \"50ms\"");
        let log = home.join("log");
        let running = agent(&config, &log);
        (name, input, config, log, running)
    });
    let [one, two] = &boxes;
    let feeders = [one, two].map(|(name, input, ..)| Feeder::start(*input, name, 300));
    // Brokers that name the cause do it with 0x8E; this one closes without a word.
    let is_named = |config: &Path| {
        let reason = status(config)["uplink"]["reason"].to_string();
        reason.contains("another client")
    };
    wait("the status says what it may be", || is_named(&one.2) || is_named(&two.2));
    feeders.into_iter().for_each(Feeder::join);
    let [one, two] = boxes;
    assert_eq!(two.4.stop(), Some(0));
    wait("the first has brought all", || {
        inbox.lock().unwrap().numbers("one").into_iter().eq(1..=300)
    });
    wait("nothing waits", || status(&one.2)["uplink"]["backlog"] == 0);
    assert_eq!(status(&one.2)["sources"][0]["lost"], 0);
    assert_eq!(one.4.stop(), Some(0));
    assert_eq!(inbox.lock().unwrap().confused, []);
}

#[test]
fn m_14_names_that_are_no_topic_levels_are_written_so_that_they_are() {
    if !has_mosquitto("m_14") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let broker = Mosquitto::start(folder.path());
    let inbox = subscribe(broker.port);
    let input = free_port();
    let config = configure(folder.path(), broker.port, input, "");
    let text = std::fs::read_to_string(&config).unwrap();
    let topic = "[[uplink]]\ntopic = \"tidegate/{gateway}/readings/{source}/{entity}\"\n";
    std::fs::write(&config, text.replace("[[uplink]]\n", topic)).unwrap();
    let log = folder.path().join("log");
    let running = agent(&config, &log);
    status(&config);
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", input)).unwrap();
    let names = ["hall#3", "a+b", "left/right", "plain", "left%2Fright", "$SYS", " "];
    for (name, value) in names.iter().zip(1..) {
        writeln!(stream, "{{\"entity\":\"{name}\",\"property\":\"v\",\"value\":{value}}}").unwrap();
    }
    let arrived = || inbox.lock().unwrap().readings.len();
    wait("all have arrived", || arrived() == names.len());
    wait("nothing waits", || status(&config)["uplink"]["backlog"] == 0);
    assert_eq!(running.stop(), Some(0));
    let inbox = inbox.lock().unwrap();
    let topics: Vec<_> = names.iter().map(|name| &inbox.topics[*name]).collect();
    assert!(topics.iter().all(|of_one| of_one.len() == 1), "{topics:?}");
    let distinct: std::collections::BTreeSet<_> = topics.iter().collect();
    assert_eq!(distinct.len(), names.len(), "no two under one topic: {topics:?}");
    let plain = &inbox.topics["plain"];
    assert!(plain.contains("tidegate/gw/readings/in/plain"), "{plain:?}");
    for topic in topics.into_iter().flatten() {
        assert!(!topic.contains(['+', '#', '\0']), "{topic}");
        assert_eq!(topic.split('/').count(), 5, "{topic}");
    }
    for (name, number) in names.iter().zip(1..) {
        assert!(inbox.numbers(name).into_iter().eq([number]), "{name} in the payload as it was");
    }
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(!text.contains("the uplink is down"), "no disconnect: {text}");
}
