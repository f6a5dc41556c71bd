//! JSON lines appended to a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::queue::Queue;
use super::{Counts, Pauses};

/// Results in one write.
const BATCH_MAX: usize = 256;

/// The file, and lines on their way into it. After an error it goes on where the
/// disk stopped, so that no line is torn or repeated in one file. One that the end of
/// an earlier process tore stays alone on its line.
#[derive(Debug)]
struct Writer {
    path: PathBuf,
    /// With device and inode: a file that was moved away is not ours any more.
    open: Option<(File, (u64, u64))>,
    lines: Vec<u8>,
    /// So many bytes of `lines` are in the file.
    done: usize,
}

impl Writer {
    fn new(path: PathBuf) -> Self {
        Self { path, open: None, lines: Vec::new(), done: 0 }
    }

    /// Writes what is left of `lines`.
    fn write(&mut self) -> io::Result<()> {
        self.reopen()?;
        let Some((file, _)) = &mut self.open else { return Ok(()) };
        while self.done < self.lines.len() {
            match file.write(&self.lines[self.done..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.done += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.lines.clear();
        self.done = 0;
        Ok(())
    }

    /// Sees to it that the open file is the one of that name.
    fn reopen(&mut self) -> io::Result<()> {
        let name = |facts: &std::fs::Metadata| (facts.dev(), facts.ino());
        let there = std::fs::metadata(&self.path).ok().map(|facts| name(&facts));
        if self.open.as_ref().is_some_and(|(_, ours)| Some(*ours) == there) {
            return Ok(());
        }
        let mut file = OpenOptions::new().append(true).create(true).open(&self.path)?;
        let facts = file.metadata()?;
        let ours = name(&facts);
        if facts.is_file() && ends_torn(&self.path, facts.len())? {
            file.write_all(b"\n")?;
        }
        self.open = Some((file, ours));
        // A line that was begun in the old file is whole in the new one.
        let begun = self.lines[..self.done].iter().rposition(|byte| *byte == b'\n');
        self.done = begun.map_or(0, |end| end + 1);
        Ok(())
    }
}

/// Whether the last line has no end.
fn ends_torn(path: &Path, length: u64) -> io::Result<bool> {
    let Some(last) = length.checked_sub(1) else { return Ok(false) };
    let mut byte = [0];
    File::open(path)?.read_exact_at(&mut byte, last)?;
    Ok(byte != *b"\n")
}

pub(super) async fn run(path: PathBuf, queue: Arc<Queue>, counts: Arc<Counts>) {
    let what = format!("jsonl {}", path.display());
    let mut writer = Writer::new(path);
    let mut pauses = Pauses::default();
    while let Some(items) = queue.take(BATCH_MAX).await {
        items.iter().for_each(|item| writer.lines.extend_from_slice(item.line()));
        loop {
            // The disk may take its time; this is not the place to wait for it.
            let written = tokio::task::spawn_blocking(move || {
                let written = writer.write();
                (writer, written)
            });
            let Ok((back, written)) = written.await else { return };
            writer = back;
            let Err(error) = written else { break };
            counts.failed(&what, &error);
            if queue.is_closed() {
                queue.count_dropped(items.len() as u64);
                return;
            }
            tokio::time::sleep(pauses.next()).await;
        }
        pauses.reset();
        counts.recovered(&what);
        counts.wrote(items.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_moved_away_is_begun_anew_with_a_whole_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.jsonl");
        let mut writer = Writer::new(path.clone());
        writer.lines.extend_from_slice(b"one\n");
        writer.write().unwrap();
        std::fs::rename(&path, dir.path().join("results.jsonl.1")).unwrap();
        // As after a disk that took a part only.
        writer.lines.extend_from_slice(b"two\nthree\n");
        writer.done = 6;
        writer.write().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"three\n");
        writer.lines.extend_from_slice(b"four\n");
        writer.write().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"three\nfour\n");
    }

    #[test]
    fn a_line_that_a_power_cut_tore_is_not_glued_to_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.jsonl");
        for (there, expected) in
            [("", "new\n"), ("old\n", "old\nnew\n"), ("old\n{\"to", "old\n{\"to\nnew\n")]
        {
            std::fs::write(&path, there).unwrap();
            let mut writer = Writer::new(path.clone());
            writer.lines.extend_from_slice(b"new\n");
            writer.write().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        }
    }

    #[test]
    fn after_an_error_it_goes_on_where_it_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("later");
        let mut writer = Writer::new(folder.join("results.jsonl"));
        writer.lines.extend_from_slice(b"one\n");
        assert_eq!(writer.write().unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::create_dir(&folder).unwrap();
        writer.write().unwrap();
        assert_eq!(std::fs::read(folder.join("results.jsonl")).unwrap(), b"one\n");
        assert_eq!(writer.lines, b"");
    }
}
