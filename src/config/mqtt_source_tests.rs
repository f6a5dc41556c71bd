use super::*;
use crate::config::Config;
use crate::config::tests::{NO_CA, check, parse};

const HEAD: &str = "[gateway]\nid = \"gw\"\ndata_dir = \"/d\"\n[[uplink]]\nurl = \"mqtt://b\"\n";
const SOURCE: &str = "[[source]]\nname = \"a\"\ntype = \"mqtt\"\nurl = \"mqtt://site\"";
const TOPICS: &str = "topics = [ { filter = \"plant/+/+\", entity = \"{1}\", property = \"{2}\", format = \"value\" } ]";

/// The source of the sample file, by what is required of it.
pub(in crate::config) fn sampled() -> Source {
    let source = "[[source]]\nname = 'cell'\ntype = 'mqtt'\nurl = 'mqtt://127.0.0.1:1883'\n
        topics = [
          { filter = 'plant/+/+', entity = '{1}', property = '{2}', format = 'value' },
          { filter = 'readers/#' },
        ]\n";
    // The sample's gateway has a name of its own.
    parse(&format!("{HEAD}{source}").replace("\"gw\"", "\"gw-07\"")).sources.remove(0)
}

fn config(lines: &str) -> Config {
    parse(&format!("{HEAD}{SOURCE}\n{lines}\n"))
}

fn mqtt(config: &Config) -> &MqttSource {
    match &config.sources[0].kind {
        SourceKind::Mqtt(mqtt) => mqtt,
        other => panic!("{other:?}"),
    }
}

/// What is said about lines that follow the source; the first of them is line 10.
fn refused(lines: &str, expected: &str) {
    check(&format!("{SOURCE}\n{lines}"), &format!("t.toml:{expected}"));
}

/// What is said about the last of these topics: line 10.
fn refused_topics(topics: &str, expected: &str) {
    let last = topics.matches("filter =").count() - 1;
    refused(&format!("topics = [ {topics} ]"), &format!("10: source.topics[{last}].{expected}"));
}

#[test]
fn a_url_and_topics_are_enough() {
    let config = config(TOPICS);
    let mqtt = mqtt(&config);
    assert_eq!(mqtt.client_id, "tidegate-gw-a");
    assert_eq!(mqtt.protocol, Protocol::V5);
    assert_eq!(mqtt.session_expiry, Some(Duration::from_secs(7 * 86_400)));
    assert_eq!(mqtt.topics.len(), 1);
    assert!(!config.sources[0].time.live);
}

#[test]
fn filters_are_remembered_and_so_there_is_a_bound_for_all_of_them() {
    let of = |bytes: usize| {
        // 50 bytes each with what parts them, and the rest in the last.
        let filters: Vec<String> = (0..bytes / 50)
            .map(|n| format!("{{ filter = \"{n:049}\", entity = \"e\", property = \"p\" }}"))
            .collect();
        let rest = "z".repeat(bytes % 50 - 1);
        let rest = format!("{{ filter = \"{rest}\", entity = \"e\", property = \"p\" }}");
        format!("{}, {rest}", filters.join(", "))
    };
    let fits = config(&format!("topics = [ {} ]", of(3_584)));
    assert_eq!(mqtt(&fits).topics.len(), 72);
    refused(
        &format!("topics = [ {} ]", of(3_585)),
        "10: source.topics: the filters have 3585 bytes together; use at most 3584: two sources, \
         or wildcards",
    );
}

#[test]
fn what_is_printed_parses_to_the_same_configuration() {
    for lines in [
        TOPICS.to_owned(),
        format!("{TOPICS}\nprotocol = \"3.1.1\"\nclient_id = \"x\"\nentity = \"e\""),
        "session_expiry = \"none\"\ntopics = [ { filter = \"a/+\", entity = \"{1}\" }, \
         { filter = \"b/#\", entity = \"{measurement}\", format = \"influx\" } ]\n\
         [source.dedupe]\nkey = \"id\"\n[source.map]\nid = \"/n\""
            .to_owned(),
    ] {
        let config = config(&lines);
        assert_eq!(parse(&config.print()), config, "{lines}");
    }
}

