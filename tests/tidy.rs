//! The rules of the house as a test: who may import whom, how long a file may
//! be, which crates need which Rust.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file above this, its unit tests included, is asking to be two.
const LINES_MAX: usize = 520;

/// Each module, what of ours it may import, and the crates it must not.
const RULES: &[(&str, &[&str], &[&str])] = &[
    (
        "core",
        &["core"],
        &[
            "tokio",
            "sled",
            "rumqttc",
            "serde_json",
            "tracing",
            "std::fs",
            "std::net",
            "std::env",
            "std::process",
            "std::thread",
        ],
    ),
    ("wire", &["core", "wire"], &["tokio", "sled", "rumqttc"]),
    ("config", &["core", "config"], &["tokio", "sled", "rumqttc"]),
    ("store", &["core", "store"], &["tokio", "rumqttc"]),
    ("mqtt", &["core", "config", "mqtt"], &["sled"]),
    // Three clients of brokers, with three duties. What they share is `mqtt`.
    ("link", &["core", "wire", "mqtt", "link"], &["sled"]),
    ("source", &["core", "config", "wire", "mqtt", "peer", "source"], &["sled"]),
    ("output", &["core", "config", "wire", "mqtt", "peer", "output"], &["sled"]),
    ("peer", &["peer"], &["sled", "rumqttc"]),
    ("host", &["core", "host"], &["sled", "rumqttc"]),
    ("http", &["core", "wire", "http"], &["sled", "rumqttc"]),
];

fn sources(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut found = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Lines of code: no comments, and none of the items that only tests have. In
/// formatted code an item ends with the first line at the depth of its attribute
/// that ends a statement, a block or a field.
fn code(text: &str) -> Vec<&str> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let mut code = Vec::new();
    let mut test_item_at = None;
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        if let Some(at) = test_item_at {
            if depth(line) == at && line.ends_with([';', '}', ',']) {
                test_item_at = None;
            }
        } else if line.trim() == "#[cfg(test)]" {
            test_item_at = Some(depth(line));
        } else {
            code.push(line);
        }
    }
    code
}

fn code_of(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    code(&text).into_iter().map(str::to_owned).collect()
}

/// Whether the line names this crate or module, as an import or within a path.
fn names(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = &line[at + path.len()..];
        !before.is_some_and(|letter| letter.is_alphanumeric() || "_:.".contains(letter))
            && ["::", ";", " as ", ",", "}"].iter().any(|end| after.starts_with(end))
    })
}

/// The lines of a module's code that reach where its rule does not let it.
fn across_a_border<'a>(code: &[&'a str], allowed: &[&str], banned: &[&str]) -> Vec<&'a str> {
    let ours = RULES.iter().map(|rule| rule.0).chain(["shell", "cli", "exit"]);
    let ours = ours.filter(|name| !allowed.contains(name));
    let not_these: Vec<String> = ours.map(|name| format!("crate::{name}")).collect();
    // Several modules in one import would have to be taken apart here: none does it.
    let is_across = |line: &str| {
        line.contains("crate::{")
            || not_these.iter().any(|path| names(line, path))
            || banned.iter().any(|path| names(line, path))
    };
    code.iter().copied().filter(|line| is_across(line)).collect()
}

#[test]
fn modules_import_only_what_they_may() {
    let mut broken = Vec::new();
    for (module, allowed, banned) in RULES {
        for path in sources(&format!("src/{module}")) {
            let text = std::fs::read_to_string(&path).unwrap();
            for line in across_a_border(&code(&text), allowed, banned) {
                broken.push(format!("{}: {}", path.display(), line.trim()));
            }
        }
    }
    assert!(broken.is_empty(), "imports across a border:\n{}", broken.join("\n"));
}

#[test]
fn an_import_is_seen_after_what_only_tests_have_and_however_it_ends() {
    let text = "\
mod topic;
#[cfg(test)]
#[path = \"more_tests.rs\"]
mod more_tests;
use crate::shell;
#[cfg(test)]
mod tests {
    use crate::shell::Shell;

    #[test]
    fn it() {}
}
// use crate::http;
use crate::http as web;
use crate::core::http;
use crate::{core, link};
use crate::linked::Link;
impl Door {
    #[cfg(test)]
    fn opened(&self) -> crate::mqtt::Opened {
        self.opened
    }
    fn close(&self, queue: &tokio::sync::Notify) {}
}
";
    let seen = across_a_border(&code(text), &["core", "config"], &["tokio"]);
    let expected = [
        "use crate::shell;",
        "use crate::http as web;",
        "use crate::{core, link};",
        "    fn close(&self, queue: &tokio::sync::Notify) {}",
    ];
    assert_eq!(seen, expected);
}

