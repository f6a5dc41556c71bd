//! Whom a client trusts, and where its secrets are.

use std::path::{Path, PathBuf};

use super::super::tests::{HEAD, NO_CA, check, parse, problems};
use crate::config::{Config, Credentials};

#[test]
fn tls_without_ca_file_is_refused_since_it_would_never_connect() {
    for url in ["mqtts://b", "wss://b/mqtt"] {
        let text = HEAD.replace("mqtt://b", url);
        assert_eq!(problems(&text), format!("t.toml:5: uplink.url: {NO_CA}"));
        let whole = format!("{text}ca_file = '/ca'\n");
        assert_eq!(parse(&whole).uplinks[0].login.ca_file.as_deref(), Some("/ca".as_ref()));
    }
    let fix = "write the url with mqtts:// or wss://";
    for key in ["ca_file", "cert_file"] {
        let keys =
            if key == "cert_file" { "cert_file = '/c'\nkey_file = '/k'" } else { "ca_file = '/c'" };
        check(keys, &format!("t.toml:6: uplink.{key}: has no use without TLS; {fix}"));
    }
}

/// Every key that may name a credential.
const WITH_CREDENTIALS: &str = "[gateway]
id = 'gw'
data_dir = '/d'
[[uplink]]
url = 'mqtts://b'
username = 'u'
password_file = 'credential:password'
ca_file = '/ca'
cert_file = 'credential:client.pem'
key_file = 'credential:client.key'
[[source]]
name = 'a'
type = 'mqtt'
url = 'mqtt://s'
username = 'u'
password_file = 'credential:source'
[[source.topics]]
filter = 'a'
entity = 'e'
[[output]]
type = 'mqtt'
url = 'mqtts://s'
ca_file = 'credential:ca'
[http]
token_file = 'credential:token'
";

fn load(folder: &Path, credentials: &Credentials) -> Result<Config, String> {
    let file = folder.join("t.toml");
    std::fs::write(&file, WITH_CREDENTIALS).unwrap();
    Config::load(&file, credentials).map_err(|problems| problems.to_string())
}

#[test]
fn credentials_stay_names_for_whoever_only_reads() {
    let folder = tempfile::tempdir().unwrap();
    let config = load(folder.path(), &Credentials::Unseen).unwrap();
    let names = ["ca", "client.key", "client.pem", "password", "source", "token"];
    assert!(config.unseen_credentials().into_iter().eq(names));
    assert_eq!(parse(&config.print()), config);
    let key_file = config.uplinks[0].login.key_file.as_deref();
    assert_eq!(key_file, Some(Path::new("credential:client.key")));
    assert_eq!(parse(HEAD).unseen_credentials().len(), 0);
}

#[test]
fn credentials_are_files_of_the_folder_that_systemd_names() {
    let folder = tempfile::tempdir().unwrap();
    let given = Credentials::In(folder.path().to_owned());
    for name in ["ca", "client.key", "client.pem", "password", "source", "token"] {
        let said = load(folder.path(), &given).unwrap_err();
        assert!(
            said.contains(&format!("systemd has given no credential {name:?} to this")),
            "{said}"
        );
        std::fs::write(folder.path().join(name), "x").unwrap();
    }
    let config = load(folder.path(), &given).unwrap();
    let is = |name: &str| Some(folder.path().join(name));
    let login = &config.uplinks[0].login;
    let files: [Option<PathBuf>; 3] =
        [&login.password_file, &login.cert_file, &login.key_file].map(Clone::clone);
    assert_eq!(files, [is("password"), is("client.pem"), is("client.key")]);
    assert_eq!(login.ca_file.as_deref(), Some(Path::new("/ca")));
    assert_eq!(config.http.token_file, is("token"));
    assert_eq!(config.unseen_credentials().len(), 0);
}

#[test]
fn a_missing_credential_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let unit = "write LoadCredential=password:/etc/tidegate/secrets/password in the unit (systemctl \
                edit tidegate), then restart it";
    let line = |said: &str| {
        let line = said.lines().find(|line| line.contains("uplink.password_file"));
        line.unwrap().rsplit_once("t.toml:").unwrap().1.to_owned()
    };
    let absent = load(folder.path(), &Credentials::Absent).unwrap_err();
    assert_eq!(
        line(&absent),
        format!(
            "7: uplink.password_file: systemd has given no credentials to this process; {unit}; \
             outside of systemd write a path"
        )
    );
    let given = load(folder.path(), &Credentials::In(folder.path().to_owned())).unwrap_err();
    assert_eq!(
        line(&given),
        format!(
            "7: uplink.password_file: systemd has given no credential \"password\" to this process; \
             {unit}"
        )
    );
    for name in ["", "..", "a/b", "a:b", "\u{e4}"] {
        check(
            &format!("username = 'u'\npassword_file = 'credential:{name}'"),
            &format!(
                "t.toml:7: uplink.password_file: {name:?} is no name of a credential; use 1 to 255 \
                 ASCII characters without / and :, like \"credential:password\""
            ),
        );
    }
}
