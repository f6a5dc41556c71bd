//! From the file as written to a [`Config`], or to all problems at once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::conversions::conversions;
use super::dedupe::source_dedupe;
use super::file::{Book, Section};
use super::time::source_time;
use super::{
    Address, Clock, Config, Conversions, Credentials, Format, Gateway, Journal, LogFormat, Pointer,
    Problems, Simulate, Source, SourceDedupe, SourceKind, SourceMap, TimeUnit,
};
use super::{
    file_source, http, lines, modbus, mqtt_source, output, uplink, value, value_rules, window,
};
use crate::core::agent::WhenFull;
use crate::core::clock::Reference;
use crate::core::limits;
use crate::core::values::ValueRules;

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;
pub(super) const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// As people write it: a year has 365.25 days.
pub(super) const TEN_YEARS: Duration = Duration::from_secs(315_576_000);

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) const fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// The configuration of a text, and the keys that it leaves to their defaults.
pub(super) fn check(
    text: &str,
    file: &str,
    credentials: &Credentials,
) -> (Result<Config, Problems>, Vec<String>) {
    let book = Book::new(text, credentials);
    let config = {
        let tree = book.syntax();
        // A broken tree would only add problems that are not there.
        if book.is_clean() { whole(&Section::root(&book, tree.get_ref())) } else { None }
    };
    let (problems, absent) = book.close(file);
    match config {
        Some(config) if problems.list.is_empty() => (Ok(config), absent),
        _ => (Err(problems), absent),
    }
}

/// `None` only after a problem was noted.
fn whole(root: &Section<'_>) -> Option<Config> {
    let gateway = gateway(root.table("gateway"));
    let clock = clock(root.table("clock"));
    let journal = journal(root.table("journal"));
    let id = gateway.as_ref().map_or("", |gateway| gateway.id.as_str());
    let uplinks = uplink::uplinks(root, id);
    // Names count even where the rest of their section is wrong.
    let names = |key| root.names_of(key);
    let outputs = output::outputs(root, &names("window"), &names("source"));
    let around = mqtt_source::Around {
        gateway: id,
        uplinks: uplinks.as_deref().unwrap_or_default(),
        outputs: outputs.as_deref().unwrap_or_default(),
    };
    let sources = sources(root, &around);
    let windows = window::windows(root, &names("source"));
    let http = http::http(root.table("http"));
    root.refuse_unknown();
    Some(Config {
        gateway: gateway?,
        clock,
        journal,
        uplinks: uplinks?,
        sources: sources?,
        windows: windows?,
        outputs: outputs?,
        http,
    })
}

fn gateway(section: Section<'_>) -> Option<Gateway> {
    let formats = [
        ("auto", LogFormat::Auto),
        ("text", LogFormat::Text),
        ("json", LogFormat::Json),
        ("journald", LogFormat::Journald),
    ];
    let id = section.require("id", "\"gw-07\"", value::name);
    let data_dir = section.require("data_dir", "\"/var/lib/tidegate\"", value::path);
    let log = section.read("log", "info".to_owned(), value::log_filter);
    let log_format = section.read("log_format", LogFormat::Auto, value::one_of(&formats));
    section.refuse_unknown();
    Some(Gateway { id: id?, data_dir: data_dir?, log, log_format })
}

fn clock(section: Section<'_>) -> Clock {
    let references = [
        ("auto", Reference::Auto),
        ("kernel", Reference::Kernel),
        ("chrony", Reference::Chrony),
        ("ptp4l", Reference::Ptp4l),
        ("none", Reference::None),
    ];
    let chrony = SocketAddr::from(([127, 0, 0, 1], 323));
    let clock = Clock {
        reference: section.read("reference", Reference::Auto, value::one_of(&references)),
        hold_unsynchronized: section.read(
            "hold_unsynchronized",
            secs(120),
            value::duration(Duration::ZERO..=DAY),
        ),
        restamp_settle: section.read(
            "restamp_settle",
            secs(30),
            value::duration(Duration::ZERO..=HOUR),
        ),
        max_drift_ppm: section.read("max_drift_ppm", 100, value::integer(1..=1_000)),
        chrony_address: section.read("chrony_address", chrony, value::udp_address),
    };
    section.refuse_unknown();
    clock
}

