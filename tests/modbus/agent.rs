//! The whole agent with a device, and the command line without an agent.

use std::path::Path;
use std::process::{Command, Output};

use tidegate::config::Config;
use tidegate::http::status::Source;
use tidegate::shell::notices::Notices;
use tidegate::shell::run;

use super::rig::soon;
use super::support::modbus::{Act, device, tcp};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_says_that_a_device_is_down_and_that_it_is_back() {
    let device = device(|asked| match asked.number {
        1 => vec![Act::Close],
        _ => asked.good(|at| at),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "[gateway]\nid = 'g'\ndata_dir = '{}'\n[http]\nlisten = ''\n[[uplink]]\n\
         url = 'mqtt://127.0.0.1:1'\n[[source]]\nname = 'press'\ntype = 'modbus'\nentity = 'e'\n\
         address = '{}'\npoll = '1s'\nregisters = [ {{ property = 'p', table = 'input', \
         address = 7, type = 'u16' }} ]",
        folder.path().display(),
        device.address
    );
    let config = Config::parse(&text, Path::new("t.toml")).unwrap();
    let mut running = run::start(config, Notices::default()).await.unwrap();
    let mut says = async |what: &str| {
        let is_it =
            |source: &Source| source.health.as_ref().is_some_and(|health| health.state == what);
        let report = soon(running.reports.wait_for(|report| report.sources.iter().any(is_it)));
        report.await.unwrap().clone()
    };
    let down = says("down").await;
    let health = down.sources[0].health.clone().unwrap();
    assert_eq!(health.detail.as_deref(), Some("the device closes the connection"));
    assert_eq!(health.errors, 1);
    assert!(health.retry_in_s.is_some());
    let trouble = down.degraded.iter().find(|one| one.code == "source_down").unwrap();
    assert_eq!(trouble.detail, "source press is down: the device closes the connection");
    let up = says("up").await;
    assert_eq!(up.sources[0].health.as_ref().unwrap().errors, 1);
    running.stop().await;
}

async fn tidegate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("modbus").args(arguments);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scan_finds_the_units_that_answer() {
    let device = device(|asked| match asked.unit {
        2 => asked.good(|_| 0x1234),
        4 => asked.exception(2),
        5 => asked.exception(11),
        6 => vec![Act::Send(tcp(asked.id, 9, &[3, 2, 0, 0]))],
        _ => Vec::new(),
    })
    .await;
    let address = device.address.to_string();
    let output = tidegate(&["scan", &address, "--to", "6", "--timeout", "100ms"]).await;
    let expected = "unit 2: holding 0 is 0x1234\n\
                    unit 4: holding 0: exception 2 (illegal data address)\n\
                    2 of the units 1 to 6 answer\n";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    assert_eq!(output.status.code(), Some(0));
    let output =
        tidegate(&["scan", &address, "--from", "7", "--to", "7", "--timeout", "50ms"]).await;
    assert_eq!(output.status.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_shows_registers_and_says_what_fails() {
    let device = device(|asked| match asked.address {
        40 => asked.good(|at| [0x42F6, 0xE979][usize::from(at) - 40]),
        _ => asked.exception(2),
    })
    .await;
    let address = device.address.to_string();
    let read = ["read", &address, "--table", "input", "--address", "40", "--count", "2", "--type"];
    let output = tidegate(&[&read[..], &["f32"]].concat()).await;
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("input as they came\n     40  0x42F6\n     41  0xE979\n"), "{text}");
    assert!(text.contains(" 123.456 "), "{text}");
    let output = tidegate(&["read", &address]).await;
    assert_eq!(output.status.code(), Some(74));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("exception 2 (illegal data address)"), "{said}");
}
