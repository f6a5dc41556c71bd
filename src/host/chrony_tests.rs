use super::*;

/// A request and its reply as they went over the wire, chrony 4.3.
const REQUEST: &str = "06010000002100000102030400000000";
const REPLY: &str = "0602000000210005000000000000000001020304000000000000\
    00007f0000017f0000010000000000000000000000000001000000020000000000006b0cd16b2a1148f7\
    0362ec1aded59dffe09548cb00cd2f5afc9878cc068cbd89f6a474d1f4a500100482069b";
const SEQUENCE: u32 = 0x0102_0304;

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap() as u8;
    hex.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) * 16 + digit(pair[1])).collect()
}

/// The reply with some of its bytes replaced.
fn altered(changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut reply = bytes(REPLY);
    for (at, new) in changes {
        reply[*at..at + new.len()].copy_from_slice(new);
    }
    reply
}

fn said(reply: &[u8]) -> String {
    parse(reply, SEQUENCE).unwrap_err().to_string()
}

#[test]
fn c12_the_request_is_padded_to_the_length_of_its_reply() {
    let mut expected = bytes(REQUEST);
    expected.resize(104, 0);
    assert_eq!(request(SEQUENCE).to_vec(), expected);
}

#[test]
fn c12_a_recorded_reply_is_read_exactly() {
    let expected = ChronyReport {
        ref_id: 0x7F00_0001,
        is_refclock: false,
        stratum: 2,
        is_synchronised: true,
        reference_ns: 1_796_002_155_705_775_863,
        correction_ns: -613_584_876,
        freq_ppm: 0.400_751_888_751_983_64,
        skew_ppm: 2.199_068_307_876_587,
        root_delay_ns: 10_037_617,
        root_dispersion_ns: 5_035_408,
        update_interval_ns: 1_015_826_583,
    };
    assert_eq!(parse(&bytes(REPLY), SEQUENCE).unwrap(), expected);
}

#[test]
fn c13_a_refusal_is_28_bytes_and_says_why() {
    let short = &altered(&[(6, &[0, 1]), (8, &[0, 19])])[..28];
    assert!(matches!(parse(short, SEQUENCE), Err(ChronyError::Refused { status: 19 })));
    assert_eq!(
        said(short),
        "chronyd refuses to answer: the request has the wrong length (status 19)"
    );
    let unauthorised = &altered(&[(8, &[0, 2])])[..28];
    assert!(said(unauthorised).contains("opencommands"));
}

#[test]
fn what_is_no_answer_to_the_question_is_told_apart() {
    assert!(said(&[6; 27]).ends_with("the reply is shorter than its header"));
    assert!(said(&bytes(REPLY)[..103]).ends_with("the reply carries no tracking report"));
    assert!(said(&altered(&[(6, &[0, 12])])).ends_with("the reply carries no tracking report"));
    assert!(said(&altered(&[(4, &[0, 34])])).ends_with("no reply to a `tracking` request"));
    assert!(said(&altered(&[(1, &[1])])).ends_with("no reply to a `tracking` request"));
    assert!(said(&altered(&[(0, &[5])])).starts_with("chronyd speaks version 5 "));
    let other = parse(&bytes(REPLY), 7).unwrap_err();
    assert!(matches!(other, ChronyError::OtherSequence { sequence: SEQUENCE }));
}

#[test]
fn an_unsynchronised_reply_and_a_reference_clock_are_seen() {
    let leap_three = parse(&altered(&[(54, &[0, 3])]), SEQUENCE).unwrap();
    assert!(!leap_three.is_synchronised);
    let pulse = parse(&altered(&[(28, b"PPS\0"), (48, &[0, 0])]), SEQUENCE).unwrap();
    assert!(pulse.is_refclock);
    assert_eq!(pulse.ref_id, 0x5050_5300);
}

#[test]
fn seconds_beyond_32_bits_and_without_a_high_half() {
    let none = parse(&altered(&[(56, &[0x7F, 0xFF, 0xFF, 0xFF])]), SEQUENCE).unwrap();
    assert_eq!(none.reference_ns, 1_796_002_155_705_775_863);
    // 2106-02-07T06:28:16Z.
    let later = altered(&[(56, &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5])]);
    assert_eq!(parse(&later, SEQUENCE).unwrap().reference_ns, 4_294_967_296_000_000_005);
    let far = parse(&altered(&[(56, &[0x7F, 0xFF, 0xFF, 0xFE])]), SEQUENCE).unwrap();
    assert_eq!(far.reference_ns, i64::MAX);
}

#[test]
fn floats_become_nanoseconds_rounded_half_away_from_zero() {
    let ns = |coefficient, power| Float { coefficient, power }.times_billion();
    assert_eq!(ns(1, 0), 1_000_000_000);
    assert_eq!(ns(-3, 1), -6_000_000_000);
    // 2^-10 s is 976,562.5 ns.
    assert_eq!((ns(1, -10), ns(-1, -10)), (976_563, -976_563));
    // 2^-30 s is 0.93 ns, 2^-31 s 0.47 ns.
    assert_eq!((ns(1, -30), ns(1, -31), ns(-1, -31)), (1, 0, 0));
    assert_eq!((ns(16_777_215, -89), ns(0, 38)), (0, 0));
    assert_eq!((ns(16_777_215, 38), ns(-16_777_216, 38)), (i64::MAX, i64::MIN));
    let extremes = Float::at(&[0x80, 0, 0, 1], 0);
    assert_eq!(extremes, Float { coefficient: 1, power: -89 });
    assert_eq!(Float::at(&[0x7F; 4], 0), Float { coefficient: -8_421_505, power: 38 });
}

#[tokio::test]
async fn a_closed_port_is_said_at_once() {
    // Bound, so that nobody else gets the port, and deaf to all but another port.
    let deaf = UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
    deaf.connect(("127.0.0.1", 9)).await.unwrap();
    let address = deaf.local_addr().unwrap();
    let error = track(address).await.unwrap_err();
    assert!(matches!(error, ChronyError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("is it running"), "{error}");
}

#[tokio::test]
async fn an_answer_to_an_earlier_question_is_passed_over() {
    let server = UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
    let address = server.local_addr().unwrap();
    let answering = async {
        let mut packet = [0; 200];
        let (length, from) = server.recv_from(&mut packet).await.unwrap();
        assert_eq!(length, 104);
        server.send_to(&altered(&[(16, &[9, 9, 9, 9])]), from).await.unwrap();
        server.send_to(&altered(&[(16, &packet[8..12]), (52, &[0, 5])]), from).await.unwrap();
    };
    let (report, ()) = tokio::join!(track(address), answering);
    assert_eq!(report.unwrap().stratum, 5);
}
