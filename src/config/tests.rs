//! The door is the text of a file: what it gives, or what is said about it.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::core::agent::{OnBadTime, SourceSettings};
use crate::core::time::EventTime;
use crate::core::window::Kind;

const SAMPLE: &str = include_str!("../../config/tidegate.toml");
const MINIMAL: &str = include_str!("../../config/minimal.toml");
const WINDOWS: &str = include_str!("../../config/windows.toml");
const MQTT: &str = include_str!("../../config/mqtt.toml");
const MODBUS: &str = include_str!("../../config/modbus.toml");

/// The lines of `[gateway]` and `[[uplink]]`, the latter last.
pub(super) const HEAD: &str =
    "[gateway]\nid = \"gw\"\ndata_dir = \"/d\"\n[[uplink]]\nurl = \"mqtt://b\"\n";

pub(super) fn parse(text: &str) -> Config {
    Config::parse(text, Path::new("t.toml")).unwrap_or_else(|problems| panic!("{problems}"))
}

/// What is said about TLS where nobody is trusted.
pub(super) const NO_CA: &str = "TLS needs ca_file: no CA is trusted but those in it, and checking \
    cannot be turned off; name the PEM file of the broker's CA; for public CAs \
    /etc/ssl/certs/ca-certificates.crt";

/// What is said about a text.
pub(super) fn problems(text: &str) -> String {
    Config::parse(text, Path::new("t.toml")).expect_err("no problem found").to_string()
}

/// What is said about lines that follow [`HEAD`]; the first of them is line 6.
pub(super) fn check(lines: &str, expected: &str) {
    assert_eq!(problems(&format!("{HEAD}{lines}\n")), expected, "{lines}");
}

/// What is said about a source with these lines; the first of them is line 9.
pub(super) fn check_source(lines: &str, expected: &str) {
    check(&format!("[[source]]\nname = \"a\"\ntype = \"listen\"\n{lines}"), expected);
}

