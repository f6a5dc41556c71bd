//! What goes wrong costs what it must, never a wrong value, and heals by itself.

use tidegate::core::reading::Value;
use tidegate::source::health::HealthState;

use super::rig::{bad, good, start, start_all};
use super::support::modbus::{Act, device, rtu, tcp};

fn registers(addresses: &[u16]) -> String {
    let one = |at: &u16| {
        format!("  {{ property = 'p{at}', table = 'holding', address = {at}, type = 'u16' }},\n")
    };
    let all: String = addresses.iter().map(one).collect();
    format!("registers = [\n{all}]")
}

const TWO: &str = "exception 2 (illegal data address)";
const SILENT: &str = "unit 1 does not answer within 400ms";
const STRANGE: &str = "unit 1 does not answer within 400ms (something else came: check unit_id and \
                       the kind of line)";

#[tokio::test]
async fn mb_04_a_register_that_the_device_does_not_have_costs_itself_alone() {
    let device = device(|asked| {
        let has_it = (asked.address..asked.address + asked.count).contains(&5);
        if has_it { asked.exception(2) } else { asked.good(|at| 1_000 + at) }
    })
    .await;
    let keys = format!("address = '{}'\n{}", device.address, registers(&[0, 1, 4, 5, 6, 9]));
    let mut rig = start(&keys);
    let (low, high) = (
        [good("p0", 1_000), good("p1", 1_001), good("p4", 1_004)],
        [good("p6", 1_006), good("p9", 1_009)],
    );
    assert_eq!(rig.said().await, low);
    assert_eq!(rig.said().await, [bad("p5", TWO)]);
    assert_eq!(rig.said().await, high);
    // From now on it is asked for alone, and nothing is said of it again.
    assert_eq!(rig.said().await, low);
    assert_eq!(rig.said().await, high);
    let spans: Vec<(u16, u16)> =
        device.asked().iter().map(|asked| (asked.address, asked.count)).take(8).collect();
    let expected = [(0, 10), (0, 5), (5, 5), (5, 1), (6, 4), (0, 5), (5, 1), (6, 4)];
    assert_eq!(spans, expected);
    let health = rig.health();
    assert_eq!(health.state, HealthState::Degraded);
    assert_eq!(health.detail, Some(format!("1 of 6 registers have no value: {TWO}")));
    rig.stop().await;
}

#[tokio::test]
async fn mb_04_units_behind_a_gateway_fare_each_on_their_own() {
    let device = device(|asked| match asked.unit {
        1 => asked.good(|at| at),
        3 => Vec::new(),
        4 if asked.number < 60 => asked.exception(11),
        5 if asked.number < 20 => asked.exception(6),
        _ => asked.good(|at| at),
    })
    .await;
    let unit = |unit: u8| {
        format!(
            "address = '{}'\nunit_id = {unit}\npoll = '10ms'\ntimeout = '300ms'\n{}",
            device.address,
            registers(&[7])
        )
    };
    let mut rigs = start_all(&[unit(1), unit(3), unit(4), unit(5)]);
    for _ in 0..60 {
        assert_eq!(rigs[0].said().await, [good("p7", 7)]);
    }
    assert_eq!(rigs[1].said().await, [bad("p7", "unit 3 does not answer within 300ms")]);
    let why = "exception 11 (gateway target device failed to respond)";
    assert_eq!(rigs[2].said().await, [bad("p7", why)]);
    rigs[2].until("p7", &Ok(Value::I64(7))).await;
    let said = rigs[3].said().await;
    if said == [bad("p7", "exception 6 (server device busy)")] {
        assert_eq!(rigs[3].said().await, [good("p7", 7)]);
    }
    assert_eq!(rigs[1].health().state, HealthState::Down);
    assert_eq!(rigs[3].health().state, HealthState::Up);
    for rig in rigs {
        rig.stop().await;
    }
}

