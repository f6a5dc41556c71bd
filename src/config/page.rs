//! How keys and values are written down as TOML.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::value::{duration_text, quoted, size_text};

/// Collects `key = value` lines.
#[derive(Default)]
pub(super) struct Page(String);

impl Page {
    pub(super) fn finish(self) -> String {
        self.0
    }

    pub(super) fn head(&mut self, head: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(head);
        self.0.push('\n');
    }

    pub(super) fn raw(&mut self, key: &str, value: impl std::fmt::Display) {
        self.0.push_str(&format!("{key} = {value}\n"));
    }

    pub(super) fn text(&mut self, key: &str, text: &str) {
        self.raw(key, quoted(text));
    }

    pub(super) fn path(&mut self, key: &str, path: Option<&PathBuf>) {
        let text = path.map(|path| path.display().to_string());
        self.text(key, &text.unwrap_or_default());
    }

    pub(super) fn list<'a>(&mut self, key: &str, texts: impl Iterator<Item = &'a str>) {
        let texts: Vec<String> = texts.map(quoted).collect();
        self.raw(key, format!("[{}]", texts.join(", ")));
    }

    pub(super) fn table<T>(
        &mut self,
        key: &str,
        table: &BTreeMap<String, T>,
        text: impl Fn(&T) -> &str,
    ) {
        let entry = |(name, value): (&String, &T)| {
            format!("{} = {}", quoted(name.as_str()), quoted(text(value)))
        };
        let entries: Vec<String> = table.iter().map(entry).collect();
        self.raw(key, format!("{{ {} }}", entries.join(", ")));
    }

    pub(super) fn duration(&mut self, key: &str, length: std::time::Duration) {
        self.text(key, &duration_text(length));
    }

    pub(super) fn size(&mut self, key: &str, bytes: u64) {
        self.text(key, &size_text(bytes));
    }
}

/// The word of a meaning; each has one.
pub(super) fn word<T: PartialEq>(words: &[(&'static str, T)], meaning: T) -> &'static str {
    words.iter().find(|(_, known)| *known == meaning).map_or("", |(word, _)| word)
}
