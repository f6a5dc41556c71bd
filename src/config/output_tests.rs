use super::super::tests::{NO_CA, check, parse};
use super::*;

const HEAD: &str = "[gateway]\nid = \"gw\"\ndata_dir = \"/d\"\n[[uplink]]\nurl = \"mqtt://b\"\n";
const WINDOW: &str = "[[window]]\nname = 'w'\nkind = 'session'\ngap = '1s'\n";

const SOURCES: &str = "[[source]]\nname = 'a'\ntype = 'stdin'\n\
    [[source]]\nname = 'b'\ntype = 'simulate'\n[source.time]\nbound = '7s'\n";

/// What is said about an output with these lines; the first of them is line 7.
fn check_output(lines: &str, expected: &str) {
    check(&format!("[[output]]\n{lines}"), expected);
}

#[test]
fn every_type_is_read_and_printed() {
    let config = parse(&format!(
        "{HEAD}{WINDOW}{SOURCES}[[output]]\ntype = 'mqtt'\nurl = 'mqtts://[::1]'\n\
         windows = ['w']\nusername = 'u'\npassword_file = '/p'\nca_file = '/ca'\n\
         cert_file = '/cert'\nkey_file = '/key'\n\
         [[output]]\ntype = 'jsonl'\npath = '/r.jsonl'\nordered_readings = true\n\
         [[output]]\ntype = 'socket'\naddress = 'unix:/run/out.sock'\nordered_readings = true\n\
         sources = ['b']\nbound = '3s'\nidle_after = '5s'\n"
    ));
    assert_eq!(parse(&config.print()), config);
    let url = MqttUrl { is_tls: true, host: "::1".to_owned(), port: 8_883, path: None };
    let login = Login {
        username: Some("u".to_owned()),
        password_file: Some("/p".into()),
        ca_file: Some("/ca".into()),
        cert_file: Some("/cert".into()),
        key_file: Some("/key".into()),
    };
    let secs = Duration::from_secs;
    let all = Ordered { sources: Vec::new(), bound: None, idle_after: secs(60) };
    let some = Ordered { sources: vec!["b".to_owned()], bound: Some(secs(3)), idle_after: secs(5) };
    let output = |kind, windows: &[&str], ordered| Output {
        kind,
        windows: windows.iter().map(|name| (*name).to_owned()).collect(),
        ordered,
    };
    let socket = OutputKind::Socket { address: Address::Unix("/run/out.sock".into()) };
    let expected = [
        output(OutputKind::Mqtt { url, login }, &["w"], None),
        output(OutputKind::Jsonl { path: "/r.jsonl".into() }, &[], Some(all)),
        output(socket, &[], Some(some)),
    ];
    assert_eq!(config.outputs, expected);
    let orders = config.agent_settings().orders;
    let order = |name: &str, sources: &[(&str, i64)], idle_s| {
        let bound =
            |(name, bound_s): &(&str, i64)| (SourceId::new(name), Span::from_secs(*bound_s));
        Arc::new(OrderSpec {
            name: name.into(),
            sources: sources.iter().map(bound).collect(),
            idle_after: Span::from_secs(idle_s),
        })
    };
    let all = order("jsonl /r.jsonl", &[("a", 20), ("b", 7)], 60);
    assert_eq!(orders, [all, order("socket unix:/run/out.sock", &[("b", 3)], 5)]);
}

#[test]
fn outputs_are_checked() {
    check_output("", "t.toml:6: output.type: missing; write type = \"jsonl\"");
    check_output(
        "type = 'kafka'",
        "t.toml:7: output.type: \"kafka\" is not known; use mqtt | jsonl | socket",
    );
    check_output(
        "type = 'jsonl'",
        "t.toml:6: output.path: missing; write path = \"/var/log/tidegate/windows.jsonl\"",
    );
    check_output(
        "type = 'socket'\naddress = 'here'",
        "t.toml:8: output.address: \"here\" is not an address; \
         write it like \"127.0.0.1:7000\" or \"unix:/run/tidegate/in.sock\"",
    );
    check_output(
        "type = 'jsonl'\npath = '/r'\nurl = 'mqtt://b'",
        "t.toml:9: output.url: unknown key; \
         known here: type, path, windows, ordered_readings, sources, bound, idle_after",
    );
    check_output(
        "type = 'jsonl'\npath = '/r'\nbound = '1s'",
        "t.toml:9: output.bound: means nothing without ordered readings; \
         write ordered_readings = true or leave it out",
    );
    check_output(
        &format!(
            "type = 'jsonl'\npath = '/r'\nordered_readings = true\nsources = ['c']\n{SOURCES}"
        ),
        "t.toml:10: output.sources: there is no source \"c\"; did you mean \"a\"?",
    );
    check_output(
        "type = 'jsonl'\npath = '/r'\nordered_readings = true\nbound = 'soon'",
        "t.toml:10: output.bound: \"soon\" is not a duration (expected number at 0); write it like \
         \"500ms\", \"20s\" or \"1h 30m\", or \"source\" for that of each source",
    );
    check_output(
        "type = 'jsonl'\npath = '/r'\nordered_readings = true\nidle_after = '10ms'",
        "t.toml:10: output.idle_after: \"10ms\" is out of range; use 100ms to 1year 18h",
    );
    check_output(
        "type = 'mqtt'\nurl = 'mqtt://s'\nordered_readings = true\n[[output]]\ntype = 'mqtt'\n\
         url = 'mqtt://s'\nordered_readings = true",
        "t.toml:13: output.ordered_readings: the output at line 6 gives readings to the same \
         place; leave it true in one of them",
    );
    check_output("type = 'mqtt'\nurl = 'mqtts://b'", &format!("t.toml:8: output.url: {NO_CA}"));
    check_output(
        "type = 'mqtt'\nurl = 'mqtt://b'\nca_file = '/ca'",
        "t.toml:9: output.ca_file: has no use without TLS; write the url with mqtts:// or wss://",
    );
    check_output(
        "type = 'mqtt'\nurl = 'mqtts://b'\nca_file = '/ca'\nkey_file = '/key'",
        "t.toml:10: output.key_file: is set without cert_file; write both",
    );
    check_output(
        "type = 'mqtt'\nurl = 'mqtt://b'\npassword_file = '/p'",
        "t.toml:9: output.password_file: is set without a user name; write username too",
    );
    check_output(
        &format!("type = 'jsonl'\npath = '/r'\nwindows = ['v']\n{WINDOW}"),
        "t.toml:9: output.windows: there is no window \"v\"; did you mean \"w\"?",
    );
}
