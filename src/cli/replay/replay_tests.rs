use std::fmt::Write as _;
use std::path::Path;

use clap::Parser as _;

use super::*;
use crate::config::Credentials;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

const START_MS: i64 = 1_780_000_000_000;

/// Three pumps in turn, every 500 ms, for ten minutes. Values are sums of tenths,
/// which no binary number holds exactly.
fn lines() -> Vec<String> {
    let line = |place: i64| {
        let (pump, at, value) = (place % 3, START_MS + place * 500, (place % 17) as f64 / 10.0);
        format!(r#"{{"entity":"pump-{pump}","property":"kpa","value":{value},"time":{at}}}"#)
    };
    (0..1_200).map(line).collect()
}

fn window(more: &str) -> String {
    format!("[[window]]\nname = \"w\"\naggregates = [\"count\", \"sum\", \"stddev\"]\n{more}\n")
}

const TUMBLING: &str = "kind = \"tumbling\"\nsize = \"10s\"";

/// A folder with `trace.jsonl` and a configuration.
fn folder(lines: &[String], windows: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().display();
    let config = format!(
        "[gateway]\nid = \"gw\"\ndata_dir = \"{data_dir}\"\n[[uplink]]\nurl = \
         \"mqtt://127.0.0.1:1\"\n{windows}"
    );
    std::fs::write(folder.path().join("tidegate.toml"), config).unwrap();
    std::fs::write(folder.path().join("trace.jsonl"), lines.join("\n")).unwrap();
    folder
}

fn args(folder: &Path, more: &str) -> Args {
    let (trace, window) = (folder.join("trace.jsonl"), folder.join("tidegate.toml"));
    let paths = [trace.display().to_string(), "--window".into(), window.display().to_string()];
    let more = more.split_whitespace().map(str::to_owned);
    let line = ["replay".to_owned()].into_iter().chain(paths).chain(more);
    Line::try_parse_from(line).unwrap().args
}

/// The report, and what was said on the way.
fn replayed(folder: &Path, more: &str) -> (Report, String) {
    let args = args(folder, more);
    let config = Config::load(&args.window, &Credentials::Unseen).unwrap();
    let trace = load(&args, &config).unwrap();
    let mut text = String::new();
    let report = replay(&args, &config, &trace, |said| {
        text += said;
        Ok(())
    });
    let report = report.unwrap();
    text += &report.verdict();
    (report, text)
}

#[test]
fn disorder_within_bound_and_lateness_converges() {
    let windows = [
        TUMBLING,
        "kind = \"sliding\"\nsize = \"30s\"\nslide = \"10s\"",
        "kind = \"session\"\ngap = \"2s\"",
        "kind = \"calendar-day\"\nzone = \"Europe/Berlin\"",
    ];
    for kind in windows {
        let folder = folder(&lines(), &window(kind));
        let (report, text) = replayed(folder.path(), "--shuffle 80s --duplicate 5% --runs 3");
        assert!(report.converged, "{text}");
        assert!(text.contains("run 3, seed 3: "), "{text}");
        assert!(text.contains(" repeats dropped\n"), "{text}");
        assert!(text.ends_with("converged: 3 of 3 runs came to the same final results\n"));
    }
}

#[test]
fn the_runs_are_those_of_their_seeds() {
    let folder = folder(&lines(), &window(TUMBLING));
    let (all, text) = replayed(folder.path(), "--shuffle 70s --seed 43 --runs 3");
    let (third, _) = replayed(folder.path(), "--shuffle 70s --seed 45 --runs 1");
    let (one, other) = (serde_json::json!(all.runs[2]), serde_json::json!(third.runs[0]));
    assert!(text.contains("run 3, seed 45: 180 results, "), "{text}");
    assert!(one["revised"].as_u64().unwrap() > 0, "{text}");
    for key in ["seed", "results", "revised", "too_late", "repeats_dropped"] {
        assert_eq!(one[key], other[key], "{key}");
    }
}

#[test]
fn nothing_is_done_to_an_undisturbed_trace() {
    let folder = folder(&lines(), &window(TUMBLING));
    let (_, text) = replayed(folder.path(), "--shuffle 0s --duplicate 0% --runs 1");
    let expected = "\
1,200 readings, windows: w
undisturbed: 180 results, 0 revised, 0 too late
run 1, seed 1: 180 results, 0 revised, 0 too late
converged: 1 of 1 runs came to the same final results
";
    assert_eq!(text, expected);
}

#[test]
fn disorder_beyond_shows_the_differences_and_why() {
    let folder = folder(&lines(), &window(TUMBLING));
    let (report, text) = replayed(folder.path(), "--shuffle 5m --duplicate 0% --runs 2");
    assert!(!report.converged);
    assert!(text.contains("\nNOT converged: 0 of 2 runs came to the same results\n"), "{text}");
    assert_eq!(text.matches("  undisturbed: readings ").count(), report::SHOWN_MAX, "{text}");
    let hint = &report.hints[0];
    assert!(hint.starts_with("w: ") && hint.contains(" readings were too late"), "{hint}");
    let end = ": --shuffle 5m exceeds what the window allows (bound 20s + allowed_lateness 1m)";
    assert!(hint.ends_with(end), "{hint}");
}

#[test]
fn a_pushed_clock_changes_nothing() {
    let folder = folder(&lines(), &window(TUMBLING));
    let (report, text) = replayed(folder.path(), "--step +10m@50% --duplicate 0% --runs 1");
    assert!(report.converged, "{text}");
    assert!(text.contains(", 120 pushed stamps kept out\n"), "{text}");
    // It would, if the flag did not keep it out: 120 stamps, ten minutes ahead.
    let args = args(folder.path(), "");
    let config = Config::load(&args.window, &Credentials::Unseen).unwrap();
    let mut trace = load(&args, &config).unwrap();
    let in_order: Vec<usize> = (0..trace.readings.len()).collect();
    let undisturbed = run(&config.windows, &trace, &in_order, None);
    for reading in &mut trace.readings[600..720] {
        let at = &mut reading.input.sample.at;
        *at = *at + Span::from_secs(600);
    }
    let poisoned = run(&config.windows, &trace, &in_order, None);
    assert!(poisoned.too_late() > 0);
    assert!(!compare(&undisturbed, &poisoned, trace.scale).is_empty());
}

#[test]
fn bad_lines_are_named_and_the_others_count() {
    let mut lines = lines();
    lines[1] = "nonsense".to_owned();
    lines[4] = r#"{"entity":"pump-0","property":"kpa","value":1}"#.to_owned();
    lines[5] = r#"{"entity":"p","property":"text","value":"on","time":1780000000}"#.to_owned();
    let folder = folder(&lines, &window(TUMBLING));
    let (report, text) = replayed(folder.path(), "--runs 1");
    assert!(report.converged);
    assert!(text.starts_with("1,197 readings, windows: w\n1 entries without a number"), "{text}");
    assert!(text.contains("2 lines are no readings:\n"), "{text}");
    assert!(text.contains("trace.jsonl: line 2: "), "{text}");
    assert!(text.contains("trace.jsonl: line 5: the line has no time, and "), "{text}");
}

/// As `journal cat` prints it: other entries between, a reading twice.
#[test]
fn exported_lines_are_readings_of_their_source() {
    let reading = |seq: i64| {
        let mut line =
            String::from(r#"{"v":1,"gateway":"gw","source":"plc","epoch":"1-00000001","#);
        let second = seq % 60;
        let _ = write!(line, r#""seq":{seq},"entity":"e","property":"p","value":{seq},"#);
        let _ = write!(line, r#""event_time":"2026-11-30T01:02:{second:02}.000000000Z","#);
        line += r#""time":{"origin":"device","clock":"ntp","state":"synchronized"},"flags":[]}"#;
        line
    };
    let gap = r#"{"v":1,"gateway":"gw","source":"plc","epoch":"1-00000001","first_seq":1}"#;
    let mut lines: Vec<String> = (1..50).map(reading).collect();
    lines.extend([gap.to_owned(), reading(7)]);
    let folder = folder(&lines, &window(TUMBLING));
    let (report, text) = replayed(folder.path(), "--runs 2");
    assert!(report.converged, "{text}");
    assert!(text.starts_with("49 readings, windows: w\n1 entries "), "{text}");
    assert!(text.contains("1 readings stood in the trace twice"), "{text}");
    assert!(text.contains("undisturbed: 5 results, 0 revised, 0 too late\n"), "{text}");
}

/// `tests/data/journal-v1.lz4`: 30 readings and a gap record.
fn unpack_journal(dir: &Path) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/journal-v1.lz4");
    let files = lz4_flex::block::decompress_size_prepended(&std::fs::read(path).unwrap()).unwrap();
    let files: Vec<(String, Vec<u8>)> = postcard::from_bytes(&files).unwrap();
    for (name, content) in files {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

#[test]
fn a_journal_and_its_export_give_the_same_results() {
    let folder = folder(&[], &window(TUMBLING));
    let data_dir = folder.path().join("data");
    unpack_journal(&data_dir);
    let export = folder.path().join("trace.jsonl");
    let mut text = Vec::new();
    crate::shell::offline::cat(&data_dir, "gw", 0, |line| text.extend_from_slice(line)).unwrap();
    std::fs::write(&export, text).unwrap();
    let args = args(folder.path(), "");
    let config = Config::load(&args.window, &Credentials::Unseen).unwrap();
    let outcomes = [&data_dir, &export].map(|path| {
        let mut loader = Loader::new(&config);
        loader.add(path).unwrap();
        let trace = loader.finish();
        let in_order: Vec<usize> = (0..trace.readings.len()).collect();
        let counts = (trace.readings.len() as u64 + trace.passed_over, trace.refused.len());
        assert_eq!(counts, (31, 0), "{}", path.display());
        run(&config.windows, &trace, &in_order, None)
    });
    assert!(!outcomes[0].results.is_empty());
    assert_eq!(outcomes[0], outcomes[1]);
}

#[test]
fn words_that_mean_nothing_are_refused() {
    for wrong in ["5m@50%", "+5m", "+0s@5%", "+5m@100%", "+x@1%"] {
        assert!(Step::parse(wrong).is_err(), "{wrong}");
    }
    let step = Step { by: Span::from_secs(300), from: 0.5 };
    assert_eq!(Step::parse("+5m@50%"), Ok(step));
    assert_eq!((step.part(1_000), step.part(1)), (500..600, 0..1));
    assert!(share("101%").is_err() && share("1").is_err());
    assert_eq!(share("1%"), Ok(0.01));
}

#[test]
fn what_cannot_be_tried_says_so() {
    let failed = |folder: &Path| execute(&args(folder, "")).unwrap_err();
    let none = failed(folder(&lines(), "").path());
    assert_eq!(none.exit, Exit::Config);
    assert!(none.message.ends_with("there is no [[window]] to try; add one"));
    let other = failed(
        folder(&lines(), &window("entity = \"x\"\nkind = \"session\"\ngap = \"1s\"")).path(),
    );
    assert_eq!(other.exit, Exit::Config);
    assert!(other.message.contains("takes any of the readings"), "{}", other.message);
    let empty = failed(folder(&["nonsense".to_owned()], &window(TUMBLING)).path());
    assert_eq!(empty.exit, Exit::Io);
    assert!(empty.message.contains("trace.jsonl: line 1: "), "{}", empty.message);
}

/// Two files of the same ten minutes, of which the second has a pause.
fn two_files(policy: &str) -> tempfile::TempDir {
    let folder = folder(&lines(), &window(&format!("{TUMBLING}\n{policy}")));
    let rest = |line: &&String| !line.contains("pump-0");
    let other: Vec<String> = lines()[..300].iter().chain(&lines()[900..]).cloned().collect();
    let other: Vec<String> = other.iter().filter(rest).cloned().collect();
    std::fs::write(folder.path().join("other.jsonl"), other.join("\n")).unwrap();
    folder
}

#[test]
fn files_of_unequal_depth_are_read_side_by_side() {
    let folder = two_files("late_policy = \"grace\"\nallowed_lateness = \"30s\"");
    let other = folder.path().join("other.jsonl");
    let run = |drift: &str| {
        let more = format!("{} --shuffle 0s --duplicate 0% --runs 1 {drift}", other.display());
        serde_json::json!(replayed(folder.path(), &more).0)["undisturbed"].clone()
    };
    // One after the other, the stream is at its end when the second file begins.
    let late = |report: serde_json::Value| report["too_late"].as_u64().unwrap();
    assert!(late(run("")) > 300);
    assert_eq!(late(run("--max-drift none")), late(run("")));
    assert_eq!(late(run("--max-drift 30s")), 0);
    assert_eq!(late(run("--max-drift 0s")), 0);
}

#[test]
fn alignment_keeps_the_order_of_each_source_and_the_drift() {
    let folder = two_files("");
    let other = folder.path().join("other.jsonl");
    let more = format!("{} --max-drift 5s", other.display());
    let args = args(folder.path(), &more);
    let trace = load(&args, &Config::load(&args.window, &Credentials::Unseen).unwrap()).unwrap();
    let order: Vec<usize> = (0..trace.readings.len()).collect();
    let aligned = align::align(&trace.readings, &order, Span::from_secs(5));
    let mut sorted = aligned.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, order);
    let of = |name: &str| {
        let is_of = |place: &&usize| trace.readings[**place].input.source.as_str() == name;
        aligned.iter().filter(is_of).copied().collect::<Vec<_>>()
    };
    let (first, second) = (of("trace"), of("other"));
    assert!(first.is_sorted() && second.is_sorted());
    // Each reading comes before the other source is more than the drift beyond it.
    let mut newest = 0;
    for place in &aligned {
        let at = trace.readings[*place].input.sample.at.unix_ns();
        assert!(at >= newest - 5_000_000_000, "{at} after {newest}");
        newest = newest.max(at);
    }
    assert!(aligned[..40].contains(&second[0]), "it is read beside the first");
}

#[test]
fn a_drift_is_a_duration_or_none() {
    let refused = |written: &str| {
        let line = ["replay", "t", "--max-drift", written];
        Line::try_parse_from(line).map(|_| ()).unwrap_err().to_string()
    };
    assert!(refused("soon").contains("--max-drift"));
    assert!(refused("400d").contains("more than 365 days"));
}
