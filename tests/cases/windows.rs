//! W-01 to W-11: the windows of the real binary, from JSON lines to what the
//! broker gets.

mod ordered;
mod repeats;
mod restart;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use serde_json::Value;
use tidegate::core::seam::Checkpointed;
use tidegate::core::window::checkpoint::Checkpoint;
use tidegate::store::checkpoint;

use crate::agent::Plant;
use crate::support::broker::Log;
use crate::support::process;
use crate::support::script::Script;
use crate::support::shim::{FakeClock, VOUCHED, showing};

/// 2026-03-01T12:00:00Z, in milliseconds.
const NOON: i64 = 1_772_366_400_000;
const SECOND: i64 = 1_000;
const MINUTE: i64 = 60_000;

/// A window of one minute that waits 5 s for readings and then for nobody.
const MINUTES: &str = "[[window]]\nname = \"w\"\nkind = \"tumbling\"\nsize = \"1m\"\n\
    bound = \"5s\"\nidle_after = \"1h\"\nallowed_lateness = \"0s\"";
/// Times from a file: they say nothing by when they come.
const FILE: &str = "[source.time]\nlive = false";

/// A broker and an agent that runs, with these sources and windows.
async fn plant(sources: &[&str], time: &str, windows: &str) -> Plant {
    let sources: Vec<_> = sources.iter().map(|name| (*name, time)).collect();
    let mut plant = Plant::new(Script::default(), "", &sources).await;
    plant.configure(windows);
    plant.run();
    plant
}

/// Checkpoints of windows and orders as often as may be.
fn checkpoint_often(plant: &Plant) {
    let text = std::fs::read_to_string(&plant.config).unwrap();
    let text = text.replace("[journal]\n", "[journal]\ncheckpoint_interval = \"100ms\"\n");
    std::fs::write(&plant.config, text).unwrap();
}

/// Waits for a checkpoint that covers so many entries of the journal.
fn wait_for_checkpoint(plant: &Plant, entries: usize) {
    let data_dir = plant.folder().join("data");
    process::wait("a checkpoint covers them", || {
        let bytes = checkpoint::read(&data_dir, Checkpointed::Windows).unwrap();
        let known = bytes.map(|bytes| Checkpoint::decode(&bytes).unwrap());
        known.is_some_and(|known| known.through.0 >= entries as u64)
    });
}

/// A line of the property `n`.
fn line(entity: &str, at_ms: i64, value: i64) -> String {
    format!("{{\"entity\":\"{entity}\",\"property\":\"n\",\"time\":{at_ms},\"value\":{value}}}\n")
}

/// One reading of 1 a second.
fn each_second(entity: &str, from_ms: i64, count: i64) -> Vec<String> {
    (0..count).map(|n| line(entity, from_ms + n * SECOND, 1)).collect()
}

