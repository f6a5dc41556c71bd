use proptest::prelude::*;

use super::*;

const FLOAT: Request = Request { unit: 1, table: Table::Holding, address: 0, count: 2 };
const RTU_REQUEST: [u8; 8] = [0x01, 0x03, 0x00, 0x00, 0x00, 0x02, 0xC4, 0x0B];
const RTU_ANSWER: [u8; 9] = [0x01, 0x03, 0x04, 0x42, 0xF6, 0xE9, 0x79, 0x80, 0x0B];
const DATA: [u8; 4] = [0x42, 0xF6, 0xE9, 0x79];

fn tcp_answer(id: u16, unit: u8, pdu: &[u8]) -> Vec<u8> {
    let mut frame = id.to_be_bytes().to_vec();
    frame.extend([0, 0, 0, pdu.len() as u8 + 1, unit]);
    frame.extend_from_slice(pdu);
    frame
}

fn rtu(body: &[u8]) -> Vec<u8> {
    let mut frame = body.to_vec();
    frame.extend(checksum(body).to_le_bytes());
    frame
}

fn found(request: Request, framing: Framing, bytes: &[u8]) -> Option<Answer> {
    Finder::new(request, framing).push(bytes).unwrap()
}

#[test]
fn requests_have_the_bytes_of_the_standard() {
    assert_eq!(FLOAT.encode(Framing::Rtu), RTU_REQUEST);
    let tcp = [0x12, 0x34, 0, 0, 0, 6, 1, 3, 0, 0, 0, 2];
    assert_eq!(FLOAT.encode(Framing::Tcp(0x1234)), tcp);
    let functions =
        [(Table::Coil, 1), (Table::Discrete, 2), (Table::Holding, 3), (Table::Input, 4)];
    for (table, function) in functions {
        assert_eq!(Request { table, ..FLOAT }.encode(Framing::Rtu)[1], function);
    }
}

#[test]
fn an_answer_is_found_whole_or_in_pieces() {
    let answer = Some(Answer::Data(DATA.to_vec()));
    assert_eq!(found(FLOAT, Framing::Rtu, &RTU_ANSWER), answer);
    let tcp = tcp_answer(7, 1, &[3, 4, 0x42, 0xF6, 0xE9, 0x79]);
    assert_eq!(found(FLOAT, Framing::Tcp(7), &tcp), answer);
    for (framing, bytes) in [(Framing::Rtu, &RTU_ANSWER[..]), (Framing::Tcp(7), &tcp)] {
        let mut finder = Finder::new(FLOAT, framing);
        for byte in &bytes[..bytes.len() - 1] {
            assert_eq!(finder.push(&[*byte]), Ok(None));
        }
        assert_eq!(finder.push(&bytes[bytes.len() - 1..]), Ok(answer.clone()));
    }
}

#[test]
fn a_bad_checksum_gives_nothing() {
    let mut bytes = RTU_ANSWER;
    bytes[8] = 0x0C;
    assert_eq!(found(FLOAT, Framing::Rtu, &bytes), None);
}

#[test]
fn answers_to_something_else_are_skipped() {
    let right = tcp_answer(7, 1, &[3, 4, 0x42, 0xF6, 0xE9, 0x79]);
    let strangers = [
        tcp_answer(6, 1, &[3, 4, 0, 0, 0, 0]),
        tcp_answer(7, 2, &[3, 4, 0, 0, 0, 0]),
        tcp_answer(7, 1, &[4, 4, 0, 0, 0, 0]),
        tcp_answer(7, 1, &[3, 2, 0, 0]),
        tcp_answer(7, 1, &[3, 4, 0, 0]),
    ];
    for stranger in strangers {
        assert_eq!(found(FLOAT, Framing::Tcp(7), &stranger), None);
        let both = [stranger, right.clone()].concat();
        assert_eq!(found(FLOAT, Framing::Tcp(7), &both), Some(Answer::Data(DATA.to_vec())));
    }
    let strangers = [
        rtu(&[2, 3, 4, 0, 0, 0, 0]),
        rtu(&[1, 4, 4, 0, 0, 0, 0]),
        rtu(&[1, 3, 2, 0, 0]),
        rtu(&[2, 0x83, 2]),
        vec![1, 3, 4, 9, 9],
        vec![1, 3, 4, 9, 9, 9, 9, 0, 0],
        vec![0, 0xFF, 1],
    ];
    for stranger in strangers {
        let both = [&stranger[..], &RTU_ANSWER].concat();
        let data = Some(Answer::Data(DATA.to_vec()));
        assert_eq!(found(FLOAT, Framing::Rtu, &both), data, "{stranger:?}");
    }
}

