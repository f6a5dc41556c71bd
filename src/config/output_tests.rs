use super::super::tests::{check, parse};
use super::*;

const HEAD: &str = "[gateway]\nid = \"gw\"\ndata_dir = \"/d\"\n[[uplink]]\nurl = \"mqtt://b\"\n";
const WINDOW: &str = "[[window]]\nname = 'w'\nkind = 'session'\ngap = '1s'\n";

/// What is said about an output with these lines; the first of them is line 7.
fn check_output(lines: &str, expected: &str) {
    check(&format!("[[output]]\n{lines}"), expected);
}

#[test]
fn every_type_is_read_and_printed() {
    let config = parse(&format!(
        "{HEAD}{WINDOW}[[output]]\ntype = 'mqtt'\nurl = 'mqtt://[::1]'\nwindows = ['w']\n\
         [[output]]\ntype = 'jsonl'\npath = '/r.jsonl'\nordered_readings = false\n\
         [[output]]\ntype = 'socket'\naddress = 'unix:/run/out.sock'\n"
    ));
    assert_eq!(parse(&config.print()), config);
    let url = MqttUrl { is_tls: false, host: "::1".to_owned(), port: 1_883 };
    let output = |kind, windows: &[&str], ordered_readings| Output {
        kind,
        windows: windows.iter().map(|name| (*name).to_owned()).collect(),
        ordered_readings,
    };
    let socket = OutputKind::Socket { address: Address::Unix("/run/out.sock".into()) };
    let expected = [
        output(OutputKind::Mqtt { url }, &["w"], false),
        output(OutputKind::Jsonl { path: "/r.jsonl".into() }, &[], false),
        output(socket, &[], false),
    ];
    assert_eq!(config.outputs, expected);
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
         known here: type, path, windows, ordered_readings",
    );
    check_output(
        "type = 'jsonl'\npath = '/r'\nordered_readings = true",
        "t.toml:9: output.ordered_readings: true is not there yet; leave it false",
    );
    check_output(
        &format!("type = 'jsonl'\npath = '/r'\nwindows = ['v']\n{WINDOW}"),
        "t.toml:9: output.windows: there is no window \"v\"; did you mean \"w\"?",
    );
}
