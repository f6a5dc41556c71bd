use super::*;
use crate::config::{Config, SourceKind};
use crate::core::reading::Value;
use crate::core::time::{IngestTime, Span, Uptime};

const TOPICS: &str = "topics = [
    { filter = 'plant/+/+', entity = 'hall-1/{1}', property = '{2}', format = 'value' },
    { filter = 'readers/+', entity = '{1}', property = 'state' },
    { filter = 'points/#', entity = '{measurement}', format = 'influx' } ]";

fn gatherer(lines: &str) -> Gatherer {
    let text = format!(
        "[gateway]\nid = 'gw'\ndata_dir = '/d'\n[[uplink]]\nurl = 'mqtt://b'\n\
         [[source]]\nname = 'cell'\ntype = 'mqtt'\nurl = 'mqtt://site'\n{TOPICS}\n{lines}\n"
    );
    let config = Config::parse(&text, "t.toml".as_ref()).unwrap_or_else(|wrong| panic!("{wrong}"));
    let source = &config.sources[0];
    let SourceKind::Mqtt(settings) = &source.kind else { panic!("{source:?}") };
    Gatherer::new(settings, source)
}

fn arrival(ms: i64) -> Arrival {
    let ingest = IngestTime::from_unix_ns(ms * 1_000_000);
    Arrival { ingest, uptime: Uptime::default(), half_round_trip: Span::ZERO }
}

fn message(topic: &str, payload: &[u8], packet_id: u16) -> Message {
    let packet_id = (packet_id > 0).then_some(packet_id);
    Message { topic: topic.to_owned(), payload: payload.to_vec(), is_retained: false, packet_id }
}

/// Every batch: its readings as "entity property value", its refusals, and the
/// messages that it settles.
fn batches(gatherer: &mut Gatherer) -> Vec<(Vec<String>, Vec<String>, Vec<u16>)> {
    let shown = |reading: &Reading| {
        let value = match &reading.value {
            Value::I64(number) => number.to_string(),
            Value::F64(number) => number.to_string(),
            other => format!("{other:?}"),
        };
        format!("{} {} {value}", reading.series.entity, reading.series.property)
    };
    let mut all = Vec::new();
    while let Some(Gathered { batch, settles, .. }) = gatherer.next() {
        let refused = batch.refused.iter().map(|one| format!("{}: {}", one.kind, one.reason));
        all.push((batch.readings.iter().map(shown).collect(), refused.collect(), settles));
    }
    all
}

fn given(topic: &str, payload: &[u8]) -> (Vec<String>, Vec<String>) {
    let mut gatherer = gatherer("max_line = '100B'");
    gatherer.take(&message(topic, payload, 7), arrival(0));
    let (readings, refused, settles) = batches(&mut gatherer).remove(0);
    assert_eq!(settles, [7]);
    (readings, refused)
}

#[test]
fn topics_name_what_payloads_do_not() {
    for (topic, payload, expected) in [
        ("plant/pump-7/kpa", "412.5", "hall-1/pump-7 kpa 412.5"),
        ("readers/r1", "{\"value\":3}", "r1 state 3"),
        ("readers/r1", "{\"entity\":\"e\",\"property\":\"p\",\"value\":3}", "e p 3"),
        ("readers/r1", "{\n \"values\": {\"a\": 1}\n}\n", "r1 a 1"),
        ("points/x/y", "press,line=2 p=4i 1", "press p 4"),
    ] {
        assert_eq!(given(topic, payload.as_bytes()), (vec![expected.to_owned()], vec![]));
    }
}

#[test]
fn a_bad_payload_is_refused_with_its_topic_and_is_settled_all_the_same() {
    for (topic, payload, expected) in [
        ("plant/a/b", &b"\xff"[..], "not_utf8: topic \"plant/a/b\": the payload is not UTF-8"),
        ("plant/b/", b"1", "name: topic \"plant/b/\": property is empty"),
        (
            "plant/a/b",
            &[b'1'; 101],
            "too_long: topic \"plant/a/b\": the payload has 101 bytes, more than max_line",
        ),
        ("readers/r1", b"17", "shape: topic \"readers/r1\": expected an object, found a number"),
        ("other", b"1", "topic: topic \"other\": no filter of this source matches it"),
    ] {
        let (readings, refused) = given(topic, payload);
        assert_eq!(readings, Vec::<String>::new());
        assert!(refused[0].starts_with(expected), "{refused:?}");
    }
    let (readings, refused) = given("points/a", b"m a=1i 1\nrubbish\nm b=2i 1");
    assert_eq!(readings, ["m a 1", "m b 2"]);
    assert!(refused[0].contains("topic \"points/a\", line 2: "), "{refused:?}");
}

#[test]
fn an_empty_payload_is_no_reading_and_is_settled() {
    assert_eq!(given("plant/a/b", b""), (vec![], vec![]));
    assert_eq!(given("readers/r1", b" \n"), (vec![], vec![]));
}

#[test]
fn messages_of_one_arrival_share_a_batch_and_their_order_stays() {
    let mut gatherer = gatherer("");
    for (packet_id, ms) in [(1, 0), (2, 0), (0, 0), (3, 5)] {
        gatherer
            .take(&message("plant/a/n", packet_id.to_string().as_bytes(), packet_id), arrival(ms));
    }
    let settles: Vec<Vec<u16>> =
        batches(&mut gatherer).into_iter().map(|(_, _, settles)| settles).collect();
    assert_eq!(settles, [vec![1, 2], vec![], vec![3]]);
}

#[test]
fn a_message_of_many_readings_is_settled_by_the_last_of_its_batches() {
    let mut gatherer = gatherer("");
    let points: String = (0..1_000).map(|n| format!("m n={n}i {n}\n")).collect();
    gatherer.take(&message("points/a", points.as_bytes(), 9), arrival(0));
    let batches = batches(&mut gatherer);
    let sizes: Vec<usize> = batches.iter().map(|(readings, _, _)| readings.len()).collect();
    assert_eq!(sizes, [SOURCE_BATCH_MAX, 1_000 - SOURCE_BATCH_MAX]);
    assert_eq!((batches[0].2.len(), &batches[1].2), (0, &vec![9]));
    assert_eq!(batches[1].0.last().map(String::as_str), Some("m n 999"));
}

#[test]
fn after_a_break_only_what_does_not_come_again_is_handed_over() {
    for (session_present, expected) in
        [(true, vec!["hall-1/a n 0"]), (false, vec!["hall-1/a n 1", "hall-1/a n 0"])]
    {
        let mut gatherer = gatherer("");
        gatherer.take(&message("plant/a/n", b"1", 1), arrival(0));
        gatherer.take(&message("plant/a/n", b"0", 0), arrival(0));
        gatherer.reconnected(session_present);
        let batches = batches(&mut gatherer);
        let readings: Vec<String> =
            batches.iter().flat_map(|(readings, _, _)| readings.clone()).collect();
        assert_eq!(readings, expected);
        assert!(batches.iter().all(|(_, _, settles)| settles.is_empty()));
        assert!(gatherer.has_room() && gatherer.waiting_bytes == 0);
    }
}
