//! W-10: stops, kills and outages in the middle of windows, and results where
//! they are shown on site.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::*;
use crate::support::broker::SeenPublish;

/// Revised for one minute after its end.
fn revised() -> String {
    MINUTES.replace("allowed_lateness = \"0s\"", "allowed_lateness = \"1m\"")
}

/// Three minutes of readings with one late one that revises the first window and
/// one that is too late for it, and what closes all.
fn lines() -> Vec<String> {
    let mut lines = each_second("a", NOON, 180);
    lines.insert(80, line("a", NOON + 10_500, 100));
    lines.insert(140, line("a", NOON + 20_500, 1_000));
    lines.push(line("a", NOON + 5 * MINUTE + 5 * SECOND, 1));
    lines
}

/// What [`lines`] must come to.
const RESULTS: [&str; 7] = [
    "a 2026-03-01T12:00:00 1 provisional 60",
    "a 2026-03-01T12:00:00 2 provisional 61",
    "a 2026-03-01T12:00:00 2 final 61",
    "a 2026-03-01T12:01:00 1 provisional 60",
    "a 2026-03-01T12:01:00 1 final 60",
    "a 2026-03-01T12:02:00 1 provisional 60",
    "a 2026-03-01T12:02:00 1 final 60",
];

/// The publishes of a topic by their number; what came again was the same.
pub(super) fn by_seq(log: &Log, topic: &str) -> BTreeMap<u64, Value> {
    let mut known: BTreeMap<u64, Value> = BTreeMap::new();
    for seen in on(log, topic) {
        let before = known.entry(seen["seq"].as_u64().unwrap()).or_insert_with(|| seen.clone());
        assert_eq!(*before, seen, "another content under the same number");
    }
    known
}

/// Without what differs from one run to the next.
fn timeless(seen: &BTreeMap<u64, Value>) -> Vec<Value> {
    let strip = |value: &Value| {
        let mut value = value.clone();
        for key in ["epoch", "materialized_at", "ingest_time", "time"] {
            value.as_object_mut().unwrap().remove(key);
        }
        value
    };
    seen.values().map(strip).collect()
}

/// Results, late readings and readings of a run that is interrupted after so
/// many lines, in turn.
async fn run(stops: &[usize], interrupt: impl Fn(&mut Plant)) -> [Vec<Value>; 3] {
    let plant = plant(&["a"], FILE, &revised()).await;
    run_in(plant, stops, |plant, lines| {
        feed(plant, "a", lines);
        interrupt(plant);
    })
    .await
}

/// The same in a plant that runs; `part` feeds the lines and interrupts it.
async fn run_in(
    mut plant: Plant,
    stops: &[usize],
    part: impl Fn(&mut Plant, &[String]),
) -> [Vec<Value>; 3] {
    let lines = lines();
    let mut from = 0;
    for stop in stops {
        part(&mut plant, &lines[from..*stop]);
        plant.run();
        from = *stop;
    }
    feed(&plant, "a", &lines[from..]);
    let count = lines.len();
    plant.wait(|log| by_seq(log, "readings/a").len() == count).await;
    let log = settled(&plant, "w", "a", RESULTS.len()).await;
    assert!(!plant.log().contains("replay"), "{}", plant.log());
    ["windows/w", "late/w", "readings/a"].map(|topic| timeless(&by_seq(&log, topic)))
}

