//! `accumulate` and `deadband` of a source.

use toml::de::DeValue;

use super::conversions::{name, names};
use super::file::{Section, Wrong};
use super::page::Page;
use super::units::{YEAR, ms};
use super::value::{self, duration_text, quoted};
use super::{Source, SourceKind};
use crate::core::time::Span;
use crate::core::values::ValueRules;
use crate::core::values::deadband::{Band, Rule};
use crate::core::window::glob;

const FORM: &str = "write a number, or { percent = 1, max_silence = \"5m\" }";

pub(super) fn read(section: &Section<'_>) -> ValueRules {
    let accumulate = section.read("accumulate", Vec::new(), properties);
    let deadbands = section.read("deadband", Default::default(), |value| names(value, band));
    let mut rules: Vec<Rule> = deadbands
        .into_iter()
        .map(|(property, (band, max_silence))| Rule { entity: None, property, band, max_silence })
        .collect();
    if let Some(both) = rules.iter().find(|rule| accumulate.contains(&rule.property)) {
        let what = format!("is of no effect on {:?}: it is accumulated", both.property);
        section.problem("deadband", what, "leave it out of one of the two");
    }
    // A name counts before a pattern, a longer pattern before a shorter one.
    let rank = |rule: &Rule| (glob::is_pattern(&rule.property), usize::MAX - rule.property.len());
    rules.sort_by(|a, b| (rank(a), &a.property).cmp(&(rank(b), &b.property)));
    ValueRules { accumulate, deadbands: rules }
}

/// What the agent needs to know of it: registers have deadbands of their own.
pub(super) fn of_source(source: &Source) -> ValueRules {
    let mut rules = source.values.clone();
    if let SourceKind::Modbus(modbus) = &source.kind {
        let own = modbus.registers.iter().filter(|register| register.deadband > 0.0);
        let own = own.map(|register| Rule {
            entity: register.entity.clone().or_else(|| source.entity.clone()),
            property: register.property.clone(),
            band: Band::Absolute(register.deadband),
            max_silence: None,
        });
        rules.deadbands.splice(0..0, own);
    }
    rules
}

fn properties(value: &DeValue<'_>) -> Result<Vec<String>, Wrong> {
    let Some(array) = value.as_array() else {
        return Err(Wrong::new("is not a list", "write [\"PROPERTY\", \"PROPERTY\"]"));
    };
    let mut found: Vec<String> = Vec::new();
    for element in array.iter() {
        let property = name(element.get_ref()).map_err(|wrong| {
            Wrong::new(format!("has an element that {}", wrong.what), wrong.fix)
        })?;
        if found.contains(&property) {
            return Err(Wrong::new(format!("names {property:?} twice"), "leave one"));
        }
        found.push(property);
    }
    Ok(found)
}

fn band(value: &DeValue<'_>) -> Result<(Band, Option<Span>), Wrong> {
    let Some(table) = value.as_table() else {
        return match value {
            DeValue::Integer(_) | DeValue::Float(_) => Ok((Band::Absolute(above_0(value)?), None)),
            _ => Err(Wrong::new("is neither a number nor a table", FORM)),
        };
    };
    let (mut bands, mut max_silence) = (Vec::new(), None);
    for (key, value) in table.iter() {
        let (key, value) = (key.get_ref().as_ref(), value.get_ref());
        let in_key = |wrong: Wrong| Wrong::new(format!("has {key}: {}", wrong.what), wrong.fix);
        match key {
            "absolute" => bands.push(Band::Absolute(above_0(value).map_err(in_key)?)),
            "percent" => {
                let percent = value::number(1e-6..=100.0)(value).map_err(in_key)?;
                bands.push(Band::Percent(percent));
            }
            "max_silence" => {
                let range = ms(1)..=YEAR;
                let most = value::duration(range)(value).map_err(in_key)?;
                max_silence = Some(Span::from_std(most));
            }
            _ => {
                let what = format!("has an unknown key {key}");
                return Err(Wrong::new(what, "known here: absolute, percent, max_silence"));
            }
        }
    }
    match bands[..] {
        [band] => Ok((band, max_silence)),
        [] => Err(Wrong::new("does not say how far a value must move", FORM)),
        _ => Err(Wrong::new("has absolute and percent", "leave one")),
    }
}

fn above_0(value: &DeValue<'_>) -> Result<f64, Wrong> {
    let number = value::number(0.0..=1e15)(value)?;
    match number > 0.0 {
        true => Ok(number),
        false => Err(Wrong::new("is 0: it would drop what did not move at all", FORM_ABOVE_0)),
    }
}

const FORM_ABOVE_0: &str = "use a number above 0, or leave it out";

pub(super) fn print(page: &mut Page, rules: &ValueRules) {
    page.list("accumulate", rules.accumulate.iter().map(String::as_str));
    let shown = rules.deadbands.iter().map(|rule| {
        let silence = rule.max_silence.map(|most| duration_text(most.to_std()));
        let silence = silence.map(|most| format!(", max_silence = {}", quoted(most)));
        let band = match rule.band {
            Band::Absolute(band) => format!("absolute = {band:?}"),
            Band::Percent(percent) => format!("percent = {percent:?}"),
        };
        let silence = silence.unwrap_or_default();
        format!("{} = {{ {band}{silence} }}", quoted(rule.property.as_str()))
    });
    page.raw("deadband", format!("{{ {} }}", shown.collect::<Vec<_>>().join(", ")));
}

#[cfg(test)]
#[path = "value_rules_tests.rs"]
mod tests;