/// The sample with the sections that are off: prose has a space after its `#`,
/// a key or a head has none.
fn whole_sample() -> String {
    let is_off = |line: &&str| line.starts_with(|first: char| first == '[' || first.is_lowercase());
    let lines = SAMPLE.lines().map(|line| line.strip_prefix('#').filter(is_off).unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_sample_file_equals_the_defaults() {
    let required_only = "
        [gateway]
        id = 'gw-07'
        data_dir = '/var/lib/tidegate'
        [[uplink]]
        url = 'mqtt://127.0.0.1:1883'
        [[source]]
        name = 'press-line'
        type = 'listen'
        address = '127.0.0.1:7000'
        [[source]]
        name = 'pipe'
        type = 'stdin'
        [[source]]
        name = 'history'
        type = 'file'
        path = '/var/log/plc/*.jsonl'
        [[source]]
        name = 'push'
        type = 'http'
        [[source]]
        name = 'plc'
        type = 'simulate'
    ";
    assert_eq!(parse(SAMPLE), parse(required_only));
    let with_windows = "
        [[window]]
        name = 'pressure-10s'
        kind = 'tumbling'
        size = '10s'
        [[window]]
        name = 'trend'
        kind = 'sliding'
        size = '1m'
        slide = '10s'
        [[window]]
        name = 'runs'
        kind = 'session'
        gap = '1m'
        [[window]]
        name = 'business-day'
        kind = 'calendar-day'
        zone = 'Europe/Berlin'
        late_policy = 'adjust'
        [[output]]
        type = 'mqtt'
        url = 'mqtt://127.0.0.1:1883'
        [[output]]
        type = 'jsonl'
        path = '/var/log/tidegate/windows.jsonl'
        ordered_readings = true
        [[output]]
        type = 'socket'
        address = '127.0.0.1:7100'
    ";
    let mut expected = parse(&format!("{required_only}{with_windows}"));
    expected.sources.push(mqtt_source::tests::sampled());
    expected.sources.extend(modbus::tests::sampled_devices());
    assert_eq!(parse(&whole_sample()), expected);
}

#[test]
fn the_sample_file_has_every_key_that_is_read() {
    let (_, found) = check::check(&whole_sample(), &Credentials::Unseen);
    assert_eq!((found.problems, found.warnings), (vec![], vec![]));
    assert_eq!(found.absent, Vec::<String>::new());
}

#[test]
fn the_minimal_file_leaves_the_rest_to_the_defaults() {
    let config = parse(MINIMAL);
    assert_eq!(config.uplinks[0].client_id, "tidegate-gw-07");
    assert_eq!(config.journal.max_bytes, 1 << 30);
    assert_eq!(config.sources.len(), 1);
}

#[test]
fn the_file_with_windows_says_only_what_differs() {
    let config = parse(WINDOWS);
    let names: Vec<&str> = config.windows.iter().map(|window| &*window.name).collect();
    assert_eq!(names, ["pressure-10s", "press-runs"]);
    assert_eq!(config.windows[0].bound, Span::from_secs(3));
    assert_eq!(config.windows[1].kind, Kind::Session { gap: Span::from_secs(60) });
    assert_eq!(config.windows[1].allowed_lateness, Span::from_secs(60));
    assert_eq!(config.outputs.len(), 1);
}

#[test]
fn every_file_of_the_folder_is_good() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    // The folders are for Grafana and Prometheus, and have tests of their own.
    let names = paths.filter(|path| path.is_file()).map(|path| {
        let config = Config::load(&path, &Credentials::Unseen);
        let config = config.unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(parse(&config.print()), config, "{}", path.display());
        path.file_name().unwrap().to_string_lossy().into_owned()
    });
    let names: BTreeSet<String> = names.collect();
    let expected = "logger minimal mixed modbus mqtt telegraf tidegate windows";
    assert!(names.iter().map(|name| name.trim_end_matches(".toml")).eq(expected.split(' ')));
}

#[test]
fn what_is_printed_parses_to_the_same_configuration() {
    for text in [&whole_sample(), MINIMAL, MODBUS, MQTT, WINDOWS] {
        let config = parse(text);
        assert_eq!(parse(&config.print()), config);
    }
    let odd = format!(
        "{HEAD}keep_alive = '7m 3s'\nusername = 'a\"b\\c'\n[[source]]\nname = 's'\n\
         type = 'listen'\naddress = 'unix:/run/in.sock'\nacknowledge = true\nmax_line = '1000B'\n\
         [source.map]\nvalues = ''\nentity = '/a~1b/c~0d'\n[[source]]\nname = 'p'\n\
         type = 'simulate'\nrate = 200\nrepeat = 0.05\noutage = {{ every = '1m', for = '15s' }}\n\
         [clock]\nreference = 'ptp4l'\nhold_unsynchronized = '0s'\nchrony_address = '[::1]:323'\n\
         [http]\nlisten = ''\n"
    );
    let config = parse(&odd);
    assert_eq!(config.sources[0].map.entity.names(), ["a/b", "c~d"]);
    assert_eq!(config.uplinks[0].login.username.as_deref(), Some("a\"b\\c"));
    assert_eq!(parse(&config.print()), config);
}

#[test]
fn all_problems_are_reported_at_once_in_the_order_of_the_lines() {
    let text = "[gateway]\nid = \"gw 7\"\n[journal]\ncomit_interval = \"1s\"\nmax_bytes = 5\n\
                [[source]]\nname = \"a\"\ntype = \"modbuzz\"\n[htp]\n";
    let expected = [
        "t.toml:1: gateway.data_dir: missing; write data_dir = \"/var/lib/tidegate\"",
        "t.toml:1: uplink: missing; write [[uplink]] with the broker's url",
        "t.toml:2: gateway.id: \"gw 7\" has the character ' '; \
         use letters, digits, '.', '_' and '-'",
        "t.toml:4: journal.comit_interval: unknown key; did you mean commit_interval?",
        "t.toml:5: journal.max_bytes: is an integer, not a size; \
         write a text with its unit, like \"64MiB\"",
        "t.toml:8: source.type: \"modbuzz\" is not known; use listen | stdin | file | http | mqtt | modbus | simulate",
        "t.toml:9: htp: unknown key; did you mean http?",
    ];
    assert_eq!(problems(text), expected.join("\n"));
}

#[test]
fn syntax_errors_have_their_line() {
    let said = problems("[gateway]\nid = \n[journal\n");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with("t.toml:2: syntax: "), "{said}");
    assert!(lines[1].starts_with("t.toml:3: syntax: "), "{said}");
    assert_eq!(
        problems("[gateway]\nid = \"a\"\ndata_dir \"/d\"\n"),
        "t.toml:3: syntax: key with no value, expected `=`; see https://toml.io"
    );
    assert_eq!(
        problems("[gateway]\nid = 'a'\nid = 'b'\n[[uplink]]\n[gateway]\n"),
        "t.toml:3: syntax: the key id is there twice; leave one\n\
         t.toml:5: syntax: the key gateway is there twice; leave one"
    );
}

