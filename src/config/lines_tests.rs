use super::*;
use crate::config::tests::{check, parse};

const SOURCE: &str = "[[source]]\nname = \"a\"\ntype = \"stdin\"";

/// What is said about a line of the source; it is line 9 of the file.
fn refused(line: &str, expected: &str) {
    check(&format!("{SOURCE}\n{line}"), &format!("t.toml:{expected}"));
}

#[test]
fn the_format_and_what_belongs_to_it_are_read_and_printed() {
    let head = "[gateway]\nid = \"gw\"\ndata_dir = \"/d\"\n[[uplink]]\nurl = \"mqtt://b\"\n";
    let lines = "format = \"influx\"\nentity = \"{measurement}/{tag:host}!\"\n\
                 [source.dedupe]\nkey = \"event_time\"\n";
    let config = parse(&format!("{head}{SOURCE}\n{lines}"));
    assert_eq!(parse(&config.print()), config);
    let source = &config.sources[0];
    assert_eq!(source.format, Format::Influx);
    let parts = [
        EntityPart::Measurement,
        EntityPart::Text("/".to_owned()),
        EntityPart::Tag("host".to_owned()),
        EntityPart::Text("!".to_owned()),
    ];
    let entity = source.entity.as_deref().map(EntityTemplate::parse);
    assert_eq!(entity.unwrap().unwrap().parts(), parts);
    // In JSON it is no template.
    let config = parse(&format!("{head}{SOURCE}\nentity = \"{{x\"\n"));
    assert_eq!(config.sources[0].entity.as_deref(), Some("{x"));
}

#[test]
fn what_does_not_fit_the_format_is_refused() {
    refused("format = \"csv\"", "9: source.format: \"csv\" is not known; use json | influx");
    let fix = "use {measurement}, {tag:NAME} and fixed text";
    for (entity, what) in [
        ("{measurement", "has a brace without its partner"),
        ("a}", "has a brace without its partner"),
        ("{tag:}", "{tag:} is not known"),
        ("{host}", "{host} is not known"),
    ] {
        let lines = format!("format = \"influx\"\nentity = \"{entity}\"");
        refused(&lines, &format!("10: source.entity: {what}; {fix}"));
    }
    let long = "x".repeat(513);
    refused(&format!("entity = \"{long}\""), "9: source.entity: has 513 bytes; use at most 512");
    refused(
        "format = \"influx\"\n[source.map]\nid = \"/id\"",
        "10: source.map: is for JSON only; remove it; see entity",
    );
    refused(
        "format = \"influx\"\n[source.dedupe]\nkey = \"id\"",
        "11: source.dedupe.key: has nothing to go by: points of the line protocol have no id; \
         use \"event_time\"",
    );
}
