//! One file that is followed, and all of them: which there are, what is new in
//! them. All of this waits for the disk, and for nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::place::{self, Identity, Place};
use crate::config::{FileSource, Source};
use crate::core::id::SourceId;
use crate::core::limits::FILES_MAX;
use crate::core::reading::{Arrival, Refusal};
use crate::core::seam::Batch;
use crate::core::time::{Span, Uptime};
use crate::core::window::glob;
use crate::source::feed::{Gathered, Gatherer};

/// How long a file that no path names any more is still read: its writer may not have
/// noticed yet.
const LEFT_AFTER: Span = Span::from_secs(30);

/// NUL bytes passed over at once before another file has its turn.
const SKIPPED_AT_ONCE: u64 = 64 * 1024 * 1024;

/// What there is to hand in.
pub(super) enum Step {
    /// Some lines of a file.
    Lines(Box<Gathered>),
    /// Nothing is new.
    Nothing,
}

/// Every file of a source.
pub(super) struct Follower {
    source: Source,
    settings: FileSource,
    /// In the order of their paths.
    files: Vec<Followed>,
    /// Where files were that have not been found yet.
    known: BTreeMap<Identity, Place>,
    /// Files that are there at the first look are read from their end.
    skips_what_is_there: bool,
    has_looked: bool,
    /// Whose turn it is.
    turn: usize,
    /// What the last look found wrong.
    troubles: Vec<String>,
}

struct Followed {
    path: PathBuf,
    file: File,
    place: Place,
    gatherer: Gatherer,
    /// Read up to here.
    read_to: u64,
    /// No whole line of what was read is left.
    is_used_up: bool,
    /// Its turn ends here: where the file ended when the turn began.
    turn_ends: u64,
    /// Why it could not be read the last time,
    trouble: Option<String>,
    /// and that this is not tried again before the next look.
    is_put_off: bool,
    /// NUL bytes passed over in front of the next line.
    nul_bytes: u64,
    /// Whether a path names it.
    is_named: bool,
    /// Since when nothing has changed.
    quiet_since: Uptime,
}

impl Follower {
    /// Goes on from a position; an empty one, or one that means nothing to this
    /// version, is none.
    pub(super) fn new(source: &Source, settings: &FileSource, position: &[u8]) -> Self {
        let places = place::decode(position);
        let skips_what_is_there = places.is_none() && !settings.from_start;
        let known = places.unwrap_or_default();
        Self {
            source: source.clone(),
            settings: settings.clone(),
            files: Vec::new(),
            known: known.into_iter().map(|place| (place.identity, place)).collect(),
            skips_what_is_there,
            has_looked: false,
            turn: 0,
            troubles: Vec::new(),
        }
    }

    /// Where it is now.
    pub(super) fn position(&self) -> Arc<[u8]> {
        let places = self.files.iter().map(|file| file.place);
        let places: Vec<Place> = places.chain(self.known.values().copied()).collect();
        place::encode(&places).into()
    }

    /// Whether any file can be read.
    pub(super) fn is_reading(&self) -> bool {
        self.files.iter().any(|file| file.trouble.is_none())
    }

    /// What is wrong now.
    pub(super) fn troubles(&self) -> Vec<String> {
        let of_files = self.files.iter().filter_map(|file| file.trouble.as_ref());
        let more = of_files.filter(|trouble| !self.troubles.contains(trouble));
        self.troubles.iter().chain(more).cloned().collect()
    }

    /// Looks which files there are; what is wrong does not keep the others from being
    /// read.
    pub(super) fn look(&mut self, now: Uptime) {
        let mut troubles = Vec::new();
        match list(self.settings.folder()) {
            Ok(listed) => self.look_at(&listed, now, &mut troubles),
            Err(error) => {
                troubles.push(format!("{}: {error}", self.settings.folder().display()));
            }
        }
        self.troubles = troubles;
    }

