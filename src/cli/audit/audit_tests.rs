//! Each fault alone, and a consumer without any.

use super::received::tests::reading;
use super::*;

fn consumer(lines: &[String]) -> Consumer {
    let mut consumer = Consumer::default();
    lines.iter().for_each(|line| consumer.take(line.as_bytes()));
    consumer
}

fn numbering(last: u64, through: u64) -> [Numbering; 1] {
    [Numbering { source: "plc".to_owned(), epoch: "1-a".to_owned(), last, through }]
}

/// Numbers 1 to `last` are given, up to `through` done with; the journal has `kept`.
fn audit(came: &[String], (last, through): (u64, u64), kept: &[String]) -> Audit {
    let mut consumer = consumer(came);
    let mut books = Books::default();
    kept.iter().for_each(|line| books.compare(line.as_bytes(), &mut consumer.messages));
    judge(&numbering(last, through), &consumer.messages, &books, Lenience::default())
}

fn readings(seqs: &[u64]) -> Vec<String> {
    seqs.iter().map(|seq| reading("1-a", *seq, *seq)).collect()
}

const GAP: &str = r#"{"v":1,"gateway":"demo","source":"plc","epoch":"1-a","first_seq":2,"last_seq":3,"reason":"evicted"}"#;

#[test]
fn a_whole_consumer_holds_with_topics_or_without_and_however_it_writes_json() {
    let mut lines = readings(&[1, 2]);
    lines.push(format!("tidegate/demo/readings/plc {}", reading("1-a", 3, 3)));
    let value: Value = serde_json::from_str(&reading("1-a", 4, 4)).unwrap();
    lines.push(serde_json::to_string_pretty(&value).unwrap().replace('\n', " "));
    lines.push("tidegate/demo/status {\"v\":1,\"gateway\":\"demo\"}".to_owned());
    let audit = audit(&lines, (4, 4), &readings(&[3, 4]));
    assert!(audit.holds, "{audit:?}");
}

#[test]
fn a_number_that_is_done_with_and_not_there_is_a_hole() {
    let found = audit(&readings(&[1, 3]), (3, 3), &readings(&[2, 3]));
    assert!(!found.holds);
    assert_eq!((found.sources[0].holes, found.sources[0].first_missing), (1, Some(2)));
    // Gone from the journal too.
    assert_eq!(audit(&readings(&[1, 3]), (3, 1), &[]).sources[0].holes, 1);
}

#[test]
fn what_waits_in_the_journal_is_no_hole() {
    let found = audit(&readings(&[1]), (3, 1), &readings(&[2, 3]));
    assert!(found.holds, "{found:?}");
    assert_eq!(found.sources[0].waiting, 2);
}

#[test]
fn a_gap_record_explains_whoever_has_it() {
    let mut came = readings(&[1, 4]);
    let kept = [GAP.to_owned()];
    assert!(audit(&came, (4, 4), &kept).holds, "it waits in the journal");
    came.push(GAP.to_owned());
    let found = audit(&came, (4, 4), &[]);
    assert!(found.holds);
    assert_eq!(found.sources[0].in_gap_records, 2);
}

#[test]
fn repeats_differences_and_inventions_fail() {
    let repeated = audit(&readings(&[1, 2, 2]), (2, 2), &[]);
    assert_eq!((repeated.holds, repeated.sources[0].repeats), (false, 1));
    let other = [reading("1-a", 1, 1), reading("1-a", 2, 9)];
    let different = audit(&other, (2, 2), &readings(&[2]));
    assert_eq!((different.holds, different.sources[0].differences), (false, 1));
    let invented = audit(&readings(&[1, 2, 3]), (2, 2), &[]);
    assert_eq!((invented.holds, invented.sources[0].invented), (false, 1));
    let broken = audit(&["hello".to_owned(), reading("1-a", 1, 1)], (1, 1), &[]);
    assert_eq!((broken.holds, broken.out_of_contract), (false, 1));
}

#[test]
fn a_consumer_that_came_later_is_told_so_and_may_be_forgiven() {
    let consumer = consumer(&readings(&[3, 4, 6]));
    let books = Books::default();
    let judged = |before_first| {
        let lenience = Lenience { before_first, ..Lenience::default() };
        let audit = judge(&numbering(6, 6), &consumer.messages, &books, lenience);
        (audit.sources[0].holes, audit.sources[0].before_first, text(&audit, lenience))
    };
    let (holes, before_first, said) = judged(false);
    assert_eq!((holes, before_first), (3, 0));
    assert!(said.contains("the consumer's first message is 3: subscribed later?"), "{said}");
    let (holes, before_first, said) = judged(true);
    assert_eq!((holes, before_first), (1, 2), "5 is a hole all the same: {said}");
}
