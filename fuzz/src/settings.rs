//! Texts of whoever configures or asks: topics, pointers, the configuration, queries.

use std::path::Path;

use tidegate::config::{Config, Filter, NameTemplate, Pointer};
use tidegate::http::stream::decoded;
use tidegate::shell::ingest::asked;
use tidegate::wire::topic::{Names, Template};

/// A JSON pointer.
pub fn pointers(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some(pointer) = Pointer::parse(text) else { return };
    assert_eq!(pointer.to_string(), text, "a pointer has one spelling");
}

/// Three lines: a filter, a topic, and a template for names or topics.
pub fn topics(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut parts = text.splitn(3, '\n');
    let mut next = || parts.next().unwrap_or_default();
    let (filter, topic, template) = (next(), next(), next());
    let mut captured = Vec::new();
    if let Ok(filter) = Filter::parse(filter)
        && let Some(captures) = filter.captures(topic)
    {
        assert_eq!(captures.len(), filter.wildcards());
        assert_filled(filter.as_str(), &captures, topic);
        captured = captures;
    }
    if let Ok(name) = NameTemplate::parse(template, captured.len()) {
        let longest: usize = captured.iter().map(|capture| capture.len()).sum();
        assert!(name.name(&captured).len() <= template.len() * (1 + longest));
    }
    if let Ok(template) = Template::parse(template) {
        let names = Names { gateway: filter, source: topic, entity: "+/#", property: "\0$" };
        let filled = template.expand(&names);
        let levels = |text: &str| text.split('/').count();
        let plain =
            template.expand(&Names { gateway: "g", source: "s", entity: "e", property: "p" });
        assert_eq!(levels(&filled), levels(&plain), "no name adds a level: {filled}");
        assert!(!filled.contains(['+', '#', '\0', '\n']), "{filled}");
        assert!(!filled.starts_with('$'), "{filled}");
    }
}

/// What the wildcards stand for, put in their places, is the topic.
fn assert_filled(filter: &str, captures: &[&str], topic: &str) {
    let mut captures = captures.iter();
    let mut filled = Vec::new();
    for level in filter.split('/') {
        filled.push(match level {
            "+" | "#" => captures.next().copied().unwrap_or_default(),
            _ => level,
        });
    }
    let filled = filled.join("/");
    // Of `a/#` the rest may be no level at all.
    let is_topic = filled == topic || (filter.ends_with("/#") && filled == format!("{topic}/"));
    assert!(is_topic, "{filter} with {topic} gives {filled}");
}

/// A configuration.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Config::parse(text, Path::new("t.toml")) {
        Ok(config) => {
            let printed = config.print();
            let again = Config::parse(&printed, Path::new("t.toml"));
            assert_eq!(again.as_ref(), Ok(&config), "{printed}");
        }
        Err(problems) => {
            let lines = text.lines().count();
            assert!(!problems.list.is_empty());
            for problem in &problems.list {
                assert!(problem.line.is_none_or(|line| (1..=lines + 1).contains(&line)));
                assert!(!problem.what.is_empty(), "{problem:?}");
            }
        }
    }
}

/// The query of a request.
pub fn query(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok((source, format)) = asked(text) {
        let source = source.map(|source| format!("source={source}&")).unwrap_or_default();
        let written = format.map(|format| format!("format={format}")).unwrap_or_default();
        let again = format!("{source}{written}");
        let (source_again, format_again) = asked(&again).expect("what was understood before");
        let source = source_again.map(|name| format!("source={name}&")).unwrap_or_default();
        assert_eq!((format!("{source}{written}"), format_again), (again, format));
    }
    let plain = decoded(text);
    assert!(plain.len() <= 3 * text.len());
    let escaped: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
    assert_eq!(decoded(&escaped), text);
}
