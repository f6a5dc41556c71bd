//! What is replayed: readings of files and journals, in the order they arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use crate::config::{Config, Format, Pointer, SourceMap, TimeUnit};
use crate::core::clock::{ClockSettings, ClockSource, ClockState};
use crate::core::id::{BootId, Offset, Seq, SourceId};
use crate::core::limits::LINE_BYTES_MAX;
use crate::core::reading::{Entry, Flags, Origin, Quality, Reading, Series, Stamp, Value};
use crate::core::time::{EventTime, IngestTime, MaxError, Span, TimebaseId, Uptime};
use crate::core::window::entry::{Horizon, may_enter, number};
use crate::core::window::{Input, Number, Sample, WindowSpec, glob};
use crate::exit::{Exit, Failure};
use crate::shell::lock;
use crate::source::lines::{Line, LineSplitter};
use crate::source::parse::Parser;
use crate::source::parse::json::JsonParser;
use crate::source::parse::time::parse_text;
use crate::store::{StoreError, inspect};

/// A device stamp is believed this far ahead of its arrival, where the
/// configuration does not know the source.
const FUTURE_LIMIT: Span = Span::from_secs(300);
/// Refused lines that are shown; the rest is counted.
const REFUSED_SHOWN_MAX: usize = 20;

/// Everything that is replayed. Held in memory.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) readings: Vec<Traced>,
    /// Which windows take a reading, by [`Traced::route`].
    pub(super) routes: Vec<Vec<usize>>,
    /// Sources from which each window takes readings.
    pub(super) sources: Vec<BTreeSet<SourceId>>,
    /// Lines that are no readings, the first ones: `FILE: line N: why`.
    pub(super) refused: Vec<String>,
    pub(super) refused_count: usize,
    /// Readings without a number (text, composites, not finite), and entries of
    /// a journal or of an exported file that are no readings.
    pub(super) passed_over: u64,
    /// Readings that an exported file held twice.
    pub(super) repeated: u64,
    /// The greatest value, by its amount.
    pub(super) scale: f64,
}

/// One reading of a trace.
#[derive(Debug)]
pub(super) struct Traced {
    pub(super) input: Input,
    pub(super) stamp: Stamp,
    pub(super) route: usize,
}

impl Traced {
    /// Whether it would enter windows with these flags, by the rule of the agent.
    pub(super) fn enters(&self, flags: Flags) -> bool {
        may_enter(&Stamp { flags, ..self.stamp }, ClockSettings::DEFAULT.floor_ns)
    }

    pub(super) fn is_device(&self) -> bool {
        is_by_device(&self.stamp)
    }
}

/// What is known of a reading beside what a source gives.
struct Known {
    source: SourceId,
    stamp: Stamp,
}

fn is_by_device(stamp: &Stamp) -> bool {
    matches!(stamp.origin, Origin::Device | Origin::DeviceCorrected)
}

/// The stamp of a line, which says less than the journal does: one clock, and
/// nothing of its crystal.
fn stamp_of_line(at: EventTime, ingest: IngestTime, origin: Origin, flags: Flags) -> Stamp {
    Stamp {
        event_time: at,
        ingest_time: ingest,
        uptime: Uptime::default(),
        boot: BootId::default(),
        origin,
        clock: ClockSource::Unknown,
        state: ClockState::Synchronized,
        max_error: None,
        timebase: TimebaseId(0),
        first_event_time: None,
        utc_offset_s: None,
        flags,
    }
}

/// A line as the uplink sends it, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Exported {
    v: u32,
    gateway: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    epoch: String,
    #[serde(default)]
    seq: u64,
    window: Option<serde::de::IgnoredAny>,
    event_time: Option<String>,
    ingest_time: Option<String>,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    time: ExportedTime,
}

#[derive(Debug, Default, Deserialize)]
struct ExportedTime {
    #[serde(default)]
    origin: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    timebase: u32,
    max_error_us: Option<u64>,
}

/// Reads traces, one after the other.
pub(super) struct Loader<'a> {
    config: &'a Config,
    trace: Trace,
    known_routes: BTreeMap<(SourceId, Arc<Series>), usize>,
    horizon: Horizon,
    /// Names of exported readings that have come.
    seen: BTreeSet<(String, String, String, u64)>,
    exported: JsonParser,
}