#[test]
fn keys_without_a_near_one_are_answered_with_the_known_ones() {
    check(
        "[http]\ncolour = 1",
        "t.toml:7: http.colour: unknown key; known here: listen, token_file",
    );
}

#[test]
fn wrong_kinds_of_values_are_named() {
    check("name = 1", "t.toml:6: uplink.name: is an integer, not a text; put it in quotes");
    check(
        "keep_alive = 30",
        "t.toml:6: uplink.keep_alive: is an integer, not a duration; write a text with its unit, like \"500ms\"",
    );
    check(
        "inflight_max = \"9\"",
        "t.toml:6: uplink.inflight_max: is a string, not an integer; use 1 to 10000",
    );
    check(
        "[source]\nname = 'a'\ntype = 'pipe'",
        "t.toml:6: source: is not a list of tables; write [[source]]\n\
         t.toml:8: source.type: \"pipe\" is not known; use listen | stdin | file | http | mqtt | \
         modbus | simulate",
    );
    let lone = "[gateway]\nid = 'gw'\ndata_dir = '/d'\n";
    let not_a_list = "t.toml:4: uplink: is not a list of tables; write [[uplink]]";
    assert_eq!(problems(&format!("{lone}[uplink]\nurl = 'mqtt://b'")), not_a_list);
    assert_eq!(problems(&format!("uplink = 3\n{lone}")), not_a_list.replace(":4:", ":1:"));
    check_source(
        "address = '127.0.0.1:1'\nacknowledge = 'yes'",
        "t.toml:10: source.acknowledge: is a string, not a boolean; write true or false",
    );
    check_source(
        "address = '127.0.0.1:1'\ntime = 1",
        "t.toml:10: source.time: is not a table; write [source.time]",
    );
}

#[test]
fn values_out_of_range_are_answered_with_the_range() {
    check("inflight_max = 0", "t.toml:6: uplink.inflight_max: 0 is out of range; use 1 to 10000");
    check(
        "keep_alive = \"1s\"",
        "t.toml:6: uplink.keep_alive: \"1s\" is out of range; use 5s to 18h 12m 15s",
    );
    check(
        "keep_alive = \"5500ms\"",
        "t.toml:6: uplink.keep_alive: is not a whole number of seconds; MQTT knows no smaller unit here",
    );
    check(
        "max_payload = \"1B\"",
        "t.toml:6: uplink.max_payload: \"1B\" is out of range; use 1KiB to 16MiB",
    );
    check(
        "[[source]]\nname = 'p'\ntype = 'simulate'\nrepeat = 1.5",
        "t.toml:9: source.repeat: 1.5 is out of range; use 0 to 1",
    );
}

#[test]
fn durations_and_sizes_say_what_is_wrong_with_them() {
    check(
        "keep_alive = \"30\"",
        "t.toml:6: uplink.keep_alive: \"30\" is not a duration (time unit needed, for example 30sec or 30ms); write it like \"500ms\", \"20s\" or \"1h 30m\"",
    );
    check(
        "max_payload = \"64MB\"",
        "t.toml:6: uplink.max_payload: \"64MB\" has the unknown unit \"MB\"; use B, KiB, MiB or GiB, like \"64MiB\"",
    );
    check(
        "max_payload = \"64\"",
        "t.toml:6: uplink.max_payload: \"64\" has no unit; use B, KiB, MiB or GiB, like \"64MiB\"",
    );
    check(
        "max_payload = \"99999999999GiB\"",
        "t.toml:6: uplink.max_payload: \"99999999999GiB\" is not a size; write a whole number and its unit",
    );
}