    fn look_at(&mut self, listed: &BTreeSet<PathBuf>, now: Uptime, troubles: &mut Vec<String>) {
        self.files.iter_mut().for_each(|file| file.is_named = false);
        let pattern = self.settings.pattern().to_owned();
        let is_ours = |path: &&PathBuf| -> bool {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| glob::matches(&pattern, name))
        };
        let (ours, others): (Vec<&PathBuf>, Vec<&PathBuf>) = listed.iter().partition(is_ours);
        for path in ours {
            if let Err(error) = self.meet(path, now, true) {
                troubles.push(format!("{}: {error}", path.display()));
            }
        }
        // What was renamed while nobody looked has a rest to be read.
        let others = if self.has_looked { Vec::new() } else { others };
        for path in others {
            let facts = fs::metadata(path);
            if facts.is_ok_and(|facts| self.known.contains_key(&place::identity(&facts))) {
                // It is not one of ours by its name: what is wrong with it is no trouble.
                let _ = self.meet(path, now, false);
            }
        }
        // Their folder may not be there yet, but is there no end to them?
        while self.known.len() + self.files.len() > FILES_MAX {
            self.known.pop_first();
        }
        self.has_looked = true;
        for file in &mut self.files {
            file.is_put_off = false;
            if let Err(error) = file.look(&self.source, now, self.settings.complete_after) {
                troubles.push(format!("{}: {error}", file.path.display()));
            }
        }
        let turn = self.files.get(self.turn).map(|file| file.place.identity);
        self.files.retain(|file| !file.is_left(now));
        self.files.sort_by(|one, other| one.path.cmp(&other.path));
        let has_turn = |file: &Followed| Some(file.place.identity) == turn;
        self.turn = self.files.iter().position(has_turn).unwrap_or(self.turn);
    }

    /// A path leads to a file: one that is followed, that was followed, or a new
    /// one.
    fn meet(&mut self, path: &Path, now: Uptime, is_named: bool) -> Result<(), String> {
        let said = |error: io::Error| error.to_string();
        let facts = fs::metadata(path).map_err(said)?;
        if !facts.is_file() {
            return Ok(());
        }
        let identity = place::identity(&facts);
        if let Some(file) = self.files.iter_mut().find(|file| file.place.identity == identity) {
            // Of several paths to one file the first counts.
            if !file.is_named {
                path.clone_into(&mut file.path);
            }
            file.is_named = true;
            return Ok(());
        }
        if self.files.len() >= FILES_MAX {
            return Err(format!("more than {FILES_MAX} files match: this one waits"));
        }
        let file = File::open(path).map_err(said)?;
        // It may have been replaced since.
        let identity = place::identity(&file.metadata().map_err(said)?);
        let known = self.known.remove(&identity);
        let is_known = match known {
            Some(place) => place.is_of(&file).map_err(said)?,
            None => false,
        };
        if !is_known && !is_named {
            return Ok(());
        }
        let offset = match known.filter(|_| is_known) {
            Some(place) => place.offset,
            None if self.skips_what_is_there && !self.has_looked => {
                last_line(&file).map_err(said)?
            }
            None => 0,
        };
        let path = path.to_owned();
        let followed = Followed::open(&self.source, path, file, identity, offset, now);
        self.files.push(Followed { is_named, ..followed.map_err(said)? });
        Ok(())
    }

    /// The next lines of any file. They take turns, and a turn reaches to where the
    /// file ended when it began. So files of the past are read one after the other, in
    /// the order of their paths, and one that grows faster than it is read keeps none
    /// waiting. One that cannot be read is passed over until the next look.
    pub(super) fn step(&mut self, arrival: Arrival) -> Step {
        let count = self.files.len();
        for at in (self.turn..self.turn + count).map(|at| at % count) {
            let file = &mut self.files[at];
            if file.is_put_off {
                continue;
            }
            match file.take_turn(arrival, &self.source) {
                Ok(Some(gathered)) => {
                    let is_over = file.place.offset >= file.turn_ends;
                    self.turn = if is_over { at + 1 } else { at };
                    return Step::Lines(Box::new(gathered));
                }
                Ok(None) => {}
                Err(error) => {
                    file.trouble = Some(format!("{}: {error}", file.path.display()));
                    file.is_put_off = true;
                    // What was read and not handed in is read again.
                    file.begin_at(file.place.offset, &self.source);
                }
            }
        }
        Step::Nothing
    }
}

/// Every path of a folder, sorted.
fn list(folder: &Path) -> io::Result<BTreeSet<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

