use super::*;
use crate::config::tests::{check, parse};
use crate::core::id::SourceId;

const HEAD: &str = "[gateway]\nid = \"gw\"\ndata_dir = \"/d\"\n[[uplink]]\nurl = \"mqtt://b\"\n";
const SOURCE: &str = "[[source]]\nname = \"a\"\ntype = \"stdin\"";

/// What the agent gets of a source of one line more; printed, it is the same.
fn rules(source: &str) -> Option<ValueRules> {
    let config = parse(&format!("{HEAD}{source}\n"));
    assert_eq!(parse(&config.print()), config);
    let settings = config.agent_settings().sources[&SourceId::new("a")].clone();
    settings.values.map(|rules| (*rules).clone())
}

fn rule(property: &str, band: Band, max_silence_s: Option<i64>) -> Rule {
    let max_silence = max_silence_s.map(Span::from_secs);
    Rule { entity: None, property: property.to_owned(), band, max_silence }
}

#[test]
fn the_agent_gets_the_rules_that_the_file_names() {
    assert_eq!(rules(SOURCE), None);
    let lines = "accumulate = [\"energy_wh\", \"*_count\"]\n\
                 deadband = { \"t*\" = 1, pressure = 0.5, \"temp_*\" = { percent = 1, \
                 max_silence = \"5m\" }, level = { absolute = 2, max_silence = \"1h\" } }";
    let found = rules(&format!("{SOURCE}\n{lines}")).unwrap();
    assert_eq!(found.accumulate, ["energy_wh", "*_count"]);
    // Names before patterns, longer ones first.
    let expected = [
        rule("pressure", Band::Absolute(0.5), None),
        rule("level", Band::Absolute(2.0), Some(3_600)),
        rule("temp_*", Band::Percent(1.0), Some(300)),
        rule("t*", Band::Absolute(1.0), None),
    ];
    assert_eq!(found.deadbands, expected);
    assert!(found.accumulates("energy_wh") && found.accumulates("pulse_count"));
    assert!(!found.accumulates("energy"));
}

#[test]
fn every_kind_of_source_has_them_and_a_registers_own_comes_first() {
    let line = "deadband = { p = 2 }\naccumulate = [\"e\"]";
    let simulate = "[[source]]\nname = \"a\"\ntype = \"simulate\"";
    assert_eq!(rules(&format!("{simulate}\n{line}")).unwrap().deadbands.len(), 1);
    let modbus = "[[source]]\nname = \"a\"\ntype = \"modbus\"\naddress = \"h:1\"\nentity = \"e\"\n\
                  registers = [\n\
                  { property = \"p\", table = \"input\", address = 1, type = \"u16\", deadband = 5 },\n\
                  { property = \"q\", table = \"input\", address = 2, type = \"u16\" }]";
    let own = Rule { entity: Some("e".to_owned()), ..rule("p", Band::Absolute(5.0), None) };
    assert_eq!(rules(modbus).unwrap().deadbands, std::slice::from_ref(&own));
    let both = rules(&format!("{modbus}\n{line}")).unwrap();
    assert_eq!(both.deadbands, [own, rule("p", Band::Absolute(2.0), None)]);
}

#[test]
fn what_is_wrong_is_said() {
    let form = "write a number, or { percent = 1, max_silence = \"5m\" }";
    for (line, expected) in [
        ("accumulate = \"e\"", "accumulate: is not a list; write [\"PROPERTY\", \"PROPERTY\"]"),
        ("accumulate = [\"e\", \"e\"]", "accumulate: names \"e\" twice; leave one"),
        ("accumulate = [\"\"]", "accumulate: has an element that has 0 bytes; use 1 to 512"),
        (
            "deadband = 0.5",
            "deadband: is not a table; write { name = VALUE, \"other name\" = VALUE }",
        ),
        (
            "deadband = { p = 0 }",
            "deadband: of \"p\" is 0: it would drop what did not move at all; use a number above \
             0, or leave it out",
        ),
        (
            "deadband = { p = -1 }",
            "deadband: of \"p\" -1 is out of range; use 0 to 1000000000000000",
        ),
        (
            "deadband = { p = \"1\" }",
            &format!("deadband: of \"p\" is neither a number nor a table; {form}"),
        ),
        (
            "deadband = { p = { max_silence = \"5m\" } }",
            &format!("deadband: of \"p\" does not say how far a value must move; {form}"),
        ),
        (
            "deadband = { p = { absolute = 1, percent = 1 } }",
            "deadband: of \"p\" has absolute and percent; leave one",
        ),
        (
            "deadband = { p = { percent = 101 } }",
            "deadband: of \"p\" has percent: 101 is out of range; use 0.000001 to 100",
        ),
        (
            "deadband = { p = { percent = 1, silence = \"5m\" } }",
            "deadband: of \"p\" has an unknown key silence; known here: absolute, percent, \
             max_silence",
        ),
        (
            "deadband = { p = { percent = 1, max_silence = 5 } }",
            "deadband: of \"p\" has max_silence: is an integer, not a duration; write a text with \
             its unit, like \"500ms\"",
        ),
        (
            "accumulate = [\"p\"]\ndeadband = { p = 1 }",
            "deadband: is of no effect on \"p\": it is accumulated; leave it out of one of the two",
        ),
    ] {
        let at = 8 + line.lines().count();
        check(&format!("{SOURCE}\n{line}"), &format!("t.toml:{at}: source.{expected}"));
    }
}
