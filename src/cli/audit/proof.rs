//! The proof: what the agent says it took in, against what a subscriber got.
//! Pure, so that its failures can be tested too.

use super::received::{Received, Stretch};
use crate::core::id::is_window;

/// What the agent's own books say of one source and epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Produced {
    pub(in crate::cli) source: String,
    pub(in crate::cli) epoch: String,
    /// Readings accepted: they have the numbers 1 to this.
    pub(in crate::cli) accepted: u64,
}

/// What became of one source and epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Tally {
    pub(in crate::cli) source: String,
    pub(in crate::cli) epoch: String,
    pub(in crate::cli) produced: u64,
    /// Messages, repeats included.
    pub(in crate::cli) delivered: u64,
    pub(in crate::cli) distinct: u64,
    /// Numbers that never came and that a gap record names.
    pub(in crate::cli) missing_named: u64,
    /// Numbers that never came, and nobody says why.
    pub(in crate::cli) missing_unnamed: u64,
    /// The first number that never came.
    pub(in crate::cli) first_missing: Option<u64>,
    /// Numbers that came with two different contents.
    pub(in crate::cli) changed: u64,
    /// Numbers that came although they were never given out.
    pub(in crate::cli) invented: u64,
}

impl Tally {
    /// Copies beyond the first of each.
    pub(in crate::cli) const fn repeats(&self) -> u64 {
        self.delivered - self.distinct
    }
}

/// The verdict.
#[cfg(any(feature = "demo", test))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Proof {
    pub(in crate::cli) planned: u64,
    pub(in crate::cli) tallies: Vec<Tally>,
    pub(in crate::cli) out_of_contract: u64,
    /// Why it fails; empty when it holds.
    pub(in crate::cli) objections: Vec<String>,
}

#[cfg(any(feature = "demo", test))]
impl Proof {
    pub(in crate::cli) fn holds(&self) -> bool {
        self.objections.is_empty()
    }
}

/// Compares. `planned` is what the PLC was told to produce.
#[cfg(any(feature = "demo", test))]
pub(in crate::cli) fn judge(planned: u64, produced: &[Produced], received: &Received) -> Proof {
    let tallies = tallies(produced, received);
    let objections = objections(planned, &tallies, received);
    Proof { planned, tallies, out_of_contract: received.out_of_contract, objections }
}

/// What became of each source and epoch.
pub(in crate::cli) fn tallies(produced: &[Produced], received: &Received) -> Vec<Tally> {
    let nothing = Stretch::default();
    let mut tallies: Vec<Tally> = produced
        .iter()
        .map(|produced| {
            let key = (produced.source.clone(), produced.epoch.clone());
            let came =
                if is_window(&produced.source) { &received.results } else { &received.stretches };
            tally(produced, came.get(&key).unwrap_or(&nothing))
        })
        .collect();
    // What the agent does not know of has no number that was given out.
    for ((source, epoch), stretch) in &received.stretches {
        let is_known = |tally: &Tally| tally.source == *source && tally.epoch == *epoch;
        if !tallies.iter().any(is_known) {
            let (source, epoch) = (source.clone(), epoch.clone());
            tallies.push(tally(&Produced { source, epoch, accepted: 0 }, stretch));
        }
    }
    tallies
}

fn tally(produced: &Produced, stretch: &Stretch) -> Tally {
    let mut tally = Tally {
        source: produced.source.clone(),
        epoch: produced.epoch.clone(),
        produced: produced.accepted,
        delivered: stretch.delivered,
        distinct: stretch.copies.len() as u64,
        ..Tally::default()
    };
    let mut arrived = stretch.copies.keys().peekable();
    for seq in 1..=produced.accepted {
        if arrived.next_if(|arrived| **arrived == seq).is_some() {
            continue;
        }
        tally.first_missing.get_or_insert(seq);
        if stretch.names(seq) {
            tally.missing_named += 1;
        } else {
            tally.missing_unnamed += 1;
        }
    }
    tally.invented = arrived.count() as u64;
    tally.changed = stretch.copies.values().filter(|copies| copies.is_changed).count() as u64;
    tally
}

