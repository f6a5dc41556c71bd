//! An older program finds what a newer one wrote: it refuses, and touches nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::agent::{Plant, first_seen};
use crate::support::script::Script;

const COUNT: u64 = 100;

/// A format that no program has yet.
const NEWER: u8 = 200;

/// An agent that has stopped, with readings that no broker has.
async fn stopped() -> Plant {
    let mut plant = Plant::new(Script::default(), "", &[("in", "")]).await;
    plant.broker.refuse(true);
    plant.run();
    plant.feed("in", COUNT).join();
    assert_eq!(plant.stop(), Some(0));
    plant
}

/// Every file below, with its bytes; the lock alone says who was here last.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else if path.is_file() && path.file_name().unwrap() != "LOCK" {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

/// Makes a file of the journal one of a newer format, with the check that belongs
/// to it: version, flag, length (4), CRC32C (4), body. What it was before.
fn raise(path: &Path) -> Vec<u8> {
    let before = std::fs::read(path).unwrap();
    let mut bytes = before.clone();
    bytes[0] = NEWER;
    let check = crc32c::crc32c_append(crc32c::crc32c(&bytes[..6]), &bytes[10..]);
    bytes[6..10].copy_from_slice(&check.to_le_bytes());
    std::fs::write(path, bytes).unwrap();
    before
}

/// The note: of a newer program that was killed right after its first commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_journal_of_a_newer_version_is_refused_and_stays_as_it_is() {
    let mut plant = stopped().await;
    let data = plant.folder().join("data");
    for file in ["journal/MANIFEST", "journal/000001.note", "journal/000001.head"] {
        let path = data.join(file);
        let before = raise(&path);
        let files = contents(&data);
        for (command, code) in [("run", 78), ("journal stats", 74), ("journal verify", 74)] {
            let words: Vec<&str> = command.split(' ').collect();
            let said = plant.say(&words, code);
            let expected = format!(
                "{}: written in format {NEWER} by a newer version of Tidegate; this one reads up to 4. \
                 Nothing was changed. Install the newer version again, or give this one a data_dir \
                 of its own",
                path.display()
            );
            assert!(said.contains(&expected), "{command}: {said}");
            assert!(contents(&data) == files, "{command} touched something");
        }
        std::fs::write(path, before).unwrap();
    }

    // The newer version is installed again: nothing is lost.
    plant.broker.refuse(false);
    plant.run();
    plant.wait(|log| first_seen(log, "in").len() as u64 == COUNT).await;
    assert_eq!(first_seen(&plant.broker.log(), "in"), (1..=COUNT).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_version_byte_is_damage_and_no_newer_version() {
    let mut plant = stopped().await;
    let path = plant.folder().join("data/journal/000001.note");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[0] = NEWER;
    std::fs::write(&path, bytes).unwrap();
    plant.broker.refuse(false);
    plant.run();
    plant.wait(|log| first_seen(log, "in").len() as u64 == COUNT).await;
}
