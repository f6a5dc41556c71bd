//! What is said of a newest segment that cannot be read, though its meta can.

use super::super::store_tests::{EPOCH, commit, meta, open};
use super::*;
use crate::core::agent::{Agent, Settings};
use crate::core::clock::{BootFacts, ClockSettings};
use crate::core::id::{Epoch, Seq, SourceId};
use crate::core::renumber::{Renumbering, Renumberings};
use crate::core::seam::{Missing, Recovered};

fn state(meta: Meta, next: u64) -> State {
    State { meta, next: Offset(next) }
}

fn settings() -> Settings {
    Settings {
        uplinks: Vec::new(),
        clock: ClockSettings::DEFAULT,
        ..Settings::for_tests(Default::default())
    }
}

/// As `[source, epoch number, first, last]`.
fn words(missing: &[Missing]) -> Vec<(&str, u32, u64, Option<u64>)> {
    let word = |one: &Missing| (one.epoch.number, one.first.0, one.last.map(|last| last.0));
    let all = missing.iter().map(|one| (one.source.as_str(), word(one)));
    all.map(|(source, (epoch, first, last))| (source, epoch, first, last)).collect()
}

/// A journal whose segment 2 began after reading 5 and is lost; with the meta that
/// was found in it.
fn lost(found: Option<State>) -> (tempfile::TempDir, Recovery) {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path());
    store.commit(&commit(1, 5)).unwrap();
    store.close_active(KeepRoom::No);
    store.commit(&commit(6, 9)).unwrap();
    store.close();
    let (store, _) = open(dir.path());
    let mut recovery = Recovery::new(store);
    let listed = Listed { id: 2, first: 5, next: None, is_sealed: false };
    lose(&mut recovery, listed, found, &StoreError::Damaged("page 7 is gone".into()));
    (dir, recovery)
}

#[test]
fn what_the_meta_counts_is_missing_by_its_number_and_the_rest_without_an_end() {
    let (_dir, recovery) = lost(Some(state(meta(9), 9)));
    let [damage] = &recovery.store.losses[..] else { panic!("{:?}", recovery.store.losses) };
    assert_eq!(words(&damage.missing), [("plc", 1, 6, Some(9)), ("plc", 1, 10, None)]);
    assert_eq!((damage.first, damage.end), (Offset(5), Offset(9)));
    // The books of the agent that goes on from there.
    let damaged = recovery.store.losses.clone();
    let recovered = Recovered {
        meta: Some(recovery.store.state.meta.clone()),
        next: Offset(9),
        damaged,
        broken_numbering: recovery.broken.clone(),
        ..Recovered::default()
    };
    let (settings, now) = (settings(), Default::default());
    let agent = Agent::new(settings, recovered, BootFacts::default(), 7, &now, &mut Vec::new());
    let status = agent.status(&now);
    let (_, books) = status.sources.iter().next().unwrap();
    assert_eq!((books.accepted, books.lost, books.stored), (9, 4, 5));
}

#[test]
fn without_its_meta_only_the_head_counts() {
    let (_dir, recovery) = lost(None);
    let damage = recovery.store.losses.last().unwrap();
    assert_eq!(words(&damage.missing), [("plc", 1, 6, None)]);
}

#[test]
fn names_that_were_exchanged_meanwhile_are_missing_as_they_are_now() {
    let new = Epoch { number: 2, nonce: 8 };
    let later = |base, tail| {
        let bases = [(SourceId::new("plc"), Seq(base))].into();
        let one = Renumbering { from: EPOCH, to: new, bases, until: Offset(30) };
        Meta { epoch: new, renumberings: Renumberings(vec![one]), ..meta(tail) }
    };
    let between = |head, later: &Meta| {
        let missing = manifest::missing_between(&meta(head), later);
        words(&missing).into_iter().map(|(_, epoch, first, last)| (epoch, first, last)).collect()
    };
    let some = |all: &[(u32, u64, u64)]| -> Vec<(u32, u64, Option<u64>)> {
        all.iter().map(|(epoch, first, last)| (*epoch, *first, Some(*last))).collect()
    };
    let found: Vec<_> = between(5, &later(8, 3));
    assert_eq!(found, some(&[(1, 6, 8), (2, 1, 3)]));
    // The first three of the new names lie in older segments.
    let found: Vec<_> = between(5, &later(2, 7));
    assert_eq!(found, some(&[(2, 4, 7)]));
    // A numbering that broke begins anew, without an exchange.
    let found: Vec<_> = between(5, &Meta { epoch: new, ..meta(4) });
    assert_eq!(found, some(&[(2, 1, 4)]));
    let found: Vec<_> = between(5, &meta(5));
    assert_eq!(found, some(&[]));
}