#[cfg(any(feature = "demo", test))]
fn objections(planned: u64, tallies: &[Tally], received: &Received) -> Vec<String> {
    let mut found = Vec::new();
    let of_plc = tallies.iter().filter(|tally| !is_window(&tally.source));
    let produced: u64 = of_plc.map(|tally| tally.produced).sum();
    if produced != planned {
        found.push(format!("{planned} readings were planned, and {produced} were accepted"));
    }
    for tally in tallies {
        let name = format!("{} {}", tally.source, tally.epoch);
        let first = tally.first_missing.unwrap_or_default();
        let mut object = |count: u64, what: &str| {
            if count > 0 {
                found.push(format!("{name}: {count} {what}"));
            }
        };
        object(
            tally.missing_unnamed,
            &format!("missing without a gap record (the first is {first})"),
        );
        object(
            tally.missing_named,
            &format!("missing, named by gap records (the first is {first})"),
        );
        object(tally.changed, "came with two different contents under one name");
        object(tally.invented, "came with a number that was never given out");
    }
    if let Some(complaint) = &received.first_complaint {
        let count = received.out_of_contract;
        found.push(format!("{count} messages break the contract; the first: {complaint}"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::received::tests::reading;
    use super::*;

    const TOPIC: &str = "tidegate/demo/readings/plc";

    fn received(seqs: &[u64]) -> Received {
        let mut received = Received::default();
        for &seq in seqs {
            received.take(TOPIC, reading("1-a", seq, seq).as_bytes());
        }
        received
    }

    fn produced(accepted: u64) -> [Produced; 1] {
        [Produced { source: "plc".to_owned(), epoch: "1-a".to_owned(), accepted }]
    }

    #[test]
    fn everything_once_or_more_in_any_order_holds() {
        let proof = judge(4, &produced(4), &received(&[2, 1, 3, 2, 3, 4]));
        assert_eq!(proof.objections, [""; 0]);
        assert!(proof.holds());
        let [tally] = proof.tallies.as_slice() else { panic!("{:?}", proof.tallies) };
        assert_eq!((tally.delivered, tally.distinct, tally.repeats()), (6, 4, 2));
    }

    #[test]
    fn a_missing_number_fails_wherever_it_is() {
        for missing in 1..=4 {
            let seqs: Vec<u64> = (1..=4).filter(|seq| *seq != missing).collect();
            let proof = judge(4, &produced(4), &received(&seqs));
            let expected =
                format!("plc 1-a: 1 missing without a gap record (the first is {missing})");
            assert_eq!(proof.objections, [expected]);
            assert!(!proof.holds());
        }
    }

    #[test]
    fn a_repeat_does_not_stand_in_for_a_missing_one() {
        let proof = judge(3, &produced(3), &received(&[1, 2, 2]));
        assert_eq!(proof.tallies[0].missing_unnamed, 1);
        assert!(!proof.holds());
    }

    #[test]
    fn nothing_at_all_fails() {
        let proof = judge(3, &produced(3), &Received::default());
        assert_eq!(proof.tallies[0].missing_unnamed, 3);
        assert!(!proof.holds());
        assert!(!judge(3, &[], &Received::default()).holds());
    }

    #[test]
    fn a_gap_record_names_what_is_missing_and_still_fails() {
        let mut received = received(&[1, 4, 5]);
        received.take(
            "tidegate/demo/gaps/plc",
            br#"{"v":1,"gateway":"demo","source":"plc","epoch":"1-a","first_seq":1,"last_seq":2,"reason":"evicted"}"#,
        );
        let proof = judge(5, &produced(5), &received);
        let tally = &proof.tallies[0];
        assert_eq!((tally.missing_named, tally.missing_unnamed), (1, 1));
        assert_eq!(tally.first_missing, Some(2));
        assert_eq!(proof.objections.len(), 2);
    }

    #[test]
    fn two_contents_under_one_name_fail() {
        let mut received = received(&[1, 2]);
        received.take(TOPIC, reading("1-a", 2, 99).as_bytes());
        // The right one again changes nothing.
        received.take(TOPIC, reading("1-a", 2, 2).as_bytes());
        let proof = judge(2, &produced(2), &received);
        assert_eq!(
            proof.objections,
            ["plc 1-a: 1 came with two different contents under one name"]
        );
    }

    #[test]
    fn numbers_and_epochs_that_nobody_gave_out_fail() {
        let proof = judge(2, &produced(2), &received(&[1, 2, 3]));
        assert_eq!(proof.objections, ["plc 1-a: 1 came with a number that was never given out"]);

        let mut received = received(&[1, 2]);
        received.take(TOPIC, reading("2-b", 1, 1).as_bytes());
        let proof = judge(2, &produced(2), &received);
        assert_eq!(proof.objections, ["plc 2-b: 1 came with a number that was never given out"]);
    }

    #[test]
    fn less_accepted_than_planned_fails() {
        let proof = judge(3, &produced(2), &received(&[1, 2]));
        assert_eq!(proof.objections, ["3 readings were planned, and 2 were accepted"]);
    }

    #[test]
    fn a_message_out_of_contract_fails() {
        let mut received = received(&[1]);
        received.take(TOPIC, b"hello");
        let proof = judge(1, &produced(1), &received);
        assert_eq!(proof.out_of_contract, 1);
        assert!(proof.objections[0].starts_with("1 messages break the contract"));
    }
}
