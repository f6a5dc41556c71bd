//! Whom a client trusts, and where its secrets are.

use super::super::tests::{HEAD, NO_CA, check, parse, problems};

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
