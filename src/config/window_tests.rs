use super::super::tests::{check, parse};
use super::*;

const HEAD: &str = "[gateway]\nid = \"gw\"\ndata_dir = \"/d\"\n[[uplink]]\nurl = \"mqtt://b\"\n";

/// The windows of these lines, which follow a head of five.
fn windows_of(lines: &str) -> Vec<WindowSpec> {
    let config = parse(&format!("{HEAD}{lines}\n"));
    assert_eq!(parse(&config.print()), config);
    config.windows
}

/// What is said about a window with these lines; the first of them is line 8.
fn check_window(lines: &str, expected: &str) {
    check(&format!("[[window]]\nname = 'w'\n{lines}"), expected);
}

/// What is said about a tumbling window with this line, which is line 10.
fn check_line(line: &str, expected: &str) {
    let expected = format!("t.toml:10: window.{expected}");
    check_window(&format!("kind = 'tumbling'\nsize = '10s'\n{line}"), &expected);
}

#[test]
fn a_window_has_the_defaults_of_the_contract() {
    let expected = WindowSpec {
        name: "w".into(),
        version: 1,
        sources: Vec::new(),
        entity: "*".to_owned(),
        property: "*".to_owned(),
        kind: Kind::Tumbling { size: Span::from_secs(10), offset: Span::ZERO },
        bound: Span::from_secs(20),
        idle_after: Span::from_secs(60),
        allowed_lateness: Span::from_secs(60),
        late_policy: LatePolicy::SideOutput,
        aggregates: {
            use Aggregate::{Count, Max, Mean, Min, Sum};
            vec![Count, Sum, Mean, Min, Max]
        },
        expected_interval: None,
        idle_flush: None,
        final_marker: true,
        include_bad: false,
        upstream: true,
    };
    assert_eq!(windows_of("[[window]]\nname = 'w'\nkind = 'tumbling'\nsize = '10s'"), [expected]);
}