impl<'a> Loader<'a> {
    pub(super) fn new(config: &'a Config) -> Self {
        let sources = vec![BTreeSet::new(); config.windows.len()];
        let mut map = SourceMap::default();
        map.time = Pointer::parse("/event_time").unwrap_or(map.time);
        Self {
            config,
            trace: Trace { sources, ..Trace::default() },
            known_routes: BTreeMap::new(),
            horizon: Horizon::default(),
            seen: BTreeSet::new(),
            exported: JsonParser::with_map(map),
        }
    }

    /// A file of lines, or a data directory with a journal.
    pub(super) fn add(&mut self, path: &Path) -> Result<(), Failure> {
        if path.is_dir() { self.journal(path) } else { self.file(path) }
    }

    pub(super) fn finish(self) -> Trace {
        self.trace
    }

    fn journal(&mut self, data_dir: &Path) -> Result<(), Failure> {
        let held = lock::held_by(data_dir).map_err(|error| Failure::io(lock::FILE_NAME, &error))?;
        if let Some(holder) = held {
            return Err(Failure::new(
                Exit::TryAgain,
                format_args!("the journal is in use by {holder}: stop the agent first"),
            ));
        }
        inspect::cat(data_dir, Offset(0), |_, entry| {
            let Entry::Reading(record) = entry else {
                self.trace.passed_over += 1;
                return;
            };
            let stamp = record.stamp;
            let known = Known { source: record.source, stamp };
            self.push(&known, record.series, &record.value, record.quality, false);
        })
        .map_err(|error| {
            let exit = if matches!(error, StoreError::Busy(_)) { Exit::TryAgain } else { Exit::Io };
            Failure::new(exit, format_args!("{}: {error}", data_dir.display()))
        })
    }

