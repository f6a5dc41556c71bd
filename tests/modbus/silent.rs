//! A device that answers for some of its registers only: many say nothing at all
//! about what they do not have.

use tidegate::source::health::HealthState;

use super::rig::{Rig, bad, good, start};
use super::support::modbus::{Act, Asked, device};

const SOME: &str = "unit 1 does not answer for this register within 200ms, for others it does";
const ALL: &str = "unit 1 does not answer within 200ms";

fn registers(addresses: &[u16]) -> String {
    let one = |at: &u16| {
        format!("  {{ property = 'p{at}', table = 'holding', address = {at}, type = 'u16' }},\n")
    };
    format!("timeout = '200ms'\nregisters = [\n{}]", addresses.iter().map(one).collect::<String>())
}

/// Waits until the register has a value `times` times; everything else that was said
/// is given back.
async fn others(rig: &mut Rig, property: &str, times: usize) -> Vec<(String, String)> {
    let (mut seen, mut others) = (0, Vec::new());
    while seen < times {
        for (name, said) in rig.said().await {
            match said {
                Ok(_) if name == property => seen += 1,
                Ok(value) => others.push((name, format!("{value:?}"))),
                Err(why) => others.push((name, why)),
            }
        }
    }
    others
}

/// Two registers of three are said as they should be, and the one in the middle is
/// left alone most of the time.
async fn the_rest_comes(fault: fn(&Asked) -> Vec<Act>, why: &str) {
    let device = device(move |asked| match asked.address {
        1_000 => fault(asked),
        _ => asked.good(|at| at),
    })
    .await;
    let keys = format!("address = '{}'\n{}", device.address, registers(&[0, 1_000, 2_000]));
    let mut rig = start(&keys);
    assert_eq!(rig.said().await, [good("p0", 0)]);
    assert_eq!(rig.said().await, [good("p2000", 2_000)]);
    assert_eq!(rig.said().await, [bad("p1000", why)]);
    let others = others(&mut rig, "p2000", 30).await;
    let is_known =
        |(name, said): &(String, String)| name == "p0" || (name, &**said) == (&"p1000".into(), why);
    assert!(others.iter().all(is_known), "{others:?}");
    let health = rig.health();
    assert_eq!(health.state, HealthState::Degraded);
    assert_eq!(health.detail, Some(format!("1 of 3 registers have no value: {why}")));
    assert!(health.retry_at.is_some());
    let asked = |address| device.asked().iter().filter(|asked| asked.address == address).count();
    assert!(asked(1_000) < asked(0), "{} of {}", asked(1_000), asked(0));
    rig.stop().await;
}

#[tokio::test]
async fn a_register_without_an_answer_costs_itself_alone() {
    the_rest_comes(|_| Vec::new(), SOME).await;
}

#[tokio::test]
async fn so_does_one_at_which_the_device_hangs_up() {
    let why = "the device closes the connection; for other registers it answers";
    the_rest_comes(|_| vec![Act::Close], why).await;
}

#[tokio::test]
async fn so_does_one_of_which_a_gateway_hears_nothing() {
    let why = "exception 11 (gateway target device failed to respond); for other registers it \
               answers";
    the_rest_comes(|asked| asked.exception(11), why).await;
}

#[tokio::test]
async fn the_first_registers_may_be_the_silent_ones() {
    let device = device(|asked| match asked.address {
        500.. => asked.good(|at| at),
        _ => Vec::new(),
    })
    .await;
    let keys = format!("address = '{}'\n{}", device.address, registers(&[0, 100, 500, 600]));
    let mut rig = start(&keys);
    assert_eq!(rig.said().await, [good("p500", 500)]);
    assert_eq!(rig.said().await, [good("p600", 600)]);
    assert_eq!(rig.said().await, [bad("p0", SOME)]);
    assert_eq!(rig.said().await, [bad("p100", SOME)]);
    assert_eq!(rig.said().await, [good("p500", 500)]);
    rig.stop().await;
}

#[tokio::test]
async fn a_device_with_one_answer_at_the_end_is_found_alive() {
    let device = device(|asked| match asked.address {
        900 => asked.good(|at| at),
        _ => Vec::new(),
    })
    .await;
    let all: Vec<u16> = (0..10).map(|at| 100 * at).collect();
    let keys = format!("address = '{}'\n{}", device.address, registers(&all));
    let mut rig = start(&keys);
    rig.until("p900", &Ok(tidegate::core::reading::Value::I64(900))).await;
    rig.until("p0", &Err(SOME.to_owned())).await;
    assert_eq!(rig.health().state, HealthState::Degraded);
    rig.stop().await;
}

#[tokio::test]
async fn a_device_that_answers_nothing_is_down_after_a_few_questions() {
    let device = device(|_| Vec::new()).await;
    let all: Vec<u16> = (0..10).map(|at| 100 * at).collect();
    let keys = format!("address = '{}'\n{}", device.address, registers(&all));
    let mut rig = start(&keys);
    let expected: Vec<_> = all.iter().map(|at| bad(&format!("p{at}"), ALL)).collect();
    assert_eq!(rig.said().await, expected);
    let asked: Vec<u16> = device.asked().iter().map(|asked| asked.address).collect();
    assert_eq!(asked, [0, 100, 200]);
    assert_eq!((rig.health().state, rig.health().errors), (HealthState::Down, 1));
    rig.stop().await;
}

#[tokio::test]
async fn what_is_read_along_with_a_silent_register_is_found_without_it() {
    let device = device(|asked| {
        let is_silent = (asked.address..asked.address + asked.count).contains(&5);
        if is_silent { Vec::new() } else { asked.good(|at| at) }
    })
    .await;
    let keys = format!("address = '{}'\n{}", device.address, registers(&[0, 1, 4, 5, 6, 9, 500]));
    let mut rig = start(&keys);
    for at in [0_u16, 1, 4, 6, 9] {
        let now = others(&mut rig, &format!("p{at}"), 1).await;
        assert!(now.iter().all(|(name, said)| name != "p5" || said == SOME), "{now:?}");
    }
    assert_eq!(rig.health().state, HealthState::Degraded);
    let detail = rig.health().detail.unwrap();
    assert_eq!(detail, format!("1 of 7 registers have no value: {SOME}"));
    rig.stop().await;
}

#[tokio::test]
async fn a_device_that_hangs_up_after_each_answer_is_read_all_the_same() {
    let device = device(|asked| [asked.good(|at| at), vec![Act::Close]].concat()).await;
    let mut rig = start(&format!("address = '{}'\n{}", device.address, registers(&[7])));
    for _ in 0..5 {
        assert_eq!(rig.said().await, [good("p7", 7)]);
    }
    assert_eq!((rig.health().state, rig.health().errors), (HealthState::Up, 0));
    rig.stop().await;
}