fn journal(section: Section<'_>) -> Journal {
    let policies = [
        ("drop-oldest", WhenFull::DropOldest),
        ("drop-newest", WhenFull::DropNewest),
        ("block", WhenFull::Block),
    ];
    let commit_max = limits::PENDING_BYTES_MAX as u64;
    let segments_max = limits::SEGMENTS_MAX as u64;
    let journal = Journal {
        commit_interval: section.read(
            "commit_interval",
            ms(500),
            value::duration(ms(1)..=secs(60)),
        ),
        commit_bytes: section.read("commit_bytes", 256 * KIB, value::size(KIB..=commit_max)),
        max_bytes: section.read("max_bytes", GIB, value::size(MIB..=1024 * GIB)),
        reserve_free: section.read("reserve_free", 128 * MIB, value::size(0..=1024 * GIB)),
        when_full: section.read("when_full", WhenFull::DropOldest, value::one_of(&policies)),
        max_age: section.read(
            "max_age",
            None,
            value::or_none(value::duration(secs(60)..=TEN_YEARS)),
        ),
        segment_bytes: section.read("segment_bytes", 16 * MIB, value::size(64 * KIB..=256 * MIB)),
        checkpoint_interval: section.read(
            "checkpoint_interval",
            secs(30),
            value::duration(ms(100)..=HOUR),
        ),
        stuck_after: section.read("stuck_after", secs(60), value::duration(secs(5)..=HOUR)),
    };
    if journal.max_bytes < 2 * journal.segment_bytes {
        section.problem(
            "max_bytes",
            "is less than two segments",
            "raise it or lower segment_bytes",
        );
    }
    if journal.max_bytes / journal.segment_bytes > segments_max {
        let what = format!("is more than {segments_max} segments");
        section.problem("max_bytes", what, "lower it or raise segment_bytes");
    }
    section.refuse_unknown();
    journal
}

fn sources(root: &Section<'_>, around: &mqtt_source::Around<'_>) -> Option<Vec<Source>> {
    let mut is_whole = true;
    let mut sources: Vec<Source> = Vec::new();
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for section in root.tables("source") {
        let line = section.line();
        let name = section.require("name", "\"press-line\"", value::name);
        if let Some(first) = name.as_ref().and_then(|name| lines.get(name)) {
            let what = format!("is the name of the source at line {first} too");
            section.problem("name", what, "give each source its own name");
        }
        lines.extend(name.clone().map(|name| (name, line)));
        match source(&section, name, around.gateway) {
            Some(source) => {
                mqtt_source::agree(&section, &source, &sources, around);
                if let Some(other) = modbus::contradicted(&sources, &source) {
                    let what = format!("the source {other} uses this port in another way");
                    let fix = "write the same baud, parity and stop_bits";
                    section.problem("serial", what, fix);
                }
                sources.push(source);
            }
            None => is_whole = false,
        }
    }
    if sources.len() > limits::SOURCES_MAX {
        let what = format!("{} sources are too many", sources.len());
        root.problem("source", what, format!("use at most {}", limits::SOURCES_MAX));
    }
    is_whole.then_some(sources)
}

