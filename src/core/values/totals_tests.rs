use super::*;
use crate::core::reading::Stamp;
use crate::readings;

fn series(entity: &str) -> Arc<Series> {
    Arc::new(Series { entity: entity.into(), property: "energy_wh".into(), unit: None })
}

fn meter() -> SourceId {
    SourceId::new("meter")
}

/// What is said of an increment of the series `a`.
fn add(totals: &mut Totals, value: Value) -> Result<Value, NoTotal> {
    let said = totals.add(&meter(), &series("a"), (&value, Quality::Good, Flags::NONE));
    said.map(|(value, flags)| {
        assert_eq!(flags, Flags::TOTAL);
        value
    })
}

fn record(value: Value, flags: Flags) -> Record {
    let stamp = Stamp { flags, ..readings::stamp(0) };
    Record { series: series("a"), value, stamp, ..readings::record("meter", 1) }
}

#[test]
fn integers_stay_integers_to_the_last_digit() {
    let mut totals = Totals::default();
    assert_eq!(add(&mut totals, Value::I64(5)), Ok(Value::I64(5)));
    assert_eq!(add(&mut totals, Value::I64(-7)), Ok(Value::I64(-2)));
    assert_eq!(add(&mut totals, Value::I64(i64::MAX)), Ok(Value::I64(i64::MAX - 2)));
    assert_eq!(add(&mut totals, Value::I64(3)), Ok(Value::U64(i64::MAX as u64 + 1)));
    assert_eq!(add(&mut totals, Value::U64(u64::MAX)), Err(NoTotal::Overflow));
    // What was refused has changed nothing.
    let rest = u64::MAX - (i64::MAX as u64 + 1);
    assert_eq!(add(&mut totals, Value::U64(rest)), Ok(Value::U64(u64::MAX)));
    assert_eq!(add(&mut totals, Value::I64(1)), Err(NoTotal::Overflow));
    assert_eq!(add(&mut totals, Value::I64(-1)), Ok(Value::U64(u64::MAX - 1)));
}

#[test]
fn decimals_add_up_without_drift_and_stay_decimals() {
    let mut totals = Totals::default();
    for n in 1..=100_000_u32 {
        let said = add(&mut totals, Value::F64(0.1));
        assert_eq!(said, Ok(Value::F64(f64::from(n) / 10.0)));
    }
    assert_eq!(add(&mut totals, Value::I64(5)), Ok(Value::F64(10_005.0)));
    assert_eq!(add(&mut totals, Value::F64(f64::MAX)), Ok(Value::F64(f64::MAX)));
    assert_eq!(add(&mut totals, Value::F64(f64::MAX)), Err(NoTotal::Overflow));
}

#[test]
fn small_increments_of_a_large_total_are_not_lost_between_its_digits() {
    let mut totals = Totals::default();
    add(&mut totals, Value::F64(1e16)).unwrap();
    for _ in 0..9 {
        add(&mut totals, Value::F64(0.5)).unwrap();
    }
    assert_eq!(add(&mut totals, Value::F64(0.5)), Ok(Value::F64(1e16 + 5.0 - 1.0)));
    assert_eq!(add(&mut totals, Value::F64(1.0)), Ok(Value::F64(1e16 + 6.0)));
}

#[test]
fn what_is_no_increment_adds_nothing() {
    let mut totals = Totals::default();
    add(&mut totals, Value::I64(5)).unwrap();
    let nan = Value::F64(f64::INFINITY);
    for (value, quality, flags) in [
        (Value::I64(9), Quality::Bad, Flags::NONE),
        (nan, Quality::Good, Flags::NONE),
        (Value::I64(9), Quality::Good, Flags::RETAINED),
        (Value::Text("gone".into()), Quality::Bad, Flags::NONE),
    ] {
        let said = totals.add(&meter(), &series("a"), (&value, quality, flags));
        assert_eq!(said, Ok((value, flags)));
    }
    assert_eq!(add(&mut totals, Value::Text("9".into())), Err(NoTotal::NotANumber));
    assert_eq!(add(&mut totals, Value::Bool(true)), Err(NoTotal::NotANumber));
    let uncertain = (&Value::I64(1), Quality::Uncertain, Flags::LEAP);
    let said = totals.add(&meter(), &series("a"), uncertain);
    assert_eq!(said, Ok((Value::I64(6), Flags::LEAP.with(Flags::TOTAL))));
}

