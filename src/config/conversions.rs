//! What a source changes of the names, units and qualities it is told.

use std::collections::BTreeMap;

use toml::de::DeValue;

use super::file::{Section, Wrong};
use super::page::{Page, word};
use super::value;
use crate::core::limits::NAME_BYTES_MAX;
use crate::core::reading::Quality;

/// What a source changes of what it is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversions {
    /// Properties by the name that comes: their name from here on.
    pub rename: BTreeMap<String, String>,
    /// Properties by their name from here on: their unit, whatever the line says.
    pub unit: BTreeMap<String, String>,
    /// What the source's own words for quality mean.
    pub quality: BTreeMap<String, Quality>,
}

const QUALITIES: [(&str, Quality); 3] =
    [("good", Quality::Good), ("uncertain", Quality::Uncertain), ("bad", Quality::Bad)];

/// `has_quality`: its lines can say one.
pub(super) fn conversions(section: &Section<'_>, has_quality: bool) -> Conversions {
    let mut conversions = Conversions {
        rename: section.read("rename", BTreeMap::new(), |value| names(value, name)),
        unit: section.read("unit", BTreeMap::new(), |value| names(value, name)),
        quality: BTreeMap::new(),
    };
    let mut news: Vec<&String> = conversions.rename.values().collect();
    news.sort_unstable();
    if let Some(pair) = news.windows(2).find(|pair| pair[0] == pair[1]) {
        let what = format!("gives two properties the name {:?}", pair[0]);
        section.problem("rename", what, "give each its own");
    }
    if has_quality {
        let words = |value: &DeValue<'_>| names(value, value::one_of(&QUALITIES));
        conversions.quality = section.read("quality", BTreeMap::new(), words);
    } else {
        section.out_of_place("quality", "is for JSON only: points have none", "remove it");
    }
    conversions
}

pub(super) fn name(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = value::text(value)?;
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
        let what = format!("has {} bytes", name.len());
        return Err(Wrong::new(what, format!("use 1 to {NAME_BYTES_MAX}")));
    }
    Ok(name)
}

/// A table of names, each with a value.
pub(super) fn names<T>(
    value: &DeValue<'_>,
    parse: impl Fn(&DeValue<'_>) -> Result<T, Wrong>,
) -> Result<BTreeMap<String, T>, Wrong> {
    let Some(table) = value.as_table() else {
        return Err(Wrong::new("is not a table", "write { name = VALUE, \"other name\" = VALUE }"));
    };
    let entry =
        |(key, value): (&toml::Spanned<std::borrow::Cow<'_, str>>, &toml::Spanned<DeValue<'_>>)| {
            let key = key.get_ref().to_string();
            match parse(value.get_ref()) {
                Ok(value) => Ok((key, value)),
                Err(Wrong { what, fix }) => Err(Wrong::new(format!("of {key:?} {what}"), fix)),
            }
        };
    table.iter().map(entry).collect()
}

pub(super) fn print(page: &mut Page, conversions: &Conversions, has_quality: bool) {
    page.table("rename", &conversions.rename, |name| name);
    page.table("unit", &conversions.unit, |name| name);
    if has_quality {
        page.table("quality", &conversions.quality, |quality| word(&QUALITIES, *quality));
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{check, parse};
    use crate::core::reading::Quality;

    const SOURCE: &str = "[[source]]\nname = \"a\"\ntype = \"stdin\"";

    #[test]
    fn the_tables_are_read_and_printed() {
        let head = "[gateway]\nid = \"gw\"\ndata_dir = \"/d\"\n[[uplink]]\nurl = \"mqtt://b\"\n";
        let lines = "rename = { p = \"pressure\", \"a b\" = \"c \\\" d\" }\n\
                     unit = { pressure = \"kPa\" }\nquality = { OK = \"good\", \"?\" = \"uncertain\" }\n";
        let config = parse(&format!("{head}{SOURCE}\n{lines}"));
        assert_eq!(parse(&config.print()), config);
        let conversions = &config.sources[0].conversions;
        assert_eq!(conversions.rename["a b"], "c \" d");
        assert_eq!(conversions.quality["?"], Quality::Uncertain);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, expected) in [
            (
                "rename = \"a\"",
                "rename: is not a table; write { name = VALUE, \"other name\" = VALUE }",
            ),
            ("rename = { a = 1 }", "rename: of \"a\" is an integer, not a text; put it in quotes"),
            ("unit = { a = \"\" }", "unit: of \"a\" has 0 bytes; use 1 to 512"),
            (
                "rename = { a = \"c\", b = \"c\" }",
                "rename: gives two properties the name \"c\"; give each its own",
            ),
            (
                "quality = { OK = \"fine\" }",
                "quality: of \"OK\" \"fine\" is not known; use good | uncertain | bad",
            ),
        ] {
            check(&format!("{SOURCE}\n{line}"), &format!("t.toml:9: source.{expected}"));
        }
        check(
            &format!("{SOURCE}\nformat = \"influx\"\nquality = {{ OK = \"good\" }}"),
            "t.toml:10: source.quality: is for JSON only: points have none; remove it",
        );
    }
}
