//! The part of PromQL that the dashboard and the alerts are written in, by its
//! grammar: what they read from where. Anything else is refused, by a panic.

use std::collections::BTreeSet;

/// What a query reads: metrics, each with the labels it is asked for by.
pub(crate) type Reads = Vec<(String, BTreeSet<String>)>;

/// How tightly an operator binds.
const OPERATORS: [(&str, u8); 14] = [
    ("or", 1),
    ("and", 2),
    ("unless", 2),
    ("==", 3),
    ("!=", 3),
    (">=", 3),
    ("<=", 3),
    (">", 3),
    ("<", 3),
    ("+", 4),
    ("-", 4),
    ("*", 5),
    ("/", 5),
    ("%", 5),
];
const AGGREGATES: [&str; 4] = ["sum", "max", "min", "count"];
/// Functions of a range of time.
const RANGED: [&str; 2] = ["rate", "increase"];

struct Parser<'q> {
    query: &'q str,
    rest: &'q str,
}

/// Reads a whole query.
pub(crate) fn parse(query: &str) -> Reads {
    let mut parser = Parser { query, rest: query };
    let reads = parser.expression(0);
    parser.space();
    assert_eq!(parser.rest, "", "what follows is not understood: {query}");
    reads
}

impl<'q> Parser<'q> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, token: &str) -> bool {
        self.space();
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    #[track_caller]
    fn must(&mut self, token: &str) {
        assert!(self.take(token), "{token:?} is missing before {:?}: {}", self.rest, self.query);
    }

    fn word(&mut self) -> &'q str {
        self.space();
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    /// Operands between operators that bind more tightly than `than`.
    fn expression(&mut self, than: u8) -> Reads {
        let mut reads = self.operand();
        loop {
            self.space();
            let next = OPERATORS.iter().find(|(token, _)| self.rest.starts_with(token));
            let Some((token, binds)) = next.filter(|(_, binds)| *binds > than) else {
                return reads;
            };
            self.must(token);
            let on = if self.take("on") { self.names() } else { BTreeSet::new() };
            reads.extend(self.expression(*binds));
            reads.iter_mut().for_each(|(_, labels)| labels.extend(on.iter().cloned()));
        }
    }

    /// `(a, b)`
    fn names(&mut self) -> BTreeSet<String> {
        self.must("(");
        let mut names = BTreeSet::new();
        while !self.take(")") {
            names.insert(self.word().to_owned());
            let _ = self.take(",");
        }
        names
    }

    fn operand(&mut self) -> Reads {
        self.space();
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            let end = self.rest.find(|c: char| !c.is_ascii_digit() && c != '.');
            let (number, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
            number.parse::<f64>().expect("a number");
            self.rest = rest;
            return Vec::new();
        }
        if self.take("(") {
            let reads = self.expression(0);
            self.must(")");
            return reads;
        }
        let word = self.word();
        assert_ne!(word, "", "an operand is missing before {:?}: {}", self.rest, self.query);
        if AGGREGATES.contains(&word) {
            self.must("by");
            let by = self.names();
            self.must("(");
            let mut reads = self.expression(0);
            self.must(")");
            reads.iter_mut().for_each(|(_, labels)| labels.extend(by.iter().cloned()));
            return reads;
        }
        if RANGED.contains(&word) {
            self.must("(");
            let name = self.word();
            let reads = self.selector(name);
            self.must("[");
            let range = self.word();
            assert!(range.ends_with(['s', 'm', 'h']) && range.len() > 1, "{range}");
            self.must("]");
            self.must(")");
            return reads;
        }
        if word == "histogram_quantile" {
            self.must("(");
            assert_eq!(self.expression(0).len(), 0, "a number first: {}", self.query);
            self.must(",");
            let reads = self.expression(0);
            assert!(reads.iter().all(|(name, by)| name.ends_with("_bucket") && by.contains("le")));
            self.must(")");
            return reads;
        }
        self.selector(word)
    }

    /// `name{label="value"}`
    fn selector(&mut self, name: &str) -> Reads {
        let mut labels = BTreeSet::new();
        if self.take("{") {
            while !self.take("}") {
                labels.insert(self.word().to_owned());
                assert!(["=~", "!~", "!=", "="].iter().any(|token| self.take(token)));
                self.must("\"");
                let (_, rest) = self.rest.split_once('"').expect("the end of a text");
                self.rest = rest;
                let _ = self.take(",");
            }
        }
        vec![(name.to_owned(), labels)]
    }
}

#[test]
fn queries_are_read_by_the_grammar() {
    let reads = |query: &str| -> Vec<String> {
        let reads = parse(query).into_iter();
        reads.map(|(name, labels)| format!("{name} {labels:?}")).collect()
    };
    assert_eq!(reads("a == 0 and on (i) b{x=\"1\"} < 2.5"), [r#"a {"i"}"#, r#"b {"i", "x"}"#]);
    let query = "histogram_quantile(0.9, sum by (le, u) (rate(a_bucket{i=~\"$i\"}[5m]))) > 1";
    assert_eq!(reads(query), [r#"a_bucket {"i", "le", "u"}"#]);
    for wrong in ["a ==", "rate(a)", "a b", "sum(a)", "a{b=1}", "(a", "frobnicate(a)"] {
        assert!(std::panic::catch_unwind(|| parse(wrong)).is_err(), "{wrong}");
    }
}