#[test]
fn each_source_entity_and_unit_has_its_own() {
    let mut totals = Totals::default();
    let kwh = Arc::new(Series { unit: Some("kWh".into()), ..(*series("a")).clone() });
    for (source, series, expected) in [
        ("meter", series("a"), 1),
        ("meter", series("b"), 1),
        ("other", series("a"), 1),
        ("meter", kwh, 1),
        ("meter", series("a"), 2),
    ] {
        let one = (&Value::I64(1), Quality::Good, Flags::NONE);
        let said = totals.add(&SourceId::new(source), &series, one);
        assert_eq!(said, Ok((Value::I64(expected), Flags::TOTAL)));
    }
}

#[test]
fn the_newest_total_in_the_journal_is_the_state() {
    let mut totals = Totals::open(&Arc::default());
    totals.recall(&record(Value::I64(40), Flags::TOTAL));
    totals.recall(&record(Value::I64(45), Flags::TOTAL));
    totals.recall(&record(Value::I64(7), Flags::NONE));
    totals.recall(&record(Value::I64(3), Flags::TOTAL.with(Flags::RELEASED)));
    assert_eq!(add(&mut totals, Value::I64(1)), Ok(Value::I64(46)));
}

#[test]
fn what_is_saved_is_taken_up_with_all_its_digits() {
    let mut totals = Totals::default();
    for increment in [1e16, 0.5, 0.25] {
        add(&mut totals, Value::F64(increment)).unwrap();
    }
    let saved = totals.saved(Offset(1), Offset(3), 10);
    assert_eq!(saved.through, Offset(3));
    let mut again = Totals::open(&saved);
    again.recall(&record(Value::F64(1e16), Flags::TOTAL));
    assert_eq!(add(&mut again, Value::F64(1.25)), Ok(Value::F64(1e16 + 2.0)));
}

#[test]
fn totals_are_saved_when_the_journal_lets_go_or_grows_far() {
    let mut totals = Totals::default();
    assert_eq!(totals.saved(Offset(9), Offset(10), 100).through, Offset(0), "there are none");
    add(&mut totals, Value::I64(1)).unwrap();
    assert_eq!(totals.saved(Offset(9), Offset(11), 100).through, Offset(11), "the first");
    assert_eq!(totals.saved(Offset(11), Offset(111), 100).through, Offset(11));
    assert_eq!(totals.saved(Offset(11), Offset(112), 100).through, Offset(112));
    assert_eq!(totals.saved(Offset(112), Offset(150), 100).through, Offset(112));
    assert_eq!(totals.saved(Offset(113), Offset(150), 100).through, Offset(150));
}

#[test]
fn there_is_room_for_so_many_and_the_known_ones_go_on() {
    let mut totals = Totals::default();
    let one = (&Value::I64(1), Quality::Good, Flags::NONE);
    let name = |n: usize| format!("{n:0>500}");
    let full = (0..).find(|n| totals.add(&meter(), &series(&name(*n)), one).is_err()).unwrap();
    assert_eq!(full, TOTALS_BYTES_MAX / bytes_of(&meter(), &series(&name(0))));
    assert_eq!(totals.add(&meter(), &series(&name(full)), one), Err(NoTotal::Full));
    let known = totals.add(&meter(), &series(&name(0)), one);
    assert_eq!(known, Ok((Value::I64(2), Flags::TOTAL)));
}