/// Gives the lines to a source; all of them are durable when it returns.
fn feed(plant: &Plant, source: &str, lines: &[String]) {
    let mut stream = plant.connect(source);
    stream.write_all(lines.concat().as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let last = BufReader::new(stream).lines().map_while(Result::ok).last();
    assert_eq!(last, Some(format!("{{\"acked\":{}}}", lines.len())), "{}", plant.log());
}

/// What came on a topic of this gateway, as JSON.
fn on(log: &Log, topic: &str) -> Vec<Value> {
    let topic = format!("tidegate/gw/{topic}");
    log.publishes.iter().filter(|seen| seen.topic == topic).map(|seen| seen.json()).collect()
}

/// A result in short: entity, start, revision, status, count.
fn row(result: &Value) -> String {
    let text = |key: &str| result[key].as_str().unwrap().replace(".000000000Z", "");
    let (entity, start, status) = (text("entity"), text("start"), text("status"));
    format!("{entity} {start} {} {status} {}", result["revision"], result["count"])
}

fn rows(log: &Log, window: &str, entity: &str) -> Vec<String> {
    let results = on(log, &format!("windows/{window}"));
    results.iter().filter(|result| result["entity"] == entity).map(row).collect()
}

/// Waits for so many results of an entity, then for all that was stored to be
/// with the broker; the log of it.
async fn settled(plant: &Plant, window: &str, entity: &str, count: usize) -> Log {
    plant.wait(|log| rows(log, window, entity).len() >= count).await;
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    plant.broker.log()
}

/// The control socket's answer to a GET.
fn get(plant: &Plant, path: &str) -> String {
    let socket = plant.folder().join("data/control.sock");
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let answer = std::io::read_to_string(stream).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200"), "{answer}");
    body.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn w_01_readings_stamped_in_the_future_close_no_window() {
    let sources = [("a", FILE), ("b", FILE)];
    let mut plant = Plant::new(Script::default(), "", &sources).await;
    let Some(clock) = FakeClock::build(plant.folder(), "w_01") else { return };
    clock.set(showing((NOON + 10 * MINUTE) / 1_000), VOUCHED);
    let text = std::fs::read_to_string(&plant.config).unwrap();
    let text = text.replace("[clock]\n", "[clock]\nreference = \"kernel\"\n");
    std::fs::write(&plant.config, text).unwrap();
    plant.configure(MINUTES);
    plant.run_under(&clock);
    plant.wait_for_status("the clock is vouched for", |status| {
        status["clock"]["state"] == "synchronized"
    });
    // 2036-02-07T06:28:16Z: the NTP era ends.
    let ahead = [("a", 90, NOON + 120 * MINUTE), ("b", 150, 2_085_978_496_000)];
    for (source, after, at_ms) in ahead {
        let mut lines = each_second(source, NOON, 600);
        lines.insert(after, line(source, at_ms, 1));
        lines.push(line(source, NOON + 10 * MINUTE + 5 * SECOND, 1));
        feed(&plant, source, &lines);
    }
    let log = settled(&plant, "w", "b", 10).await;
    for (source, _, _) in ahead {
        let minute = |n| format!("{source} 2026-03-01T12:{n:02}:00 1 final 60");
        assert_eq!(rows(&log, "w", source), (0..10).map(minute).collect::<Vec<_>>());
        let results = on(&log, "windows/w");
        assert!(results.iter().all(|result| result["sum"] == 60), "{results:?}");
        let raw = on(&log, &format!("readings/{source}"));
        let is_ahead =
            |reading: &&Value| reading["flags"].as_array().unwrap().contains(&"future".into());
        assert_eq!((raw.len(), raw.iter().filter(is_ahead).count()), (602, 1));
    }
    assert_eq!(on(&log, "late/w"), Vec::<Value>::new());
    let status = plant.status();
    let counted = [&status["sources"][0], &status["sources"][1]];
    assert!(counted.iter().all(|books| books["implausible"] == 1), "{counted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn w_02_a_silent_source_holds_nothing_and_comes_back_late() {
    let window = MINUTES.replace("idle_after = \"1h\"", "idle_after = \"1s\"\nidle_flush = \"5s\"")
        + "\nproperty = \"n\"";
    let plant = plant(&["a", "b", "c"], FILE, &window).await;
    feed(&plant, "b", &each_second("b", NOON, 30));
    feed(&plant, "a", &each_second("a", NOON, 300));
    let filtered = line("c", NOON, 1).replace("\"n\"", "\"other\"");
    // A goes on, so that the others fall silent alone.
    let pulse = line("pulse", NOON + 299 * SECOND, 1);
    let (mut a, mut c) = (plant.connect("a"), plant.connect("c"));
    while rows(&plant.broker.log(), "w", "a").len() < 4 {
        a.write_all(pulse.as_bytes()).unwrap();
        c.write_all(filtered.as_bytes()).unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // The fifth, when A has stopped.
    let log = settled(&plant, "w", "a", 5).await;
    let mut expected: Vec<_> =
        (0..4).map(|n| format!("a 2026-03-01T12:{n:02}:00 1 final 60")).collect();
    expected.push("a 2026-03-01T12:04:00 1 provisional 60".to_owned());
    assert_eq!(rows(&log, "w", "a"), expected);
    let fifth = &on(&log, "windows/w").into_iter().rfind(|result| result["entity"] == "a").unwrap();
    assert_eq!(fifth["coverage"]["flushed"], true);
    feed(&plant, "b", &[line("b", NOON + 45 * SECOND, 1)]);
    plant.wait(|log| !on(log, "late/w").is_empty()).await;
    let late = &on(&plant.broker.log(), "late/w")[0];
    assert_eq!((&late["reason"], &late["entity"]), (&"too_late".into(), &"b".into()));
    assert_eq!(late["watermark"], "2026-03-01T12:04:53.999000000Z");
    let log = plant.broker.log();
    assert_eq!(rows(&log, "w", "b"), ["b 2026-03-01T12:00:00 1 final 30"]);
    assert_eq!(rows(&log, "w", "c"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn w_03_the_boundary_of_lateness_to_the_millisecond() {
    let window = |source: &str| {
        format!(
            "[[window]]\nname = \"{source}\"\nsources = [\"{source}\"]\nkind = \"tumbling\"\n\
             size = \"5m\"\nbound = \"20s\"\nidle_after = \"1h\"\nallowed_lateness = \"2m\"\n"
        )
    };
    let plant = plant(&["a", "b"], FILE, &(window("a") + &window("b"))).await;
    // A reading at x makes the watermark x - 20 s - 1 ms.
    let drive = |source, watermark_ms| line(source, watermark_ms + 20_001, 0);
    let end = NOON + 5 * MINUTE;
    let until_now = |source| {
        vec![
            line(source, NOON + 10 * SECOND, 10),
            line(source, NOON + 290 * SECOND, 20),
            line(source, end, 7),
            drive(source, end - 2),
            drive(source, end - 1),
            line(source, NOON + 180 * SECOND, 30),
        ]
    };
    let mut lines = until_now("a");
    lines.push(drive("a", end + 2 * MINUTE - 2));
    lines.push(line("a", NOON + 210 * SECOND, 60));
    feed(&plant, "a", &lines);
    let mut lines = until_now("b");
    lines.push(drive("b", end + 2 * MINUTE - 1));
    lines.push(line("b", NOON + 120 * SECOND, 40));
    feed(&plant, "b", &lines);
    settled(&plant, "a", "a", 3).await;
    settled(&plant, "b", "b", 3).await;
    plant.wait(|log| !on(log, "late/b").is_empty()).await;
    let log = plant.broker.log();
    let first = |source: &str| {
        let told = |result: &Value| format!("{} mean {}", row(result), result["mean"]);
        on(&log, &format!("windows/{source}")).iter().map(told).collect::<Vec<_>>()
    };
    let begun = |source: &str| {
        let start = format!("{source} 2026-03-01T12:00:00");
        [format!("{start} 1 provisional 2 mean 15.0"), format!("{start} 2 provisional 3 mean 20.0")]
    };
    let [one, two] = begun("a");
    let three = "a 2026-03-01T12:00:00 3 provisional 4 mean 30.0".to_owned();
    assert_eq!(first("a"), [one, two, three]);
    let [one, two] = begun("b");
    let last = "b 2026-03-01T12:00:00 2 final 3 mean 20.0".to_owned();
    assert_eq!(first("b"), [one, two, last]);
    // One millisecond before nothing had fired.
    for source in ["a", "b"] {
        let result = &on(&log, &format!("windows/{source}"))[0];
        assert_eq!(result["watermark"], "2026-03-01T12:04:59.999000000Z");
    }
    assert_eq!(on(&log, "late/a"), Vec::<Value>::new());
    let late = on(&log, "late/b");
    assert_eq!(late.len(), 1);
    assert_eq!((&late[0]["value"], &late[0]["reason"]), (&40.into(), &"too_late".into()));
    assert_eq!(late[0]["window_end"], "2026-03-01T12:05:00.000000000Z");
    // What is exactly at the end belongs to the next window, with the drivers.
    feed(&plant, "a", &[drive("a", end + 5 * MINUTE - 1)]);
    let log = settled(&plant, "a", "a", 5).await;
    assert_eq!(
        rows(&log, "a", "a")[3..],
        ["a 2026-03-01T12:00:00 3 final 4", "a 2026-03-01T12:05:00 1 provisional 4",]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn w_04_late_readings_are_counted_and_kept() {
    let plant = plant(&["a"], FILE, MINUTES).await;
    let mut lines = each_second("a", NOON, 180);
    lines.extend([10, 20, 30].map(|second| line("a", NOON + second * SECOND, 9)));
    lines.push(line("a", NOON + 185 * SECOND, 1));
    feed(&plant, "a", &lines);
    let log = settled(&plant, "w", "a", 3).await;
    let minute = |n| format!("a 2026-03-01T12:{n:02}:00 1 final 60");
    assert_eq!(rows(&log, "w", "a"), (0..3).map(minute).collect::<Vec<_>>());
    let times = [10, 20, 30].map(|second| format!("2026-03-01T12:00:{second}.000000000Z"));
    let of_late = |readings: Vec<Value>| {
        let late = readings.into_iter().filter(|reading| reading["value"] == 9);
        late.map(|reading| reading["event_time"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(of_late(on(&log, "late/w")), times);
    assert_eq!(of_late(on(&log, "readings/a")), times);
    assert_eq!(on(&log, "late/w").len(), 3);
    let metrics = get(&plant, "/metrics");
    let counted = metrics.lines().find(|line| {
        line.starts_with("tidegate_late_total{") && line.contains("class=\"too_late\"")
    });
    assert_eq!(counted, Some("tidegate_late_total{window=\"w\",class=\"too_late\"} 3"));
}

#[tokio::test(flavor = "multi_thread")]
async fn w_05_windows_before_1970_use_floor() {
    let window = MINUTES.replace("1m", "10s").replace("bound = \"5s\"", "bound = \"15s\"");
    let time = format!("{FILE}\nearliest = \"1960-01-01T00:00:00Z\"");
    let plant = plant(&["a"], &time, &window).await;
    let times = [
        "1969-12-31T23:59:59.999Z",
        "1969-12-31T23:59:50.000Z",
        "1969-12-31T23:59:49.999Z",
        "1970-01-01T00:00:00.000Z",
        "1970-01-01T00:00:00.001Z",
        "1970-01-01T00:00:25.000Z",
    ];
    let lines: Vec<_> = times
        .iter()
        .zip(1..)
        .map(|(at, v)| line("a", 0, v).replace("\"time\":0", &format!("\"time\":\"{at}\"")))
        .collect();
    feed(&plant, "a", &lines);
    let log = settled(&plant, "w", "a", 3).await;
    let told = |result: &Value| format!("{} {}", row(result), result["sum"]);
    // The beginning of UNIX time itself is what a clock says that was never set.
    assert_eq!(
        on(&log, "windows/w").iter().map(told).collect::<Vec<_>>(),
        [
            "a 1969-12-31T23:59:40 1 final 1 3",
            "a 1969-12-31T23:59:50 1 final 2 3",
            "a 1970-01-01T00:00:00 1 final 1 5",
        ]
    );
    assert_eq!(plant.status()["sources"][0]["implausible"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn w_05_by_default_such_times_are_flagged_and_in_no_window() {
    let plant = plant(&["a"], FILE, MINUTES).await;
    let lines: Vec<_> =
        [-1, -10_000, -10_001, 0].iter().map(|at_ms| line("a", *at_ms, 1)).collect();
    let lines: Vec<_> = lines
        .iter()
        .zip(["59.999", "50.000", "49.999", "00.000"])
        .map(|(line, second)| {
            let day = if second == "00.000" { "1970-01-01T00:00" } else { "1969-12-31T23:59" };
            let (head, rest) = line.split_once("\"time\":").unwrap();
            let (_, rest) = rest.split_once(',').unwrap();
            format!("{head}\"time\":\"{day}:{second}Z\",{rest}")
        })
        .collect();
    feed(&plant, "a", &lines);
    feed(&plant, "a", &each_second("a", NOON, 66));
    let log = settled(&plant, "w", "a", 1).await;
    assert_eq!(rows(&log, "w", "a"), ["a 2026-03-01T12:00:00 1 final 60"]);
    assert_eq!(on(&log, "late/w"), Vec::<Value>::new());
    assert_eq!(plant.status()["sources"][0]["implausible"], 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn w_06_a_size_that_is_no_multiple_of_the_slide() {
    let window = MINUTES
        .replace("tumbling", "sliding")
        .replace("size = \"1m\"", "size = \"1600ms\"\nslide = \"700ms\"");
    let time = format!("{FILE}\nearliest = \"2000-01-01T00:00:00Z\"");
    let plant = plant(&["a"], &time, &window).await;
    let times = [1_000_000_000_123, 1_000_000_000_300, 1_000_000_001_399];
    let mut lines: Vec<_> = times.iter().map(|at_ms| line("a", *at_ms, 1)).collect();
    lines.push(line("driver", 1_000_000_020_000, 1));
    feed(&plant, "a", &lines);
    let log = settled(&plant, "w", "a", 4).await;
    // 2001-09-09T01:46:40Z is 1,000,000,000,000 ms.
    assert_eq!(
        rows(&log, "w", "a").iter().map(|row| row.replace("000000Z", "")).collect::<Vec<_>>(),
        [
            "a 2001-09-09T01:46:38.900 1 final 2",
            "a 2001-09-09T01:46:39.600 1 final 2",
            "a 2001-09-09T01:46:40.300 1 final 2",
            "a 2001-09-09T01:46:41 1 final 1",
        ]
    );
    assert_eq!(on(&log, "late/w"), Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn w_11_local_days_have_23_and_25_hours() {
    let local = MINUTES
        .replace("\"w\"", "\"local\"")
        .replace("tumbling", "calendar-day")
        .replace("size = \"1m\"", "zone = \"Europe/Berlin\"");
    let utc = MINUTES.replace("\"w\"", "\"utc\"").replace("1m", "1d");
    let time = format!("{FILE}\nfuture_limit = \"366d\"");
    let plant = plant(&["a"], &time, &format!("{local}\n{utc}")).await;
    // 2026-03-27 and 2026-10-23, both at 00:00 UTC.
    let stretches = [(1_774_569_600_000_i64, 4), (1_792_713_600_000, 5)];
    let each_minute = |(from_ms, days): (i64, i64)| {
        (0..days * 1_440).map(move |n| line("a", from_ms + n * MINUTE, 1))
    };
    let mut lines: Vec<_> = stretches.into_iter().flat_map(each_minute).collect();
    lines.push(line("driver", 1_793_404_800_000, 1));
    feed(&plant, "a", &lines);
    settled(&plant, "local", "a", 11).await;
    let log = settled(&plant, "utc", "a", 9).await;
    let spans = |window: &str| {
        let mut text = String::new();
        for result in on(&log, &format!("windows/{window}")) {
            let hour = |key: &str| result[key].as_str().unwrap()[5..13].to_owned();
            let _ = write!(text, "{}/{}={} ", hour("start"), hour("end"), result["count"]);
        }
        text
    };
    assert_eq!(
        spans("local"),
        "03-26T23/03-27T23=1380 03-27T23/03-28T23=1440 03-28T23/03-29T22=1380 \
         03-29T22/03-30T22=1440 03-30T22/03-31T22=120 10-22T22/10-23T22=1320 \
         10-23T22/10-24T22=1440 10-24T22/10-25T23=1500 10-25T23/10-26T23=1440 \
         10-26T23/10-27T23=1440 10-27T23/10-28T23=60 "
    );
    let full = on(&log, "windows/utc").iter().filter(|day| day["count"] == 1_440).count();
    assert_eq!((full, on(&log, "windows/utc").len()), (9, 9));
}
