//! A reader of the two text formats that is stricter than Prometheus: what it takes,
//! every reader takes.

use std::collections::{BTreeMap, BTreeSet};

/// Labels by name.
pub(crate) type Labels = BTreeMap<String, String>;

/// The samples of one name of a metric.
#[derive(Debug, Default)]
pub(crate) struct Family {
    pub(crate) kind: String,
    pub(crate) samples: Vec<(String, Labels, f64)>,
}

/// Everything that was said, by family.
#[derive(Debug, Default)]
pub(crate) struct Exposition(pub(crate) BTreeMap<String, Family>);

fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty() && text.bytes().all(is_inner) && !text.as_bytes()[0].is_ascii_digit()
}

/// `{a="b",c="d"}` and what follows it.
fn labels(text: &str) -> (Labels, &str) {
    let Some(mut rest) = text.strip_prefix('{') else { return (Labels::new(), text) };
    let mut found = Labels::new();
    while !rest.starts_with('}') {
        let (name, after) = rest.split_once("=\"").expect("a label");
        assert!(is_name(name), "{name}");
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().expect("the end of a label") {
                (at, '"') => break at,
                (_, '\\') => value.push(match chars.next().unwrap().1 {
                    'n' => '\n',
                    same @ ('"' | '\\') => same,
                    other => panic!("escaped {other}: {text}"),
                }),
                (_, other) => value.push(other),
            }
        };
        assert!(found.insert(name.to_owned(), value).is_none(), "{name} twice: {text}");
        rest = &after[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    (found, &rest[1..])
}

impl Exposition {
    /// Text format 0.0.4.
    pub(crate) fn plain(text: &str) -> Self {
        Self::read(text, false)
    }

    /// OpenMetrics 1.0.
    pub(crate) fn open(text: &str) -> Self {
        let body = text.strip_suffix("# EOF\n").expect("OpenMetrics ends with its end");
        Self::read(body, true)
    }

    fn read(text: &str, is_open: bool) -> Self {
        assert!(text.ends_with('\n') && !text.contains('\r'));
        let mut families: BTreeMap<String, Family> = BTreeMap::new();
        let mut current = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                let new = Family::default();
                assert!(families.insert(name.to_owned(), new).is_none(), "{name} comes twice");
                assert!(is_name(name) && help.len() > 5, "{line}");
                current = name.to_owned();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert_eq!(name, current, "the type follows the help");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                families.get_mut(name).unwrap().kind = kind.to_owned();
            } else {
                assert!(!line.starts_with('#'), "{line}");
                let end = line.find(['{', ' ']).unwrap();
                let (labels, value) = labels(&line[end..]);
                let value: f64 = value.strip_prefix(' ').unwrap().parse().expect("a number");
                let family = families.get_mut(&current).expect("a family before its samples");
                family.samples.push((line[..end].to_owned(), labels, value));
            }
        }
        let read = Self(families);
        read.0.iter().for_each(|(name, family)| family.check(name, is_open));
        read
    }

    /// The value of the sample with these labels.
    #[track_caller]
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.find(name, labels).unwrap_or_else(|| panic!("no {name} {labels:?}"))
    }

    pub(crate) fn find(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let wanted: Labels =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let samples = self.0.values().flat_map(|family| &family.samples);
        let found = samples.filter(|(one, labels, _)| one == name && *labels == wanted);
        found.map(|(_, _, value)| *value).next()
    }

    /// The names of samples, each with the labels it comes with.
    pub(crate) fn names(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, labels, _) in self.0.values().flat_map(|family| &family.samples) {
            names.entry(name.clone()).or_default().extend(labels.keys().cloned());
        }
        names
    }

    /// How many series there are.
    pub(crate) fn series(&self) -> usize {
        self.0.values().map(|family| family.samples.len()).sum()
    }
}

impl Family {
    fn check(&self, name: &str, is_open: bool) {
        let mut seen = BTreeSet::new();
        let mut keys = BTreeSet::new();
        for (sample, labels, value) in &self.samples {
            assert!(seen.insert((sample, labels)), "{sample} {labels:?} comes twice");
            let suffix = sample.strip_prefix(name).unwrap_or_else(|| panic!("{sample} in {name}"));
            let suffixes: &[&str] = match (self.kind.as_str(), is_open) {
                ("counter", true) => &["_total"],
                ("histogram", _) => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            assert!(suffixes.contains(&suffix), "{sample} in the {} {name}", self.kind);
            if self.kind == "counter" {
                assert!(sample.ends_with("_total"), "{sample}");
            }
            if self.kind != "gauge" && suffix != "_sum" {
                assert!(*value >= 0.0 && value.fract() == 0.0, "{sample} counts {value}");
            }
            assert_eq!(labels.contains_key("le"), suffix == "_bucket", "{sample} {labels:?}");
            let own = labels.keys().filter(|key| *key != "le").cloned();
            keys.insert(own.collect::<Vec<_>>());
        }
        assert!(keys.len() <= 1, "{name}: {keys:?}");
        if self.kind == "histogram" {
            self.check_buckets(name);
        }
    }

    /// They count upwards to the count.
    fn check_buckets(&self, name: &str) {
        let mut buckets: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
        for (sample, labels, value) in &self.samples {
            let mut own = labels.clone();
            if let Some(le) = own.remove("le").filter(|_| sample.ends_with("_bucket")) {
                buckets.entry(own).or_default().push((le.parse().unwrap(), *value));
            }
        }
        for (own, buckets) in buckets {
            assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name} {own:?}");
            let (le, all) = buckets.last().unwrap();
            let of = |suffix: &str| {
                let sample = format!("{name}{suffix}");
                let mut samples = self.samples.iter();
                samples.find(|one| one.0 == sample && one.1 == own).expect("sum and count").2
            };
            assert_eq!((*le, *all), (f64::INFINITY, of("_count")), "{name} {own:?}");
            assert!(of("_sum").is_finite());
        }
    }
}