#[test]
fn topics_are_checked() {
    let fix = "use {gateway}, {source}, {entity}, {property} and fixed text without + and #";
    for (topic, said) in [
        ("a/+/b", "has the character '+'"),
        ("a/#", "has the character '#'"),
        ("a/{sauce}", "{sauce} is not known"),
        ("a/{source", "has a brace without its partner"),
        ("a/source}", "has a brace without its partner"),
        ("$SYS/a", "starts with '$', which brokers keep for themselves"),
    ] {
        check(&format!("topic = '{topic}'"), &format!("t.toml:6: uplink.topic: {said}; {fix}"));
    }
    check("topic = ''", "t.toml:6: uplink.topic: has 0 bytes; use 1 to 1024");
    let places = |count: usize| format!("backfill_topic = '{}'", "{source}".repeat(count));
    check(&places(17), "t.toml:6: uplink.backfill_topic: has 17 placeholders; use at most 16");
    parse(&format!("{HEAD}{}\n", places(16)));
}

#[test]
fn keys_must_agree() {
    check(
        "[[uplink]]\nurl = 'mqtt://c'",
        "t.toml:6: uplink.name: \"main\" is taken; give each uplink its own",
    );
    check(
        "reconnect_min = '2s'\nreconnect_max = '1s'",
        "t.toml:7: uplink.reconnect_max: is less than reconnect_min; raise it",
    );
    check(
        "password_file = '/p'",
        "t.toml:6: uplink.password_file: is set without a user name; write username too",
    );
    check("key_file = '/k'", "t.toml:6: uplink.key_file: is set without cert_file; write both");
    check(
        "[journal]\nmax_bytes = '16MiB'",
        "t.toml:7: journal.max_bytes: is less than two segments; raise it or lower segment_bytes",
    );
    check(
        "[journal]\nmax_age = '30s'",
        "t.toml:7: journal.max_age: \"30s\" is out of range; use 1m to 10years",
    );
    for wrong in ["4s", "61m"] {
        let what = format!("journal.stuck_after: \"{wrong}\" is out of range; use 5s to 1h");
        check(&format!("[journal]\nstuck_after = '{wrong}'"), &format!("t.toml:7: {what}"));
    }
    check(
        "[journal]\nmax_bytes = '65GiB'",
        "t.toml:7: journal.max_bytes: is more than 4096 segments; lower it or raise segment_bytes",
    );
}

#[test]
fn the_clock_is_checked() {
    let check_clock = |line: &str, expected: &str| {
        check(&format!("[clock]\n{line}"), &format!("t.toml:7: clock.{expected}"));
    };
    check_clock(
        "reference = 'ntpd'",
        "reference: \"ntpd\" is not known; use auto | kernel | chrony | ptp4l | none",
    );
    check_clock(
        "hold_unsynchronized = '25h'",
        "hold_unsynchronized: \"25h\" is out of range; use 0s to 1day",
    );
    check_clock("restamp_settle = '2h'", "restamp_settle: \"2h\" is out of range; use 0s to 1h");
    check_clock("max_drift_ppm = 0", "max_drift_ppm: 0 is out of range; use 1 to 1000");
    let fix = "write it like \"127.0.0.1:323\" or \"[::1]:323\"";
    check_clock(
        "chrony_address = 'localhost:323'",
        &format!("chrony_address: \"localhost:323\" is not an address; {fix}"),
    );
    check_clock(
        "chrony_address = '127.0.0.1:0'",
        &format!("chrony_address: \"127.0.0.1:0\" is not an address; {fix}"),
    );
    check_clock(
        "hold = '1m'",
        "hold: unknown key; known here: reference, hold_unsynchronized, restamp_settle, max_drift_ppm, chrony_address",
    );
}

#[test]
fn the_model_of_the_clock_gets_what_the_file_says() {
    assert_eq!(parse(HEAD).agent_settings().clock, ClockSettings::DEFAULT);
    let lines = "[clock]\nreference = 'chrony'\nhold_unsynchronized = '90s'\n\
                 restamp_settle = '0s'\nmax_drift_ppm = 50\n";
    let expected = ClockSettings {
        reference: Reference::Chrony,
        max_drift_ppb: 50_000,
        hold_unsynchronized: Span::from_secs(90),
        restamp_settle: Span::from_secs(0),
        floor_ns: ClockSettings::DEFAULT.floor_ns,
    };
    assert_eq!(parse(&format!("{HEAD}{lines}")).agent_settings().clock, expected);
}

