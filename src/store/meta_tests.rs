use super::*;
use crate::core::reading::Series;
use crate::core::seam::{ClockLedger, SeqSet};
use crate::core::time::TimebaseId;
use crate::core::values::decimal::Decimal;
use crate::core::values::totals::{SavedTotals, Total};

#[test]
fn a_meta_comes_back_as_it_went() {
    let books = SourceMeta {
        tail: Seq(9),
        vouched: Seq(5),
        accepted: 8,
        acknowledged: 3,
        evicted: 2,
        lost: 1,
        newest_event: Some(EventTime::from_unix_ns(-5)),
    };
    let epoch = Epoch { number: 2, nonce: 77 };
    let set = SeqSet { through: Seq(4), ranges: vec![(Seq(6), Seq(7))] };
    let own = UplinkMeta {
        frontier: Offset(11),
        done: vec![(Offset(12), Offset(14))],
        handed: [((SourceId::new("plc"), epoch), set.clone())].into(),
        refused: Some([((SourceId::new("plc"), epoch), set)].into()),
    };
    let series = Series { entity: "e".into(), property: "p".into(), unit: Some("Wh".into()) };
    let sum = Decimal::of(-1.25).unwrap().plus(Decimal::whole(1 << 80));
    let total = Total { sum, is_real: true };
    let meta = Meta {
        epoch,
        start: Offset(3),
        frontier: Offset(10),
        done: vec![(Offset(12), Offset(13)), (Offset(20), Offset(25))],
        sources: [(SourceId::new("plc"), books)].into(),
        renumberings: Renumberings(vec![Renumbering {
            from: Epoch { number: 1, nonce: 7 },
            to: epoch,
            bases: [(SourceId::new("plc"), Seq(3))].into(),
            until: Offset(29),
        }]),
        sealed: Offset(28),
        retimed: vec![(Offset(0), Offset(27)), (Offset(28), Offset(30))],
        uplinks: [(Arc::from("cloud"), own)].into(),
        positions: [(SourceId::new("log"), Arc::from(*b"here"))].into(),
        alive: Some((BootId([3; 16]), Uptime::from_ns(77))),
        clock: Arc::new(ClockLedger { timebase: TimebaseId(4), ..ClockLedger::default() }),
        totals: Arc::new(SavedTotals {
            through: Offset(25),
            totals: [(SourceId::new("plc"), [(Arc::new(series), total)].into())].into(),
        }),
        ..Meta::default()
    };
    let state = State { meta, next: Offset(30) };
    let (stored, clocks, ways, totals) = stored_whole(&state);
    assert_eq!(whole_state((stored, Some(clocks), Some(ways), Some(totals))), state);
}

#[test]
fn what_format_1_wrote_went_out_as_stamped() {
    let meta = Meta { frontier: Offset(10), ..Meta::default() };
    let state = whole_state((StoredState::of(&meta, Offset(30)), None, None, None));
    assert_eq!(state, State { meta: Meta { sealed: Offset(30), ..meta }, next: Offset(30) });
}

#[test]
fn tails_show_readings_that_no_frame_shows() {
    let meta = |tail| Meta {
        sources: [(SourceId::new("plc"), SourceMeta { tail: Seq(tail), ..Default::default() })]
            .into(),
        ..Default::default()
    };
    let mut contents = Contents::new();
    widen_by_tails(&mut contents, &meta(5), &meta(9));
    let range = contents[&(SourceId::new("plc"), Epoch::default())];
    assert_eq!((range.first, range.last), (Seq(6), Seq(9)));
}
