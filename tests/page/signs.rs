//! Signs of trouble that somebody who opens the page must see at once, and charts that
//! begin before the page does.

use serde_json::json;

use super::browser::{Browser, browser};
use super::outage::take_pictures;
use super::plant::{Plant, readings};
use super::support::process::free_port;

/// Two more sources of lines, and a window over the first of them.
fn more(furnace: u16, conveyor: u16) -> String {
    let source = |name: &str, port: u16| {
        format!(
            "[[source]]\nname = \"{name}\"\ntype = \"listen\"\n\
             address = \"127.0.0.1:{port}\"\nacknowledge = true\n"
        )
    };
    source("furnace", furnace)
        + &source("conveyor", conveyor)
        + "[[window]]\nname = \"heat-1m\"\nsources = [\"furnace\"]\nkind = \"tumbling\"\n\
           size = \"1m\"\nbound = \"1s\"\n"
}

/// Readings of one value, a second each.
fn flat(entity: &str, seconds: std::ops::Range<u32>) -> Vec<String> {
    let one = |second: u32| {
        let (minute, second) = (second / 60, second % 60);
        format!(
            "{{\"entity\":\"{entity}\",\"property\":\"temperature\",\"value\":412.5,\
             \"time\":\"2025-06-01T10:{minute:02}:{second:02}Z\"}}"
        )
    };
    seconds.map(one).collect()
}

fn texts(browser: &mut Browser, selector: &str) -> Vec<String> {
    let expression =
        format!("[...document.querySelectorAll('{selector}')].map((one) => one.textContent)");
    serde_json::from_value(browser.run(&expression)).unwrap()
}

/// The chart of an entity in a window: its points, the numbers at its axis and its note.
fn chart(browser: &mut Browser, window: &str, entity: &str) -> serde_json::Value {
    browser.run(&format!(
        "(() => {{
          const chart = [...document.querySelectorAll('.chart')].find((one) =>
            one.querySelector('figcaption p').textContent === '{window}'
            && one.querySelector('.entity').textContent === '{entity}');
          return [
            chart.querySelectorAll('.point').length,
            [...chart.querySelectorAll('.scale span')].map((one) => one.textContent),
            chart.querySelector('.alone')?.textContent ?? null,
          ];
        }})()"
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_opens_the_page_sees_what_was_before() {
    let Some(mut browser) = browser("the page and what was before it") else { return };
    let (furnace, conveyor) = (free_port(), free_port());
    let plant = Plant::start_with("", &more(furnace, conveyor)).await;
    plant.feed(&readings(&["pump-7"], 0..58));
    plant.feed_to(conveyor, &flat("belt", 0..58));
    plant.feed_to(furnace, &flat("oven", 0..70));
    // The furnace is ahead; then the conveyor stands still, and all wait for it.
    plant.feed(&readings(&["pump-7"], 58..90));
    plant.feed_to(furnace, &flat("oven", 70..95));
    plant.feed(&(0..15).map(|n| format!("no JSON {n}")).collect::<Vec<_>>());
    plant.wait("the windows are over", |status| status["windows"][1]["fired"] == 15);
    plant.wait("all is sent", |status| status["uplink"]["backlog"] == 0);

    browser.open(&plant.url());
    browser.wait("document.querySelectorAll('.chart').length === 4");
    // Charts have their beginning, though nothing has come since the page is open.
    let pump = chart(&mut browser, "pressure-10s", "pump-7");
    assert_eq!((&pump[0], &pump[1].as_array().unwrap().len()), (&json!(5), &2));
    assert_eq!(chart(&mut browser, "pressure-10s", "belt"), json!([5, ["412.5"], null]));
    let alone = json!([1, ["412.5"], "one window so far"]);
    assert_eq!(chart(&mut browser, "heat-1m", "oven"), alone);

    // What was refused within the minute is told beside the first answers.
    browser.wait("document.getElementById('lost-quarantined') !== null");
    let refused = "document.getElementById('lost-quarantined').textContent";
    let said = "15 inputs quarantined in the last minute, 15 since the start";
    browser.wait(&format!("{refused} === '{said}'"));
    assert_eq!(texts(&mut browser, "#lost-answer"), ["No, but some were refused"]);

    // Whom a window that is behind waits for.
    let behind = texts(&mut browser, "#windows-table .behind");
    assert!(behind[0].contains(" behind: waits for furnace"), "{behind:?}");
    assert!(behind[1].contains(" behind: waits for conveyor"), "{behind:?}");
    let marks = "document.querySelectorAll('#windows-table .behind .mark.warn').length";
    assert_eq!(browser.run(marks), 2);

    // Facts in the order of the log: whom it is about first.
    let quarantined = "(() => {
      const line = [...document.querySelectorAll('.log li')].find((one) =>
        one.querySelector('.text').textContent === 'inputs went to the quarantine');
      return [...line.querySelectorAll('.fact')].map((one) => one.textContent.trim().split(' ')[0]);
    })()";
    assert_eq!(browser.run(quarantined), json!(["source", "kind", "count", "reason"]));

    // On a phone what is 0 takes no line, and three sources no more than half a screen.
    browser.screen(390, "light");
    let labels = "[...document.querySelectorAll('#sources-table tbody tr')].map((row) =>
      [...row.querySelectorAll('td')].filter((cell) => cell.checkVisibility())
        .map((cell) => cell.dataset.label))";
    let always = ["State", "Last reading", "Accepted", "Acknowledged", "Stored"];
    let pressed = [&always[..], &["Quarantined"]].concat();
    assert_eq!(browser.run(labels), json!([always, always, pressed]));
    let books = "[...document.querySelectorAll('#lost tbody tr')]
      .filter((row) => row.checkVisibility()).map((row) => row.children[0].textContent)";
    assert_eq!(browser.run(books), json!(["Accepted", "Acknowledged", "Stored here"]));
    let height = browser.run("document.getElementById('sources').offsetHeight").as_u64().unwrap();
    assert!(height <= 500, "{height}");
    take_pictures(&mut browser, "signs");
    assert_eq!(browser.errors(), [""; 0]);

    // Without an uplink and with a backlog: words, and a dash where there is no end.
    browser.screen(1280, "light");
    plant.cut(true);
    plant.feed_to(conveyor, &flat("belt", 58..60));
    plant.wait("the uplink is down", |status| status["uplink"]["state"] == "down");
    browser.wait("document.getElementById('uplink-main-drain')?.textContent === '– (uplink away)'");
    let names = texts(&mut browser, "#buffer dt");
    let expected = [
        "Taken",
        "Incoming",
        "Backlog",
        "Backlog holds",
        "Backlog empty in",
        "Oldest",
        "Written to disk",
    ];
    assert_eq!(names, expected);
    take_pictures(&mut browser, "away");
}
