//! The TOML as written: a spanned tree that is asked for its keys one by one.
//!
//! What was asked for is what is known; every other key is refused by name. A
//! wrong value is noted and its default stands in for it, so that one pass finds
//! every problem of the file.

use std::cell::RefCell;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Credentials, Problem, Problems};

/// A value that cannot be used: what is wrong with it, and what to write.
pub(super) struct Wrong {
    pub(super) what: String,
    pub(super) fix: String,
}

impl Wrong {
    pub(super) fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), fix: fix.into() }
    }
}

/// Notes what is found while a file is read.
pub(super) struct Book<'t> {
    text: &'t str,
    credentials: &'t Credentials,
    problems: RefCell<Vec<Problem>>,
    /// Keys that were asked for and not written: their defaults apply.
    absent: RefCell<Vec<String>>,
}

impl<'t> Book<'t> {
    pub(super) fn new(text: &'t str, credentials: &'t Credentials) -> Self {
        Self { text, credentials, problems: RefCell::default(), absent: RefCell::default() }
    }

    fn line_at(&self, offset: usize) -> usize {
        1 + self.text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count()
    }

    /// Parses the text; syntax errors are noted, all of them.
    pub(super) fn syntax(&self) -> Spanned<DeTable<'t>> {
        let (tree, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            let line = self.line_at(error.span().map_or(0, |span| span.start));
            let what = error.message().trim().replace('\n', ", ");
            self.note(line, "syntax", Wrong::new(what, "see https://toml.io"));
        }
        tree
    }

    fn note(&self, line: usize, key: &str, wrong: Wrong) {
        let Wrong { what, fix } = wrong;
        let problem = Problem { line: Some(line), key: key.to_owned(), what, fix };
        self.problems.borrow_mut().push(problem);
    }

    /// Whether nothing was found so far.
    pub(super) fn is_clean(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    /// What was found, in the order of the lines, and the keys not written.
    pub(super) fn close(self, file: &str) -> (Problems, Vec<String>) {
        let mut list = self.problems.into_inner();
        list.sort_by_key(|problem| problem.line);
        (Problems { file: file.to_owned(), list }, self.absent.into_inner())
    }
}

/// One table of the file; an absent one answers with nothing.
pub(super) struct Section<'a> {
    book: &'a Book<'a>,
    path: String,
    line: usize,
    table: Option<&'a DeTable<'a>>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Section<'a> {
    pub(super) fn root(book: &'a Book<'a>, tree: &'a DeTable<'a>) -> Self {
        Self { book, path: String::new(), line: 1, table: Some(tree), asked: RefCell::default() }
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The line of a key; of the section where the key is not written.
    fn line_of(&self, key: &str) -> usize {
        let written = self.entries().find(|(name, _)| name.get_ref() == key);
        written.map_or(self.line, |(name, _)| self.book.line_at(name.span().start))
    }

    /// What `credential:NAME` stands for.
    pub(super) fn credentials(&self) -> &'a Credentials {
        self.book.credentials
    }

    /// Where it begins.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// Whether a key is written.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries().any(|(name, _)| name.get_ref() == key)
    }

    fn entries(
        &self,
    ) -> impl Iterator<Item = (&'a Spanned<std::borrow::Cow<'a, str>>, &'a Spanned<DeValue<'a>>)>
    {
        self.table.into_iter().flat_map(|table| table.iter())
    }

    /// Notes a problem of this key.
    pub(super) fn problem(&self, key: &str, what: impl Into<String>, fix: impl Into<String>) {
        self.book.note(self.line_of(key), &self.path_of(key), Wrong::new(what, fix));
    }

    fn ask(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.asked.borrow_mut().push(key);
        let found = self.entries().find(|(name, _)| name.get_ref() == key);
        if found.is_none() {
            self.book.absent.borrow_mut().push(self.path_of(key));
        }
        found.map(|(_, value)| value)
    }

    /// The value of a key, or `default` where it is not written or is wrong.
    pub(super) fn read<T>(
        &self,
        key: &'static str,
        default: T,
        parse: impl FnOnce(&DeValue<'_>) -> Result<T, Wrong>,
    ) -> T {
        match self.ask(key).map(|value| parse(value.get_ref())) {
            None => default,
            Some(Ok(value)) => value,
            Some(Err(Wrong { what, fix })) => {
                self.problem(key, what, fix);
                default
            }
        }
    }

    /// The value of a key that must be there; `None` after a problem.
    pub(super) fn require<T>(
        &self,
        key: &'static str,
        example: &str,
        parse: impl FnOnce(&DeValue<'_>) -> Result<T, Wrong>,
    ) -> Option<T> {
        let value = self.read(key, None, |value| parse(value).map(Some));
        if !self.has(key) {
            self.problem(key, "missing", format!("write {key} = {example}"));
        }
        value
    }

    /// Refuses a key that is known, yet not together with what else is written.
    pub(super) fn out_of_place(
        &self,
        key: &'static str,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.asked.borrow_mut().push(key);
        if self.has(key) {
            self.problem(key, what, fix);
        }
    }

    /// A table within this one.
    pub(super) fn table(&self, key: &'static str) -> Section<'a> {
        let found = self.ask(key).map(|value| value.get_ref());
        let table = found.and_then(|value| value.as_table());
        if found.is_some() && table.is_none() {
            self.problem(key, "is not a table", format!("write [{}]", self.path_of(key)));
        }
        self.inner(key, self.line_of(key), table)
    }

    /// The tables of an array of tables.
    pub(super) fn tables(&self, key: &'static str) -> Vec<Section<'a>> {
        let Some(value) = self.ask(key) else { return Vec::new() };
        let array = value.get_ref().as_array();
        let elements = array.into_iter().flat_map(|array| array.iter());
        let mut sections = Vec::new();
        let mut is_wrong = array.is_none();
        for element in elements {
            let line = self.book.line_at(element.span().start);
            match element.get_ref().as_table() {
                Some(table) => sections.push(self.inner(key, line, Some(table))),
                None => is_wrong = true,
            }
        }
        if is_wrong {
            let path = self.path_of(key);
            self.problem(key, "is not a list of tables", format!("write [[{path}]]"));
        }
        sections
    }

    /// The `name` of every table of an array of tables, where it is a text.
    pub(super) fn names_of(&self, key: &str) -> Vec<&'a str> {
        let written = self.entries().find(|(name, _)| name.get_ref() == key);
        let array = written.and_then(|(_, value)| value.get_ref().as_array());
        let elements = array.into_iter().flat_map(|array| array.iter());
        let tables = elements.filter_map(|element| element.get_ref().as_table());
        tables.filter_map(|table| table.get("name")?.get_ref().as_str()).collect()
    }

    fn inner(&self, key: &str, line: usize, table: Option<&'a DeTable<'a>>) -> Section<'a> {
        let path = self.path_of(key);
        Section { book: self.book, path, line, table, asked: RefCell::default() }
    }

    /// Refuses every key that nobody asked for.
    pub(super) fn refuse_unknown(&self) {
        let asked = self.asked.borrow();
        for (name, _) in self.entries() {
            let name = name.get_ref().as_ref();
            if asked.contains(&name) {
                continue;
            }
            let near = asked
                .iter()
                .map(|known| (strsim::damerau_levenshtein(known, name), known))
                .filter(|(distance, known)| *distance <= 1 + known.len() / 3)
                .min();
            let fix = match near {
                Some((_, known)) => format!("did you mean {known}?"),
                None => format!("known here: {}", asked.join(", ")),
            };
            self.problem(name, "unknown key", fix);
        }
    }
}
