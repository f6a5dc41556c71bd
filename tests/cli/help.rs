//! What `--help` prints, of every command, to the letter.

use std::process::Command;

use crate::golden;

/// Every command and what its help prints; the hidden one too.
pub(crate) fn all() -> Vec<(String, String)> {
    let mut found = Vec::new();
    gather(&[], &mut found);
    gather(&["man-pages".to_owned()], &mut found);
    found
}

fn gather(path: &[String], found: &mut Vec<(String, String)>) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_tidegate")).args(path).arg("--help").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{path:?}");
    let help = String::from_utf8(output.stdout).unwrap();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names =
        commands.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let names: Vec<String> =
        names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    let name = [&["tidegate".to_owned()], path].concat().join("-");
    found.push((name, help));
    for name in names.into_iter().filter(|name| name != "help") {
        gather(&[path, &[name]].concat(), found);
    }
}

#[test]
fn the_help_of_every_command_is_as_it_was() {
    let all = all();
    assert!(all.len() > 25, "{}", all.len());
    for (name, help) in all {
        // Devices leave `demo` out: the list of all commands has two forms.
        if name != "tidegate" || cfg!(feature = "demo") {
            golden::check(&format!("help/{name}.txt"), &help);
        }
    }
}