#[test]
fn topics_that_say_nothing_are_refused() {
    let fix = "write topics = [ { filter = \"plant/+/+\", entity = \"{1}\", property = \"{2}\", \
               format = \"value\" } ]";
    refused("", &format!("6: source.topics: missing; {fix}"));
    refused("topics = []", &format!("10: source.topics: is empty; {fix}"));
    for (topics, expected) in [
        (
            "{ filter = \"a/b+\" }",
            "filter: has the level \"b+\": a wildcard stands alone; \
             write it like \"plant/+/+\" or \"readers/#\"",
        ),
        (
            "{ filter = \"a/+\", entity = \"{2}\" }",
            "entity: {2} is not known: the filter has 1 wildcards; \
             use {1}, {2} … for the wildcards of the filter, and fixed text",
        ),
        (
            "{ filter = \"a\", entity = \"e\", format = \"value\" }",
            "property: missing, and a bare value does not name it; write property = \"{2}\"",
        ),
        (
            "{ filter = \"a\", format = \"csv\" }",
            "format: \"csv\" is not known; use value | json | influx",
        ),
        (
            "{ filter = \"a\", property = \"p\", format = \"influx\" }",
            "property: is for value and json: the fields of points are properties; remove it",
        ),
        (
            "{ filter = \"a\", entity = \"{1}\", format = \"influx\" }",
            "entity: {1} is not known; use {measurement}, {tag:NAME} and fixed text",
        ),
        ("{ filter = \"a\" }, { filter = \"a\" }", "filter: \"a\" is there twice; leave one"),
        (
            "{ filter = \"a\", qos = 0 }",
            "qos: unknown key; known here: filter, format, entity, property",
        ),
    ] {
        refused_topics(topics, expected);
    }
    refused(
        "topics = [ { filter = \"a\", property = \"p\", format = \"value\" } ]",
        "6: source.entity: missing, and the topic \"a\" has none of its own; \
         write entity = \"{1}\" in the topic",
    );
}

#[test]
fn keys_that_do_not_fit_are_refused() {
    for (lines, expected) in [
        ("format = \"json\"", "11: source.format: is that of each topic; write it in topics"),
        (
            "protocol = \"3.1.1\"\nsession_expiry = \"1d\"",
            "12: source.session_expiry: is for MQTT 5 only: a broker of 3.1.1 has its own rule; \
             remove it, or write protocol = \"5\"",
        ),
        (
            "session_expiry = \"1s\"",
            "11: source.session_expiry: \"1s\" is out of range; use 1m to 10years",
        ),
        (
            "reconnect_min = \"5s\"\nreconnect_max = \"1s\"",
            "12: source.reconnect_max: is less than reconnect_min; raise it",
        ),
        (
            "password_file = \"/p\"",
            "11: source.password_file: is set without a user name; write username too",
        ),
        (
            "[source.dedupe]\nkey = \"id\"",
            "11: source.dedupe: has nothing to go by: no topic has payloads that say it; \
             use format = \"json\", or key = \"none\"",
        ),
    ] {
        refused(&format!("{TOPICS}\n{lines}"), expected);
    }
    let tls = SOURCE.replace("mqtt://site", "mqtts://site");
    check(&format!("{tls}\n{TOPICS}"), &format!("t.toml:9: source.url: {NO_CA}"));
}

#[test]
fn neither_another_client_nor_what_this_gateway_sends_is_taken() {
    let at_uplink = SOURCE.replace("mqtt://site", "mqtt://b");
    check(
        &format!("{at_uplink}\n{TOPICS}\nclient_id = \"tidegate-gw\""),
        "t.toml:11: source.client_id: the client id \"tidegate-gw\" is taken at this broker: the \
         default of uplink.client_id at line 4 has it; give each its own",
    );
    let twice = format!(
        "{SOURCE}\n{TOPICS}\n{}\nclient_id = \"tidegate-gw-a\"\n{TOPICS}",
        SOURCE.replace("\"a\"", "\"c\"")
    );
    check(
        &twice,
        "t.toml:15: source.client_id: the client id \"tidegate-gw-a\" is taken at this broker: the \
         default of source.client_id at line 6 has it; give each its own",
    );
    for (filter, own) in [
        ("#", "tidegate/gw/readings/s"),
        ("tidegate/+/status", "tidegate/gw/status"),
        ("+/gw/windows/#", "tidegate/gw/windows/w"),
    ] {
        check(
            &format!("{at_uplink}\ntopics = [ {{ filter = \"{filter}\" }} ]"),
            &format!(
                "t.toml:10: source.topics: \"{filter}\" takes in what this gateway sends there \
                 ({own}), round and round; write filters of your devices only"
            ),
        );
    }
    // Another gateway's topics, and another broker.
    parse(&format!("{HEAD}{at_uplink}\ntopics = [ {{ filter = \"tidegate/other/#\" }} ]\n"));
    config("topics = [ { filter = \"#\" } ]");
}
