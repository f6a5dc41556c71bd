//! Ordered readings of the real binary, where they are shown on site.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;

/// Two sources, of which b is more out of order than a.
const SOURCES: [(&str, &str); 2] = [
    ("a", "[source.time]\nlive = false\nbound = \"1s\""),
    ("b", "[source.time]\nlive = false\nbound = \"6s\""),
];

/// A file of ordered readings, by keys of its own.
fn ordered_file(path: &Path, keys: &str) -> String {
    let path = path.display();
    format!("[[output]]\ntype = \"jsonl\"\npath = \"{path}\"\nordered_readings = true\n{keys}")
}

fn written(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A line in short: a reading by source and number, with its mark.
fn short(line: &Value) -> String {
    if line["window"].is_string() {
        return row(line);
    }
    let marks = ["late", "early"].into_iter().filter(|mark| line[*mark] == true);
    let marks: String = marks.map(|mark| format!(" {mark}")).collect();
    format!("{}{}{marks}", line["source"].as_str().unwrap(), line["seq"])
}

fn shorts(path: &Path) -> Vec<String> {
    written(path).iter().map(short).collect()
}

/// Waits for so many lines and gives them.
fn wait_for(path: &Path, count: usize) -> Vec<String> {
    process::wait("the file has them", || shorts(path).len() >= count);
    shorts(path)
}

#[tokio::test(flavor = "multi_thread")]
async fn readings_come_in_order_with_what_is_late_marked_and_before_their_result() {
    let mut plant = Plant::new(Script::default(), "", &SOURCES).await;
    let path = plant.folder().join("ordered.jsonl");
    plant.configure(&format!("{MINUTES}\nsources = [\"a\"]"));
    let keys = "sources = [\"a\"]\nbound = \"5s\"\nidle_after = \"1h\"";
    plant.configure(&ordered_file(&path, keys));
    plant.run();
    feed(&plant, "b", &[line("b", NOON, 1)]);
    let at = |seconds: i64| line("a", NOON + seconds * SECOND, 1);
    feed(&plant, "a", &[at(3), at(1), at(2), at(58), at(57), at(65), at(50), at(66)]);
    let result = "a 2026-03-01T12:00:00 1 final 5";
    assert_eq!(wait_for(&path, 7), ["a2", "a3", "a1", "a5", "a4", result, "a7 late"]);
    let held = |status: &Value| status["ordered"][0]["held"] == 2;
    plant.wait_for_status("two are held", held);
    let of_file = &plant.status()["ordered"][0];
    assert_eq!(of_file["output"], format!("jsonl {}", path.display()));
    assert_eq!((&of_file["in_order"], &of_file["late"]), (&5.into(), &1.into()));
    // As they go up, but for the mark.
    let mut late = written(&path).pop().unwrap();
    late.as_object_mut().unwrap().remove("late");
    plant.wait(|log| on(log, "readings/a").contains(&late)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_source_is_not_waited_for() {
    let mut plant = Plant::new(Script::default(), "", &SOURCES).await;
    let path = plant.folder().join("ordered.jsonl");
    plant.configure(&ordered_file(&path, "bound = \"5s\"\nidle_after = \"1s\""));
    plant.run();
    let lines = [line("a", NOON, 1), line("a", NOON + 9 * SECOND, 1)];
    feed(&plant, "b", &[line("b", NOON + 2 * SECOND, 1)]);
    // a is heard last, so that b falls silent first, or both at once; then the next
    // of a lets out what waits.
    feed(&plant, "a", &lines);
    plant.wait_for_status("b is silent", |status| {
        status["ordered"][0]["idle_sources"].as_array().is_some_and(|idle| !idle.is_empty())
    });
    feed(&plant, "a", &[line("a", NOON + 10 * SECOND, 1)]);
    assert_eq!(wait_for(&path, 2), ["a1", "b1"]);
}

/// Readings of both sources with disorder, what is too late among them.
fn disorder() -> Vec<(&'static str, String)> {
    let mut draw = 7_u64;
    let mut next = move |below: u64| {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((draw >> 33) % below) as i64
    };
    let mut all = Vec::new();
    for n in 0..60 {
        let source = ["a", "b"][next(2) as usize];
        let at_ms = |n: i64, draw| NOON + n * SECOND - draw;
        // A few at a time: each time is a commit.
        all.extend((0..4).map(|_| (source, line(source, at_ms(n, next(14_000)), n))));
    }
    all
}

/// Feeds them, so that their order in the journal is this.
fn feed_all(plant: &Plant, lines: &[(&str, String)]) {
    for together in lines.chunk_by(|one, next| one.0 == next.0) {
        let text: Vec<String> = together.iter().map(|(_, line)| line.clone()).collect();
        feed(plant, together[0].0, &text);
    }
}

/// Waits until the file has all that this process has let out, and gives the lines.
fn caught_up(plant: &Plant, path: &Path, before: usize, fed: usize) -> Vec<Value> {
    process::wait("the file has what was let out", || {
        let status = plant.status();
        let accepted: u64 = (0..2).filter_map(|n| status["sources"][n]["accepted"].as_u64()).sum();
        let out = |place| status["ordered"][0][place].as_u64().unwrap();
        let out = out("in_order") + out("early") + out("late");
        accepted == fed as u64 && written(path).len() == before + out as usize
    });
    written(path)
}

/// What the file has in the end, each reading once; what came again was the same.
async fn ordered_run(stops: &[usize], interrupt: impl Fn(&mut Plant)) -> Vec<Value> {
    let mut plant = Plant::new(Script::default(), "", &SOURCES).await;
    checkpoint_often(&plant);
    let path = plant.folder().join("ordered.jsonl");
    plant.configure(&ordered_file(&path, "idle_after = \"1h\""));
    plant.run();
    let lines = disorder();
    let (mut from, mut before) = (0, 0);
    for stop in stops {
        feed_all(&plant, &lines[from..stop - 3]);
        wait_for_checkpoint(&plant, stop - 3);
        feed_all(&plant, &lines[stop - 3..*stop]);
        caught_up(&plant, &path, before, *stop);
        interrupt(&mut plant);
        before = written(&path).len();
        plant.run();
        from = *stop;
    }
    feed_all(&plant, &lines[from..]);
    let all = caught_up(&plant, &path, before, lines.len());
    let mut seen: BTreeMap<String, Value> = BTreeMap::new();
    let mut distinct = Vec::new();
    for mut line in all {
        let epoch = line.as_object_mut().unwrap().remove("epoch").unwrap();
        assert!(epoch.as_str().unwrap().starts_with("1-"));
        let name = format!("{}/{}", line["source"], line["seq"]);
        let first = seen.entry(name).or_insert_with(|| {
            distinct.push(line.clone());
            line.clone()
        });
        assert_eq!(*first, line, "another content under the same number");
    }
    for line in &mut distinct {
        for key in ["ingest_time", "time"] {
            line.as_object_mut().unwrap().remove(key);
        }
    }
    distinct
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_held_comes_after_a_kill_and_in_the_same_order() {
    let whole = ordered_run(&[], |_| ()).await;
    let late = whole.iter().filter(|line| line["late"] == true).count();
    assert!(whole.len() > 200 && late > 5, "{} lines, {late} late", whole.len());
    let on_time: Vec<&Value> = whole.iter().filter(|line| line["late"].is_null()).collect();
    assert!(on_time.is_sorted_by_key(|line| line["event_time"].as_str()));
    let stops = [40, 61, 130, 200];
    assert_eq!(ordered_run(&stops, Plant::kill).await, whole);
    let stopped = ordered_run(&stops, |plant| assert_eq!(plant.stop(), Some(0))).await;
    assert_eq!(stopped, whole);
}