/// Where the last line begins, or will: a half-written one is taken whole.
fn last_line(file: &File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut bytes = [0; 4096];
    while end > 0 {
        let start = end.saturating_sub(bytes.len() as u64);
        let piece = &mut bytes[..(end - start) as usize];
        file.read_exact_at(piece, start)?;
        if let Some(at) = memchr::memrchr(b'\n', piece) {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

impl Followed {
    fn open(
        source: &Source,
        path: PathBuf,
        file: File,
        identity: Identity,
        offset: u64,
        now: Uptime,
    ) -> io::Result<Self> {
        let place = Place { identity, offset, digest: place::digest(&file, offset)? };
        let mut followed = Self {
            path,
            file,
            place,
            gatherer: Gatherer::new(source),
            read_to: offset,
            is_used_up: true,
            turn_ends: offset,
            trouble: None,
            is_put_off: false,
            nul_bytes: 0,
            is_named: true,
            quiet_since: now,
        };
        followed.begin_at(offset, source);
        Ok(followed)
    }

    /// Reads from there on, whatever was read before.
    fn begin_at(&mut self, offset: u64, source: &Source) {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.gatherer = Gatherer::of_file(source, name, offset);
        (self.read_to, self.nul_bytes, self.is_used_up) = (offset, 0, true);
    }

    /// Finds out whether the file was cut or written anew, and whether its last
    /// line is all there will be.
    fn look(
        &mut self,
        source: &Source,
        now: Uptime,
        complete_after: std::time::Duration,
    ) -> io::Result<()> {
        if !self.is_used_up {
            // Whole lines that were read before the file was cut are lines all the same.
            return Ok(());
        }
        let length = self.file.metadata()?.len();
        let is_cut = length < self.read_to || !self.place.is_of(&self.file)?;
        if is_cut {
            self.place.offset = 0;
            self.place.digest = place::digest(&self.file, 0)?;
            self.begin_at(0, source);
            self.turn_ends = 0;
        }
        if is_cut || length > self.read_to {
            self.quiet_since = now;
        }
        let quiet_ns = now.since_ns(self.quiet_since);
        let is_complete = quiet_ns >= complete_after.as_nanos() as u64;
        let is_left = !self.is_named && quiet_ns >= LEFT_AFTER.ns() as u64;
        if (is_complete || is_left) && length == self.read_to && self.read_to > self.place.offset {
            self.gatherer.splitter.end();
        }
        Ok(())
    }

    /// Whether nothing more is to be expected of it.
    fn is_left(&self, now: Uptime) -> bool {
        let quiet_ns = now.since_ns(self.quiet_since);
        !self.is_named && quiet_ns >= LEFT_AFTER.ns() as u64 && self.read_to == self.place.offset
    }

    /// Everything is settled up to this byte of what the gatherer took.
    fn settle(&mut self, through: u64) -> io::Result<()> {
        let offset = self.gatherer.base + through;
        let digest = place::digest(&self.file, offset)?;
        (self.place.offset, self.place.digest) = (offset, digest);
        Ok(())
    }

    fn take_turn(&mut self, arrival: Arrival, source: &Source) -> io::Result<Option<Gathered>> {
        if self.place.offset >= self.turn_ends {
            self.turn_ends = self.file.metadata()?.len();
        }
        let gathered = self.step(arrival, source)?;
        self.trouble = None;
        Ok(gathered)
    }

    fn step(&mut self, arrival: Arrival, source: &Source) -> io::Result<Option<Gathered>> {
        let mut skipped = 0;
        loop {
            if let Some(gathered) = self.gatherer.gather(arrival) {
                self.settle(gathered.through)?;
                return Ok(Some(gathered));
            }
            self.is_used_up = true;
            if self.gatherer.splitter.is_ended() {
                // What comes now begins a line.
                self.begin_at(self.place.offset, source);
            }
            if skipped > SKIPPED_AT_ONCE {
                return Ok(None);
            }
            let taken = self.gatherer.splitter.taken();
            let is_at_line = self.read_to == self.gatherer.base + taken;
            let space = self.gatherer.splitter.space();
            let count = match self.file.read_at(space, self.read_to) {
                Ok(0) => return Ok(None),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.quiet_since = arrival.uptime;
            self.read_to += count as u64;
            // A file that was cut under a writer that does not append begins with a
            // hole.
            let nul = space[..count].iter().take_while(|byte| is_at_line && **byte == 0).count();
            space.copy_within(nul..count, 0);
            self.gatherer.splitter.filled(count - nul);
            self.is_used_up = false;
            self.gatherer.base += nul as u64;
            self.nul_bytes += nul as u64;
            skipped += nul as u64;
            if self.nul_bytes > 0 && nul < count {
                let run = self.nul_run(arrival, source);
                self.settle(taken)?;
                return Ok(Some(run));
            }
        }
    }

    /// A run of NUL bytes as one bad input.
    fn nul_run(&mut self, arrival: Arrival, source: &Source) -> Gathered {
        let count = std::mem::take(&mut self.nul_bytes);
        let name = SourceId::new(&source.name);
        let refusal = Refusal {
            source: name.clone(),
            at: arrival.ingest,
            kind: "nul",
            reason: format!("{}: {count} NUL bytes in front of a line", self.path.display()),
            content: Vec::new(),
            length: count,
            reading: None,
        };
        Gathered {
            batch: Batch {
                source: name,
                arrival,
                readings: Vec::new(),
                refused: vec![refusal],
                advance: None,
                receipt: None,
            },
            lines: 0,
            faults: Vec::new(),
            through: self.gatherer.splitter.taken(),
        }
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
