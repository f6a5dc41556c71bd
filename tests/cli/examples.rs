//! Every example that `--help` prints runs here as it is printed. What differs from a
//! gateway: `/etc/` and `/var/lib/` are folders of the test, and what is no part of
//! Tidegate (`jq`, `man`, `mosquitto_sub`) is a function of the shell.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::process::{self, free_port, wait};
use crate::{golden, help};

/// Not here: they ask a device, a broker or a terminal, set the clock of this machine,
/// or run for longer than a test. That each is a command is tested beside the commands.
const ELSEWHERE: [&str; 7] = [
    "tidegate clock set",
    "tidegate decode --url",
    "tidegate demo",
    "tidegate modbus",
    "tidegate run",
    "tidegate replay /var/lib/tidegate",
    "tidegate replay press-line.jsonl oven.jsonl",
];

/// These end with 1, and should: what is released is as bad as it was, and no segment
/// is in quarantine.
const ENDS_WITH_1: [&str; 2] = [
    "tidegate quarantine release --source press-line",
    "tidegate quarantine discard 17 segment:000007",
];

/// The commands whose `--json` is promised to stay as it is. That of `status` is the
/// API's, and described there.
const READERS: [&str; 9] = [
    "tidegate lateness -c tidegate.toml",
    "tidegate plan -c tidegate.toml",
    "tidegate journal stats -c tidegate.toml",
    "tidegate journal verify -c tidegate.toml",
    "tidegate quarantine list -c tidegate.toml --limit 1",
    "tidegate quarantine show 17 -c tidegate.toml",
    "tidegate quarantine discard 18 -c tidegate.toml",
    "tidegate audit --journal var/lib/tidegate --received received.txt",
    "tidegate replay press-line.jsonl --window tidegate.toml --runs 1",
];

const STAND_INS: &str = "jq() { cat; }; man() { cat \"$2\" > /dev/null; }; \
    mosquitto_sub() { od -An -v -tx1 payload.bin | tr -d ' \\n'; echo; }; ";

/// A folder with all that the examples name, and an agent that runs in it.
struct Site {
    folder: tempfile::TempDir,
    _agent: process::Process,
}

impl Site {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for path in ["etc/tidegate", "etc/bash_completion.d", "target/man", "var/lib"] {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        std::fs::create_dir_all(at(".config/fish/completions")).unwrap();
        let port = free_port();
        let config = format!(
            "[gateway]\nid = \"gw-07\"\ndata_dir = \"{}/tidegate\"\n\
             [clock]\nreference = \"none\"\nhold_unsynchronized = \"0s\"\n[http]\nlisten = \"\"\n\
             [journal]\ncommit_interval = \"20ms\"\n[[uplink]]\nurl = \"mqtt://127.0.0.1:1\"\n\
             [[source]]\nname = \"press-line\"\ntype = \"listen\"\nacknowledge = true\n\
             address = \"127.0.0.1:{port}\"\n\
             [[window]]\nname = \"w\"\nkind = \"tumbling\"\nsize = \"10s\"\nbound = \"1m\"\n",
            at("var/lib").display()
        );
        std::fs::write(at("tidegate.toml"), &config).unwrap();
        std::fs::write(at("etc/tidegate/tidegate.toml"), &config).unwrap();
        std::fs::write(at("received.txt"), "").unwrap();
        let payload = include_bytes!("../data/batch-v1.bin");
        std::fs::write(at("payload.bin"), payload).unwrap();
        let agent = process::agent(&at("tidegate.toml"), &at("log"));
        let trace = feed(port);
        std::fs::write(at("press-line.jsonl"), trace).unwrap();
        Self { folder, _agent: agent }
    }

    fn run(&self, example: &str) -> Output {
        let here = self.folder.path().display();
        let line = example
            .replace("/etc/", &format!("{here}/etc/"))
            .replace("/var/lib/", &format!("{here}/var/lib/"));
        let program = Path::new(env!("CARGO_BIN_EXE_tidegate")).parent().unwrap();
        let script = format!(
            "set -o pipefail; HOME={here}; PATH={}:$PATH; {STAND_INS}{line}",
            program.display()
        );
        Command::new("bash")
            .args(["-c", &script])
            .current_dir(self.folder.path())
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap()
    }
}

/// A hundred readings and eighteen lines that are none, durable; the readings.
fn feed(port: u16) -> String {
    let mut stream = None;
    wait("the agent listens", || {
        stream = TcpStream::connect(("127.0.0.1", port)).ok();
        stream.is_some()
    });
    let mut stream = stream.unwrap();
    let mut lines = String::new();
    for n in 0..100 {
        let time = 1_780_000_000 + n;
        let _ = writeln!(
            lines,
            "{{\"entity\":\"e\",\"property\":\"p\",\"value\":{n},\"time\":{time}}}"
        );
    }
    stream.write_all(lines.as_bytes()).unwrap();
    stream.write_all("bad\n".repeat(18).as_bytes()).unwrap();
    let mut receipts = BufReader::new(stream).lines();
    let done = |receipt: std::io::Result<String>| receipt.unwrap() == "{\"acked\":118}";
    assert!(receipts.any(done), "all of it is durable");
    lines
}

#[test]
fn every_example_runs_as_it_is_printed() {
    let site = Site::start();
    let mut run = 0;
    for (command, help) in help::all() {
        for example in help.lines().filter_map(|line| line.trim().strip_prefix("Example: ")) {
            if ELSEWHERE.iter().any(|beginning| example.starts_with(beginning)) {
                continue;
            }
            let output = site.run(example);
            let said = String::from_utf8_lossy(&output.stderr);
            let expected = i32::from(ENDS_WITH_1.iter().any(|one| example.starts_with(one)));
            let code = output.status.code();
            assert_eq!(code, Some(expected), "{command}: {example}: {said}");
            run += 1;
        }
    }
    assert!(run >= 18, "{run} examples");
}

/// Every key below a value, with what kind of value it has.
fn keys(path: &str, value: &Value, out: &mut Vec<String>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        // Those of one element stand for all.
        Value::Array(all) => {
            let path = format!("{path}[]");
            match all.first() {
                None => out.push(path),
                Some(one) => keys(&path, one, out),
            }
            return;
        }
        Value::Object(all) => {
            return all.iter().for_each(|(key, value)| keys(&format!("{path}.{key}"), value, out));
        }
    };
    out.push(format!("{path} {kind}"));
}

#[test]
fn the_json_of_every_reader_keeps_its_keys() {
    let site = Site::start();
    let mut said = String::new();
    for reader in READERS {
        let output = site.run(&format!("{reader} --json"));
        let value: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{reader}: {}", String::from_utf8_lossy(&output.stderr)));
        let mut found = Vec::new();
        keys("", &value, &mut found);
        let _ = writeln!(said, "{reader} --json\n  {}", found.join("\n  "));
    }
    golden::check("json.txt", &said);
}
