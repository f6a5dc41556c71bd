use super::*;
use crate::golden;

fn report() -> Report {
    serde_json::from_str(include_str!("../../../tests/cli/status.json")).unwrap()
}

/// The text of a report after a change.
fn after(change: impl FnOnce(&mut Report)) -> String {
    let mut report = report();
    change(&mut report);
    screen::text(&report, Paint::OFF)
}

fn line<'a>(text: &'a str, beginning: &str) -> Option<&'a str> {
    text.lines().find(|line| line.starts_with(beginning))
}

#[test]
fn a_gateway_with_all_its_troubles_fits_a_screen() {
    golden::check("status.txt", &screen::text(&report(), Paint::OFF));
}

#[test]
fn colours_add_nothing_but_colours() {
    let mut coloured = screen::text(&report(), Paint::ON);
    assert!(coloured.contains("\x1b[31mTROUBLE\x1b[0m"), "{coloured}");
    for code in ["0", "1", "2", "31", "32", "33"] {
        coloured = coloured.replace(&format!("\x1b[{code}m"), "");
    }
    assert_eq!(coloured, screen::text(&report(), Paint::OFF));
}

#[test]
fn what_is_not_there_takes_no_line() {
    let text = after(|report| {
        report.degraded.clear();
        report.sources.clear();
        report.windows.clear();
        report.ordered.clear();
        report.notices = [].into();
    });
    for name in ["TROUBLE", "windows", "ordered", "log"] {
        assert_eq!(line(&text, name), None, "{text}");
    }
    assert_eq!(line(&text, "sources"), Some("sources    none"));
}

#[test]
fn a_source_that_is_well_has_its_books_and_no_more() {
    let text = after(|report| {
        report.sources.retain(|one| one.name == "meter");
        let health = report.sources[0].health.as_mut().unwrap();
        (health.state, health.errors, health.missed_polls) = ("up".to_owned(), 0, 0);
    });
    assert_eq!(text.lines().filter(|line| line.starts_with("  meter")).count(), 1, "{text}");
    assert_eq!(line(&text, "  meter:"), None);
}

#[test]
fn one_thing_is_not_several() {
    let text = after(|report| {
        (report.journal.readings, report.journal.segments) = (1, 1);
        report.journal.depth_s = None;
        report.clock.corrections_waiting = 1;
    });
    assert!(text.contains("           1 reading waits, in 1 segment\n"), "{text}");
    assert!(text.contains("           1 correction waits\n"), "{text}");
}

#[test]
fn watching_without_a_terminal_is_one_look_after_the_other() {
    let args =
        |json| Args { config: ConfigFile { path: "tidegate.toml".into() }, json, watch: true };
    assert_eq!(args(false).after("a\n", true, None), "a\n");
    assert_eq!(args(false).after("b\n", false, None), "\nb\n");
    let line = args(true).text(&report(), Paint::OFF).unwrap();
    assert_eq!(line.lines().count(), 1);
    assert_eq!(args(true).after(&line, false, Some(24)), line);
    assert!(args(false).after("b\n", true, Some(24)).starts_with("\x1b[2J\x1b[H\x1b[?7lb\x1b[K"));
}
