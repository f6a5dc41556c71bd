//! `[[output]]`: where results go on site.

use std::path::PathBuf;

use super::file::Section;
use super::print::Page;
use super::{Address, MqttUrl, value};
use crate::core::limits;

/// `[[output]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// What it is.
    pub kind: OutputKind,
    /// The windows whose results go there; empty: all.
    pub windows: Vec<String>,
    /// Whether readings go there too, once behind the watermark, in the order of
    /// event time.
    pub ordered_readings: bool,
}

/// The kinds of outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// A broker on site; results are retained.
    Mqtt {
        /// Where.
        url: MqttUrl,
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

/// The outputs of a file; `windows` are the names of its windows. `None` only
/// after a problem was noted.
pub(super) fn outputs(root: &Section<'_>, windows: &[&str]) -> Option<Vec<Output>> {
    let sections = root.tables("output");
    if sections.len() > limits::OUTPUTS_MAX {
        let what = format!("{} outputs are too many", sections.len());
        root.problem("output", what, format!("use at most {}", limits::OUTPUTS_MAX));
    }
    let read: Vec<Option<Output>> =
        sections.into_iter().map(|section| output(&section, windows)).collect();
    read.into_iter().collect()
}

fn output(section: &Section<'_>, windows: &[&str]) -> Option<Output> {
    let kinds = [("mqtt", 0), ("jsonl", 1), ("socket", 2)];
    // Which keys are known depends on the type: without it nothing can be said.
    let kind = match section.require("type", "\"jsonl\"", value::one_of(&kinds))? {
        0 => section
            .require("url", "\"mqtt://127.0.0.1:1883\"", value::mqtt_url)
            .map(|url| OutputKind::Mqtt { url }),
        1 => section
            .require("path", "\"/var/log/tidegate/windows.jsonl\"", value::path)
            .map(|path| OutputKind::Jsonl { path }),
        _ => section
            .require("address", "\"127.0.0.1:7100\"", value::address)
            .map(|address| OutputKind::Socket { address }),
    };
    let names = |value: &toml::de::DeValue<'_>| value::names(value, "window", windows);
    let windows = section.read("windows", Vec::new(), names);
    let ordered_readings = section.read("ordered_readings", false, value::boolean);
    if ordered_readings {
        section.problem("ordered_readings", "true is not there yet", "leave it false");
    }
    section.refuse_unknown();
    Some(Output { kind: kind?, windows, ordered_readings })
}

/// Writes an output as it is read.
pub(super) fn print(page: &mut Page, output: &Output) {
    page.head("[[output]]");
    match &output.kind {
        OutputKind::Mqtt { url } => {
            page.text("type", "mqtt");
            page.text("url", &url.to_string());
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
    page.raw("ordered_readings", output.ordered_readings);
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