#[test]
fn sources_are_checked() {
    check_source("", "t.toml:6: source.address: missing; write address = \"127.0.0.1:7000\"");
    check_source(
        "address = 'localhost:1'",
        "t.toml:9: source.address: \"localhost:1\" is not an address; write it like \"127.0.0.1:7000\" or \"unix:/run/tidegate/in.sock\"",
    );
    check_source(
        "address = 'unix:in.sock'",
        "t.toml:9: source.address: \"unix:in.sock\" is not the address of a Unix socket; write unix: and an absolute path of at most 107 bytes",
    );
    let address = "address = '127.0.0.1:1'";
    check_source(
        &format!("{address}\nrate = 1"),
        "t.toml:10: source.rate: unknown key; known here: name, type, address, acknowledge, time, \
         format, max_line, queue_max, entity, time_unit, rename, unit, quality, map, accumulate, \
         deadband, dedupe",
    );
    check_source(
        &format!("{address}\n[source.map]\nid = 'id'"),
        "t.toml:11: source.map.id: \"id\" is not a JSON pointer; write it like \"/device/name\" ('~' as \"~0\", '/' in a name as \"~1\")",
    );
    check_source(
        &format!("{address}\n[source.time]\nearliest = '2015'"),
        "t.toml:11: source.time.earliest: \"2015\" is not a time between 1678 and 2262; write it like \"2015-01-01T00:00:00Z\"",
    );
    check_source(
        &format!("{address}\n[[source]]\nname = 'a'\ntype = 'stdin'"),
        "t.toml:11: source.name: is the name of the source at line 6 too; give each source its own name",
    );
    check(
        "[[source]]\nname = 'p'\ntype = 'simulate'\noutage = { every = '5s', for = '5s' }",
        "t.toml:9: source.outage.for: leaves no time between two outages; make it less than every",
    );
}

#[test]
fn a_file_that_cannot_be_read_is_a_problem_like_others() {
    let said =
        Config::load(Path::new("/nowhere/t.toml"), &Credentials::Unseen).unwrap_err().to_string();
    let expected = "/nowhere/t.toml: file: cannot be read (No such file or directory (os error 2)); \
                    check the path and the permissions";
    assert_eq!(said, expected);
}

#[test]
fn the_agent_gets_what_the_file_says() {
    let config = parse(&format!(
        "{HEAD}keep_alive = '40s'\n[[source]]\nname = 'p'\ntype = 'stdin'\n\
         [source.time]\ntrust = 'gateway'\nbound = '3s'\non_bad_time = 'substitute'\n"
    ));
    assert_eq!(config.uplinks[0].ack_timeout, Duration::from_secs(80));
    let settings = config.agent_settings();
    assert_eq!(settings.commit_interval, Span::from_millis(500));
    assert_eq!(settings.commit_bytes, 256 * 1024);
    assert_eq!(settings.quota_bytes, 1 << 30);
    assert_eq!(settings.reserve_bytes, 128 << 20);
    assert_eq!(settings.when_full, WhenFull::DropOldest);
    assert_eq!(settings.uplinks[0].forward.inflight_max, 100);
    assert_eq!(settings.uplinks[0].ack_timeout, Span::from_secs(80));
    assert_eq!(settings.uplinks[0].backoff, (Span::from_secs(1), Span::from_secs(60)));
    assert_eq!(settings.uplinks[0].frontier_interval, Span::from_secs(5));
    let expected = SourceSettings {
        trusts_device: false,
        future_limit: Span::from_secs(300),
        earliest: EventTime::from_unix_ns(1_420_070_400_000_000_000),
        on_bad_time: OnBadTime::Substitute,
        bound: Span::from_secs(3),
        ..SourceSettings::DEFAULT
    };
    assert_eq!(settings.sources.into_iter().collect::<Vec<_>>(), [(SourceId::new("p"), expected)]);
}
