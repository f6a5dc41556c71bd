//! Answers of RTU carry no number. Where two sources ask the same unit on the same
//! line, nothing but time tells what one was answered late from the answer of the
//! other: same unit, same function, same length, right checksum.

use std::time::Duration;

use super::rig::{Rig, bad, good, start_all};
use super::slave::{Act, Log, good as right, serial_server, serve};
use super::support::modbus::Asked;
use super::support::pty::line;

/// An answer takes so long that nobody waits for it any more, and yet not twice the
/// timeout.
const LATE: Duration = Duration::from_millis(1_300);
const TIMEOUT: &str = "1s";
const SILENT: &str = "unit 1 does not answer within 1s";

fn keys(at: &str, address: u16) -> String {
    format!(
        "{at}\nunit_id = 1\npoll = '20ms'\ntimeout = '{TIMEOUT}'\nregisters = [ {{ property = \
         'p{address}', table = 'holding', address = {address}, type = 'u16' }} ]"
    )
}

fn value(address: u16) -> u16 {
    match address {
        0 => 100,
        _ => 2_000,
    }
}

/// The first question is answered late, or as soon as somebody asks another.
fn late_at_first(asked: &Asked) -> Vec<Act> {
    match asked.number {
        1 => vec![Act::Linger(LATE), right(asked, value)],
        _ => vec![right(asked, value)],
    }
}

async fn only_its_own(rig: &mut Rig, property: &str, number: i64) {
    for _ in 0..5 {
        assert_eq!(rig.said().await, [good(property, number)]);
    }
}

/// One source after the other: the second has its turn right after the first gave
/// up.
async fn after_a_timeout(at: &str) {
    let mut first = start_all(&[keys(at, 0)]).remove(0);
    assert_eq!(first.said().await, [bad("p0", SILENT)]);
    let mut second = start_all(&[keys(at, 10)]).remove(0);
    only_its_own(&mut second, "p10", 2_000).await;
    only_its_own(&mut first, "p0", 100).await;
    first.stop().await;
    second.stop().await;
}

/// A reload stops a source while its question is out, and starts another.
async fn after_a_reload(at: &str, log: &Log) {
    let first = start_all(&[keys(at, 0)]).remove(0);
    while log.all().is_empty() {
        tokio::task::yield_now().await;
    }
    first.stop().await;
    let mut second = start_all(&[keys(at, 10)]).remove(0);
    only_its_own(&mut second, "p10", 2_000).await;
    second.stop().await;
}

fn serial(path: &str) -> String {
    format!("serial = '{path}'\nbaud = 115200\nparity = 'none'")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_line_a_late_answer_to_one_source_is_not_taken_by_another() {
    let (device, path, _held) = line();
    serve(device, late_at_first);
    after_a_timeout(&serial(&path)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_line_an_answer_that_a_reload_did_not_wait_for_is_nobodys() {
    let (device, path, _held) = line();
    let log = serve(device, late_at_first);
    after_a_reload(&serial(&path), &log).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_serial_server_a_late_answer_is_not_taken_by_another() {
    let (address, _) = serial_server(late_at_first).await;
    after_a_timeout(&format!("address = '{address}'\nrtu_over_tcp = true")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_serial_server_an_answer_that_a_reload_did_not_wait_for_is_nobodys() {
    let (address, log) = serial_server(late_at_first).await;
    after_a_reload(&format!("address = '{address}'\nrtu_over_tcp = true"), &log).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sources_behind_a_serial_server_take_turns() {
    // Whoever is asked second meanwhile is answered first by what the other asked.
    let (address, log) =
        serial_server(|asked| vec![Act::Linger(Duration::from_millis(30)), right(asked, value)])
            .await;
    let at = format!("address = '{address}'\nrtu_over_tcp = true");
    let mut rigs = start_all(&[keys(&at, 0), keys(&at, 10)]);
    for _ in 0..5 {
        assert_eq!(rigs[0].said().await, [good("p0", 100)]);
        assert_eq!(rigs[1].said().await, [good("p10", 2_000)]);
    }
    assert!(log.all().len() >= 10);
    for rig in rigs {
        rig.stop().await;
    }
}
