//! The binary from outside: help, examples, usage, errors, exit codes.

#![expect(clippy::unwrap_used, reason = "a test that cannot run its subject must fail")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

#[path = "cli/examples.rs"]
mod examples;
#[path = "support/golden.rs"]
mod golden;
#[path = "cli/help.rs"]
mod help;
mod support;

fn tidegate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate")).args(arguments).output().unwrap()
}

#[test]
fn shells_learn_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = tidegate(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("quarantine") && script.contains("lateness"), "{shell}");
    }
    assert_eq!(tidegate(&["completions", "nonsense"]).status.code(), Some(2));
}

#[test]
fn the_configuration_of_the_package_is_right() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/packages/tidegate.toml");
    let output = tidegate(&["check", "-c", path]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_is_good_and_not_there_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().display();
    let path = folder.path().join("t.toml");
    let token = folder.path().join("token");
    std::fs::write(&token, "short\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let text = format!(
        "[gateway]\nid = 'gw'\ndata_dir = '{dir}/data'\n[[uplink]]\nurl = 'mqtts://b'\n\
         ca_file = '{dir}/ca'\n[[uplink]]\nname = 'b'\nurl = 'mqtts://b'\n\
         ca_file = '{dir}/token'\n[http]\ntoken_file = '{dir}/token'\n"
    );
    std::fs::write(&path, text).unwrap();
    let output = tidegate(&["check", "-c", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let said = said.replace(&dir.to_string(), "");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 4, "{said}");
    assert_eq!(
        lines[0],
        "/t.toml:6: uplink.ca_file: /ca does not exist; make it, or mend the path"
    );
    let no_token = "/t.toml: http.token_file: /token: holds no token: one line of at least 16";
    assert!(lines[1].starts_with(no_token), "{said}");
    assert!(lines[2].starts_with("/t.toml: uplink b: "), "{said}");
    assert_eq!(lines[3], "/t.toml: good, with 3 warnings");
    assert!(!folder.path().join("data").exists(), "check makes nothing");
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    let wrong: [&[&str]; 3] = [&[], &["nonsense"], &["check", "--nonsense"]];
    for arguments in wrong {
        assert_eq!(tidegate(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_missing_configuration_ends_with_78() {
    for command in ["run", "check", "status", "clock", "lateness", "plan"] {
        let output = tidegate(&[command, "-c", "/nowhere/tidegate.toml"]);
        assert_eq!(output.status.code(), Some(78), "{command}");
        assert!(String::from_utf8(output.stderr).unwrap().starts_with("tidegate: "), "{command}");
    }
}

/// A configuration whose agent does not run.
fn config(folder: &Path) -> String {
    let path = folder.join("tidegate.toml");
    let text = format!(
        "[gateway]\nid = \"gw\"\ndata_dir = \"{}\"\n[clock]\nhold_unsynchronized = \"0s\"\n\
         reference = \"none\"\nchrony_address = \"127.0.0.1:9\"\n\
         [[uplink]]\nurl = \"mqtt://127.0.0.1:1\"\n",
        folder.display()
    );
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn the_clock_has_the_same_keys_on_every_machine() {
    let folder = tempfile::tempdir().unwrap();
    let path = config(folder.path());
    let output = tidegate(&["clock", "-c", &path, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let view: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let top = [
        "agent",
        "at",
        "boot",
        "chrony_address",
        "clock",
        "heard",
        "no_agent",
        "time",
        "trusted",
        "v",
    ];
    assert_eq!(keys(&view), top);
    assert_eq!(keys(&view["boot"]), ["rtc", "saved", "set_by_rtc"]);
    let clock = [
        "boot",
        "bounded",
        "chrony",
        "corrections_waiting",
        "events",
        "held_for_s",
        "kernel",
        "max_error_us",
        "open_readings",
        "ptp",
        "rate_ppm",
        "restamped",
        "source",
        "state",
        "steps",
        "synchronized_for_s",
        "timebase",
        "timesyncd_at",
        "uptime_s",
        "words",
    ];
    assert_eq!(keys(&view["clock"]), clock);
    // Whatever this machine's clock is like: nobody's word is heard.
    let time = ["boot", "clock", "origin", "state", "timebase", "uptime_ns"];
    assert_eq!(keys(&view["time"]), time);
    assert_eq!((&view["agent"], &view["trusted"]), (&false.into(), &false.into()));
    assert_eq!(view["no_agent"], format!("no agent runs on {}", folder.path().display()));
    assert_eq!(view["chrony_address"], "127.0.0.1:9");
}

#[test]
fn a_script_can_ask_whether_the_clock_is_good() {
    let folder = tempfile::tempdir().unwrap();
    let path = config(folder.path());
    assert_eq!(tidegate(&["clock", "-c", &path, "--check"]).status.code(), Some(1));
    assert_eq!(tidegate(&["clock", "-c", &path]).status.code(), Some(0));
}

/// None of these sets a clock: what is wrong is found before.
#[test]
fn wrong_words_on_the_clock_end_with_2_and_say_why() {
    let cases: [(&[&str], &str); 5] = [
        (&["now"], "--error <DURATION>"),
        (&["--error", "2s"], "<TIME|now>"),
        (&["yesterday", "--error", "2s"], "no RFC 3339 time"),
        (&["2020-01-01T00:00:00Z", "--error", "2s"], "mind the year"),
        (&["now", "--error", "3h"], "out of range; use 1ms to 1h"),
    ];
    for (arguments, why) in cases {
        let output = tidegate(&[&["clock", "set"], arguments].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
}

#[test]
fn a_word_on_the_clock_that_no_agent_hears_ends_with_74() {
    let folder = tempfile::tempdir().unwrap();
    let path = config(folder.path());
    let output = tidegate(&["clock", "set", "now", "--error", "2s", "-c", &path]);
    assert_eq!(output.status.code(), Some(74));
    let expected =
        format!("tidegate: no agent heard of it: no agent runs on {}\n", folder.path().display());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
}

#[test]
fn a_replay_ends_with_0_where_it_converges_and_with_1_where_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = config(folder.path());
    let windows = "[[window]]\nname = \"w\"\nkind = \"tumbling\"\nsize = \"10s\"\n";
    let text = std::fs::read_to_string(&path).unwrap() + windows;
    std::fs::write(&path, text).unwrap();
    let line = |second: u64| {
        let time = 1_780_000_000 + second;
        format!("{{\"entity\":\"e\",\"property\":\"p\",\"value\":{second},\"time\":{time}}}\n")
    };
    let trace = folder.path().join("trace.jsonl");
    std::fs::write(&trace, (0..600).map(line).collect::<String>() + "bad\n").unwrap();
    let trace = trace.display().to_string();
    let replay = |more: &[&str]| tidegate(&[&["replay", &trace, "--window", &path], more].concat());
    let output = replay(&["--runs", "3"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("trace.jsonl: line 601: "), "{said}");
    assert!(said.ends_with("converged: 3 of 3 runs came to the same final results\n"), "{said}");
    let output = replay(&["--shuffle", "5m", "--runs", "1", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["v"], &report["converged"]), (&1.into(), &false.into()));
    assert_eq!(report["differences"].as_array().unwrap().len(), 20);
    assert!(report["differences"][0]["undisturbed"].as_str().unwrap().starts_with("readings 10,"));
}

#[test]
fn what_cannot_be_decoded_is_named_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let good = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/batch-v1.bin");
    let bad = folder.path().join("bad.bin");
    std::fs::write(&bad, [1, 2, b'g', b'w', 0xff]).unwrap();
    let output = tidegate(&["decode", bad.to_str().unwrap(), good]);
    assert_eq!(output.status.code(), Some(1));
    let expected = std::fs::read(good.replace(".bin", ".jsonl")).unwrap();
    assert_eq!(output.stdout, expected);
    let said = String::from_utf8(output.stderr).unwrap();
    let beginning = format!("tidegate: {}: at byte 5 (uncompressed): ", bad.display());
    assert!(said.starts_with(&beginning), "{said}");

    assert_eq!(tidegate(&["decode", good]).status.code(), Some(0));
    assert_eq!(tidegate(&["decode", "/nowhere/payload"]).status.code(), Some(74));
    let wrong: [&[&str]; 4] = [
        &["decode"],
        &["decode", "--url", "mqtt://a"],
        &["decode", "--url", "http://a", "--topic", "#"],
        &["decode", "--topic", "#", good],
    ];
    for arguments in wrong {
        assert_eq!(tidegate(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

/// Each says what is wrong, where, and where it can what to do; none is a riddle.
#[test]
fn what_is_not_there_is_said_plainly() {
    let folder = tempfile::tempdir().unwrap();
    let path = config(folder.path());
    let here = folder.path().display().to_string();
    let taken = folder.path().join("taken.csv").display().to_string();
    std::fs::write(&taken, "").unwrap();
    std::fs::create_dir(folder.path().join("journal")).unwrap();
    let no_agent = format!(
        "no agent runs on {here}: start it with `systemctl start tidegate`, or `tidegate run`"
    );
    let c = path.as_str();
    let cases: [(&[&str], i32, &str); 12] = [
        (&["status", "-c", c], 74, &no_agent),
        (&["status", "-c", c, "--watch", "--json"], 74, &no_agent),
        (&["lateness", "-c", c], 74, &no_agent),
        (&["quarantine", "release", "--all", "-c", c], 74, &no_agent),
        (&["quarantine", "show", "9", "-c", c], 1, "nothing of that number in quarantine"),
        (&["journal", "stats", "--journal", "/nowhere"], 74, "/nowhere: there is no such folder"),
        (&["journal", "verify", "--journal", c], 74, "is a file, and no folder"),
        (&["journal", "stats", "--journal", "/etc"], 74, "/etc holds no journal"),
        (&["journal", "export", "-c", c, "--output", &taken], 74, "is there already: name another"),
        (
            &["audit", "--journal", "/nowhere", "--received", "/dev/null"],
            74,
            "/nowhere: there is no such folder",
        ),
        (&["audit", "--journal", &here, "--received", "/nowhere"], 74, "/nowhere: No such file"),
        (&["replay", "/nowhere", "--window", c], 78, "there is no [[window]] to try"),
    ];
    for (arguments, code, why) in cases {
        let output = tidegate(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.starts_with("tidegate: ") && said.contains(why), "{arguments:?}: {said}");
        assert_eq!(output.stdout, b"", "{arguments:?}");
    }
}

/// `tidegate … | head` ends well: whoever has seen enough is no error.
#[test]
fn a_reader_that_hangs_up_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let path = config(folder.path());
    for arguments in [&["completions", "bash"][..], &["check", "-c", &path, "--print"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let output = command.args(arguments).stdout(writer).stderr(Stdio::piped()).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(output.stderr, b"", "{arguments:?}");
    }
}

#[test]
fn a_disk_that_takes_no_output_is_said() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command.args(["completions", "bash"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(74));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("tidegate: stdout: No space left on device"), "{said}");
}
