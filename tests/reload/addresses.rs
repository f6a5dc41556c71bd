//! Addresses that change hands, are lost on the way, or are not there yet.

use std::path::Path;
use std::process::Command;

use super::*;

fn unix(name: &str, path: &Path, keys: &str) -> String {
    format!(
        "[[source]]\nname = \"{name}\"\ntype = \"listen\"\naddress = \"unix:{}\"\n{keys}\n",
        path.display()
    )
}

fn wait_for_state(plant: &Plant, sources: &[&str], state: &str) {
    wait(state, || sources.iter().all(|source| health(plant, source)["state"] == state));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_widens_to_all_interfaces_and_narrows_again() {
    let port = free_port();
    let plant = plant(&[listen("in", port, "")]).await;
    assert_eq!(Sender::connect(port).count(1), json!({"acked": 1}));
    let (narrow, wide) = (format!("\"127.0.0.1:{port}\""), format!("\"0.0.0.0:{port}\""));
    for (from, to) in [(&narrow, &wide), (&wide, &narrow)] {
        plant.rewrite(from, to);
        assert_eq!(reload(&plant), (true, "sources changed: in".to_owned()));
        assert_eq!(Sender::connect(port).count(1), json!({"acked": 1}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_are_lost_on_the_way_are_bound_again_by_those_that_had_them() {
    let mut plant = Plant::new(Script::default(), "", &[]).await;
    let folder = plant.folder().join("run");
    std::fs::create_dir(&folder).unwrap();
    let (one, two) = (folder.join("one.sock"), folder.join("two.sock"));
    plant.configure(&(unix("a", &one, "") + &unix("b", &two, "")));
    plant.run();
    plant.status();
    let good = std::fs::read_to_string(&plant.config).unwrap();
    plant.rewrite(&unix("a", &one, ""), &unix("a", &two, ""));
    plant.rewrite(&unix("b", &two, ""), &unix("b", &one, ""));
    std::fs::remove_dir_all(&folder).unwrap();
    let (is_ok, detail) = reload(&plant);
    let lost = format!("source a: cannot listen on unix:{}: ", two.display());
    assert!(!is_ok && detail.contains(&lost), "{detail}");
    wait_for_state(&plant, &["a", "b"], "down");

    std::fs::write(&plant.config, good).unwrap();
    assert_eq!(reload(&plant), (true, "no source has changed".to_owned()));
    wait_for_state(&plant, &["a", "b"], "down");
    std::fs::create_dir(&folder).unwrap();
    wait_for_state(&plant, &["a", "b"], "up");
    for path in [&one, &two] {
        std::os::unix::net::UnixStream::connect(path).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_away_keeps_no_reload() {
    let port = free_port();
    let mut plant = Plant::new(Script::default(), "", &[]).await;
    let folder = plant.folder().join("run");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("in.sock");
    plant.configure(&unix("in", &path, ""));
    plant.run();
    plant.status();
    // Not of this machine: of the block for documentation.
    let away = listen("away", port, "").replace("127.0.0.1", "192.0.2.7");
    plant.configure(&away);
    let reason = format!(
        "source away waits: cannot listen on 192.0.2.7:{port}: Cannot assign requested address (os \
         error 99)"
    );
    assert_eq!(reload(&plant), (true, format!("sources added: away; {reason}")));
    wait_for_state(&plant, &["away"], "down");
    wait_for_state(&plant, &["in"], "up");

    // The same address as before, lost meanwhile: another map is taken all the same.
    std::fs::remove_dir_all(&folder).unwrap();
    let map = "[source.map]\nentity = \"/device\"\n";
    plant.rewrite(&unix("in", &path, ""), &unix("in", &path, map));
    let (is_ok, detail) = reload(&plant);
    let waits =
        format!("sources changed: in; source in waits: cannot listen on unix:{}", path.display());
    assert!(is_ok && detail.starts_with(&waits), "{detail}");
    wait_for_state(&plant, &["in"], "down");
    std::fs::create_dir(&folder).unwrap();
    wait_for_state(&plant, &["in"], "up");

    // Nobody waits for what is not wanted any more.
    plant.rewrite(&away, &listen("away", port, ""));
    assert_eq!(reload(&plant), (true, "sources changed: away".to_owned()));
    assert_eq!(Sender::connect(port).count(1), json!({"acked": 1}));
}

/// As on a disk that does not answer: a pipe without a writer.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_read_in_time_leaves_all_as_it_was() {
    let port = free_port();
    let plant = plant(&[listen("in", port, "")]).await;
    let aside = plant.folder().join("good.toml");
    std::fs::rename(&plant.config, &aside).unwrap();
    assert!(Command::new("mkfifo").arg(&plant.config).status().unwrap().success());
    let (is_ok, detail) = reload(&plant);
    let said = format!("{}: not read within 10s; ", plant.config.display());
    assert!(!is_ok && detail.starts_with(&said), "{detail}");
    assert_eq!(Sender::connect(port).count(1), json!({"acked": 1}));
    std::fs::rename(&aside, &plant.config).unwrap();
    assert_eq!(reload(&plant), (true, "no source has changed".to_owned()));
}