/// A script of faults: what the device does at its n-th request.
async fn after_fault(fault: fn(u16) -> Vec<Act>, why: &str) {
    let device = device(move |asked| match asked.number {
        2 => fault(asked.id),
        _ => asked.good(|at| at),
    })
    .await;
    let keys = format!("address = '{}'\ntimeout = '400ms'\n{}", device.address, registers(&[7]));
    let mut rig = start(&keys);
    assert_eq!(rig.said().await, [good("p7", 7)]);
    assert_eq!(rig.said().await, [bad("p7", why)]);
    assert_eq!((rig.health().state, rig.health().errors), (HealthState::Down, 1));
    for _ in 0..5 {
        assert_eq!(rig.said().await, [good("p7", 7)]);
    }
    assert_eq!(rig.health().state, HealthState::Up);
    rig.stop().await;
}

#[tokio::test]
async fn mb_10_broken_frames_give_no_value_and_the_next_ones_are_good() {
    let half = |id| vec![Act::Send(tcp(id, 1, &[3, 2, 0, 9])[..9].to_vec())];
    after_fault(half, STRANGE).await;
    let long = |_| vec![Act::Send(vec![0, 1, 0, 0, 0xFF, 0xFF, 1])];
    let hint = "a transparent serial server needs rtu_over_tcp = true";
    let length = "what answers is not Modbus TCP: its header has an impossible length";
    after_fault(long, &format!("{length}; {hint}")).await;
    let closes = |id| vec![Act::Send(tcp(id, 1, &[3, 2, 0, 9])[..9].to_vec()), Act::Close];
    after_fault(closes, "the device closes the connection").await;
    let foreign = |_| vec![Act::Send(vec![0, 1, 0x12, 0x34, 0, 5, 1, 3, 2, 0, 9])];
    let protocol = "what answers is not Modbus TCP: its header has a protocol id other than 0";
    after_fault(foreign, &format!("{protocol}; {hint}")).await;
    after_fault(|_| vec![Act::Send(rtu(1, &[3, 2, 0, 9]))], &format!("{protocol}; {hint}")).await;
}

#[tokio::test]
async fn mb_08_answers_of_others_are_nobodys() {
    let wrong_unit = |id| vec![Act::Send(tcp(id, 2, &[3, 2, 0, 9]))];
    after_fault(wrong_unit, STRANGE).await;
    let wrong_id = |id: u16| vec![Act::Send(tcp(id.wrapping_sub(1), 1, &[3, 2, 0, 9]))];
    after_fault(wrong_id, STRANGE).await;
    let wrong_length = |id| vec![Act::Send(tcp(id, 1, &[3, 4, 0, 9, 0, 9]))];
    after_fault(wrong_length, STRANGE).await;
    after_fault(|_| Vec::new(), SILENT).await;
}

#[tokio::test]
async fn a_late_answer_is_never_taken_for_the_next() {
    let device = device(|asked| match asked.number {
        1 => Vec::new(),
        // What was asked first is answered now, and then what is asked now.
        _ => {
            let late = tcp(asked.id.wrapping_sub(1), 1, &[3, 2, 0, 9]);
            [vec![Act::Send(late)], asked.good(|at| at)].concat()
        }
    })
    .await;
    let keys = format!("address = '{}'\ntimeout = '400ms'\n{}", device.address, registers(&[7]));
    let mut rig = start(&keys);
    assert_eq!(rig.said().await, [bad("p7", SILENT)]);
    for _ in 0..5 {
        assert_eq!(rig.said().await, [good("p7", 7)]);
    }
    rig.stop().await;
}

#[tokio::test]
async fn nobody_there_is_said_once_and_tried_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut rig = start(&format!("address = '{address}'\n{}", registers(&[7, 8])));
    let why = format!("cannot connect to {address}: Connection refused (os error 111)");
    assert_eq!(rig.said().await, [bad("p7", &why), bad("p8", &why)]);
    let health = rig.health();
    assert_eq!((health.state, health.detail.as_deref()), (HealthState::Down, Some(&*why)));
    assert!(health.retry_at.is_some());
    assert_eq!(rig.handle.health.connections(), 0);
    rig.stop().await;
}