#[test]
fn every_kind_and_policy_is_read_and_printed() {
    let windows = windows_of(
        "[[source]]\nname = 'a'\ntype = 'stdin'\n\
         [[window]]\nname = '1'\nkind = 'sliding'\nsize = '1m'\nslide = '7s'\noffset = '-1500ms'\n\
         sources = ['a']\nversion = 3\nentity = 'pump-*'\nproperty = 'p?'\nlate_policy = 'grace'\n\
         [[window]]\nname = '2'\nkind = 'session'\ngap = '30s'\nlate_policy = 'adjust'\n\
         late_arrival = '9s'\nout_of_order = '1s'\naggregates = ['twa', 'p99']\n\
         expected_interval = '1s'\nidle_flush = '5m'\nfinal_marker = false\n\
         include_bad = true\nupstream = false\nbound = '0s'\nallowed_lateness = '0s'\n\
         [[window]]\nname = '3'\nkind = 'calendar-day'\nzone = 'Europe/Berlin'\n\
         [[window]]\nname = '4'\nkind = 'session'\ngap = '1ms'\nlate_policy = 'adjust'\n",
    );
    let kinds: Vec<&Kind> = windows.iter().map(|window| &window.kind).collect();
    let zone = "Europe/Berlin".parse().unwrap();
    let offset = Span::from_millis(-1_500);
    let sliding = Kind::Sliding { size: Span::from_secs(60), slide: Span::from_secs(7), offset };
    let session = |gap| Kind::Session { gap };
    let expected = [
        &sliding,
        &session(Span::from_secs(30)),
        &Kind::CalendarDay { zone },
        &session(Span::from_millis(1)),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(windows[0].sources, [SourceId::new("a")]);
    assert_eq!((windows[0].version, windows[0].late_policy), (3, LatePolicy::Grace));
    let adjust = |late_s, order_s| LatePolicy::Adjust {
        late_arrival: Span::from_secs(late_s),
        out_of_order: Span::from_secs(order_s),
    };
    assert_eq!(windows[1].late_policy, adjust(9, 1));
    assert_eq!(windows[3].late_policy, adjust(5, 0));
    assert_eq!(windows[1].aggregates, [Aggregate::Twa, Aggregate::P99]);
    assert_eq!(windows[1].expected_interval, Some(Span::from_secs(1)));
    assert_eq!(windows[1].idle_flush, Some(Span::from_secs(300)));
}

#[test]
fn kinds_have_their_keys_and_no_others() {
    check_window("", "t.toml:6: window.kind: missing; write kind = \"tumbling\"");
    check_window(
        "size = 10\nsources = 'a'\ncolour = 1\ngap = '0s'",
        "t.toml:6: window.kind: missing; write kind = \"tumbling\"\n\
         t.toml:8: window.size: is an integer, not a duration; write a text with its unit, like \
         \"500ms\"\n\
         t.toml:9: window.sources: is a string, not a list; write [\"NAME\", \"NAME\"]\n\
         t.toml:10: window.colour: unknown key; known here: name, sources, version, entity, \
         property, bound, idle_after, allowed_lateness, late_policy, late_arrival, out_of_order, \
         aggregates, expected_interval, idle_flush, final_marker, include_bad, upstream, kind, \
         size, slide, gap, offset, zone\n\
         t.toml:11: window.gap: \"0s\" is out of range; use 1ms to 1year 18h",
    );
    check_window(
        "kind = 'hopping'",
        "t.toml:8: window.kind: \"hopping\" is not known; \
         use tumbling | sliding | session | calendar-day",
    );
    check_window("kind = 'tumbling'", "t.toml:6: window.size: missing; write size = \"10s\"");
    check_line(
        "slide = '5s'",
        "slide: means nothing for a tumbling window; its keys are size, offset; or change kind",
    );
    check_window(
        "kind = 'session'\ngap = '1s'\nsize = '5s'",
        "t.toml:10: window.size: means nothing for a session window; \
         its keys are gap; or change kind",
    );
    check_line(
        "late_arrival = '5s'",
        "late_arrival: means nothing unless late times are adjusted; \
         write late_policy = \"adjust\" or leave it out",
    );
    check_line(
        "colour = 1",
        "colour: unknown key; known here: name, sources, version, entity, \
        property, bound, idle_after, allowed_lateness, late_policy, late_arrival, out_of_order, \
        aggregates, expected_interval, idle_flush, final_marker, include_bad, upstream, kind, \
        slide, gap, zone, size, offset",
    );
}

#[test]
fn lengths_are_checked() {
    check_window(
        "kind = 'tumbling'\nsize = '0s'",
        "t.toml:9: window.size: \"0s\" is out of range; use 1ms to 1year 18h",
    );
    check_line("offset = '10s'", "offset: is not less than size; lower it");
    check_line("offset = '-10s'", "offset: is not less than size; lower it");
    check_line(
        "bound = '1500us'",
        "bound: is not a whole number of milliseconds; windows know no smaller unit",
    );
    check_line("idle_after = '0s'", "idle_after: \"0s\" is out of range; use 100ms to 1year 18h");
    check_line("idle_flush = '0s'", "idle_flush: \"0s\" is out of range; use 1ms to 1year 18h");
    check_window(
        "kind = 'sliding'\nsize = '1h'\nslide = '1ms'",
        "t.toml:10: window.slide: puts each reading into 3600000 windows; \
         use at least size / 10000",
    );
    check_window(
        "kind = 'calendar-day'\nzone = 'Berlin'",
        "t.toml:9: window.zone: \"Berlin\" is no time zone; did you mean \"Europe/Berlin\"?",
    );
}

#[test]
fn names_of_others_are_checked_and_near_ones_suggested() {
    check_line(
        "aggregates = ['variance']",
        "aggregates: there is no aggregate \"variance\"; \
        known here: count, sum, mean, min, max, first, last, range, stddev, twa, p50, p95, p99, rate",
    );
    check_line(
        "aggregates = ['meen']",
        "aggregates: there is no aggregate \"meen\"; did you mean \"mean\"?",
    );
    for (name, ours) in [
        ("avg", "mean"),
        ("Average", "mean"),
        ("stdev", "stddev"),
        ("std_dev", "stddev"),
        ("median", "p50"),
        ("P95", "p95"),
        ("p_99", "p99"),
        ("percentile_95", "p95"),
        ("95th", "p95"),
        ("q0.50", "p50"),
        ("total", "sum"),
    ] {
        check_line(
            &format!("aggregates = ['max', '{name}']"),
            &format!("aggregates: there is no aggregate {name:?}; did you mean {ours:?}?"),
        );
    }
    check_line(
        "aggregates = ['sum', 'sum']",
        "aggregates: names the aggregate \"sum\" twice; leave one",
    );
    check_line(
        "aggregates = []",
        "aggregates: is empty; use some of \
        count, sum, mean, min, max, first, last, range, stddev, twa, p50, p95, p99, rate",
    );
    check_line(
        "aggregates = 'sum'",
        "aggregates: is a string, not a list; write [\"NAME\", \"NAME\"]",
    );
    check_line(
        "aggregates = [1]",
        "aggregates: has an element that is an integer, not a text; put it in quotes",
    );
    check_line(
        "sources = ['a']",
        "sources: there is no source \"a\"; \
        write a [[source]] of that name, or leave it out",
    );
    check_line(
        "sources = ['pipes']\n[[source]]\nname = 'pipe'\ntype = 'stdin'",
        "sources: there is no source \"pipes\"; did you mean \"pipe\"?",
    );
    check_line("entity = ''", "entity: has 0 bytes; use 1 to 512, \"*\" for all");
    check_window(
        "kind = 'session'\ngap = '1s'\n[[window]]\nname = 'w'\nkind = 'session'\ngap = '1s'",
        "t.toml:11: window.name: is the name of the window at line 6 too; give each window its own name",
    );
}
