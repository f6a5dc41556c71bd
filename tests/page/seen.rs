//! What the page shows, and what it should show by what the API says.

use serde_json::{Value, json};

use super::browser::Browser;
use super::plant::Plant;
use super::support::process::wait;

const SEEN: &str = include_str!("seen.js");

/// Looks before the page is called wrong: it follows within a second or two, and the
/// words for the clock and the bytes on disk may change between two looks.
const LOOKS_MAX: usize = 500;

/// Waits until the page shows what the API says; returns what that is.
pub(crate) fn agrees(browser: &mut Browser, plant: &Plant) -> Value {
    let mut last = (Value::Null, Value::Null);
    let mut looks = 0;
    wait("the page shows what the API says", || {
        last = (browser.run(SEEN), expected(plant));
        looks += 1;
        last.0 == last.1 || looks == LOOKS_MAX
    });
    assert_eq!(last.0, last.1, "what is seen, and what the API says");
    last.0
}

fn expected(plant: &Plant) -> Value {
    let status = plant.status();
    let uplink = &status["uplink"];
    let journal = &status["journal"];
    let list = |key: &str| status[key].as_array().unwrap().clone();
    let sources = list("sources");
    let books = |of_windows: bool| -> Vec<String> {
        let of: Vec<&Value> =
            sources.iter().filter(|source| is_window(source) == of_windows).collect();
        let keys = ["accepted", "acknowledged", "stored", "evicted", "lost"];
        keys.map(|key| grouped(of.iter().map(|source| number(&source[key])).sum())).to_vec()
    };
    let words = status["clock"]["words"][0].as_str().unwrap();
    let sum = |of: &[Value], key: &str| -> u64 { of.iter().map(|one| number(&one[key])).sum() };
    let windows = list("windows");
    json!({
        "gateway": status["gateway"],
        "troubles": list("degraded").iter().map(|one| without_age(&one["detail"])).collect::<Vec<_>>(),
        "uplink": uplink["state"],
        "backlog": match number(&uplink["backlog"]) {
            0 => "empty".to_owned(),
            1 => "1 entry".to_owned(),
            many => format!("{} entries", grouped(many)),
        },
        "readings": books(false),
        "results": books(true),
        "clock": words[..1].to_uppercase() + &words[1..],
        "waits": waits(&sources),
        "bytes": format!(
            "{} of {}, {:.0} %",
            bytes(number(&journal["bytes"])),
            bytes(number(&journal["capacity_bytes"])),
            (journal["fill"].as_f64().unwrap() * 100.0).floor()
        ),
        "sources": sources.iter().filter(|source| !is_window(source)).map(source_row).collect::<Vec<_>>(),
        "windows": windows.iter().map(window_row).collect::<Vec<_>>(),
        "charts": charts(plant.get("/api/v1/windows").as_array().unwrap()),
        "quarantined": format!(
            "Refused: {} quarantined since the start",
            counted(sum(&sources, "quarantined"), "input")
        ),
        "late": format!(
            "Late: {} revised, {} too late for a window",
            counted(sum(&windows, "revised"), "result"),
            counted(sum(&windows, "too_late"), "reading")
        ),
        "notices": list("notices").iter().rev().map(|one| [&one["level"], &one["text"]]).collect::<Vec<_>>(),
    })
}

/// What the journal keeps, of all sources.
fn waits(sources: &[Value]) -> String {
    let stored = |of_windows: bool| -> u64 {
        let of = sources.iter().filter(|source| is_window(source) == of_windows);
        of.map(|source| number(&source["stored"])).sum()
    };
    match stored(true) {
        0 => counted(stored(false), "reading"),
        results => {
            format!("{} and {}", counted(stored(false), "reading"), counted(results, "result"))
        }
    }
}

fn is_window(source: &Value) -> bool {
    source["name"].as_str().unwrap().starts_with("window:")
}

fn source_row(source: &Value) -> Vec<String> {
    let mut row = vec![text(&source["name"]), text(&source["health"]["state"])];
    let keys = ["accepted", "acknowledged", "stored", "evicted", "lost", "quarantined"];
    row.extend(keys.map(|key| grouped(number(&source[key]))));
    row
}

fn window_row(window: &Value) -> Vec<String> {
    let mut row = vec![text(&window["name"]), "none".to_owned()];
    let keys = ["panes", "series", "fired", "finals", "revised", "too_late"];
    row.extend(keys.map(|key| grouped(number(&window[key]))));
    row
}

/// The newest of each series as its chart has it, and how many points are drawn:
/// how many there were, the test of the outage knows.
fn charts(newest: &[Value]) -> Vec<Value> {
    let mut charts: Vec<Value> = newest
        .iter()
        .map(|one| {
            let standing = match (one["status"] == "final", one["revision"] == 1) {
                (true, true) => "final",
                (true, false) => "revised, final",
                (false, true) => "provisional",
                (false, false) => "revised",
            };
            let mean = one["mean"].as_f64().unwrap().to_string();
            // Windows of ten seconds, the first at ten o'clock.
            let start = one["start"].as_str().unwrap();
            let (minute, second) = (&start[14..16], &start[17..19]);
            let points =
                minute.parse::<u64>().unwrap() * 6 + second.parse::<u64>().unwrap() / 10 + 1;
            json!([one["entity"], one["property"], one["window"], mean, standing, points])
        })
        .collect();
    charts.sort_by_key(|chart| text(&chart[0]));
    charts
}

fn without_age(detail: &Value) -> String {
    let detail = detail.as_str().unwrap();
    let Some((head, tail)) = detail.split_once(" s:") else { return detail.to_owned() };
    format!("{}:{tail}", head.trim_end_matches(|digit: char| digit.is_ascii_digit()).trim_end())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

fn grouped(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1_000), number % 1_000),
    }
}

fn bytes(bytes: u64) -> String {
    let mut size = bytes as f64;
    let mut units = ["bytes", "kB", "MB", "GB"].iter();
    let mut unit = units.next().unwrap();
    while size >= 1_000.0 {
        size /= 1_000.0;
        unit = units.next().unwrap();
    }
    if *unit == "bytes" || size >= 100.0 {
        format!("{size:.0} {unit}")
    } else {
        format!("{size:.1} {unit}")
    }
}