fn source(section: &Section<'_>, name: Option<String>, gateway: &str) -> Option<Source> {
    #[derive(Clone, Copy)]
    enum Type {
        Listen,
        Stdin,
        File,
        Http,
        Mqtt,
        Modbus,
        Simulate,
    }
    let types = [
        ("listen", Type::Listen),
        ("stdin", Type::Stdin),
        ("file", Type::File),
        ("http", Type::Http),
        ("mqtt", Type::Mqtt),
        ("modbus", Type::Modbus),
        ("simulate", Type::Simulate),
    ];
    let units = [
        ("auto", TimeUnit::Auto),
        ("s", TimeUnit::Seconds),
        ("ms", TimeUnit::Millis),
        ("us", TimeUnit::Micros),
        ("ns", TimeUnit::Nanos),
    ];
    // Which keys are known depends on the type: without it nothing can be said.
    let kind = section.require("type", "\"listen\"", value::one_of(&types))?;
    let has_lines = !matches!(kind, Type::Modbus | Type::Simulate);
    let is_modbus = matches!(kind, Type::Modbus);
    let kind = match kind {
        Type::Listen => listen(section),
        Type::Stdin => Some(SourceKind::Stdin),
        Type::File => file_source::file_source(section).map(SourceKind::File),
        Type::Http => {
            let max_body = section.read("max_body", MIB, value::size(KIB..=16 * MIB));
            Some(SourceKind::Http { max_body: max_body as usize })
        }
        Type::Mqtt => mqtt_source::read(section, gateway, name.as_deref()).map(SourceKind::Mqtt),
        Type::Modbus => modbus::read(section).map(SourceKind::Modbus),
        Type::Simulate => Some(SourceKind::Simulate(simulate(section))),
    };
    let line_max = limits::LINE_BYTES_MAX as u64;
    let mut source = Source {
        name: name.clone().unwrap_or_default(),
        kind: SourceKind::Stdin,
        format: Format::Json,
        max_line: limits::LINE_BYTES_MAX,
        queue_max: 10_000,
        entity: None,
        time_unit: TimeUnit::Auto,
        conversions: Conversions::default(),
        values: ValueRules::default(),
        // The arrival of what a file or a broker has kept says nothing.
        time: source_time(
            section.table("time"),
            !matches!(kind, Some(SourceKind::File(_) | SourceKind::Mqtt(_))),
        ),
        dedupe: SourceDedupe::default(),
        map: SourceMap::default(),
    };
    // What speaks no lines has nothing to map.
    if has_lines {
        source.format = match kind {
            Some(SourceKind::Mqtt(_)) => {
                section.out_of_place("format", "is that of each topic", "write it in topics");
                Format::Json
            }
            _ => lines::format(section),
        };
        source.max_line = section.read("max_line", line_max, value::size(64..=line_max)) as usize;
        source.queue_max =
            section.read("queue_max", 10_000, value::integer(1..=1_000_000)) as usize;
        source.entity = lines::entity(section, source.format);
        source.time_unit = section.read("time_unit", TimeUnit::Auto, value::one_of(&units));
        // Over HTTP each request may say its own format.
        let is_http = matches!(kind, Some(SourceKind::Http { .. }));
        let has_quality = is_http || source.format == Format::Json;
        source.conversions = conversions(section, has_quality);
        match source.format {
            _ if is_http => source.map = source_map(section.table("map")),
            Format::Json => source.map = source_map(section.table("map")),
            Format::Influx => {
                section.out_of_place("map", "is for JSON only", "remove it; see entity");
            }
        }
    }
    if is_modbus {
        source.entity = lines::entity(section, Format::Json);
        if source.entity.is_none() {
            modbus::require_entities(section, kind.as_ref());
        }
    }
    source.values = value_rules::read(section);
    source.dedupe = source_dedupe(section.table("dedupe"), &source);
    section.refuse_unknown();
    name?;
    Some(Source { kind: kind?, ..source })
}

fn listen(section: &Section<'_>) -> Option<SourceKind> {
    let address: Option<Address> = section.require("address", "\"127.0.0.1:7000\"", value::address);
    let acknowledge = section.read("acknowledge", false, value::boolean);
    Some(SourceKind::Listen { address: address?, acknowledge })
}

fn simulate(section: &Section<'_>) -> Simulate {
    let outage = section.table("outage");
    let simulate = Simulate {
        seed: section.read("seed", 1, value::integer(0..=i64::MAX as u64)),
        rate: section.read("rate", 10.0, value::number(0.001..=1_000_000.0)),
        count: section.read("count", 0, value::integer(0..=i64::MAX as u64)),
        entities: section.read("entities", 3, value::integer(1..=10_000)) as usize,
        disorder: section.read("disorder", Duration::ZERO, value::duration(Duration::ZERO..=HOUR)),
        repeat: section.read("repeat", 0.0, value::number(0.0..=1.0)),
        outage_every: outage.read("every", Duration::ZERO, value::duration(Duration::ZERO..=DAY)),
        outage_for: outage.read("for", Duration::ZERO, value::duration(Duration::ZERO..=DAY)),
    };
    if simulate.outage_for > Duration::ZERO && simulate.outage_for >= simulate.outage_every {
        outage.problem("for", "leaves no time between two outages", "make it less than every");
    }
    outage.refuse_unknown();
    simulate
}

impl Default for SourceMap {
    /// The shape of the contract: every part under its own name.
    fn default() -> Self {
        let top = |name: &str| Pointer { names: vec![name.to_owned()] };
        Self {
            entity: top("entity"),
            property: top("property"),
            value: top("value"),
            values: top("values"),
            time: top("time"),
            unit: top("unit"),
            quality: top("quality"),
            id: top("id"),
        }
    }
}

fn source_map(section: Section<'_>) -> SourceMap {
    let default = SourceMap::default();
    let map = SourceMap {
        entity: section.read("entity", default.entity, value::pointer),
        property: section.read("property", default.property, value::pointer),
        value: section.read("value", default.value, value::pointer),
        values: section.read("values", default.values, value::pointer),
        time: section.read("time", default.time, value::pointer),
        unit: section.read("unit", default.unit, value::pointer),
        quality: section.read("quality", default.quality, value::pointer),
        id: section.read("id", default.id, value::pointer),
    };
    section.refuse_unknown();
    map
}
