//! The keys of a source of type `file`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeValue;

use super::agree::Claim;
use super::file::{Section, Wrong};
use super::on_disk::Wanted;
use super::page::Page;
use super::units::{DAY, ms, secs};
use super::value;

/// Files that are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSource {
    /// Which: an absolute path whose last part may have `*` and `?` in it.
    pub path: PathBuf,
    /// Whether files that are there at the very first start are read from their
    /// beginning; later ones always are.
    pub from_start: bool,
    /// How often they are looked at.
    pub poll: Duration,
    /// A last line without an end counts as complete once its file has not changed
    /// for so long.
    pub complete_after: Duration,
}

impl FileSource {
    /// The folder of the files.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// The pattern that their names match.
    pub fn pattern(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }
}

const STARTS: [(&str, bool); 2] = [("start", true), ("end", false)];

pub(super) fn file_source(section: &Section<'_>) -> Option<FileSource> {
    let path = section.require("path", "\"/var/log/plc/*.jsonl\"", pattern);
    let poll = value::duration(ms(10)..=secs(60));
    let complete = value::duration(secs(1)..=DAY);
    let from_start = section.read("from", true, value::one_of(&STARTS));
    let poll = section.read("poll", secs(1), poll);
    let complete_after = section.read("complete_after", secs(60), complete);
    if let Some(path) = &path {
        section.claim("path", Claim::follow(path));
        section.names("path", Wanted::InFolder, path);
    }
    Some(FileSource { path: path?, from_start, poll, complete_after })
}

fn pattern(value: &DeValue<'_>) -> Result<PathBuf, Wrong> {
    const FORM: &str = "write an absolute path, with * and ? in its last part only";
    let path = value::path(value)?;
    let wrong = |what: &str| Err(Wrong::new(format!("{path:?} {what}"), FORM));
    if !path.is_absolute() {
        return wrong("is not absolute");
    }
    if path.file_name().is_none() || value::text(value)?.ends_with('/') {
        return wrong("names a folder");
    }
    let folder = path.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
    if folder.contains(['*', '?']) {
        return wrong("has a wildcard in a folder");
    }
    Ok(path)
}

pub(super) fn print(page: &mut Page, file: &FileSource) {
    page.text("type", "file");
    page.path("path", Some(&file.path));
    page.text("from", super::page::word(&STARTS, file.from_start));
    page.duration("poll", file.poll);
    page.duration("complete_after", file.complete_after);
}

#[cfg(test)]
mod tests {
    use crate::config::SourceKind;
    use crate::config::tests::{check, parse};

    const SOURCE: &str = "[[source]]\nname = \"a\"\ntype = \"file\"";

    #[test]
    fn the_keys_are_read_and_printed() {
        let head = "[gateway]\nid = \"gw\"\ndata_dir = \"/d\"\n[[uplink]]\nurl = \"mqtt://b\"\n";
        let lines =
            "path = \"/var/log/*.lp\"\nfrom = \"end\"\nformat = \"influx\"\npoll = \"2s\"\n";
        let config = parse(&format!("{head}{SOURCE}\n{lines}"));
        assert_eq!(parse(&config.print()), config);
        let SourceKind::File(file) = &config.sources[0].kind else { panic!("not a file") };
        assert_eq!((file.folder().to_str(), file.pattern()), (Some("/var/log"), "*.lp"));
        assert!(!file.from_start && !config.sources[0].time.live);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let missing = "6: source.path: missing; write path = \"/var/log/plc/*.jsonl\"";
        check(SOURCE, &format!("t.toml:{missing}"));
        let form = "write an absolute path, with * and ? in its last part only";
        for (path, what) in [
            ("data.jsonl", "is not absolute"),
            ("/var/*/data.jsonl", "has a wildcard in a folder"),
            ("/var/log/", "names a folder"),
            ("/", "names a folder"),
        ] {
            let expected = format!("t.toml:9: source.path: {path:?} {what}; {form}");
            check(&format!("{SOURCE}\npath = \"{path}\""), &expected);
        }
        check(
            &format!("{SOURCE}\npath = \"/a\"\nfrom = \"middle\""),
            "t.toml:10: source.from: \"middle\" is not known; use start | end",
        );
        check(
            &format!("{SOURCE}\npath = \"/a\"\ncomplete_after = \"0s\""),
            "t.toml:10: source.complete_after: \"0s\" is out of range; use 1s to 1day",
        );
    }
}
