//! The door is the text of a file: what is said about two parts of it that want the same.

use super::super::tests::{HEAD, check, parse};

/// A `listen` source of four lines, the address last.
fn listen(name: &str, address: &str) -> String {
    format!("[[source]]\nname = '{name}'\ntype = 'listen'\naddress = '{address}'\n")
}

#[test]
fn an_address_is_listened_on_once() {
    for (one, other) in [
        ("127.0.0.1:7000", "127.0.0.1:7000"),
        ("0.0.0.0:7000", "10.0.0.7:7000"),
        ("10.0.0.7:7000", "0.0.0.0:7000"),
        ("[::]:7000", "127.0.0.1:7000"),
        ("0.0.0.0:7000", "[::]:7000"),
        ("[::ffff:127.0.0.1]:7000", "127.0.0.1:7000"),
    ] {
        let what =
            format!("{other} is taken: source.address at line 9 is {one}; give each its own");
        let expected = format!("t.toml:13: source.address: {what}");
        check(&(listen("a", one) + &listen("b", other)), &expected);
    }
    for (one, other) in [
        ("127.0.0.1:7000", "127.0.0.1:7001"),
        ("127.0.0.1:7000", "127.0.0.2:7000"),
        ("0.0.0.0:7000", "[::1]:7000"),
        ("127.0.0.1:0", "127.0.0.1:0"),
    ] {
        parse(&(HEAD.to_owned() + &listen("a", one) + &listen("b", other)));
    }
}

#[test]
fn everybody_who_listens_is_counted() {
    check(
        &listen("a", "127.0.0.1:9180"),
        "t.toml:9: source.address: 127.0.0.1:9180 is taken: the default of http.listen is \
         127.0.0.1:9180; give each its own",
    );
    check(
        &format!("{}[http]\nlisten = '127.0.0.1:7000'", listen("a", "0.0.0.0:7000")),
        "t.toml:11: http.listen: 127.0.0.1:7000 is taken: source.address at line 9 is \
         0.0.0.0:7000; give each its own",
    );
    check(
        &format!("{}[[output]]\ntype = 'socket'\naddress = '[::]:70'", listen("a", "[::1]:70")),
        "t.toml:12: output.address: [::]:70 is taken: source.address at line 9 is [::1]:70; \
         give each its own",
    );
    // Also beside a section that has other mistakes.
    check(
        &format!("{}colour = 1\n{}", listen("a", "10.0.0.7:70"), listen("a", "10.0.0.7:70")),
        "t.toml:10: source.colour: unknown key; known here: name, type, address, acknowledge, time, \
         format, max_line, queue_max, entity, time_unit, rename, unit, quality, map, accumulate, \
         deadband, dedupe\n\
         t.toml:12: source.name: is the name of the source at line 6 too; give each source its own \
         name\n\
         t.toml:14: source.address: 10.0.0.7:70 is taken: source.address at line 9 is 10.0.0.7:70; \
         give each its own",
    );
}

#[test]
fn a_file_has_one_writer_and_is_not_read_by_it() {
    let output = |path: &str| format!("[[output]]\ntype = 'jsonl'\npath = '{path}'\n");
    check(
        &(output("/var/log/r.jsonl") + &output("/var/./run/../log/r.jsonl")),
        "t.toml:11: output.path: /var/log/r.jsonl is taken: output.path at line 8 has it; \
         give each its own",
    );
    let file = |path: &str| format!("[[source]]\nname = 'a'\ntype = 'file'\npath = '{path}'\n");
    let fix = "write to another folder, or read by another pattern";
    check(
        &(file("/var/log/*.jsonl") + &output("/var/log/r.jsonl")),
        &format!(
            "t.toml:12: output.path: /var/log/r.jsonl is read by this gateway (source.path at \
             line 9), round and round; {fix}"
        ),
    );
    check(
        &(output("/var/log/r.jsonl") + &file("/var/log/r.jsonl")),
        &format!(
            "t.toml:12: source.path: takes in what this gateway writes (output.path at line 8), \
             round and round; {fix}"
        ),
    );
    parse(&(HEAD.to_owned() + &file("/var/log/*.log") + &output("/var/log/r.jsonl")));
    parse(&(HEAD.to_owned() + &file("/var/log/*.jsonl") + &output("/var/log/deep/r.jsonl")));
}

#[test]
fn the_data_directory_keeps_its_own_names() {
    check(
        &listen("a", "unix:/d/control.sock"),
        "t.toml:9: source.address: /d/control.sock is taken: gateway.data_dir at line 3 has it; \
         give each its own",
    );
    check(
        "[[output]]\ntype = 'jsonl'\npath = '/d/LOCK'",
        "t.toml:8: output.path: /d/LOCK is taken: gateway.data_dir at line 3 has it; \
         give each its own",
    );
    check(
        &format!("{}[[output]]\ntype = 'socket'\naddress = 'unix:/r/s'", listen("a", "unix:/r/s")),
        "t.toml:12: output.address: /r/s is taken: source.address at line 9 has it; \
         give each its own",
    );
}

#[test]
fn standard_input_has_one_reader() {
    let stdin = |name: &str| format!("[[source]]\nname = '{name}'\ntype = 'stdin'\n");
    check(
        &(stdin("a") + &stdin("b")),
        "t.toml:11: source.type: standard input is taken: source.type at line 8 is \"stdin\" too; \
         leave one: its lines would be torn between the two",
    );
}

#[test]
fn a_broker_knows_a_client_id_once() {
    let taken = "is taken at this broker:";
    check(
        "client_id = 'c'\n[[uplink]]\nname = 'second'\nurl = 'mqtt://B'\nclient_id = 'c'",
        &format!(
            "t.toml:10: uplink.client_id: the client id \"c\" {taken} uplink.client_id at line 6 \
             has it; give each its own"
        ),
    );
    parse(&format!(
        "{HEAD}client_id = 'c'\n[[uplink]]\nname = 'second'\nurl = 'mqtt://other'\n\
         client_id = 'c'\n"
    ));
    // The output cannot choose: the other one must.
    check(
        "client_id = 'tidegate-gw-site-1'\n[[output]]\ntype = 'mqtt'\nurl = 'mqtt://b'",
        &format!(
            "t.toml:6: uplink.client_id: the client id \"tidegate-gw-site-1\" {taken} output.url \
             at line 9 has it; give each its own"
        ),
    );
    let source = "[[source]]\nname = 'a'\ntype = 'mqtt'\nurl = 'mqtt://b'\n\
                  topics = [ { filter = 'a' } ]\n";
    check(
        &format!("client_id = 'tidegate-gw-a'\n{source}"),
        &format!(
            "t.toml:6: uplink.client_id: the client id \"tidegate-gw-a\" {taken} the default of \
             source.client_id at line 7 has it; give each its own"
        ),
    );
}
