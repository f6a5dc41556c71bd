//! `[[output]]`: where results go on site.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use toml::de::DeValue;

use super::agree::Claim;
use super::file::{Section, Wrong};
use super::login::{self, Login};
use super::on_disk::Wanted;
use super::page::Page;
use super::units::{YEAR, ms, secs};
use super::value::{self, duration_text};
use super::{Address, MqttUrl, Source};
use crate::core::id::SourceId;
use crate::core::limits;
use crate::core::order::OrderSpec;
use crate::core::time::Span;

/// `[[output]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// What it is.
    pub kind: OutputKind,
    /// The windows whose results go there; empty: all.
    pub windows: Vec<String>,
    /// Whether readings go there too, in the order of event time.
    pub ordered: Option<Ordered>,
}

/// Which readings, and how long is waited for their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// The sources; empty: all.
    pub sources: Vec<String>,
    /// How far out of order readings may come; `None`: what each source says.
    pub bound: Option<Duration>,
    /// A source is not waited for after so long without a reading.
    pub idle_after: Duration,
}

/// The kinds of outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// A broker on site; results are retained.
    Mqtt {
        /// Where.
        url: MqttUrl,
        /// Who we are to it, and whom we trust.
        login: Login,
    },
    /// A file that grows by one JSON object a line.
    Jsonl {
        /// The file.
        path: PathBuf,
    },
    /// A TCP or Unix socket that gives JSON lines to all who connect.
    Socket {
        /// Where it listens.
        address: Address,
    },
}

/// The outputs of a file; `windows` and `sources` are the names of those in it.
/// Those that cannot be read are left out, after a problem was noted.
pub(super) fn outputs(
    root: &Section<'_>,
    gateway: &str,
    windows: &[&str],
    sources: &[&str],
) -> Vec<Output> {
    let sections = root.tables("output");
    if sections.len() > limits::OUTPUTS_MAX {
        let what = format!("{} outputs are too many", sections.len());
        root.problem("output", what, format!("use at most {}", limits::OUTPUTS_MAX));
    }
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    let mut all = Vec::new();
    for (number, section) in (1..).zip(&sections) {
        let Some(output) = output(section, windows, sources) else { continue };
        match &output.kind {
            OutputKind::Mqtt { url, .. } => {
                let client_id = site_client_id(gateway, number);
                section.claim_fixed("url", Claim::session(url, &client_id));
            }
            OutputKind::Jsonl { path } => {
                section.claim("path", Claim::path(path));
                section.names("path", Wanted::InFolder, path);
            }
            OutputKind::Socket { address } => section.claim("address", Claim::listen(address)),
        }
        // Two of the other types are never in one place.
        if output.ordered.is_some()
            && matches!(output.kind, OutputKind::Mqtt { .. })
            && let Some(first) = lines.insert(output.order_name(), section.line())
        {
            let what = format!("the output at line {first} gives readings to the same place");
            section.problem("ordered_readings", what, "leave it true in one of them");
        }
        all.push(output);
    }
    all
}

fn output(section: &Section<'_>, windows: &[&str], sources: &[&str]) -> Option<Output> {
    let kinds = [("mqtt", 0), ("jsonl", 1), ("socket", 2)];
    let of_type = section.require("type", "\"jsonl\"", value::one_of(&kinds));
    let kind = match of_type {
        None => None,
        Some(0) => mqtt(section),
        Some(1) => section
            .require("path", "\"/var/log/tidegate/windows.jsonl\"", value::path)
            .map(|path| OutputKind::Jsonl { path }),
        Some(_) => section
            .require("address", "\"127.0.0.1:7100\"", value::address)
            .map(|address| OutputKind::Socket { address }),
    };
    let names = |value: &DeValue<'_>| value::names(value, "window", windows);
    let windows = section.read("windows", Vec::new(), names);
    let ordered = ordered(section, sources);
    // Which other keys are known depends on the type.
    if of_type.is_some() {
        section.refuse_unknown();
    }
    Some(Output { kind: kind?, windows, ordered })
}

