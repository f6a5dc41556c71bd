//! A [`Config`] as TOML, every key written out.

use super::dedupe::KEYS;
use super::page::{Page, word};
use super::time::{AMBIGUOUS, NONEXISTENT, POLICIES};
use super::value::{duration_text, quoted};
use super::{
    Clock, Config, Format, LogFormat, Source, SourceKind, SourceTime, TimeUnit, conversions,
    file_source, http, modbus, mqtt_source, output, uplink, value_rules, window,
};
use crate::core::agent::WhenFull;
use crate::core::clock::Reference;

pub(super) fn print(config: &Config) -> String {
    let mut page = Page::default();
    page.head("[gateway]");
    page.text("id", &config.gateway.id);
    page.path("data_dir", Some(&config.gateway.data_dir));
    page.text("log", &config.gateway.log);
    let log_format = match config.gateway.log_format {
        LogFormat::Auto => "auto",
        LogFormat::Text => "text",
        LogFormat::Json => "json",
        LogFormat::Journald => "journald",
    };
    page.text("log_format", log_format);

    clock(&mut page, &config.clock);
    page.head("[journal]");
    page.duration("commit_interval", config.journal.commit_interval);
    page.size("commit_bytes", config.journal.commit_bytes);
    page.size("max_bytes", config.journal.max_bytes);
    page.size("reserve_free", config.journal.reserve_free);
    let when_full = match config.journal.when_full {
        WhenFull::DropOldest => "drop-oldest",
        WhenFull::DropNewest => "drop-newest",
        WhenFull::Block => "block",
    };
    page.text("when_full", when_full);
    let max_age = config.journal.max_age.map_or("none".to_owned(), duration_text);
    page.text("max_age", &max_age);
    page.size("segment_bytes", config.journal.segment_bytes);
    page.duration("checkpoint_interval", config.journal.checkpoint_interval);
    page.duration("stuck_after", config.journal.stuck_after);

    for one in &config.uplinks {
        uplink::print(&mut page, one);
    }
    for one in &config.sources {
        source(&mut page, one);
    }
    for one in &config.windows {
        window::print(&mut page, one);
    }
    for one in &config.outputs {
        output::print(&mut page, one);
    }
    http::print(&mut page, &config.http);
    page.finish()
}

fn clock(page: &mut Page, clock: &Clock) {
    page.head("[clock]");
    let reference = match clock.reference {
        Reference::Auto => "auto",
        Reference::Kernel => "kernel",
        Reference::Chrony => "chrony",
        Reference::Ptp4l => "ptp4l",
        Reference::None => "none",
    };
    page.text("reference", reference);
    page.duration("hold_unsynchronized", clock.hold_unsynchronized);
    page.duration("restamp_settle", clock.restamp_settle);
    page.raw("max_drift_ppm", clock.max_drift_ppm);
    page.text("chrony_address", &clock.chrony_address.to_string());
}

fn source(page: &mut Page, source: &Source) {
    page.head("[[source]]");
    page.text("name", &source.name);
    match &source.kind {
        SourceKind::Listen { address, acknowledge } => {
            page.text("type", "listen");
            page.text("address", &address.to_string());
            page.raw("acknowledge", acknowledge);
            lines(page, source);
        }
        SourceKind::Stdin => {
            page.text("type", "stdin");
            lines(page, source);
        }
        SourceKind::File(file) => {
            file_source::print(page, file);
            lines(page, source);
        }
        SourceKind::Http { max_body } => {
            page.text("type", "http");
            page.size("max_body", *max_body as u64);
            lines(page, source);
        }
        SourceKind::Mqtt(mqtt) => {
            mqtt_source::print(page, mqtt);
            lines(page, source);
        }
        SourceKind::Modbus(modbus) => {
            page.text("type", "modbus");
            modbus::print(page, modbus);
            page.text("entity", source.entity.as_deref().unwrap_or_default());
        }
        SourceKind::Simulate(plc) => {
            page.text("type", "simulate");
            page.raw("seed", plc.seed);
            page.raw("rate", format!("{:?}", plc.rate));
            page.raw("count", plc.count);
            page.raw("entities", plc.entities);
            page.duration("disorder", plc.disorder);
            page.raw("repeat", format!("{:?}", plc.repeat));
            let every = quoted(duration_text(plc.outage_every));
            let length = quoted(duration_text(plc.outage_for));
            page.raw("outage", format!("{{ every = {every}, for = {length} }}"));
        }
    }
    value_rules::print(page, &source.values);
    source_time(page, &source.time);
    page.head("[source.dedupe]");
    page.text("key", word(&KEYS, source.dedupe.key));
    page.duration("horizon", source.dedupe.horizon);
    page.raw("entries_max", source.dedupe.entries_max);
    if has_map(source) {
        page.head("[source.map]");
        let map = &source.map;
        let pointers = [
            ("entity", &map.entity),
            ("property", &map.property),
            ("value", &map.value),
            ("values", &map.values),
            ("time", &map.time),
            ("unit", &map.unit),
            ("quality", &map.quality),
            ("id", &map.id),
        ];
        for (key, pointer) in pointers {
            page.text(key, &pointer.to_string());
        }
    }
}

/// Whether its lines are, or may be, JSON.
fn has_map(source: &Source) -> bool {
    match source.kind {
        SourceKind::Simulate(_) | SourceKind::Modbus(_) => false,
        SourceKind::Http { .. } => true,
        _ => source.format == Format::Json,
    }
}

fn source_time(page: &mut Page, time: &SourceTime) {
    page.head("[source.time]");
    page.text("trust", if time.trusts_device { "device" } else { "gateway" });
    page.text("zone", &time.zone.map(|zone| zone.to_string()).unwrap_or_default());
    page.text("ambiguous", word(&AMBIGUOUS, time.ambiguous));
    page.text("nonexistent", word(&NONEXISTENT, time.nonexistent));
    page.raw("live", time.live);
    page.duration("latency_max", time.latency_max);
    page.duration("latency_typical", time.latency_typical);
    page.duration("future_limit", time.future_limit);
    page.text("earliest", &time.earliest.to_string());
    let manufactured = time.manufactured.map(|at| at.to_string());
    page.text("manufactured", &manufactured.unwrap_or_default());
    page.text("on_bad_time", word(&POLICIES, time.on_bad_time));
    page.duration("bound", time.bound);
}

fn lines(page: &mut Page, source: &Source) {
    // Of a broker each topic has its own.
    if !matches!(source.kind, SourceKind::Mqtt(_)) {
        page.text("format", &source.format.to_string());
    }
    page.size("max_line", source.max_line as u64);
    page.raw("queue_max", source.queue_max);
    page.text("entity", source.entity.as_deref().unwrap_or_default());
    let unit = match source.time_unit {
        TimeUnit::Auto => "auto",
        TimeUnit::Seconds => "s",
        TimeUnit::Millis => "ms",
        TimeUnit::Micros => "us",
        TimeUnit::Nanos => "ns",
    };
    page.text("time_unit", unit);
    conversions::print(page, &source.conversions, has_map(source));
}
