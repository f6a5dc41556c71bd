//! An outage as somebody before the page lives through it.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::browser::{Browser, browser};
use super::care::{is_legible, is_unharmed};
use super::plant::{HOSTILE, Plant, readings};
use super::seen::agrees;

/// Pictures for people, of every width and scheme.
pub(crate) fn take_pictures(browser: &mut Browser, when: &str) {
    for width in [390, 1280] {
        for scheme in ["light", "dark"] {
            browser.screen(width, scheme);
            is_legible(browser, &format!("{when}, {width} px, {scheme}"));
            browser.picture(&place(&format!("{when}-{width}-{scheme}.png")));
        }
    }
}

pub(crate) fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("page").join(name)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_an_outage_as_the_api_says_it() {
    let Some(mut browser) = browser("the page in an outage") else { return };
    let mut plant = Plant::start("").await;
    browser.open(&plant.url());

    // Connected: five windows are over, three of them can still be revised.
    let both = ["pump-7", HOSTILE];
    plant.feed(&readings(&both, 0..58));
    plant.wait("all is sent", |status| status["uplink"]["backlog"] == 0);
    let seen = agrees(&mut browser, &plant);
    assert_eq!(seen["uplink"], "up");
    assert_eq!(seen["readings"], json!(["116", "116", "0", "0", "0"]));
    assert_eq!(browser.run("document.getElementById('sending-answer').textContent"), "Yes");
    assert_eq!(browser.errors(), [""; 0]);

    // The outage: a line that is none, readings that revise and that are too late.
    plant.cut(true);
    plant.feed(&readings(&both, 58..130));
    plant.feed(&[format!("{HOSTILE} is no JSON")]);
    plant.feed(&readings(&["pump-7"], 93..95));
    plant.feed(&readings(&["pump-7"], 3..5));
    plant.wait("the uplink is down", |status| status["uplink"]["state"] == "down");
    let seen = agrees(&mut browser, &plant);
    assert_eq!(seen["readings"], json!(["264", "116", "148", "0", "0"]));
    assert_eq!(seen["quarantined"], "Refused: 1 input quarantined since the start");
    let answer = browser.run("document.getElementById('sending-answer').textContent");
    assert_eq!(answer, "No: readings are kept here");
    assert_eq!(browser.run("document.getElementById('spoken').textContent"), "Uplink main is down");
    drill_down(&mut browser, &plant);
    is_unharmed(&mut browser);
    take_pictures(&mut browser, "outage");
    assert_eq!(browser.errors(), [""; 0]);

    // Mended: it drains, and the page follows without being asked.
    plant.cut(false);
    plant.wait("all is sent", |status| status["uplink"]["backlog"] == 0);
    let seen = agrees(&mut browser, &plant);
    assert_eq!(seen["uplink"], "up");
    assert_eq!(seen["readings"], json!(["264", "264", "0", "0", "0"]));
    // Nothing but what the clock of this machine may have.
    let troubles = seen["troubles"].as_array().unwrap().iter();
    let others: Vec<_> =
        troubles.filter(|one| !one.as_str().unwrap().starts_with("the clock is ")).collect();
    assert_eq!(others, [""; 0]);
    assert_eq!(browser.errors(), [""; 0]);
    take_pictures(&mut browser, "drained");

    // Killed: what is shown is old, and says so; a new agent is found by itself.
    plant.kill();
    browser.wait("document.body.classList.contains('is-stale')");
    let banner = browser.run("document.getElementById('stale').innerText");
    let banner = banner.as_str().unwrap();
    assert!(banner.starts_with("Stale: no word from the agent."), "{banner}");
    assert!(banner.contains("\u{a0}s old."), "{banner}");
    let live = browser.run("document.getElementById('live').textContent");
    assert!(live.as_str().unwrap().starts_with("Stale for "), "{live}");
    take_pictures(&mut browser, "stale");
    plant.run();
    browser.wait("document.getElementById('stale').hidden");
    browser.wait("!document.body.classList.contains('is-stale')");
    browser.wait("document.getElementById('uplink-main-state').textContent === 'up'");
    is_unharmed(&mut browser);
}

/// Opens what is closed, and finds the particulars there.
fn drill_down(browser: &mut Browser, plant: &Plant) {
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })");
    // It is measured only where the machine's clock is trusted.
    let measured = plant.get("/api/v1/lateness")["sources"].as_array().unwrap().len();
    browser.wait("document.getElementById('lateness').textContent !== ''");
    browser.wait(&format!(
        "document.querySelectorAll('#lateness-table tbody tr').length === {measured}"
    ));
    browser.wait("document.querySelectorAll('#quarantine-table tbody tr').length === 1");
    let cells =
        "[...document.querySelectorAll('#quarantine-table td')].map((cell) => cell.textContent)";
    let cells = browser.run(cells);
    assert_eq!((&cells[0], &cells[1]), (&json!("press-line"), &json!("syntax")));
    assert_eq!(cells[4], format!("{HOSTILE} is no JSON"));
    browser.wait("document.querySelectorAll('#late-table tbody tr').length === 2");
    let late = "document.querySelector('#late-table th[scope=row]').textContent";
    assert_eq!(browser.run(late), "pump-7 pressure_kpa");
}
