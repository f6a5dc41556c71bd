//! Sources that do not listen, changed while they run.

use std::io::Read as _;
use std::os::unix::net::UnixStream;

use super::*;
use crate::support::modbus::device;

/// What an answer to posted lines says: its status, and the rest.
fn post(plant: &Plant, query: &str, lines: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(plant.folder().join("data/control.sock")).unwrap();
    let length = lines.len();
    // At once: it may be refused before its body is looked at.
    let request =
        format!("POST /api/v1/readings{query} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{lines}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let code = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (code, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_posted_is_taken_by_the_source_as_the_newest_file_has_it() {
    let http = |keys: &str| format!("[[source]]\nname = \"push\"\ntype = \"http\"\n{keys}\n");
    let plant = plant(&[]).await;
    let line = |n: u64| format!("{}\n", json!({"entity": "e", "property": "n", "value": n}));
    assert_eq!(post(&plant, "?source=push", &line(1)).0, 404);
    plant.configure(&http(""));
    assert_eq!(reload(&plant), (true, "sources added: push".to_owned()));
    assert_eq!(post(&plant, "?source=push", &line(1)).0, 200);

    let map = "[source.map]\nentity = \"/device\"\n";
    plant.rewrite(&http(""), &http(map));
    assert_eq!(reload(&plant), (true, "sources changed: push".to_owned()));
    let (code, said) = post(&plant, "?source=push", &line(2));
    assert!(code == 400 && said.contains("the line names no entity"), "{code} {said}");
    let mapped = json!({"device": "d", "property": "n", "value": 2});
    assert_eq!(post(&plant, "?source=push", &format!("{mapped}\n")).0, 200);

    plant.rewrite(&http(map), "");
    assert_eq!(reload(&plant), (true, "sources removed: push".to_owned()));
    assert_eq!(post(&plant, "?source=push", &line(3)).0, 404);
    plant.wait(|log| arrived(log, "push").len() == 2).await;
    assert_eq!(arrived(&plant.broker.log(), "push"), numbered(2), "numbers go on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_is_asked_for_what_the_newest_file_wants() {
    let device = device(|asked| asked.good(|at| at)).await;
    let modbus = |address: u16| {
        format!(
            "[[source]]\nname = \"meter\"\ntype = \"modbus\"\nentity = \"e\"\naddress = \"{}\"\n\
             poll = \"100ms\"\nregisters = [ {{ property = \"n\", table = \"input\", \
             address = {address}, type = \"u16\" }} ]\n",
            device.address
        )
    };
    let plant = plant(&[modbus(1)]).await;
    let values =
        |log: &Log| arrived(log, "meter").into_iter().map(|(_, value)| value).collect::<Vec<_>>();
    plant.wait(|log| values(log).contains(&json!(1))).await;
    plant.rewrite(&modbus(1), &modbus(2));
    assert_eq!(reload(&plant), (true, "sources changed: meter".to_owned()));
    plant.wait(|log| values(log).contains(&json!(2))).await;
    let is_new = |value: &Value| *value == json!(2);
    let values = values(&plant.broker.log());
    let first_new = values.iter().position(is_new).unwrap();
    assert!(values[first_new..].iter().all(is_new), "never both: {values:?}");

    plant.rewrite(&modbus(2), "");
    assert_eq!(reload(&plant), (true, "sources removed: meter".to_owned()));
    let asked = device.asked().len();
    plant.configure(&modbus(3));
    assert_eq!(reload(&plant), (true, "sources added: meter".to_owned()));
    plant.wait(|log| arrived(log, "meter").iter().any(|(_, value)| *value == json!(3))).await;
    let since = &device.asked()[asked..];
    assert!(since.iter().all(|one| one.address == 3), "{since:?}");
}
