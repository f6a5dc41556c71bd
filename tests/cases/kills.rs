//! The agent killed again and again while it is fed and sends; the power cut.

use crate::agent::Plant;
use crate::ledger::Ledger;
use crate::support::process::wait;
use crate::support::script::Script;
use crate::support::shim::VolatileDisk;

const KILLS: u64 = 100;

/// SplitMix64.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 31)
}

#[tokio::test(flavor = "multi_thread")]
async fn b_02_a_hundred_kills_lose_and_confuse_nothing() {
    const COUNT: u64 = 150_000;
    let mut plant = Plant::new(Script::default(), "", &[("in", "")]).await;
    plant.rewrite("50ms\"", "20ms\"\nsegment_bytes = \"1MiB\"");
    let feeder = plant.feed_heavy("in", "n", COUNT, 0);
    let mut draws = 41;
    for kill in 0..KILLS {
        plant.run();
        // Anywhere: while it starts, while it is fed, while it sends.
        let more = draw(&mut draws) % (2 * COUNT / KILLS);
        let until = (feeder.acked() + more).min(COUNT * (kill + 1) / KILLS);
        wait("more is acknowledged", || feeder.acked() >= until);
        plant.kill();
    }
    plant.run();
    feeder.join();
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let books = plant.status()["sources"][0].clone();
    let ledger = Ledger::of(&plant.broker.log(), "in");
    ledger.assert_complete(books["accepted"].as_u64().unwrap());
    assert_eq!(ledger.missing, [].into());
    assert!(ledger.values("n").into_iter().eq(1..=COUNT), "a receipt without a delivery");
    assert_eq!(plant.stop(), Some(0));
}

/// The page cache is lost with the power: of every file what was synced, of every
/// folder the names that were. No run of a virtual machine, but stricter than one: a
/// file system writes much of the rest too before the power goes.
#[tokio::test(flavor = "multi_thread")]
async fn b_02_ten_power_cuts_lose_nothing_that_was_acknowledged() {
    const COUNT: u64 = 60_000;
    const CUTS: u64 = 10;
    let mut plant = Plant::new(Script::default(), "", &[("in", "")]).await;
    let site = plant.folder().join("site");
    std::fs::create_dir(&site).unwrap();
    let Some(disk) = VolatileDisk::build(plant.folder(), &site, "a power cut") else { return };
    // Below folders that the agent makes: their names must last too.
    let journal = "commit_interval = \"20ms\"\nsegment_bytes = \"256KiB\"";
    plant.rewrite("commit_interval = \"50ms\"", journal);
    plant.rewrite("/data\"", "/site/lib/data\"");
    let feeder = plant.feed_heavy("in", "n", COUNT, 64);
    let mut draws = 7;
    for cut in 0..CUTS {
        plant.run_on_volatile(&disk);
        let more = draw(&mut draws) % (2 * COUNT / CUTS);
        let until = (feeder.acked() + more).clamp(1, COUNT * (cut + 1) / CUTS);
        wait("more is acknowledged", || feeder.acked() >= until);
        plant.kill();
        disk.cut_power();
    }
    plant.run_on_volatile(&disk);
    feeder.join();
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let books = plant.status()["sources"][0].clone();
    // One epoch: the numbering went on after each cut.
    let ledger = Ledger::of(&plant.broker.log(), "in");
    ledger.assert_complete(books["accepted"].as_u64().unwrap());
    assert_eq!(ledger.missing, [].into(), "no reading was lost by the agent's own word");
    assert!(ledger.values("n").into_iter().eq(1..=COUNT), "a receipt without a delivery");
    assert_eq!(plant.stop(), Some(0));
}
