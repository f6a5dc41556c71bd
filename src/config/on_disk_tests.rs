use std::path::Path;

use crate::config::{Config, Credentials};

/// What `check` warns of in a file with these lines; `{dir}` is a folder that is there,
/// and the lines begin at 6.
fn warned(data_dir: &str, lines: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "x").unwrap();
    let file = dir.path().join("t.toml");
    let head =
        format!("[gateway]\nid = 'gw'\ndata_dir = '{data_dir}'\n[[uplink]]\nurl = 'mqtts://b'\n");
    let folder = dir.path().to_str().unwrap();
    std::fs::write(&file, format!("{head}{lines}\n").replace("{dir}", folder)).unwrap();
    let (_, warnings) = Config::survey(&file, &Credentials::Unseen).unwrap();
    warnings.to_string().replace(folder, "{dir}").replace("{dir}/t.toml", "t.toml")
}

#[test]
fn what_is_there_is_worth_no_word() {
    assert_eq!(warned("{dir}/not/yet", "ca_file = '{dir}/file'"), "");
    // Of credentials it is said elsewhere.
    assert_eq!(warned("{dir}", "ca_file = 'credential:ca'"), "");
}

#[test]
fn every_file_that_is_not_there_is_named_with_its_key() {
    let lines = "ca_file = '{dir}/ca'\nusername = 'u'\npassword_file = '{dir}'\n\
                 cert_file = '{dir}/file'\nkey_file = '{dir}/key'\n\
                 [http]\ntoken_file = '{dir}/token'\n\
                 [[output]]\ntype = 'jsonl'\npath = '{dir}/out/r.jsonl'\n\
                 [[source]]\nname = 'a'\ntype = 'file'\npath = '{dir}/in/*.jsonl'\n\
                 [[source]]\nname = 'b'\ntype = 'modbus'\nentity = 'e'\nserial = '{dir}/tty'\n\
                 registers = [ { property = 'p', table = 'input', address = 0, type = 'u16' } ]";
    let fix = "make it, or mend the path";
    let expected = [
        format!("t.toml:6: uplink.ca_file: {{dir}}/ca does not exist; {fix}"),
        "t.toml:8: uplink.password_file: {dir} is a folder; name a file".to_owned(),
        format!("t.toml:10: uplink.key_file: {{dir}}/key does not exist; {fix}"),
        format!("t.toml:12: http.token_file: {{dir}}/token does not exist; {fix}"),
        format!("t.toml:15: output.path: the folder {{dir}}/out does not exist; {fix}"),
        format!("t.toml:19: source.path: the folder {{dir}}/in does not exist; {fix}"),
        "t.toml:24: source.serial: {dir}/tty does not exist; plug it in, or mend the path"
            .to_owned(),
    ];
    assert_eq!(warned("{dir}", lines), expected.join("\n"));
}

#[test]
fn a_data_directory_that_cannot_be_made_is_named() {
    for (path, there) in [("{dir}/file", "{dir}/file"), ("{dir}/file/a/b", "{dir}/file")] {
        let expected = format!(
            "t.toml:3: gateway.data_dir: {path} cannot be made: {there} is not a folder; mend \
             that, or set another"
        );
        assert_eq!(warned(path, "ca_file = '{dir}/file'"), expected);
    }
    // Nobody may make anything there, not even root.
    if Path::new("/proc/self").is_dir() {
        let said = warned("/proc/tidegate", "ca_file = '{dir}/file'");
        assert!(said.is_empty() || said.contains("/proc/tidegate cannot be made by this user"));
    }
}

#[test]
fn addresses_as_of_a_manual_are_warned_of_until_the_notation_is_written() {
    let source = |notation: &str| {
        format!(
            "ca_file = '{{dir}}/file'\n[[source]]\nname = 'a'\ntype = 'modbus'\naddress = 'plc'\n\
             entity = 'e'\n{notation}registers = [\n\
             {{ property = 'o', table = 'holding', address = 30001, type = 'u16' }},\n\
             {{ property = 'p', table = 'holding', address = 40001, type = 'u16' }},\n\
             {{ property = 'q', table = 'input', address = 39999, type = 'u16' }},\n]"
        )
    };
    let expected = "t.toml:14: source.registers[1].address: 40001 is taken as in the frame, and \
                    looks like one of a manual that counts from 40001 (1 more like it); write \
                    notation = \"40001\" in the source if it is one, notation = \"wire\" if not";
    assert_eq!(warned("{dir}", &source("")), expected);
    assert_eq!(warned("{dir}", &source("notation = 'wire'\n")), "");
}
