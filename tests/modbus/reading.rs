//! What a good device says comes out exactly, and is asked for as it should be.

use std::sync::atomic::{AtomicU16, Ordering};

use tidegate::core::reading::Value;
use tidegate::core::time::Span;
use tidegate::source::health::HealthState;

use super::rig::{Rig, bad, good, soon, start, start_all};
use super::support::modbus::{Act, device, rtu, rtu_device};

fn register(property: &str, address: u16, kind: &str, more: &str) -> String {
    format!(
        "  {{ property = '{property}', table = 'holding', address = {address}, type = '{kind}'{more} }},\n"
    )
}

#[tokio::test]
async fn every_type_in_every_order_in_one_request() {
    const WORDS: [u16; 22] = [
        0x42F6, 0xE979, 0xE979, 0x42F6, 0xF642, 0x79E9, 0x79E9, 0xF642, 0xFFEC, 0xFFFF, 0xC071,
        0x1266, 0x6666, 0x6666, 0x0020, 0x0000, 0x0000, 0x0001, 0x4F4B, 0x0000, 0xFFFF, 0xFF06,
    ];
    let device = device(|asked| asked.good(|at| WORDS[usize::from(at)])).await;
    let registers = [
        register("abcd", 0, "f32", ""),
        register("cdab", 2, "f32", ", order = 'CDAB'"),
        register("badc", 4, "f32", ", order = 'BADC'"),
        register("dcba", 6, "f32", ", order = 'DCBA'"),
        register("tenths", 8, "i16", ", scale = 0.1"),
        register("none", 9, "u16", ", invalid = ['0xFFFF']"),
        register("double", 10, "f64", ""),
        register("long", 14, "u64", ""),
        register("text", 18, "string", ", length = 2"),
        register("minus", 20, "i32", ""),
        register("bit", 8, "bit", ", bit = 4"),
    ];
    let mut rig =
        start(&format!("address = '{}'\nregisters = [\n{}]", device.address, registers.concat()));
    let (arrival, _) = rig.next().await;
    assert_eq!(arrival.half_round_trip, Span::from_millis(500));
    let text = |text: &str| Ok(Value::Text(text.into()));
    let expected = [
        ("abcd", Ok(Value::F64(123.456))),
        ("cdab", Ok(Value::F64(123.456))),
        ("badc", Ok(Value::F64(123.456))),
        ("dcba", Ok(Value::F64(123.456))),
        ("tenths", Ok(Value::F64(-2.0))),
        ("bit", Ok(Value::Bool(false))),
        ("double", Ok(Value::F64(-273.15))),
        ("long", Ok(Value::I64(9_007_199_254_740_993))),
        ("text", text("OK")),
        ("minus", Ok(Value::I64(-250))),
    ];
    let said = rig.said().await;
    let expected: Vec<_> =
        expected.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    assert_eq!(said, expected, "all but the one without a value, in the order of addresses");
    assert_eq!(rig.health().state, HealthState::Degraded);
    let first = device.asked()[0];
    assert_eq!((first.unit, first.function, first.address, first.count), (1, 3, 0, 22));
    rig.stop().await;
}

#[tokio::test]
async fn mb_06_a_long_row_is_never_torn() {
    let requests = AtomicU16::new(0);
    // Every word of an answer is the number of its request.
    let device = device(move |asked| {
        let number = requests.fetch_add(1, Ordering::Relaxed);
        asked.good(|_| number)
    })
    .await;
    for (block_max, requests) in [(125, 2), (50, 4)] {
        let long = (0..88).map(|at| register(&format!("v{at}"), 3_000 + 2 * at, "u32", ""));
        let registers: String = long.chain([register("last", 3_176, "u16", "")]).collect();
        let keys = format!(
            "address = '{}'\nblock_max = {block_max}\nregisters = [\n{registers}]",
            device.address
        );
        let mut rig = start(&keys);
        let mut values = 0;
        for _ in 0..requests {
            for (property, value) in rig.said().await {
                values += 1;
                let Ok(Value::I64(number)) = value else { panic!("{property}: {value:?}") };
                if property != "last" {
                    assert_eq!(number >> 16, number & 0xFFFF, "{property}");
                }
            }
        }
        assert_eq!(values, 89);
        assert!(device.asked().iter().all(|asked| (1..=125).contains(&asked.count)));
        rig.stop().await;
    }
}