fn mqtt(section: &Section<'_>) -> Option<OutputKind> {
    let url = section.require("url", "\"mqtt://127.0.0.1:1883\"", super::url::mqtt_url);
    let login = login::read(section, url.as_ref());
    Some(OutputKind::Mqtt { url: url?, login })
}

fn ordered(section: &Section<'_>, sources: &[&str]) -> Option<Ordered> {
    if !section.read("ordered_readings", false, value::boolean) {
        for key in ["sources", "bound", "idle_after"] {
            let what = "means nothing without ordered readings";
            section.out_of_place(key, what, "write ordered_readings = true or leave it out");
        }
        return None;
    }
    let names = |value: &DeValue<'_>| value::names(value, "source", sources);
    Some(Ordered {
        sources: section.read("sources", Vec::new(), names),
        bound: section.read("bound", None, bound),
        idle_after: section.read("idle_after", secs(60), value::duration(ms(100)..=YEAR)),
    })
}

/// A length, or "source".
fn bound(value: &DeValue<'_>) -> Result<Option<Duration>, Wrong> {
    match value {
        DeValue::String(text) if text == "source" => Ok(None),
        other => value::duration(Duration::ZERO..=YEAR)(other).map(Some).map_err(|wrong| {
            Wrong::new(wrong.what, format!("{}, or \"source\" for that of each source", wrong.fix))
        }),
    }
}

impl Output {
    /// The name of the order in which it gets readings: what it is and where, so
    /// that it goes on where it was whatever else is changed.
    pub fn order_name(&self) -> String {
        match &self.kind {
            OutputKind::Mqtt { url, .. } => format!("mqtt {url}"),
            OutputKind::Jsonl { path } => format!("jsonl {}", path.display()),
            OutputKind::Socket { address } => format!("socket {address}"),
        }
    }
}

/// The name of an output at its broker; `number` is its place among all outputs, from 1.
pub fn site_client_id(gateway: &str, number: usize) -> String {
    format!("tidegate-{gateway}-site-{number}")
}

/// The orders that these outputs ask for.
pub(super) fn orders(outputs: &[Output], sources: &[Source]) -> Vec<Arc<OrderSpec>> {
    let order = |output: &Output| {
        let ordered = output.ordered.as_ref()?;
        let is_chosen =
            |source: &&Source| ordered.sources.is_empty() || ordered.sources.contains(&source.name);
        let bound = |source: &Source| {
            let own = source.time.settings().bound;
            (SourceId::new(&source.name), ordered.bound.map_or(own, Span::from_std))
        };
        Some(Arc::new(OrderSpec {
            name: output.order_name().into(),
            sources: sources.iter().filter(is_chosen).map(bound).collect(),
            idle_after: Span::from_std(ordered.idle_after),
        }))
    };
    outputs.iter().filter_map(order).collect()
}

/// Writes an output as it is read.
pub(super) fn print(page: &mut Page, output: &Output) {
    page.head("[[output]]");
    match &output.kind {
        OutputKind::Mqtt { url, login } => {
            page.text("type", "mqtt");
            page.text("url", &url.to_string());
            login::print(page, login);
        }
        OutputKind::Jsonl { path } => {
            page.text("type", "jsonl");
            page.path("path", Some(path));
        }
        OutputKind::Socket { address } => {
            page.text("type", "socket");
            page.text("address", &address.to_string());
        }
    }
    page.list("windows", output.windows.iter().map(String::as_str));
    page.raw("ordered_readings", output.ordered.is_some());
    if let Some(Ordered { sources, bound, idle_after }) = &output.ordered {
        page.list("sources", sources.iter().map(String::as_str));
        page.text("bound", &bound.map_or("source".to_owned(), duration_text));
        page.duration("idle_after", *idle_after);
    }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
