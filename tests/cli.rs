//! The binary from outside: help, usage, exit codes.

#![expect(clippy::unwrap_used, reason = "a test that cannot run its subject must fail")]

use std::process::{Command, Output};

fn tidegate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate")).args(arguments).output().unwrap()
}

#[test]
fn every_command_has_help_with_an_example() {
    let commands: [&[&str]; 6] = [
        &["run"],
        &["check"],
        &["status"],
        &["journal", "stats"],
        &["journal", "cat"],
        &["journal", "verify"],
    ];
    for command in commands {
        let output = tidegate(&[command, &["--help"]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{command:?}");
        assert!(text.contains(&format!("Example: tidegate {}", command.join(" "))), "{text}");
    }
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
    for command in ["run", "check", "status"] {
        let output = tidegate(&[command, "-c", "/nowhere/tidegate.toml"]);
        assert_eq!(output.status.code(), Some(78), "{command}");
        assert!(String::from_utf8(output.stderr).unwrap().starts_with("tidegate: "), "{command}");
    }
}
