//! How urls are read, written and refused.

use super::super::tests::problems;
use super::*;

#[test]
fn what_is_no_url_of_a_broker_is_refused() {
    let check = |url: &str, said: &str, fix: &str| {
        let text = format!("[gateway]\nid = 'g'\ndata_dir = '/d'\n[[uplink]]\nurl = '{url}'\n");
        assert_eq!(problems(&text), format!("t.toml:5: uplink.url: {said}; {fix}"));
    };
    let form = "write it like \"mqtts://broker.example:8883\"";
    check("broker", "\"broker\" has no scheme", form);
    check("http://b", "the scheme \"http\" is not known", "use mqtt, mqtts, ws or wss");
    let keys = "use the keys username and password_file";
    check("mqtt://u:secret@b", "the URL holds a user name", keys);
    check("wss://u:secret@b/mqtt", "the URL holds a user name", keys);
    check("mqtt://b:0", "\"mqtt://b:0\" has no valid port", form);
    check("ws://b:0/mqtt", "\"ws://b:0/mqtt\" has no valid port", form);
    check("mqtt://b:70000", "\"mqtt://b:70000\" has no valid port", form);
    check("mqtt://", "\"mqtt://\" has no valid host", form);
    check("ws:///mqtt", "\"ws:///mqtt\" has no valid host", form);
    check("mqtt://a:b:1", "\"mqtt://a:b:1\" has no valid host", form);
    check("mqtt://a/mqtt", "\"mqtt://a/mqtt\" has no valid host", form);
    let path = "use visible ASCII without ? and #, like \"/mqtt\"; for secrets there are username, \
                password_file, cert_file and key_file";
    for url in ["ws://b/mqtt?token=secret", "ws://b/#x", "ws://b/a b", "ws://b/\u{e4}"] {
        check(url, "the path of the URL is not taken", path);
    }
}

#[test]
fn what_is_not_written_has_a_usual_value_and_is_shown() {
    let is = |is_tls, host: &str, port, path: Option<&str>| MqttUrl {
        is_tls,
        host: host.to_owned(),
        port,
        path: path.map(str::to_owned),
    };
    for (written, url, shown) in [
        ("mqtt://b", is(false, "b", 1883, None), "mqtt://b:1883"),
        ("mqtts://b.example/", is(true, "b.example", 8883, None), "mqtts://b.example:8883"),
        ("mqtt://[::1]:9", is(false, "::1", 9, None), "mqtt://[::1]:9"),
        ("ws://b", is(false, "b", 80, Some("/mqtt")), "ws://b:80/mqtt"),
        ("ws://b:8083/", is(false, "b", 8083, Some("/")), "ws://b:8083/"),
        ("wss://b/a/mqtt", is(true, "b", 443, Some("/a/mqtt")), "wss://b:443/a/mqtt"),
        ("wss://[::1]:9/x", is(true, "::1", 9, Some("/x")), "wss://[::1]:9/x"),
    ] {
        assert_eq!(MqttUrl::parse(written), Ok(url));
        assert_eq!(MqttUrl::parse(written).unwrap().to_string(), shown);
        assert_eq!(MqttUrl::parse(shown), MqttUrl::parse(written));
    }
}
