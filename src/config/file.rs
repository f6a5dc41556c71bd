//! The TOML as written: a spanned tree that is asked for its keys one by one.
//!
//! What was asked for is what is known; every other key is refused by name. A
//! wrong value is noted and its default stands in for it, so that one pass finds
//! every problem of the file.

use std::cell::RefCell;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::agree::{self, Claim, Claimed};
use super::on_disk::{Named, Wanted};
use super::{Credentials, Problem, hints};

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
    /// What is good, yet hardly meant.
    warnings: RefCell<Vec<Problem>>,
    /// What its parts want for themselves.
    claims: RefCell<Vec<Claimed>>,
    /// What must be there on this machine.
    named: RefCell<Vec<Named>>,
    /// Keys that were asked for and not written: their defaults apply.
    absent: RefCell<Vec<String>>,
}

/// What was found in a text.
pub(super) struct Findings {
    /// What is wrong, in the order of the lines.
    pub(super) problems: Vec<Problem>,
    /// What is good, yet hardly meant; in the order of the lines.
    pub(super) warnings: Vec<Problem>,
    /// What must be there on this machine.
    pub(super) named: Vec<Named>,
    /// Keys that are not written.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test holds the sample against it"))]
    pub(super) absent: Vec<String>,
}

impl<'t> Book<'t> {
    pub(super) fn new(text: &'t str, credentials: &'t Credentials) -> Self {
        Self {
            text,
            credentials,
            problems: RefCell::default(),
            warnings: RefCell::default(),
            claims: RefCell::default(),
            named: RefCell::default(),
            absent: RefCell::default(),
        }
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
            let there = error.span().and_then(|span| self.text.get(span)).unwrap_or_default();
            let wrong = match what.as_str() {
                "duplicate key" if !there.is_empty() => {
                    Wrong::new(format!("the key {there} is there twice"), "leave one")
                }
                _ => Wrong::new(what, "see https://toml.io"),
            };
            self.note(line, "syntax", wrong);
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

    /// What was found, once all is read.
    pub(super) fn close(self) -> Findings {
        for (line, key, wrong) in agree::contradictions(self.claims.take()) {
            self.note(line, &key, wrong);
        }
        let in_order = |list: RefCell<Vec<Problem>>| {
            let mut list = list.into_inner();
            list.sort_by_key(|problem| problem.line);
            list
        };
        Findings {
            problems: in_order(self.problems),
            warnings: in_order(self.warnings),
            named: self.named.into_inner(),
            absent: self.absent.into_inner(),
        }
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

    /// Notes that a key is good and yet hardly meant so.
    pub(super) fn warn(&self, key: &str, what: impl Into<String>, fix: impl Into<String>) {
        let (line, key) = (Some(self.line_of(key)), self.path_of(key));
        let warning = Problem { line, key, what: what.into(), fix: fix.into() };
        self.book.warnings.borrow_mut().push(warning);
    }

    /// Whether something is wrong with this key itself.
    pub(super) fn is_noted(&self, key: &str) -> bool {
        let path = self.path_of(key);
        let line = Some(self.line_of(key));
        let problems = self.book.problems.borrow();
        problems.iter().any(|problem| problem.key == path && problem.line == line)
    }

    /// Claims what this key says: nobody else may have it.
    pub(super) fn claim(&self, key: &str, claim: Claim) {
        self.claimed(key, claim, true);
    }

    /// Claims what follows of this key and cannot be chosen.
    pub(super) fn claim_fixed(&self, key: &str, claim: Claim) {
        self.claimed(key, claim, false);
    }

    fn claimed(&self, key: &str, claim: Claim, is_free: bool) {
        let (line, path, has_key) = (self.line_of(key), self.path_of(key), self.has(key));
        let place = match (has_key, self.table) {
            (true, _) => format!("{path} at line {line}"),
            (false, Some(_)) => format!("the default of {path} at line {line}"),
            (false, None) => format!("the default of {path}"),
        };
        let is_written = has_key && is_free;
        let claimed = Claimed { claim, key: path, line, place, is_written };
        self.book.claims.borrow_mut().push(claimed);
    }

    /// Says what this key names on this machine.
    pub(super) fn names(&self, key: &str, wanted: Wanted, path: &std::path::Path) {
        let (line, path) = (self.line_of(key), path.to_owned());
        let named = Named { wanted, path, key: self.path_of(key), line };
        self.book.named.borrow_mut().push(named);
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
        self.inner(self.path_of(key), self.line_of(key), table)
    }

    /// The tables of an array of tables. Those within another section are counted from
    /// 0: many may stand on one line.
    pub(super) fn tables(&self, key: &'static str) -> Vec<Section<'a>> {
        let Some(value) = self.ask(key) else { return Vec::new() };
        let path = self.path_of(key);
        let mut sections = Vec::new();
        let mut is_wrong = false;
        match value.get_ref() {
            DeValue::Array(array) => {
                for (at, element) in array.iter().enumerate() {
                    let line = self.book.line_at(element.span().start);
                    let is_top = self.path.is_empty();
                    let path = if is_top { path.clone() } else { format!("{path}[{at}]") };
                    match element.get_ref().as_table() {
                        Some(table) => sections.push(self.inner(path, line, Some(table))),
                        None => is_wrong = true,
                    }
                }
            }
            // A pair of brackets was forgotten: what is in it is checked all the same.
            DeValue::Table(table) => {
                sections.push(self.inner(path.clone(), self.line_of(key), Some(table)));
                is_wrong = true;
            }
            _ => is_wrong = true,
        }
        if is_wrong {
            self.problem(key, "is not a list of tables", format!("write [[{path}]]"));
        }
        sections
    }

    /// The `name` of every table of an array of tables, where it is a text.
    pub(super) fn names_of(&self, key: &str) -> Vec<&'a str> {
        let written = self.entries().find(|(name, _)| name.get_ref() == key);
        let value = written.map(|(_, value)| value.get_ref());
        let array = value.and_then(|value| value.as_array());
        let elements = array.into_iter().flat_map(|array| array.iter());
        let tables = elements.filter_map(|element| element.get_ref().as_table());
        let lone = value.and_then(|value| value.as_table());
        tables.chain(lone).filter_map(|table| table.get("name")?.get_ref().as_str()).collect()
    }

    fn inner(&self, path: String, line: usize, table: Option<&'a DeTable<'a>>) -> Section<'a> {
        Section { book: self.book, path, line, table, asked: RefCell::default() }
    }

    /// Refuses every key that nobody asked for.
    pub(super) fn refuse_unknown(&self) {
        let asked = self.asked.borrow();
        for (name, _) in self.entries() {
            let name = name.get_ref().as_ref();
            if !asked.contains(&name) {
                self.problem(name, "unknown key", hints::of_key(name, &asked));
            }
        }
    }
}