    fn file(&mut self, path: &Path) -> Result<(), Failure> {
        let shown = path.display();
        let failed = |error: &io::Error| Failure::io(path.display(), error);
        let mut file = File::open(path).map_err(|error| failed(&error))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let own = self.config.sources.iter().find(|source| source.name == stem);
        let mut parser = match own {
            Some(source) => Parser::new(source, source.format),
            None => Parser::Json(Box::new(JsonParser::with_map(SourceMap::default()))),
        };
        let source = (SourceId::new(&stem), own.is_none());
        let line_max = own.map_or(LINE_BYTES_MAX, |source| source.max_line);
        let mut splitter = match own.map(|source| source.format) {
            Some(Format::Influx) => LineSplitter::points(line_max),
            Some(Format::Json) | None => LineSplitter::new(line_max),
        };
        let mut is_ended = false;
        loop {
            while let Some((number, line)) = splitter.next_line() {
                let result = match line {
                    Line::Text(text) if text.trim_ascii().is_empty() => Ok(()),
                    Line::Text(text) => self.line(text, &mut parser, &source),
                    Line::NotUtf8(_) => Err("the line is not UTF-8".to_owned()),
                    Line::TooLong { length, .. } => {
                        Err(format!("the line has {length} bytes, more than a source takes"))
                    }
                };
                if let Err(why) = result {
                    self.trace.refused_count += 1;
                    if self.trace.refused.len() < REFUSED_SHOWN_MAX {
                        self.trace.refused.push(format!("{shown}: line {number}: {why}"));
                    }
                }
            }
            match file.read(splitter.space()) {
                Ok(0) => {
                    // After the end was told, the last line has been given.
                    if is_ended {
                        return Ok(());
                    }
                    splitter.end();
                    is_ended = true;
                }
                Ok(count) => splitter.filled(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&error)),
            }
        }
    }

    fn line(
        &mut self,
        text: &str,
        parser: &mut Parser,
        (source, is_anonymous): &(SourceId, bool),
    ) -> Result<(), String> {
        if text.contains("\"gateway\"")
            && let Ok(exported) = serde_json::from_str::<Exported>(text)
            && exported.v == 1
        {
            return self.exported(text, exported);
        }
        let mut readings = Vec::new();
        parser.parse(text, &mut readings).map_err(|fault| fault.to_string())?;
        if readings.iter().any(|reading| reading.device_time.is_none()) {
            return Err("the line has no time, and a replay has no clock to give it one".into());
        }
        for Reading { series, value, quality, device_time, .. } in readings {
            let Some(time) = device_time else { continue };
            let ingest = IngestTime::from_unix_ns(time.at.unix_ns());
            let stamp = stamp_of_line(time.at, ingest, Origin::Device, time.flags);
            let known = Known { source: source.clone(), stamp };
            self.push(&known, series, &value, quality, *is_anonymous);
        }
        Ok(())
    }

    /// A line that an uplink sent or `journal cat` printed.
    fn exported(&mut self, text: &str, line: Exported) -> Result<(), String> {
        let flags = Flags::NAMES.iter().filter(|(_, name)| line.flags.iter().any(|f| f == name));
        let flags = flags.fold(Flags::NONE, |all, (flag, _)| all.with(*flag));
        let (Some(_), None) = (&line.event_time, &line.window) else {
            self.trace.passed_over += 1;
            return Ok(());
        };
        if flags.has(Flags::NONFINITE) {
            self.trace.passed_over += 1;
            return Ok(());
        }
        let mut readings = Vec::new();
        self.exported.parse(text, &mut readings).map_err(|fault| fault.to_string())?;
        let name = (line.gateway, line.source.clone(), line.epoch, line.seq);
        if !self.seen.insert(name) {
            self.trace.repeated += 1;
            return Ok(());
        }
        let ingest = line.ingest_time.as_deref();
        let ingest = ingest.map(|text| parse_text(text, TimeUnit::Auto));
        let ingest = ingest.transpose().map_err(|fault| fault.to_string())?;
        let origin = match line.time.origin.as_str() {
            "device" => Origin::Device,
            "device_corrected" => Origin::DeviceCorrected,
            "restamped" => Origin::Restamped,
            _ => Origin::Gateway,
        };
        let states = [ClockState::Synchronized, ClockState::Holdover, ClockState::Stepped];
        let state = states.into_iter().find(|state| state.as_str() == line.time.state);
        for Reading { series, value, quality, device_time, .. } in readings {
            let Some(time) = device_time else { continue };
            let ingest = ingest.map_or(time.at, |time| time.at).unix_ns();
            let error_us = line.time.max_error_us;
            let stamp = Stamp {
                state: state.unwrap_or_default(),
                max_error: error_us.map(|us| MaxError::from_ns(us.saturating_mul(1_000))),
                timebase: TimebaseId(line.time.timebase),
                ..stamp_of_line(time.at, IngestTime::from_unix_ns(ingest), origin, flags)
            };
            let known = Known { source: SourceId::new(&line.source), stamp };
            self.push(&known, series, &value, quality, false);
        }
        Ok(())
    }

    fn push(
        &mut self,
        known: &Known,
        series: Arc<Series>,
        value: &Value,
        quality: Quality,
        is_anonymous: bool,
    ) {
        let Some(value) = number(value) else {
            self.trace.passed_over += 1;
            return;
        };
        self.trace.scale = self.trace.scale.max(match value {
            Number::Int(int) => int.unsigned_abs() as f64,
            Number::Real(real) => real.abs(),
        });
        let route = self.route(&known.source, &series, is_anonymous);
        let seq = Seq(self.trace.readings.len() as u64 + 1);
        let (stamp, is_device) = (known.stamp, is_by_device(&known.stamp));
        let moves_watermark = self.moves_watermark(known);
        self.trace.readings.push(Traced {
            input: Input {
                source: known.source.clone(),
                series,
                // The place in the trace decides between readings of one instant.
                sample: Sample { at: stamp.event_time, seq, value },
                quality,
                state: stamp.state,
                max_error: stamp.max_error,
                timebase: if is_device { TimebaseId(0) } else { stamp.timebase },
                ingest: stamp.ingest_time,
                moves_watermark,
            },
            stamp,
            route,
        });
    }

    /// By the rule of the agent.
    fn moves_watermark(&mut self, known: &Known) -> bool {
        let own = self.config.sources.iter().find(|own| own.name == known.source.as_str());
        let limit = own.map_or(FUTURE_LIMIT, |own| Span::from_std(own.time.future_limit));
        self.horizon.moves_watermark(&known.stamp, limit, ClockSettings::DEFAULT.floor_ns)
    }

    fn route(&mut self, source: &SourceId, series: &Arc<Series>, is_anonymous: bool) -> usize {
        let key = (source.clone(), Arc::clone(series));
        if let Some(route) = self.known_routes.get(&key) {
            return *route;
        }
        let takes = |spec: &WindowSpec| {
            (is_anonymous || spec.sources.is_empty() || spec.sources.contains(source))
                && glob::matches(&spec.entity, &series.entity)
                && glob::matches(&spec.property, &series.property)
        };
        let windows = self.config.windows.iter().enumerate();
        let windows: Vec<usize> =
            windows.filter(|(_, spec)| takes(spec)).map(|(at, _)| at).collect();
        for at in &windows {
            self.trace.sources[*at].insert(source.clone());
        }
        self.trace.routes.push(windows);
        let route = self.trace.routes.len() - 1;
        self.known_routes.insert(key, route);
        route
    }
}
