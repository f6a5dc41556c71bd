//! `[[source]]`: where readings come from.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::agree::Claim;
use super::conversions::conversions;
use super::dedupe::source_dedupe;
use super::file::Section;
use super::time::source_time;
use super::units::{DAY, HOUR, KIB, MIB};
use super::{
    Address, Conversions, FileSource, Format, Modbus, MqttSource, SourceDedupe, SourceTime,
    file_source, lines, modbus, mqtt_source, value, value_rules,
};
use crate::core::limits;
use crate::core::values::ValueRules;

/// `[[source]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Its name: letters, digits, `.`, `_`, `-`; unique.
    pub name: String,
    /// What it is.
    pub kind: SourceKind,
    /// How its lines are written.
    pub format: Format,
    /// The longest line that becomes a reading, in bytes.
    pub max_line: usize,
    /// Lines of one connection that may wait for their commit; then no more are
    /// taken from it.
    pub queue_max: usize,
    /// JSON: the entity of readings that name none; `None` refuses them. Line
    /// protocol: an [`EntityTemplate`]; `None` is the measurement with its tags.
    pub entity: Option<String>,
    /// The unit of times that are numbers.
    pub time_unit: TimeUnit,
    /// What it changes of what it is told.
    pub conversions: Conversions,
    /// What becomes of its values.
    pub values: ValueRules,
    /// How its readings are stamped.
    pub time: SourceTime,
    /// Which of its readings are repeats.
    pub dedupe: SourceDedupe,
    /// Where in an object its parts are.
    pub map: SourceMap,
}

/// The kinds of sources.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceKind {
    /// A TCP or Unix socket that takes lines.
    Listen {
        /// Where.
        address: Address,
        /// Whether lines are acknowledged once they are durable.
        acknowledge: bool,
    },
    /// Standard input.
    Stdin,
    /// Files that are followed.
    File(FileSource),
    /// `POST /api/v1/readings`.
    Http {
        /// The longest body that is taken, in bytes.
        max_body: usize,
    },
    /// Topics of a broker.
    Mqtt(MqttSource),
    /// Registers that are asked for over Modbus.
    Modbus(Modbus),
    /// A simulated PLC.
    Simulate(Simulate),
}

/// What a simulated PLC does.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulate {
    /// The same seed gives the same readings.
    pub seed: u64,
    /// Readings a second.
    pub rate: f64,
    /// Stops after so many; 0 never stops.
    pub count: u64,
    /// How many machines it reports on.
    pub entities: usize,
    /// How far back event times jump, at most.
    pub disorder: Duration,
    /// Share of readings that are sent twice, 0 to 1.
    pub repeat: f64,
    /// Time from the start of one outage to the next; zero for none.
    pub outage_every: Duration,
    /// How long an outage lasts.
    pub outage_for: Duration,
}

/// The unit of times that are numbers or digit strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// By magnitude.
    Auto,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

/// `[source.map]`: JSON pointers into the object of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceMap {
    /// The thing that is measured.
    pub entity: Pointer,
    /// What of it.
    pub property: Pointer,
    /// The value that belongs to `property`.
    pub value: Pointer,
    /// An object of properties. Empty: the line's whole object, without the
    /// members that other pointers lead into.
    pub values: Pointer,
    /// When it happened.
    pub time: Pointer,
    /// The unit.
    pub unit: Pointer,
    /// The device's word on the value.
    pub quality: Pointer,
    /// The reader's own name for the reading.
    pub id: Pointer,
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

/// A JSON pointer (RFC 6901) through objects. The empty one stands for "not
/// read", and in [`SourceMap::values`] for the whole object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pointer {
    names: Vec<String>,
}

impl Pointer {
    /// From its text; `None` when that is not a pointer.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        let mut names = Vec::new();
        for part in text.strip_prefix('/')?.split('/') {
            if part.split('~').skip(1).any(|after| !after.starts_with(['0', '1'])) {
                return None;
            }
            names.push(part.replace("~1", "/").replace("~0", "~"));
        }
        Some(Self { names })
    }

    /// The names of the members on the way, outermost first.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.names
            .iter()
            .try_for_each(|name| write!(f, "/{}", name.replace('~', "~0").replace('/', "~1")))
    }
}

/// All sources. Those that cannot be read are left out, after a problem was noted.
pub(super) fn sources(root: &Section<'_>, around: &mqtt_source::Around<'_>) -> Vec<Source> {
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
        let Some(source) = source(&section, name, around.gateway) else { continue };
        mqtt_source::agree(&section, &source, around);
        if let Some(other) = modbus::contradicted(&sources, &source) {
            let what = format!("the source {other} uses this port in another way");
            let fix = "write the same baud, parity and stop_bits";
            section.problem("serial", what, fix);
        }
        sources.push(source);
    }
    if sources.len() > limits::SOURCES_MAX {
        let what = format!("{} sources are too many", sources.len());
        root.problem("source", what, format!("use at most {}", limits::SOURCES_MAX));
    }
    sources
}

