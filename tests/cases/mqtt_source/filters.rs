//! Filters that leave the configuration leave the broker's session too.

use super::*;

fn filters(list: &[&str]) -> String {
    let topics: Vec<String> = list
        .iter()
        .map(|filter| {
            format!(
                "{{ filter = \"{filter}\", entity = \"e\", property = \"p\", format = \"value\" }}"
            )
        })
        .collect();
    format!("topics = [ {} ]", topics.join(", "))
}

fn seqs(log: &Log) -> std::collections::BTreeSet<u64> {
    on(log, "readings/in").iter().filter_map(|reading| reading["seq"].as_u64()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_was_removed_is_unsubscribed_at_a_restart() {
    for protocol in ["5", "3.1.1"] {
        let version = format!("protocol = \"{protocol}\"\n");
        let (mut plant, peer) = plant(&(version + &filters(&["old/#", "kept/#"]))).await;
        plant.run();
        let mut talk = peer.accept(false);
        send(&mut talk, "kept/a", "1", 1);
        assert_eq!(talk.acknowledged(), Some(1));
        // What it subscribed to is known even after a hard end.
        plant.kill();
        plant.rewrite(&filters(&["old/#", "kept/#"]), &filters(&["kept/#"]));
        plant.run();
        let mut talk = peer.accept(true);
        assert_eq!(talk.unsubscribed(), ["old/#"]);
        send(&mut talk, "kept/a", "2", 2);
        assert_eq!(talk.acknowledged(), Some(2));
        assert_eq!(plant.stop(), Some(0));
        // Once is enough.
        plant.run();
        let mut talk = peer.accept(true);
        send(&mut talk, "kept/a", "3", 3);
        assert_eq!(talk.acknowledged(), Some(3));
        // What was on its way at the hard end may come twice, under its name.
        plant.wait(|log| seqs(log) == [1, 2, 3].into()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_was_removed_is_unsubscribed_at_a_reload() {
    let (mut plant, peer) = plant(&filters(&["old/#", "kept/#"])).await;
    plant.run();
    let mut talk = peer.accept(false);
    send(&mut talk, "old/a", "1", 1);
    assert_eq!(talk.acknowledged(), Some(1));
    plant.rewrite(&filters(&["old/#", "kept/#"]), &filters(&["kept/#", "new/#"]));
    let pid = plant.pid().to_string();
    assert!(std::process::Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    assert_eq!(talk.acknowledged(), None, "a goodbye: the session stays");
    let mut talk = peer.accept(true);
    assert_eq!(talk.unsubscribed(), ["old/#"]);
    send(&mut talk, "new/a", "2", 1);
    assert_eq!(talk.acknowledged(), Some(1));
    plant.wait(|log| seqs(log) == [1, 2].into()).await;
    plant.wait_for_status("it is taken over", |status| {
        status["config"]["last_reload"]["detail"] == "sources changed: in"
    });
}
