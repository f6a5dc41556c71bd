//! MQTT topic filters, and names made of what their wildcards stand for.

use std::fmt;

use super::template::{Piece, pieces};

/// A topic filter: `plant/+/+`, `readers/#`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(String);

impl Filter {
    /// From its text.
    ///
    /// # Errors
    /// Why it is none (MQTT 5, chapter 4.7).
    pub fn parse(text: &str) -> Result<Self, String> {
        if !(1..=1024).contains(&text.len()) {
            return Err(format!("has {} bytes, not 1 to 1024", text.len()));
        }
        if let Some(odd) = text.chars().find(|c| c.is_control()) {
            return Err(format!("has the character {odd:?}"));
        }
        if text.starts_with("$share/") {
            return Err("is a shared subscription, which would split the readings".to_owned());
        }
        let levels: Vec<&str> = text.split('/').collect();
        for (at, level) in levels.iter().enumerate() {
            let is_plain = !level.contains(['+', '#']);
            if *level == "#" && at + 1 < levels.len() {
                return Err("has a # before its end".to_owned());
            }
            if !is_plain && *level != "+" && *level != "#" {
                return Err(format!("has the level {level:?}: a wildcard stands alone"));
            }
        }
        Ok(Self(text.to_owned()))
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How many wildcards it has.
    pub fn wildcards(&self) -> usize {
        self.0.split('/').filter(|level| matches!(*level, "+" | "#")).count()
    }

    /// What the wildcards stand for in a topic, in their order: of `+` its level, of
    /// `#` the rest, which may be several levels or none. `None` where the topic
    /// does not match.
    pub fn captures<'t>(&self, topic: &'t str) -> Option<Vec<&'t str>> {
        let mut captures = Vec::new();
        // Levels not yet matched; `None` after the last.
        let mut rest = Some(topic);
        for (at, level) in self.0.split('/').enumerate() {
            // Topics of the broker itself are never meant by a wildcard.
            if at == 0 && matches!(level, "+" | "#") && topic.starts_with('$') {
                return None;
            }
            if level == "#" {
                captures.push(rest.unwrap_or_default());
                return Some(captures);
            }
            let (first, after) = match rest?.split_once('/') {
                Some((first, after)) => (first, Some(after)),
                None => (rest?, None),
            };
            match level {
                "+" => captures.push(first),
                fixed if fixed != first => return None,
                _ => {}
            }
            rest = after;
        }
        rest.is_none().then_some(captures)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name made of a topic: `{1}` is what the first wildcard stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameTemplate {
    text: String,
    parts: Vec<NamePart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum NamePart {
    Text(String),
    /// A wildcard, counted from 0.
    Wildcard(usize),
}

impl NameTemplate {
    /// From its text, for a filter with so many wildcards.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, wildcards: usize) -> Result<Self, String> {
        let part = |piece| match piece {
            Piece::Text(text) => Ok(NamePart::Text(text.to_owned())),
            Piece::Key(key) => match key.parse().ok() {
                Some(number) if (1..=wildcards).contains(&number) => {
                    Ok(NamePart::Wildcard(number - 1))
                }
                _ if wildcards == 0 => {
                    Err(format!("{{{key}}} is not known: the filter has no wildcard"))
                }
                _ => Err(format!("{{{key}}} is not known: the filter has {wildcards} wildcards")),
            },
        };
        let parts = pieces(text)?.into_iter().map(part).collect::<Result<_, _>>()?;
        Ok(Self { text: text.to_owned(), parts })
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name, from what the wildcards of the filter stand for.
    pub fn name(&self, captures: &[&str]) -> String {
        let part = |part: &NamePart| match part {
            NamePart::Text(text) => text.clone(),
            NamePart::Wildcard(at) => captures.get(*at).copied().unwrap_or_default().to_owned(),
        };
        self.parts.iter().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captures(filter: &str, topic: &str) -> Option<Vec<String>> {
        let filter = Filter::parse(filter).unwrap();
        let captures = filter.captures(topic)?;
        Some(captures.into_iter().map(str::to_owned).collect())
    }

    fn all(texts: &[&str]) -> Option<Vec<String>> {
        Some(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn wildcards_stand_for_what_the_standard_says() {
        for (filter, topic, expected) in [
            ("a/b", "a/b", all(&[])),
            ("a/b", "a/b/c", None),
            ("a/b/c", "a/b", None),
            ("plant/+/+", "plant/pump-7/kpa", all(&["pump-7", "kpa"])),
            ("plant/+/+", "plant/pump-7", None),
            ("plant/+", "plant/", all(&[""])),
            ("+", "/a", None),
            ("+/+", "/a", all(&["", "a"])),
            ("a/#", "a/b/c", all(&["b/c"])),
            ("a/#", "a", all(&[""])),
            ("a/#", "ab", None),
            ("+/b/#", "a/b/c/d", all(&["a", "c/d"])),
            ("#", "a/b", all(&["a/b"])),
            ("#", "$SYS/uptime", None),
            ("+/uptime", "$SYS/uptime", None),
            ("$SYS/#", "$SYS/uptime", all(&["uptime"])),
        ] {
            assert_eq!(captures(filter, topic), expected, "{filter} {topic}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for (text, expected) in [
            ("", "has 0 bytes, not 1 to 1024"),
            ("a/#/b", "has a # before its end"),
            ("a/b+", "has the level \"b+\": a wildcard stands alone"),
            ("a#", "has the level \"a#\": a wildcard stands alone"),
            ("a\n", "has the character '\\n'"),
            ("$share/g/a", "is a shared subscription, which would split the readings"),
        ] {
            assert_eq!(Filter::parse(text).unwrap_err(), expected);
        }
    }

    #[test]
    fn names_are_made_of_text_and_wildcards() {
        let name = |text: &str| {
            let template = NameTemplate::parse(text, 2).unwrap();
            template.name(&["pump-7", "kpa"])
        };
        assert_eq!(name("{1}"), "pump-7");
        assert_eq!(name("hall/{1}.{2}!"), "hall/pump-7.kpa!");
        assert_eq!(name("fixed"), "fixed");
        for (text, wildcards, expected) in [
            ("{3}", 2, "{3} is not known: the filter has 2 wildcards"),
            ("{0}", 2, "{0} is not known: the filter has 2 wildcards"),
            ("{x}", 0, "{x} is not known: the filter has no wildcard"),
            ("{1", 1, "has a brace without its partner"),
        ] {
            assert_eq!(NameTemplate::parse(text, wildcards).unwrap_err(), expected);
        }
    }
}
