use super::*;
use crate::config::tests::{check, parse};
use crate::core::agent::SourceSettings;
use crate::core::id::SourceId;

const SOURCE: &str = "[[source]]\nname = \"a\"\ntype = \"stdin\"\n[source.dedupe]";

/// What is said about a line of the section; it is line 10 of the file.
fn refused(line: &str, expected: &str) {
    check(&format!("{SOURCE}\n{line}"), &format!("t.toml:10: source.dedupe.{expected}"));
}

fn settings(lines: &str) -> SourceSettings {
    let head = "[gateway]\nid = \"gw\"\ndata_dir = \"/d\"\n[[uplink]]\nurl = \"mqtt://b\"\n";
    let config = parse(&format!("{head}{SOURCE}\n{lines}\n"));
    assert_eq!(parse(&config.print()), config);
    config.agent_settings().sources[&SourceId::new("a")].clone()
}

#[test]
fn the_agent_gets_the_rule_that_the_file_names() {
    assert_eq!(settings("").dedupe, None);
    assert_eq!(settings("key = \"none\"\nhorizon = \"5m\"").dedupe, None);
    let by_id = Rule { by: By::Id, horizon: Span::from_secs(3_600), entries_max: 100_000 };
    assert_eq!(settings("key = \"id\"").dedupe, Some(by_id));
    let lines = "key = \"event_time\"\nhorizon = \"1h 30m\"\nentries_max = 7";
    let by_time = Rule { by: By::EventTime, horizon: Span::from_secs(5_400), entries_max: 7 };
    assert_eq!(settings(lines).dedupe, Some(by_time));
}

#[test]
fn what_is_no_rule_is_refused_with_its_line() {
    let cases = [
        ("key = \"ids\"", "key: \"ids\" is not known; use none | id | event_time"),
        ("key = true", "key: is a boolean, not a text; put it in quotes"),
        ("horizon = \"10ms\"", "horizon: \"10ms\" is out of range; use 1s to 30days"),
        ("horizon = \"31d\"", "horizon: \"31d\" is out of range; use 1s to 30days"),
        ("entries_max = 0", "entries_max: 0 is out of range; use 1 to 1000000"),
        ("entries_max = 1000001", "entries_max: 1000001 is out of range; use 1 to 1000000"),
        ("entry_max = 5", "entry_max: unknown key; did you mean entries_max?"),
    ];
    for (line, expected) in cases {
        refused(line, expected);
    }
}

#[test]
fn a_rule_needs_what_it_goes_by() {
    let says = |part: &str| {
        format!(
            "t.toml:10: source.dedupe.key: has nothing to go by: source.map.{part} is \"\"; \
             say in source.map.{part} where it is"
        )
    };
    for (key, part) in [("id", "id"), ("event_time", "time")] {
        let lines = format!("{SOURCE}\nkey = \"{key}\"\n[source.map]\n{part} = \"\"");
        check(&lines, &says(part));
        settings(&format!("key = \"none\"\n[source.map]\n{part} = \"\""));
    }
}