#[tokio::test]
async fn mb_08_rtu_over_tcp_is_the_bytes_of_the_standard() {
    let device = rtu_device(|asked| {
        let answer = vec![0x01, 0x03, 0x04, 0x42, 0xF6, 0xE9, 0x79, 0x80, 0x0B];
        let mut broken = answer.clone();
        broken[8] = 0x0C;
        vec![Act::Send(if asked.number == 1 { broken } else { answer })]
    })
    .await;
    let keys = format!(
        "address = '{}'\nrtu_over_tcp = true\ntimeout = '400ms'\nregisters = [\n{}]",
        device.address,
        register("p", 0, "f32", "")
    );
    let mut rig = start(&keys);
    let why = "unit 1 does not answer within 400ms (something else came: check unit_id and the \
               kind of line)";
    assert_eq!(rig.said().await, [bad("p", why)]);
    assert_eq!(rig.said().await, [("p".to_owned(), Ok(Value::F64(123.456)))]);
    assert_eq!(rig.health().state, HealthState::Up);
    assert_eq!(rtu(1, &[3, 0, 0, 0, 2])[6..], [0xC4, 0x0B]);
    rig.stop().await;
}

#[tokio::test]
async fn mb_08_bits_and_all_unit_ids() {
    for unit in [0, 255] {
        let device = device(|asked| {
            let pdu = [asked.function, 1, 0b0000_0101];
            vec![Act::Send(asked.tcp(&pdu))]
        })
        .await;
        let bit = |name: &str, table: &str, at: u16| {
            format!(
                "{{ property = '{name}', table = '{table}', address = {at}, type = 'bool' }},\n"
            )
        };
        let registers =
            [bit("a", "coil", 7), bit("b", "coil", 8), bit("c", "discrete", 9)].concat();
        let mut rig = start(&format!(
            "address = '{}'\nunit_id = {unit}\nregisters = [\n{registers}]",
            device.address
        ));
        let is = |name: &str, value| (name.to_owned(), Ok(Value::Bool(value)));
        assert_eq!(rig.said().await, [is("a", true), is("b", false)]);
        assert_eq!(rig.said().await, [is("c", true)]);
        let asked = device.asked();
        assert_eq!((asked[0].unit, asked[0].function, asked[0].count), (unit, 1, 2));
        assert_eq!((asked[1].function, asked[1].address), (2, 9));
        rig.stop().await;
    }
}

#[tokio::test]
async fn mb_09_ninety_devices_keep_their_schedule_beside_ten_dead_ones() {
    let alive = device(|asked| asked.good(|at| 1_000 + at)).await;
    // Takes connections and says nothing: whoever waited for it would wait longer
    // than this test.
    let dead = device(|_| Vec::new()).await;
    let keys = |number: usize| {
        let address = if number.is_multiple_of(10) { dead.address } else { alive.address };
        format!(
            "address = '{address}'\npoll = '50ms'\ntimeout = '1m'\nregisters = [\n{}]",
            register("p", 7, "u16", "")
        )
    };
    let all: Vec<String> = (0..100).map(keys).collect();
    let mut rigs = start_all(&all);
    for (number, rig) in
        rigs.iter_mut().enumerate().filter(|(number, _)| !number.is_multiple_of(10))
    {
        for _ in 0..5 {
            assert_eq!(rig.said().await, [good("p", 1_007)], "device {number}");
        }
    }
    for rig in rigs.iter_mut().step_by(10) {
        assert!(rig.messages.is_empty());
    }
    assert!(dead.asked().len() <= 10, "each was asked once at most");
    soon(futures_util::future::join_all(rigs.into_iter().map(Rig::stop))).await;
}
