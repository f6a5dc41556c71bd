use super::*;
use crate::core::clock::ClockSettings;
use crate::core::seam::SourceMeta;
use crate::core::time::IngestTime;

const OURS: Epoch = Epoch { number: 2, nonce: 9 };

fn now(at_s: u64) -> Now {
    Now {
        mono: MonoTime::from_ns(at_s * 1_000_000_000),
        wall: IngestTime::from_unix_ns((1_796_000_000 + at_s as i64) * 1_000_000_000),
        raw_ns: at_s * 1_000_000_000,
        suspended_ns: 0,
        span_ns: 0,
    }
}

/// A disk that knows `a` up to 10, all of it vouched for, and `idle` without a reading.
fn disk() -> Meta {
    let books = SourceMeta { tail: Seq(10), vouched: Seq(10), accepted: 10, ..Default::default() };
    let sources = [(SourceId::new("a"), books), (SourceId::new("idle"), SourceMeta::default())];
    Meta { epoch: OURS, sources: sources.into(), ..Meta::default() }
}

/// The epoch that an agent on this disk goes on in once a broker has told what it
/// retains, and why it is another.
fn told(meta: Option<Meta>, retained: &[(&str, Epoch, u64)]) -> (Epoch, Option<String>) {
    let plain = ["a", "idle", "new"].map(|name| (SourceId::new(name), SourceSettings::DEFAULT));
    let settings = Settings { clock: ClockSettings::DEFAULT, ..Settings::for_tests(plain.into()) };
    let recovered = Recovered { meta, ..Recovered::default() };
    let (facts, mut effects) = (BootFacts::default(), Vec::new());
    let mut agent = Agent::new(settings, recovered, facts, 7, &now(0), &mut effects);
    agent.end_turn(&now(1), &mut effects);
    effects.clear();
    let frontiers = retained.iter().map(|(source, epoch, through_seq)| RetainedFrontier {
        source: SourceId::new(source),
        epoch: *epoch,
        through_seq: Seq(*through_seq),
    });
    let terms = LinkTerms {
        receive_max: 100,
        payload_max: None,
        session_present: false,
        frontiers: frontiers.collect(),
    };
    agent.handle(&now(2), Input::Link(UplinkId(0), LinkEvent::Up(terms)), &mut effects);
    let why = effects.into_iter().find_map(|effect| match effect {
        Effect::Notice(Notice::EpochStarted { reason, .. }) => Some(reason),
        _ => None,
    });
    (agent.books.epoch(), why)
}

#[test]
fn what_this_disk_gave_is_no_proof_against_it() {
    let other = Epoch { number: 1, nonce: 4 };
    let twin = Epoch { nonce: 4, ..OURS };
    for retained in [
        vec![],
        vec![("a", OURS, 10)],
        vec![("a", OURS, 3), ("idle", OURS, 0)],
        vec![("a", other, 500), ("gone", other, 500)],
        vec![("a", twin, 500)],
    ] {
        assert_eq!(told(Some(disk()), &retained), (OURS, None), "{retained:?}");
    }
}

#[test]
fn numbers_that_this_disk_never_gave_prove_that_it_is_an_older_copy() {
    // Of a source that was idle when the copy was made; that was added later; that was
    // added and is not configured any more; that was added and lacks its first still.
    for (source, through_seq) in [("a", 11), ("idle", 1), ("new", 5), ("gone", 5), ("new", 0)] {
        let (epoch, why) = told(Some(disk()), &[("a", OURS, 10), (source, OURS, through_seq)]);
        assert_eq!(epoch.number, 3, "{source}");
        let reason = format!(
            "the broker has {source} up to {through_seq} of epoch {OURS}, which this disk never \
             gave: it is an older copy"
        );
        assert_eq!(why, Some(reason));
    }
}

#[test]
fn a_later_numbering_is_never_counted_up_to_again() {
    let later = Epoch { number: 5, nonce: 1 };
    for source in ["a", "idle", "new", "gone"] {
        let (epoch, why) = told(Some(disk()), &[("a", OURS, 10), (source, later, 1)]);
        assert_eq!(epoch.number, 6, "{source}");
        assert!(why.is_some_and(|why| why.ends_with("it is an older copy, or a new one")));
    }
    assert_eq!(told(None, &[("a", later, 1)]).0.number, 6, "a new data directory");
    let last = Epoch { number: u32::MAX, nonce: 1 };
    let (epoch, _) = told(Some(disk()), &[("a", last, 1)]);
    assert_eq!(epoch.number, u32::MAX);
    assert_ne!(epoch, last);
}