#[test]
fn files_stay_short_and_names_say_something() {
    let vague = ["util.rs", "utils.rs", "common.rs", "helpers.rs", "types.rs", "misc.rs"];
    let mut broken = Vec::new();
    for path in sources("src").into_iter().chain(sources("tests")) {
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if lines > LINES_MAX || vague.contains(&name.as_str()) {
            broken.push(format!("{}: {lines} lines", path.display()));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn unsafe_code_lives_in_host_alone() {
    let outside =
        sources("src").into_iter().filter(|path| !path.to_string_lossy().contains("/src/host/"));
    let found: Vec<PathBuf> = outside
        .filter(|path| {
            code_of(path).iter().any(|line| line.contains("unsafe {") || line.contains("unsafe fn"))
        })
        .collect();
    assert!(found.is_empty(), "{found:?}");
}

/// The stated `rust-version` is no older than any dependency's.
#[test]
fn the_stated_rust_version_is_enough_for_every_dependency() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let version =
        |text: &str| -> Vec<u32> { text.split('.').filter_map(|part| part.parse().ok()).collect() };
    let packages = metadata["packages"].as_array().unwrap();
    let own = packages.iter().find(|package| package["name"] == "tidegate").unwrap();
    let stated = version(own["rust_version"].as_str().unwrap());
    for package in packages {
        let Some(needed) = package["rust_version"].as_str() else { continue };
        assert!(version(needed)[..2] <= stated[..2], "{} needs Rust {needed}", package["name"]);
    }
}

/// Licences that let anybody ship a binary.
#[test]
fn every_dependency_has_a_permissive_licence() {
    const PERMISSIVE: [&str; 13] = [
        "MIT",
        "MIT-0",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "Zlib",
        "Unicode-3.0",
        "0BSD",
        "Unlicense",
        "CC0-1.0",
        "BSL-1.0",
        "Apache-2.0 WITH LLVM-exception",
    ];
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for package in metadata["packages"].as_array().unwrap() {
        let licence = package["license"].as_str().unwrap_or("none stated").replace('/', " OR ");
        let has_one = licence.split(" OR ").any(|choice| {
            let terms = choice.trim_matches(['(', ')', ' ']).split(" AND ");
            terms
                .map(|term| term.trim_matches(['(', ')', ' ']))
                .all(|term| PERMISSIVE.contains(&term))
        });
        assert!(has_one, "{}: {licence}", package["name"]);
    }
}

/// What `cargo tree` says of the program for devices, one crate a line.
fn device_crates(arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--no-default-features", "--prefix", "none"])
        .args(["--edges", "normal,no-proc-macro"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// Each is there twice because a crate that we need asks for the older; `skip` in
/// `deny.toml` says which.
#[test]
fn no_crate_goes_to_devices_twice_but_the_known() {
    let twice = device_crates(&["--duplicates", "--depth", "0"]);
    let twice: Vec<&str> =
        twice.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    assert_eq!(twice, ["getrandom", "parking_lot", "parking_lot_core", "rustls-webpki"]);
}

/// ring needs nothing but a C compiler on every target, and a second provider of
/// cryptography would make rustls panic at the first connection.
#[test]
fn ring_alone_does_tls() {
    let crates = device_crates(&[]);
    assert!(crates.contains("ring") && crates.contains("rustls"));
    for other in ["aws-lc-rs", "aws-lc-sys", "openssl-sys", "native-tls", "rumqttd"] {
        assert!(!crates.contains(other), "{other}");
    }
}

/// All dependencies come from the one registry: no branch of somebody's repository.
#[test]
fn every_dependency_is_a_published_release() {
    let lock = include_str!("../Cargo.lock");
    let sources: BTreeSet<&str> =
        lock.lines().filter_map(|line| line.strip_prefix("source = ")).collect();
    assert_eq!(sources.len(), 1, "{sources:?}");
    assert!(sources.iter().all(|source| source.starts_with("\"registry+")), "{sources:?}");
}
