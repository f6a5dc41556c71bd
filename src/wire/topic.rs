//! MQTT topics. Names of things come from devices and may hold anything, so
//! whatever has a meaning in a topic is escaped as `%XX` on its way in: no name
//! can add a level or a wildcard. The payload carries the name unescaped.

use std::error::Error;
use std::fmt;

use crate::core::limits::{TOPIC_BYTES_MAX, TOPIC_PLACES_MAX};

/// The configured topic of readings, with places for names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Gateway,
    Source,
    Entity,
    Property,
}

/// The names that fill a [`Template`].
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// `{gateway}`
    pub gateway: &'a str,
    /// `{source}`
    pub source: &'a str,
    /// `{entity}`
    pub entity: &'a str,
    /// `{property}`
    pub property: &'a str,
}

/// Why a template is no topic to publish to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicError {
    /// There is nothing in it.
    Empty,
    /// Longer than 1,024 bytes, or more than 16 placeholders.
    TooLong,
    /// `{` without `}`, or the other way round.
    UnbalancedBrace,
    /// A placeholder that does not exist.
    UnknownPlaceholder(String),
    /// `+`, `#` or a control character outside a placeholder.
    Forbidden(char),
    /// Topics that begin with `$` belong to the broker.
    Reserved,
}

impl fmt::Display for TopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopicError::Empty => f.write_str("the topic is empty"),
            TopicError::TooLong => {
                write!(f, "over {TOPIC_BYTES_MAX} bytes or {TOPIC_PLACES_MAX} placeholders")
            }
            TopicError::UnbalancedBrace => f.write_str("a brace has no partner"),
            TopicError::UnknownPlaceholder(name) => write!(
                f,
                "unknown placeholder {{{name}}}; there are {{gateway}}, {{source}}, {{entity}}, {{property}}"
            ),
            TopicError::Forbidden(character) => {
                write!(f, "{character:?} is not allowed in a topic to publish to")
            }
            TopicError::Reserved => f.write_str("topics that begin with $ belong to the broker"),
        }
    }
}

impl Error for TopicError {}

impl Template {
    /// Reads a template such as `tidegate/{gateway}/readings/{source}`.
    ///
    /// # Errors
    /// [`TopicError`] says which rule it breaks.
    pub fn parse(text: &str) -> Result<Template, TopicError> {
        if text.is_empty() {
            return Err(TopicError::Empty);
        }
        if text.len() > TOPIC_BYTES_MAX {
            return Err(TopicError::TooLong);
        }
        if text.starts_with('$') {
            return Err(TopicError::Reserved);
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            push_literal(&rest[..open], &mut parts)?;
            let (name, after) =
                rest[open + 1..].split_once('}').ok_or(TopicError::UnbalancedBrace)?;
            parts.push(placeholder(name)?);
            rest = after;
        }
        push_literal(rest, &mut parts)?;
        let places = parts.iter().filter(|part| !matches!(part, Part::Literal(_))).count();
        if places > TOPIC_PLACES_MAX {
            return Err(TopicError::TooLong);
        }
        Ok(Template { parts })
    }

    /// The topic for these names.
    pub fn expand(&self, names: &Names<'_>) -> String {
        let mut topic = String::with_capacity(64);
        for part in &self.parts {
            match part {
                Part::Literal(text) => topic.push_str(text),
                Part::Gateway => push_name(names.gateway, &mut topic),
                Part::Source => push_name(names.source, &mut topic),
                Part::Entity => push_name(names.entity, &mut topic),
                Part::Property => push_name(names.property, &mut topic),
            }
        }
        topic
    }
}

/// Where gap records of a source go.
pub fn gaps(gateway: &str, source: &str) -> String {
    of_source(gateway, "gaps", source)
}

/// Where corrections of a source go.
pub fn corrections(gateway: &str, source: &str) -> String {
    of_source(gateway, "corrections", source)
}

/// Where the results of a window go.
pub fn window(gateway: &str, window: &str) -> String {
    of_source(gateway, "windows", window)
}

/// Where the newest result of a series is kept for consumers on site: a topic of
/// its own for each, below [`window`].
pub fn latest(gateway: &str, window: &str, entity: &str, property: &str) -> String {
    let mut topic = self::window(gateway, window);
    for name in [entity, property] {
        topic.push('/');
        push_name(name, &mut topic);
    }
    topic
}

/// Where the readings of a source go in the order of event time, on site.
pub fn ordered(gateway: &str, source: &str) -> String {
    format!("tidegate/{gateway}/ordered/{source}")
}

/// Where the readings go that came too late for a window.
pub fn late(gateway: &str, window: &str) -> String {
    of_source(gateway, "late", window)
}

/// Where clock events of this gateway go.
pub fn clock(gateway: &str) -> String {
    of_gateway(gateway, "clock")
}

/// What takes in the delivery frontiers of all sources.
pub fn frontier_filter(gateway: &str) -> String {
    of_gateway(gateway, "frontier") + "/+"
}

/// Where the delivery frontier of a source is kept.
pub fn frontier(gateway: &str, source: &str) -> String {
    of_source(gateway, "frontier", source)
}

/// Where the state of this gateway is kept.
pub fn status(gateway: &str) -> String {
    of_gateway(gateway, "status")
}

fn of_gateway(gateway: &str, kind: &str) -> String {
    let mut topic = String::from("tidegate/");
    push_name(gateway, &mut topic);
    topic.push('/');
    topic.push_str(kind);
    topic
}