#[test]
fn exceptions_are_named() {
    let expected = Some(Answer::Exception(Exception(2)));
    assert_eq!(found(FLOAT, Framing::Tcp(7), &tcp_answer(7, 1, &[0x83, 2])), expected);
    assert_eq!(found(FLOAT, Framing::Rtu, &rtu(&[1, 0x83, 2])), expected);
    assert_eq!(Exception(2).to_string(), "exception 2 (illegal data address)");
    assert_eq!(Exception(6).to_string(), "exception 6 (server device busy)");
    let eleven = "exception 11 (gateway target device failed to respond)";
    assert_eq!(Exception(11).to_string(), eleven);
    assert_eq!(Exception(0x80).to_string(), "exception 128 (of the vendor's own)");
}

#[test]
fn what_is_no_header_loses_the_stream_at_once() {
    let header = |protocol: u16, len: u16| {
        let mut frame = vec![0, 7];
        frame.extend(protocol.to_be_bytes());
        frame.extend(len.to_be_bytes());
        Finder::new(FLOAT, Framing::Tcp(7)).push(&frame)
    };
    let protocol = Err(NotModbus("its header has a protocol id other than 0"));
    let length = Err(NotModbus("its header has an impossible length"));
    assert_eq!(header(0x1234, 7), protocol);
    assert_eq!(header(0, 0xFFFF), length);
    assert_eq!(header(0, 0), length);
    assert_eq!(header(0, 254), Ok(None));
    // RTU inside TCP, where Modbus TCP is expected: the checksum of the standard's
    // example is not needed to see it.
    assert_eq!(Finder::new(FLOAT, Framing::Tcp(7)).push(&RTU_ANSWER), protocol);
}

#[test]
fn bits_come_packed() {
    let coils = Request { unit: 17, table: Table::Coil, address: 19, count: 37 };
    let pdu = [1, 5, 0xCD, 0x6B, 0xB2, 0x0E, 0x1B];
    let answer = found(coils, Framing::Tcp(1), &tcp_answer(1, 17, &pdu));
    assert_eq!(answer, Some(Answer::Data(pdu[2..].to_vec())));
}

proptest! {
    /// Noise before an answer costs at most that answer, never a wrong value, and
    /// little memory.
    #[test]
    fn noise_gives_no_value(noise in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        let mut finder = Finder::new(FLOAT, Framing::Rtu);
        for bytes in noise.chunks(97) {
            match finder.push(bytes) {
                Ok(None) => {}
                // One noise in 65,536 has the right checksum.
                Ok(Some(_)) => return Ok(()),
                Err(error) => prop_assert!(false, "{error:?}"),
            }
            prop_assert!(finder.bytes.len() <= FRAME_MAX);
        }
    }

    #[test]
    fn the_answer_after_a_stretch_of_noise_is_found(
        noise in proptest::collection::vec(2_u8.., 0..300),
    ) {
        // Bytes from 2 on: none looks like the start of an answer of unit 1.
        let bytes = [&noise[..], &RTU_ANSWER].concat();
        let found = found(FLOAT, Framing::Rtu, &bytes);
        prop_assert_eq!(found, Some(Answer::Data(DATA.to_vec())));
    }
}
