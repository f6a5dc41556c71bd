//! Order is that of the sequence numbers; stamps stay as they are.

use serde_json::{Value, json};
use tidegate::core::agent::SourceSettings;
use tidegate::core::books::Books;
use tidegate::core::id::{Epoch, Offset, Seq, SourceId};
use tidegate::core::seam::{Meta, SourceMeta};
use tidegate::core::skew::SourceClock;
use tidegate::core::stamp::{Verdict, stamp};

use crate::{arrival, check_keys, clock, int, upper};

/// Books in which the last durable number of the source is `last`.
fn books_after(source: &SourceId, last: u64) -> Books {
    let epoch = Epoch { number: 1, nonce: 7 };
    let account = SourceMeta { tail: Seq(last), accepted: last, ..SourceMeta::default() };
    let sources = [(source.clone(), account)].into();
    Books::open(&Meta { epoch, sources, ..Meta::default() }, epoch, &[], Offset(0))
}

pub(crate) fn run(input: &Value) -> Value {
    check_keys(input, &["readings"]);
    let source = SourceId::new("plc");
    let readings = input["readings"].as_array().unwrap();
    let first = readings[0]["seq"].as_u64().unwrap();
    let mut books = books_after(&source, first - 1);
    let mut source_clock = SourceClock::default();
    let (mut order, mut event_times, mut flags) = (Vec::new(), Vec::new(), Vec::new());
    for reading in readings {
        check_keys(reading, &["seq", "up", "event_time"]);
        let up_ns = int(reading, "up").unwrap_or(0).unsigned_abs();
        let arrival = arrival(int(reading, "event_time").unwrap(), up_ns);
        let clock = clock("synchronized", Some(1_000_000));
        let settings = SourceSettings::DEFAULT;
        match stamp(&settings, &clock, &arrival, None, &mut source_clock).verdict {
            Verdict::Stamp(stamp) => {
                order.push(books.accept(&source).0);
                event_times.push(stamp.event_time.unix_ns());
                // Named in the order of the vectors.
                let mut names = upper(stamp.flags);
                names.sort();
                flags.push(names);
            }
            Verdict::Quarantine { reason, .. } => panic!("{reason}"),
        }
    }
    json!({ "order": order, "event_times": event_times, "flags": flags })
}

/// What happens after a crash: the number after the last durable one, and no
/// marker, for none is missing.
pub(crate) fn numbering_goes_on(input: &Value) {
    let last = input["last_durable"].as_u64().unwrap();
    let source = SourceId::new("plc");
    let mut books = books_after(&source, last);
    assert_eq!(books.accept(&source), Seq(last + 1));
    assert_eq!(books.accept(&source), Seq(last + 2));
    let mut meta = Meta::default();
    books.fill(&mut meta, |_, _| true);
    assert_eq!(meta.gaps, []);
    assert_eq!((meta.sources[&source].tail, meta.epoch.number), (Seq(last + 2), 1));
}