fn of_source(gateway: &str, kind: &str, source: &str) -> String {
    let mut topic = String::with_capacity(64);
    topic.push_str("tidegate/");
    push_name(gateway, &mut topic);
    topic.push('/');
    topic.push_str(kind);
    topic.push('/');
    push_name(source, &mut topic);
    topic
}

fn placeholder(name: &str) -> Result<Part, TopicError> {
    match name {
        "gateway" => Ok(Part::Gateway),
        "source" => Ok(Part::Source),
        "entity" => Ok(Part::Entity),
        "property" => Ok(Part::Property),
        _ => Err(TopicError::UnknownPlaceholder(name.to_owned())),
    }
}

fn push_literal(text: &str, parts: &mut Vec<Part>) -> Result<(), TopicError> {
    if text.contains('}') {
        return Err(TopicError::UnbalancedBrace);
    }
    if let Some(bad) = text.chars().find(|c| matches!(c, '+' | '#') || c.is_control()) {
        return Err(TopicError::Forbidden(bad));
    }
    if !text.is_empty() {
        parts.push(Part::Literal(text.to_owned()));
    }
    Ok(())
}

fn push_name(name: &str, topic: &mut String) {
    for character in name.chars() {
        let has_meaning = matches!(character, '+' | '#' | '/' | '%')
            || character.is_control()
            || (character == '$' && topic.is_empty());
        if has_meaning {
            push_escaped(character, topic);
        } else {
            topic.push(character);
        }
    }
}

fn push_escaped(character: char, topic: &mut String) {
    const HEX: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    let mut buffer = [0; 4];
    for byte in character.encode_utf8(&mut buffer).bytes() {
        topic.push('%');
        topic.push(HEX[usize::from(byte >> 4)]);
        topic.push(HEX[usize::from(byte & 15)]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names<'a>(entity: &'a str, property: &'a str) -> Names<'a> {
        Names { gateway: "gw-07", source: "press-line", entity, property }
    }

    #[test]
    fn templates_take_names() {
        let topic = Template::parse("tidegate/{gateway}/readings/{source}").unwrap();
        assert_eq!(topic.expand(&names("e", "p")), "tidegate/gw-07/readings/press-line");
        let topic = Template::parse("{entity}{property}/x").unwrap();
        assert_eq!(topic.expand(&names("pump 7", "ü")), "pump 7ü/x");
    }

    #[test]
    fn whatever_has_a_meaning_is_escaped() {
        let topic = Template::parse("t/{entity}/{property}").unwrap();
        assert_eq!(
            topic.expand(&names("a/b+c#d%e", "\0\n\u{7f}\u{85}$")),
            "t/a%2Fb%2Bc%23d%25e/%00%0A%7F%C2%85$"
        );
        let topic = Template::parse("{entity}").unwrap();
        assert_eq!(topic.expand(&names("$SYS/x", "p")), "%24SYS%2Fx");
    }

    #[test]
    fn the_other_topics_follow_the_contract() {
        assert_eq!(gaps("gw-07", "press/line"), "tidegate/gw-07/gaps/press%2Fline");
        assert_eq!(frontier("gw-07", "window:p"), "tidegate/gw-07/frontier/window:p");
        assert_eq!(status("gw-07"), "tidegate/gw-07/status");
        assert_eq!(corrections("gw-07", "a/b"), "tidegate/gw-07/corrections/a%2Fb");
        assert_eq!(clock("gw/07"), "tidegate/gw%2F07/clock");
        assert_eq!(window("gw-07", "p-10s"), "tidegate/gw-07/windows/p-10s");
        assert_eq!(late("gw-07", "p-10s"), "tidegate/gw-07/late/p-10s");
        let latest = latest("gw-07", "p-10s", "pump/7", "a+b");
        assert_eq!(latest, "tidegate/gw-07/windows/p-10s/pump%2F7/a%2Bb");
    }

    #[test]
    fn templates_that_are_no_topic_are_refused() {
        assert_eq!(Template::parse(""), Err(TopicError::Empty));
        assert_eq!(Template::parse("a/{entity"), Err(TopicError::UnbalancedBrace));
        assert_eq!(Template::parse("a/entity}"), Err(TopicError::UnbalancedBrace));
        assert_eq!(
            Template::parse("a/{Entity}"),
            Err(TopicError::UnknownPlaceholder("Entity".into()))
        );
        assert_eq!(Template::parse("a/+/b"), Err(TopicError::Forbidden('+')));
        assert_eq!(Template::parse("a/{source}/#"), Err(TopicError::Forbidden('#')));
        assert_eq!(Template::parse("a\0"), Err(TopicError::Forbidden('\0')));
        assert_eq!(Template::parse("$SYS/a"), Err(TopicError::Reserved));
        assert_eq!(Template::parse(&"a".repeat(1_025)), Err(TopicError::TooLong));
        assert_eq!(Template::parse(&"{entity}".repeat(17)), Err(TopicError::TooLong));
    }

    proptest! {
        #[test]
        fn no_name_adds_a_level_or_a_wildcard_and_no_two_names_meet(a: String, b: String) {
            let topic = Template::parse("t/{entity}").unwrap();
            let (topic_a, topic_b) = (topic.expand(&names(&a, "p")), topic.expand(&names(&b, "p")));
            prop_assert!(!topic_a[2..].contains(['/', '+', '#']));
            prop_assert!(!topic_a.contains(char::is_control));
            prop_assert_eq!(topic_a == topic_b, a == b);
        }
    }
}