/// What a source is, as the key `type` has it.
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

const TYPES: [(&str, Type); 7] = [
    ("listen", Type::Listen),
    ("stdin", Type::Stdin),
    ("file", Type::File),
    ("http", Type::Http),
    ("mqtt", Type::Mqtt),
    ("modbus", Type::Modbus),
    ("simulate", Type::Simulate),
];

const TIME_UNITS: [(&str, TimeUnit); 5] = [
    ("auto", TimeUnit::Auto),
    ("s", TimeUnit::Seconds),
    ("ms", TimeUnit::Millis),
    ("us", TimeUnit::Micros),
    ("ns", TimeUnit::Nanos),
];

/// `None` only after a problem was noted.
fn source(section: &Section<'_>, name: Option<String>, gateway: &str) -> Option<Source> {
    let of_type = section.require("type", "\"listen\"", value::one_of(&TYPES));
    let Some(of_type) = of_type else {
        keys_of_any_type(section);
        return None;
    };
    let kind = match of_type {
        Type::Listen => listen(section),
        Type::Stdin => {
            section.claim("type", Claim::Stdin);
            Some(SourceKind::Stdin)
        }
        Type::File => file_source::file_source(section).map(SourceKind::File),
        Type::Http => {
            let max_body = section.read("max_body", MIB, value::size(KIB..=16 * MIB));
            Some(SourceKind::Http { max_body: max_body as usize })
        }
        Type::Mqtt => Some(SourceKind::Mqtt(mqtt_source::read(section, gateway, name.as_deref()))),
        Type::Modbus => Some(SourceKind::Modbus(modbus::read(section))),
        Type::Simulate => Some(SourceKind::Simulate(simulate(section))),
    };
    // The arrival of what a file or a broker has kept says nothing.
    let is_live = !matches!(kind, Some(SourceKind::File(_) | SourceKind::Mqtt(_)));
    let mut source = Source {
        name: name.unwrap_or_default(),
        kind: SourceKind::Stdin,
        format: Format::Json,
        max_line: limits::LINE_BYTES_MAX,
        queue_max: 10_000,
        entity: None,
        time_unit: TimeUnit::Auto,
        conversions: Conversions::default(),
        values: ValueRules::default(),
        time: source_time(section.table("time"), is_live),
        dedupe: SourceDedupe::default(),
        map: SourceMap::default(),
    };
    match of_type {
        Type::Modbus => {
            source.entity = lines::entity(section, Format::Json);
            if source.entity.is_none() {
                modbus::require_entities(section, kind.as_ref());
            }
        }
        Type::Simulate => {}
        _ => line_keys(section, kind.as_ref(), &mut source),
    }
    source.values = value_rules::read(section);
    source.dedupe = source_dedupe(section.table("dedupe"), &source);
    section.refuse_unknown();
    Some(Source { kind: kind?, ..source })
}

/// Where the type is not known, and with it which keys are: whatever it will be, these
/// values must be right.
fn keys_of_any_type(section: &Section<'_>) {
    source_time(section.table("time"), true);
    value_rules::read(section);
}

/// The keys of sources that are told lines: only those have something to map.
fn line_keys(section: &Section<'_>, kind: Option<&SourceKind>, source: &mut Source) {
    let line_max = limits::LINE_BYTES_MAX as u64;
    source.format = match kind {
        Some(SourceKind::Mqtt(_)) => {
            section.out_of_place("format", "is that of each topic", "write it in topics");
            Format::Json
        }
        _ => lines::format(section),
    };
    source.max_line = section.read("max_line", line_max, value::size(64..=line_max)) as usize;
    source.queue_max = section.read("queue_max", 10_000, value::integer(1..=1_000_000)) as usize;
    source.entity = lines::entity(section, source.format);
    source.time_unit = section.read("time_unit", TimeUnit::Auto, value::one_of(&TIME_UNITS));
    // Over HTTP each request may say its own format.
    let has_json = source.format == Format::Json || matches!(kind, Some(SourceKind::Http { .. }));
    source.conversions = conversions(section, has_json);
    if has_json {
        source.map = source_map(section.table("map"));
    } else {
        section.out_of_place("map", "is for JSON only", "remove it; see entity");
    }
}

fn listen(section: &Section<'_>) -> Option<SourceKind> {
    let address: Option<Address> = section.require("address", "\"127.0.0.1:7000\"", value::address);
    let acknowledge = section.read("acknowledge", false, value::boolean);
    if let Some(address) = &address {
        section.claim("address", Claim::listen(address));
    }
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
