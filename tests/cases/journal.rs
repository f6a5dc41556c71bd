//! The journal looked at: beside the running agent, and as a copy.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use serde_json::Value;

use crate::agent::Plant;
use crate::support::script::Script;

/// Small segments, so that there are several.
const SMALL: &str = "commit_interval = \"50ms\"\nsegment_bytes = \"64KiB\"\nmax_bytes = \"64MiB\"";

/// An agent whose broker is away, with `count` readings in its journal.
async fn with_backlog(count: u64) -> Plant {
    let mut plant = Plant::new(Script::default(), "", &[("in", "")]).await;
    plant.rewrite("commit_interval = \"50ms\"", SMALL);
    plant.broker.refuse(true);
    plant.run();
    plant.feed("in", count).join();
    plant
}

fn lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else if entry.path().is_file() {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_look_works_beside_the_agent_and_on_a_copy_and_says_the_same() {
    const COUNT: u64 = 30_000;
    let mut plant = with_backlog(COUNT).await;
    let looks: [&[&str]; 3] = [
        &["journal", "cat"],
        &["journal", "export", "--format", "csv", "--source", "in"],
        &["journal", "stats", "--json"],
    ];
    let live: Vec<String> = looks.iter().map(|look| plant.say(look, 0)).collect();
    let (code, verified) = plant.command(&["journal", "verify", "--json"]);
    assert_eq!(code, Some(0), "{verified}");

    let seqs: Vec<u64> = lines(&live[0]).iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..=COUNT).collect::<Vec<_>>());
    let rows: Vec<&str> = live[1].split("\r\n").collect();
    assert!(rows[0].starts_with("source,epoch,seq,entity,property,value,"), "{}", rows[0]);
    assert_eq!(rows.len() as u64, COUNT + 2, "a head, the rows, and the end");
    let stats: serde_json::Value = serde_json::from_str(&live[2]).unwrap();
    assert!(stats["segments"].as_array().unwrap().len() >= 3, "{stats}");
    assert_eq!(
        (&stats["numbers"][0]["source"], &stats["numbers"][0]["last"]),
        (&"in".into(), &COUNT.into())
    );
    let reports: serde_json::Value = serde_json::from_str(&verified).unwrap();
    let entries = reports.as_array().unwrap().iter().map(|one| one["entries"].as_u64().unwrap());
    assert_eq!(entries.sum::<u64>(), stats["entries"].as_u64().unwrap());

    assert_eq!(plant.stop(), Some(0));
    let elsewhere = plant.folder().join("copy");
    copy(&plant.folder().join("data"), &elsewhere);
    for folder in [elsewhere.clone(), elsewhere.join("journal")] {
        let folder = folder.display().to_string();
        let place = ["--journal", &folder];
        let still = plant.say(&[looks[0], &place].concat(), 0);
        assert_eq!(lines(&still)[..lines(&live[0]).len()], lines(&live[0])[..]);
        assert_eq!(plant.say(&[looks[1], &place].concat(), 0), live[1]);
        assert!(plant.say(&[&["journal", "verify"][..], &place].concat(), 0).contains("good"));
    }
    // One segment alone, as the quarantine has it.
    let id = stats["segments"][1]["id"].as_u64().unwrap();
    let alone = elsewhere.join(format!("journal/{id:06}"));
    let alone = alone.display().to_string();
    let text = plant.say(&["journal", "cat", "--journal", &alone], 0);
    let first = &stats["segments"][1];
    let expected = first["next"].as_u64().unwrap() - first["first"].as_u64().unwrap();
    assert_eq!(lines(&text).len() as u64, expected);
    let said = plant.say(&["journal", "verify", "--journal", &alone], 0);
    assert!(!said.contains("DAMAGE"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_takes_a_source_and_a_stretch_of_event_time() {
    let mut plant = Plant::new(Script::default(), "", &[("in", ""), ("other", "")]).await;
    plant.broker.refuse(true);
    plant.run();
    for source in ["in", "other"] {
        let mut stream = plant.connect(source);
        for minute in 0..10 {
            writeln!(
                stream,
                "{{\"entity\":\"e\",\"property\":\"p\",\"value\":{minute},\
                 \"time\":\"2026-11-30T12:0{minute}:00Z\"}}"
            )
            .unwrap();
        }
        let mut acked = String::new();
        BufReader::new(stream).read_line(&mut acked).unwrap();
    }
    plant.wait_for_status("all are in", |status| status["journal"]["readings"] == 20);
    let file = plant.folder().join("out.jsonl").display().to_string();
    let wanted = [
        "journal",
        "export",
        "--source",
        "in",
        "--from",
        "2026-11-30T13:03:00+01:00",
        "--to",
        "2026-11-30T12:06:00Z",
        "--output",
        &file,
    ];
    plant.say(&wanted, 0);
    let taken = lines(&std::fs::read_to_string(&file).unwrap());
    let values: Vec<i64> = taken.iter().map(|line| line["value"].as_i64().unwrap()).collect();
    assert_eq!(values, [3, 4, 5]);
    assert!(taken.iter().all(|line| line["source"] == "in"));
    let (code, said) = plant.command(&wanted);
    assert_eq!(code, Some(74), "never written over: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn looking_disturbs_no_forwarding() {
    const COUNT: u64 = 20_000;
    let plant = with_backlog(COUNT).await;
    plant.broker.refuse(false);
    while plant.status()["uplink"]["backlog"] != 0 {
        plant.command(&["journal", "cat"]);
        plant.command(&["journal", "verify"]);
    }
    let sent = crate::agent::first_seen(&plant.broker.log(), "in");
    assert_eq!(sent, (1..=COUNT).collect::<Vec<_>>());
    assert_eq!(plant.broker.log().connects.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_holds_for_a_whole_consumer_and_finds_each_fault() {
    const COUNT: u64 = 3_000;
    let mut plant = with_backlog(COUNT).await;
    let data = plant.folder().join("data");
    let file = plant.folder().join("received").display().to_string();
    let audit = |plant: &Plant, journal: &str, lines: &[String], more: &[&str]| {
        std::fs::write(&file, lines.join("\n")).unwrap();
        let fixed = ["audit", "--journal", journal, "--received", &file];
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args([&fixed[..], more].concat())
            .output()
            .unwrap();
        assert!(plant.folder().is_dir());
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let folder = data.display().to_string();
    let (code, said) = audit(&plant, &folder, &[], &[]);
    assert_eq!(code, Some(0), "all of it waits: {said}");
    assert!(said.contains("3000 waiting, 0 holes"), "{said}");

    plant.broker.refuse(false);
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let log = plant.broker.log();
    let messages = log.publishes.iter().filter(|seen| !seen.payload.is_empty());
    let mut lines: Vec<String> = messages
        .map(|seen| format!("{} {}", seen.topic, String::from_utf8_lossy(&seen.payload)))
        .collect();
    let socket = format!("unix:{folder}/control.sock");
    for journal in [&folder, &socket] {
        let (code, said) = audit(&plant, journal, &lines, &[]);
        assert_eq!(code, Some(0), "{said}");
    }
    assert_eq!(plant.stop(), Some(0));
    let at = lines.iter().position(|line| line.contains("\"seq\":1500,")).unwrap();
    let line = lines.remove(at);
    let (code, said) = audit(&plant, &folder, &lines, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("1 holes") && said.contains("the first that is not there is 1500"),
        "{said}"
    );
    lines.extend([line.clone(), line]);
    assert_eq!(audit(&plant, &folder, &lines, &[]).0, Some(1));
    assert_eq!(audit(&plant, &folder, &lines, &["--allow-repeats"]).0, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_not_the_oldest_after_a_restart() {
    let mut plant = Plant::start(Script::default(), "", &["done", "waiting"]).await;
    let old = "{\"entity\":\"a\",\"property\":\"p\",\"value\":1,\"time\":\"1970-01-01T00:00:05Z\"}";
    let hour_old =
        "{\"entity\":\"a\",\"property\":\"p\",\"value\":1,\"time\":\"2026-01-01T00:00:05Z\"}";
    writeln!(plant.connect("done"), "{old}\n{hour_old}").unwrap();
    plant.wait_for_status("nothing waits", |status| {
        status["uplink"]["acknowledged"] == 2 && status["journal"]["readings"] == 0
    });
    assert_eq!(plant.status()["journal"]["oldest_event_time"], Value::Null);
    plant.cut_off();
    writeln!(plant.connect("waiting"), "{old}").unwrap();
    plant.feed("waiting", 3).join();
    // The acknowledgements are durable a second after they came.
    plant.wait_for_status("four wait", |status| status["journal"]["readings"] == 4);
    let before = plant.status()["journal"]["oldest_event_time"].clone();
    assert!(before.as_str().unwrap().starts_with("20"), "{before}");
    plant.kill();
    plant.run();
    plant.wait_for_status("four wait still", |status| status["journal"]["readings"] == 4);
    // The segment says of its readings only when the earliest was: nothing that can be meant.
    let after = plant.status()["journal"]["oldest_event_time"].clone();
    assert!(after.is_null(), "{after}");
}
