//! A serial line, by way of a pseudo-terminal.

use super::rig::{bad, good, start_all};
use super::slave::{Act, serve};
use super::support::modbus::rtu;
use super::support::pty::line;

fn keys(path: &str, unit: u8, timeout: &str) -> String {
    format!(
        "serial = '{path}'\nbaud = 115200\nparity = 'none'\nunit_id = {unit}\npoll = '20ms'\n\
         timeout = '{timeout}'\nregisters = [ {{ property = 'p', table = 'input', address = 7, type = 'u16' }} ]"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn devices_of_one_line_take_turns_and_a_dead_one_costs_its_own_time() {
    let (device, path, _held) = line();
    let log = serve(device, |asked| match asked.unit {
        3 => Vec::new(),
        unit => vec![Act::Say(rtu(unit, &[4, 2, 0, unit]))],
    });
    let mut rigs =
        start_all(&[keys(&path, 1, "20s"), keys(&path, 2, "20s"), keys(&path, 3, "100ms")]);
    for _ in 0..5 {
        assert_eq!(rigs[0].said().await, [good("p", 1)]);
        assert_eq!(rigs[1].said().await, [good("p", 2)]);
    }
    assert_eq!(rigs[2].said().await, [bad("p", "unit 3 does not answer within 100ms")]);
    assert!(log.all().iter().all(|asked| (asked.function, asked.count) == (4, 1)));
    for rig in rigs {
        rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_late_on_a_line_is_nobodys() {
    let (device, path, _held) = line();
    let log = serve(device, |asked| {
        let right = rtu(asked.unit, &[4, 2, 0, asked.unit]);
        match (asked.unit, asked.number) {
            // Its answer comes when another is asked.
            (1, 1) => Vec::new(),
            (2, _) => vec![Act::Say(rtu(1, &[4, 2, 9, 9])), Act::Say(right)],
            // The answer, and once more: the second is for nobody.
            _ => vec![Act::Say([right.clone(), right].concat())],
        }
    });
    let mut first = start_all(&[keys(&path, 1, "500ms")]).remove(0);
    assert_eq!(first.said().await, [bad("p", "unit 1 does not answer within 500ms")]);
    let mut second = start_all(&[keys(&path, 2, "20s")]).remove(0);
    for _ in 0..5 {
        assert_eq!(second.said().await, [good("p", 2)]);
        assert_eq!(first.said().await, [good("p", 1)]);
    }
    assert!(log.all().len() >= 11);
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_port_that_is_not_there_is_said_with_its_path() {
    let mut rig = start_all(&[keys("/nowhere/ttyUSB0", 1, "1s")]).remove(0);
    let why = "/nowhere/ttyUSB0: No such file or directory (os error 2)";
    assert_eq!(rig.said().await, [bad("p", why)]);
    assert_eq!(rig.handle.health.connections(), 0);
    rig.stop().await;
}
