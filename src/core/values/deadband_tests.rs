use super::*;

fn rule(property: &str, band: Band) -> Rule {
    Rule { entity: None, property: property.to_owned(), band, max_silence: None }
}

fn kept(value: Value, quality: Quality, at_s: i64) -> Kept {
    Kept { value, quality, at: EventTime::from_unix_ns(at_s * 1_000_000_000) }
}

/// Which of these readings of one series are kept, by their place.
fn places(rule: Rule, readings: &[Kept]) -> Vec<usize> {
    let mut deadbands = Deadbands::default();
    let series = Arc::new(Series { entity: "e".into(), property: "p".into(), unit: None });
    let source = SourceId::new("s");
    let rules = [rule];
    let mut keeps = |now: &Kept| deadbands.keeps(&rules, &source, &series, now.clone());
    (0..readings.len()).filter(|place| keeps(&readings[*place])).collect()
}

fn values(values: &[Value]) -> Vec<Kept> {
    values.iter().map(|value| kept(value.clone(), Quality::Good, 0)).collect()
}

#[test]
fn what_counts_is_the_last_kept_value_so_creeping_is_seen() {
    let whole = [10, 12, 11, 8, 7, 9, 10].map(Value::I64);
    assert_eq!(places(rule("p", Band::Absolute(2.0)), &values(&whole)), [0, 4, 6]);
    let real = [1.0, 1.25, 1.5, 1.75, 2.0].map(Value::F64);
    assert_eq!(places(rule("p", Band::Absolute(0.5)), &values(&real)), [0, 3]);
    let large = [i64::MAX - 1, i64::MAX].map(Value::I64);
    assert_eq!(places(rule("p", Band::Absolute(0.5)), &values(&large)), [0, 1]);
    let mixed = [Value::U64(u64::MAX), Value::I64(-1), Value::F64(-1.5)];
    assert_eq!(places(rule("p", Band::Absolute(1.0)), &values(&mixed)), [0, 1]);
}

#[test]
fn a_percentage_is_of_the_last_kept_value() {
    let real = [200.0, 201.0, 202.0, 202.5, -10.0, -10.1, -10.25, 0.0, 0.0, 0.001].map(Value::F64);
    assert_eq!(places(rule("p", Band::Percent(1.0)), &values(&real)), [0, 3, 4, 6, 7, 9]);
}

#[test]
fn another_quality_and_what_is_no_number_always_pass() {
    let all = [
        kept(Value::I64(1), Quality::Good, 0),
        kept(Value::I64(1), Quality::Uncertain, 0),
        kept(Value::I64(1), Quality::Uncertain, 0),
        kept(Value::F64(f64::NAN), Quality::Uncertain, 0),
        kept(Value::F64(f64::NAN), Quality::Uncertain, 0),
        kept(Value::I64(1), Quality::Uncertain, 0),
        kept(Value::Text("on".into()), Quality::Uncertain, 0),
        kept(Value::Text("on".into()), Quality::Uncertain, 0),
        kept(Value::Bool(true), Quality::Uncertain, 0),
        kept(Value::F64(f64::INFINITY), Quality::Uncertain, 0),
        kept(Value::F64(f64::INFINITY), Quality::Uncertain, 0),
    ];
    assert_eq!(places(rule("p", Band::Absolute(5.0)), &all), [0, 1, 3, 4, 5, 6, 7, 8, 9, 10]);
}

#[test]
fn silence_ends_by_event_time_whichever_way_it_went() {
    let max_silence = Some(Span::from_secs(60));
    let at = |at_s| kept(Value::I64(1), Quality::Good, at_s);
    let all = [at(100), at(159), at(160), at(150), at(219), at(220), at(90), at(100)];
    let rule = Rule { max_silence, ..rule("p", Band::Absolute(5.0)) };
    assert_eq!(places(rule, &all), [0, 2, 5, 6]);
}

#[test]
fn the_first_rule_that_matches_counts_and_series_do_not_mix() {
    let of = |entity: &str, property: &str| {
        Arc::new(Series { entity: entity.into(), property: property.into(), unit: None })
    };
    let only = Rule { entity: Some("a".to_owned()), ..rule("temp_in", Band::Absolute(5.0)) };
    let rules = [only, rule("temp_*", Band::Absolute(1.0))];
    let mut deadbands = Deadbands::default();
    let mut keeps = |source: &str, series: &Arc<Series>, value| {
        let now = kept(Value::I64(value), Quality::Good, 0);
        deadbands.keeps(&rules, &SourceId::new(source), series, now)
    };
    let (a, b, other) = (of("a", "temp_in"), of("b", "temp_in"), of("a", "level"));
    assert_eq!([&a, &b, &other].map(|series| keeps("s", series, 0)), [true; 3]);
    assert_eq!([&a, &b, &other].map(|series| keeps("s", series, 3)), [false, true, true]);
    assert_eq!([&a, &b, &other].map(|series| keeps("s", series, 3)), [false, false, true]);
    assert!(keeps("t", &a, 3), "another source's");
}
