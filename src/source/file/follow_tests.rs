//! What files are read when, on real files.

use std::fs::OpenOptions;
use std::io::Write as _;

use super::*;
use crate::config::{Config, SourceKind};
use crate::core::reading::{Reading, Value};
use crate::core::time::IngestTime;

/// A folder and its follower, which takes one line a step.
struct Plant {
    folder: tempfile::TempDir,
    follower: Follower,
}

fn at() -> Arrival {
    Arrival {
        ingest: IngestTime::from_unix_ns(7),
        uptime: Uptime::from_ns(0),
        half_round_trip: Span::ZERO,
    }
}

impl Plant {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "[gateway]\nid = 'g'\ndata_dir = '/d'\n[[uplink]]\nurl = 'mqtt://b'\n[[source]]\n\
             name = 's'\ntype = 'file'\npath = '{}/*.jsonl'\nentity = 'e'\nqueue_max = 1\n\
             [source.map]\nvalues = ''\n",
            folder.path().display()
        );
        let source = Config::parse(&text, Path::new("t.toml")).unwrap().sources.remove(0);
        let SourceKind::File(settings) = &source.kind else { panic!("{source:?}") };
        let follower = Follower::new(&source, settings, &[]);
        Self { folder, follower }
    }

    fn write(&self, name: &str, numbers: &[i64]) {
        let path = self.folder.path().join(name);
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        let lines: String = numbers.iter().map(|n| format!("{{\"n\":{n}}}\n")).collect();
        file.write_all(lines.as_bytes()).unwrap();
    }

    fn look(&mut self) -> Vec<String> {
        self.follower.look(at().uptime);
        self.follower.troubles()
    }

    /// The number in the next line.
    fn step(&mut self) -> Option<i64> {
        match self.follower.step(at()) {
            Step::Nothing => None,
            Step::Lines(gathered) => match gathered.batch.readings[..] {
                [Reading { value: Value::I64(number), .. }] => Some(number),
                ref other => panic!("{other:?}"),
            },
        }
    }

    fn steps(&mut self) -> Vec<i64> {
        std::iter::from_fn(|| self.step()).collect()
    }

    /// Exchanges the open file at this place for a folder, which cannot be read.
    fn breaks(&mut self, at: usize) -> File {
        let folder = File::open(self.folder.path()).unwrap();
        std::mem::replace(&mut self.follower.files[at].file, folder)
    }
}

#[test]
fn a_file_that_cannot_be_read_keeps_none_waiting_and_heals() {
    let mut plant = Plant::new();
    plant.write("a.jsonl", &[1]);
    plant.write("b.jsonl", &[2]);
    assert_eq!(plant.look(), [""; 0]);
    let file = plant.breaks(0);
    assert_eq!(plant.steps(), [2]);
    let path = plant.folder.path().join("a.jsonl");
    let said = format!("{}: Is a directory (os error 21)", path.display());
    assert_eq!(plant.follower.troubles(), [said]);
    assert!(plant.follower.is_reading());
    plant.follower.files[0].file = file;
    plant.look();
    assert_eq!(plant.steps(), [1]);
    assert_eq!(plant.follower.troubles(), [""; 0]);
}

#[test]
fn lines_that_could_not_be_settled_come_again() {
    let mut plant = Plant::new();
    plant.write("a.jsonl", &[1, 2, 3]);
    plant.look();
    assert_eq!(plant.step(), Some(1));
    // The lines are read already; the digest up to them is not.
    let file = plant.breaks(0);
    assert_eq!(plant.step(), None);
    plant.follower.files[0].file = file;
    plant.look();
    assert_eq!(plant.steps(), [2, 3]);
}

#[test]
fn files_of_the_past_are_read_in_order_and_one_that_grows_keeps_none_waiting() {
    let mut plant = Plant::new();
    plant.write("a.jsonl", &[1, 2, 3]);
    plant.write("b.jsonl", &[11, 12]);
    plant.look();
    let mut read = Vec::new();
    for grown in 4..10 {
        read.extend(plant.step());
        plant.write("a.jsonl", &[grown]);
    }
    assert_eq!(read, [1, 2, 3, 11, 12, 4]);
    // In the midst of a turn, which reaches to 8, a file appears before its own.
    plant.write("0.jsonl", &[0]);
    plant.look();
    assert_eq!(plant.steps(), [5, 6, 7, 8, 0, 9]);
}

#[test]
fn whole_lines_that_were_read_before_a_cut_are_not_lost() {
    let mut plant = Plant::new();
    plant.write("a.jsonl", &[1, 2]);
    plant.look();
    assert_eq!(plant.step(), Some(1));
    OpenOptions::new()
        .write(true)
        .open(plant.folder.path().join("a.jsonl"))
        .unwrap()
        .set_len(0)
        .unwrap();
    plant.write("a.jsonl", &[3]);
    plant.look();
    assert_eq!(plant.steps(), [2]);
    plant.look();
    assert_eq!(plant.steps(), [3]);
}
