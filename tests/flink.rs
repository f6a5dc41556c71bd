//! Windows and watermarks against traces recorded from Apache Flink 2.1.1.
//!
//! `tests/data/flink/*.jsonl.lz4` hold one trace a line: configuration, steps and
//! what Flink did at each. All rows are compared, in order: results, late
//! readings, watermarks, dropped panes, counters. What Flink does not have is off
//! or left out: final records, retractions.
//!
//! Traces of mode `valve` are skipped and counted: they describe how Flink
//! combines the watermarks of several upstream *tasks*
//! (`StatusWatermarkValve`), which on silence of all jumps to the greatest one.
//! Tidegate combines sources as the partitions of one source
//! (`WatermarkOutputMultiplexer`).
//!
//! `TIDEGATE_FLINK_TRACES=FOLDER` runs every `*.jsonl` there as well.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use trace::{Report, run};

#[path = "flink/combine.rs"]
mod combine;
#[path = "flink/trace.rs"]
mod trace;

fn packed(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/flink");
    let packed = std::fs::read(folder.join(format!("{name}.jsonl.lz4"))).unwrap();
    let text = lz4_flex::block::decompress_size_prepended(&packed).unwrap();
    String::from_utf8(text).unwrap()
}

#[expect(clippy::print_stdout, reason = "how many ran is part of the answer")]
fn check(name: &str, ran: usize, skipped: usize) {
    let report = run(name, &packed(name));
    println!("{name}: {} traces, {} skipped (mode valve)", report.ran, report.skipped);
    assert_eq!(report, Report { ran, skipped });
}

#[test]
fn seeds() {
    check("seeds", 13, 0);
}

#[test]
fn edge_cases() {
    check("edge", 96, 0);
}

#[test]
fn random_traces() {
    check("random", 200, 0);
}

#[test]
fn several_inputs() {
    check("multi", 44, 17);
}

#[test]
fn watermarks_alone() {
    check("watermarks", 67, 18);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "further traces are named from outside")]
fn further_traces() {
    let Some(folder) = std::env::var_os("TIDEGATE_FLINK_TRACES") else { return };
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    assert!(!paths.is_empty(), "no *.jsonl in that folder");
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        // Flink misbehaving at the ends of its range: recorded for reading, and
        // nothing to agree with.
        let is_quirk =
            |line: &&str| line.contains("\"name\":\"quirk-") || line.contains("\"name\": \"quirk-");
        let quirks = text.lines().filter(is_quirk).count();
        let text: String =
            text.lines().filter(|line| !is_quirk(line)).flat_map(|line| [line, "\n"]).collect();
        if quirks > 0 {
            println!("{}: {quirks} quirks left out", path.display());
        }
        if text.trim().is_empty() {
            continue;
        }
        let report = run(&path.display().to_string(), &text);
        let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
        println!("{}: {} traces, {} skipped", path.display(), report.ran, report.skipped);
        assert_eq!(report.ran + report.skipped, lines, "{}", path.display());
        assert!(report.ran > 0, "{}: nothing ran", path.display());
    }
}
