//! What the agent writes to disk, by the kernel's count.

use crate::agent::Plant;
use crate::support::process::wait;
use crate::support::script::Script;

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_agent_writes_nothing() {
    let plant = Plant::start(Script::default(), "", &["in"]).await;
    plant.feed("in", 100).join();
    plant.wait_for_status("nothing waits", |status| status["uplink"]["backlog"] == 0);
    let written = || plant.kernel_says("io", "write_bytes");
    // The last acknowledgements go into a commit a second later at most.
    let mut last = (0, 0.0);
    wait("it has settled", || {
        let uptime_s = plant.status()["uptime_s"].as_f64().unwrap();
        if written() != last.0 {
            last = (written(), uptime_s);
        }
        uptime_s > last.1 + 2.0
    });
    let before = (written(), plant.kernel_says("io", "syscw"));
    let from = plant.status()["uptime_s"].as_f64().unwrap();
    // Sixty commit intervals, and three of the once-a-second kind.
    plant.wait_for_status("it goes on", |status| status["uptime_s"].as_f64().unwrap() > from + 3.0);
    assert_eq!(written(), before.0);
    let status = plant.status();
    assert_eq!(status["journal"]["disk_written_bytes"], before.0);
    // What a start writes is no rate.
    assert_eq!(status["journal"]["disk_bytes_per_day"], serde_json::Value::Null);
    assert_eq!(status["journal"]["disk_bytes_per_reading"], serde_json::Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_readings_a_second_cost_at_most_two_syncs_a_second() {
    let mut plant = Plant::new(Script::default(), "", &[]).await;
    plant.rewrite("commit_interval = \"50ms\"\n", "");
    plant.configure("[[source]]\nname = \"sim\"\ntype = \"simulate\"\nrate = 10.0");
    plant.run();
    plant.wait_for_status("fifty readings", |status| {
        status["sources"][0]["accepted"].as_u64().unwrap() >= 50
    });
    let metrics = plant.page("/metrics");
    let count =
        metrics.lines().find_map(|line| line.strip_prefix("tidegate_commit_seconds_count "));
    let commits: f64 = count.unwrap().parse().unwrap();
    let uptime_s = plant.status()["uptime_s"].as_f64().unwrap();
    assert!(commits <= 2.0 * uptime_s + 2.0, "{commits} commits in {uptime_s} s");
    assert!(metrics.contains("tidegate_disk_written_bytes_total"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_small_commits_are_as_cheap_as_before() {
    let mut plant = Plant::start(Script::default(), "", &["in"]).await;
    plant.feed("in", 200).join();
    plant.kill();
    plant.run();
    plant.wait_for_status("it is back", |status| status["uplink"]["state"] == "up");
    let before = plant.kernel_says("io", "write_bytes");
    for _ in 0..40 {
        plant.feed("in", 1).join();
    }
    let each = (plant.kernel_says("io", "write_bytes") - before) / 40;
    assert!(each < 48 * 1024, "{each} bytes a commit");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_commit_is_written_once() {
    let plant = Plant::start(Script::default(), "", &["in"]).await;
    plant.cut_off();
    plant.feed("in", 10).join();
    let before = plant.kernel_says("io", "write_bytes");
    for _ in 0..100 {
        plant.feed("in", 1).join();
    }
    // One block of 4,096 bytes each, and at times a leaf of the tree. A transaction of sled
    // would write every block twice.
    let each = (plant.kernel_says("io", "write_bytes") - before) / 100;
    assert!(each < 8 * 1024, "{each} bytes a commit");
}
