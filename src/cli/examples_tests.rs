//! The examples that `--help` prints are commands that there are.

use clap::CommandFactory as _;

use super::*;

/// The commands that have no subcommands, with the words that lead to each.
fn leaves(command: &clap::Command, path: &[String], out: &mut Vec<(String, String)>) {
    let is_inner = command.has_subcommands();
    for one in command.get_subcommands() {
        let path = [path, &[one.get_name().to_owned()]].concat();
        leaves(one, &path, out);
    }
    if !is_inner {
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        out.push((path.join(" "), after));
    }
}

/// The words of one `tidegate` in a line for a shell; quotes as the examples have them.
fn words(line: &str) -> Vec<String> {
    let stages = line.split(" | ").flat_map(|stage| stage.split(" && "));
    let ours = stages.map(str::trim).find(|stage| stage.starts_with("tidegate ")).unwrap();
    let ours = ours.split(" > ").next().unwrap();
    ours.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect()
}

#[test]
fn every_command_has_an_example_that_it_understands() {
    let mut found = Vec::new();
    leaves(&Cli::command(), &["tidegate".to_owned()], &mut found);
    assert!(found.len() > 20, "{found:?}");
    for (command, after) in found {
        let examples: Vec<&str> =
            after.lines().filter_map(|line| line.trim().strip_prefix("Example: ")).collect();
        assert!(examples.iter().any(|one| one.contains(&command)), "{command}: {after}");
        for example in examples {
            let parsed = Cli::try_parse_from(words(example));
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
        }
    }
}