fn check(seen: &[Vec<Value>; 3]) {
    let mut told: Vec<_> = seen[0].iter().map(row).collect();
    told.sort_by_key(|row| RESULTS.iter().position(|known| known == row));
    assert_eq!(told, RESULTS);
    assert_eq!(seen[1].len(), 1);
    assert_eq!(seen[1][0]["value"], 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn w_10_sigterm_in_the_middle_of_a_window_changes_nothing() {
    let whole = run(&[], |_| ()).await;
    check(&whole);
    let stopped = run(&[30, 67, 100], |plant| assert_eq!(plant.stop(), Some(0))).await;
    assert_eq!(stopped, whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn w_10_sigkill_in_the_middle_of_a_window_changes_nothing() {
    let whole = run(&[], |_| ()).await;
    check(&whole);
    let killed = run(&[30, 66, 81, 91, 141, 182], Plant::kill).await;
    assert_eq!(killed, whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn w_10_sigkill_after_periodic_checkpoints_changes_nothing() {
    let whole = run(&[], |_| ()).await;
    let mut plant = Plant::new(Script::default(), "", &[("a", FILE)]).await;
    checkpoint_often(&plant);
    plant.configure(&revised());
    plant.run();
    let fed = AtomicUsize::new(0);
    // Each part begins and ends behind a checkpoint of its own.
    let killed = run_in(plant, &[30, 66, 81, 91, 141, 182], |plant, lines| {
        let (first, rest) = lines.split_at(lines.len() - 5);
        feed(plant, "a", first);
        wait_for_checkpoint(plant, fed.fetch_add(lines.len(), Relaxed) + first.len());
        feed(plant, "a", rest);
        plant.kill();
    })
    .await;
    assert_eq!(killed, whole);
}

/// Sends lines as fast as they are taken, and kills the agent when so many are
/// durable; how many that were.
pub(super) fn kill_on_the_way(plant: &mut Plant, lines: &[String], at: usize) -> usize {
    let stream = plant.connect("a");
    let mut out = stream.try_clone().unwrap();
    let mut answers = BufReader::new(stream).lines().map_while(Result::ok);
    let acked = |line: &str| {
        serde_json::from_str::<Value>(line).ok().and_then(|answer| answer["acked"].as_u64())
    };
    std::thread::scope(|scope| {
        // An error here is the kill.
        scope.spawn(move || lines.iter().all(|line| out.write_all(line.as_bytes()).is_ok()));
        let mut done = answers.by_ref().filter_map(|line| acked(&line));
        let reached = done.find(|count| *count >= at as u64).unwrap();
        plant.kill();
        answers.filter_map(|line| acked(&line)).last().unwrap_or(reached) as usize
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn w_10_after_kills_under_way_each_window_has_what_the_journal_has() {
    let window = MINUTES.replace("allowed_lateness = \"0s\"", "allowed_lateness = \"1h\"");
    let mut plant = plant(&["a"], FILE, &window).await;
    let lines: Vec<_> = (0..18_000).map(|n| line("a", NOON + n * 10, 1)).collect();
    let mut from = 0;
    for _ in 0..4 {
        from += kill_on_the_way(&mut plant, &lines[from..], 2_000);
        plant.run();
    }
    feed(&plant, "a", &lines[from..]);
    feed(&plant, "a", &[line("driver", NOON + 120 * MINUTE, 1)]);
    plant.wait(|log| log.publishes.iter().any(|seen| is_third_final(&seen.topic, seen))).await;
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let log = plant.broker.log();
    let mut held: BTreeMap<String, u64> = BTreeMap::new();
    let readings = by_seq(&log, "readings/a");
    for reading in readings.values().filter(|reading| reading["entity"] == "a") {
        let minute = reading["event_time"].as_str().unwrap()[..16].to_owned();
        *held.entry(minute).or_default() += 1;
    }
    assert!(held.values().all(|count| *count >= 6_000), "{held:?}");
    let mut finals: BTreeMap<String, u64> = BTreeMap::new();
    let mut revisions: BTreeMap<String, u64> = BTreeMap::new();
    for result in by_seq(&log, "windows/w").values() {
        let minute = result["start"].as_str().unwrap()[..16].to_owned();
        let revision = revisions.entry(minute.clone()).or_default();
        if result["status"] == "final" {
            let count = result["count"].as_u64().unwrap();
            assert_eq!(finals.insert(minute, count), None, "a second final");
        } else {
            *revision += 1;
        }
        assert_eq!(result["revision"], *revision);
    }
    assert_eq!(finals, held);
    assert!(!plant.log().contains("replay"), "{}", plant.log());
}

fn is_third_final(topic: &str, seen: &SeenPublish) -> bool {
    topic == "tidegate/gw/windows/w" && {
        let result = seen.json();
        result["status"] == "final" && result["start"] == "2026-03-01T12:02:00.000000000Z"
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_of_an_outage_come_later_in_the_order_of_the_journal() {
    let plant = plant(&["a"], FILE, &revised()).await;
    plant.wait(|log| !log.connects.is_empty()).await;
    plant.broker.refuse(true);
    plant.broker.close_all();
    let lines = lines();
    feed(&plant, "a", &lines);
    // The late reading stands in the journal as a reading too, and counts once.
    let count = lines.len() + RESULTS.len();
    plant.wait_for_status("all wait", |status| status["uplink"]["backlog"] == count);
    plant.broker.refuse(false);
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let log = plant.broker.log();
    let mut order = Vec::new();
    for seen in &log.publishes {
        match seen.topic.strip_prefix("tidegate/gw/").unwrap() {
            "readings/a" => order.push(format!("{}", seen.json()["seq"])),
            "windows/w" => order.push(row(&seen.json())),
            "late/w" => order.push(format!("late {}", seen.json()["seq"])),
            _ => {}
        }
    }
    // Each result follows the reading that brought it about.
    let after = [
        (66, vec![RESULTS[0].to_owned()]),
        (81, vec![RESULTS[1].to_owned()]),
        (127, vec![RESULTS[2].to_owned(), RESULTS[3].to_owned()]),
        (141, vec!["late 141".to_owned()]),
        (183, RESULTS[4..].iter().map(|row| (*row).to_owned()).collect()),
    ];
    let mut after = BTreeMap::from(after);
    let mut expected = Vec::new();
    for seq in 1..=lines.len() {
        expected.push(seq.to_string());
        expected.extend(after.remove(&seq).unwrap_or_default());
    }
    assert_eq!(order, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_and_the_api_show_what_the_broker_gets() {
    let mut plant = Plant::new(Script::default(), "", &[("a", FILE)]).await;
    let path = plant.folder().join("results.jsonl");
    plant.configure(&revised());
    plant.configure(&format!("[[output]]\ntype = \"jsonl\"\npath = \"{}\"", path.display()));
    plant.run();
    feed(&plant, "a", &lines());
    let log = settled(&plant, "w", "a", RESULTS.len()).await;
    let payloads = |topic: &str| {
        let of_topic = log.publishes.iter().filter(|seen| seen.topic == topic);
        let text = of_topic.map(|seen| String::from_utf8(seen.payload.clone()).unwrap());
        text.collect::<Vec<_>>()
    };
    let sent = payloads("tidegate/gw/windows/w");
    assert_eq!(sent.len(), RESULTS.len());
    let written = || std::fs::read_to_string(&path).unwrap_or_default();
    process::wait("the file has them", || written().lines().count() >= RESULTS.len());
    assert_eq!(written().lines().collect::<Vec<_>>(), sent);
    // The newest of each series, one object.
    let newest = sent.last().unwrap();
    assert_eq!(get(&plant, "/api/v1/windows"), format!("[{newest}]"));
    assert_eq!(get(&plant, "/api/v1/windows?window=w"), format!("[{newest}]"));
    assert_eq!(get(&plant, "/api/v1/windows?window=other"), "[]");
}

#[tokio::test(flavor = "multi_thread")]
async fn measured_lateness_survives_a_restart() {
    let mut plant = Plant::new(Script::default(), "", &[("a", FILE)]).await;
    let Some(clock) = FakeClock::build(plant.folder(), "lateness") else { return };
    clock.set(showing((NOON + 10 * MINUTE) / 1_000), VOUCHED);
    let text = std::fs::read_to_string(&plant.config).unwrap();
    let text = text.replace("[clock]\n", "[clock]\nreference = \"kernel\"\n");
    std::fs::write(&plant.config, text).unwrap();
    plant.run_under(&clock);
    plant.wait_for_status("the clock is vouched for", |status| {
        status["clock"]["state"] == "synchronized"
    });
    feed(&plant, "a", &each_second("a", NOON, 120));
    let measured = |status: &Value| status["lateness"][0].clone();
    plant.wait_for_status("all are measured", |status| measured(status)["count"] == 120);
    let before = measured(&plant.status());
    assert_eq!(plant.stop(), Some(0));
    plant.run_under(&clock);
    plant.wait_for_status("it is back", |status| status["lateness"] != serde_json::json!([]));
    assert_eq!(measured(&plant.status()), before);
}
