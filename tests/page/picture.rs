//! The picture of the README: `TIDEGATE_PICTURE=docs/page.png cargo test --test page picture`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::browser::browser;
use super::support::broker::ScriptedBroker;
use super::support::process::{Process, free_port, wait};
use super::support::script::Script;

/// Two lines of machines as they might be, in disorder.
fn configuration(folder: &Path, broker: u16, http: u16) -> String {
    let mut text = format!(
        "[gateway]\nid = \"gw-07\"\ndata_dir = \"{}/data\"\n[clock]\nhold_unsynchronized = \"0s\"\n\
         [http]\nlisten = \"127.0.0.1:{http}\"\n[[uplink]]\nurl = \"mqtt://127.0.0.1:{broker}\"\n",
        folder.display()
    );
    for (name, seed, rate) in [("press-line", 3, 30.0), ("furnace", 5, 12.0)] {
        let _ = write!(
            text,
            "[[source]]\nname = \"{name}\"\ntype = \"simulate\"\nseed = {seed}\nrate = {rate:?}\n\
             disorder = \"2500ms\"\n[source.time]\nlatency_max = \"3s\"\n"
        );
    }
    text + "[[window]]\nname = \"mean-2s\"\nkind = \"tumbling\"\nsize = \"2s\"\nbound = \"1s\"\n\
            allowed_lateness = \"8s\"\naggregates = [\"count\", \"mean\", \"min\", \"max\"]\n"
}

#[tokio::test(flavor = "multi_thread")]
async fn the_picture_of_the_readme() {
    #[expect(clippy::disallowed_methods, reason = "a picture is taken where one is asked for")]
    let Some(path) = std::env::var_os("TIDEGATE_PICTURE") else { return };
    let Some(mut browser) = browser("the picture of the README") else { return };
    let broker = ScriptedBroker::start(Script::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let http = free_port();
    let config = folder.path().join("tidegate.toml");
    std::fs::write(&config, configuration(folder.path(), broker.port(), http)).unwrap();
    let agent =
        Command::new(env!("CARGO_BIN_EXE_tidegate")).args(["run", "-c"]).arg(&config).spawn();
    let _agent = Process(agent.unwrap());
    wait("the agent listens", || std::net::TcpStream::connect(("127.0.0.1", http)).is_ok());
    // So that the picture is the same whatever this machine's clock is like.
    let vouch = ["clock", "set", "now", "--error", "12ms", "-c"];
    let vouched =
        Command::new(env!("CARGO_BIN_EXE_tidegate")).args(vouch).arg(&config).status().unwrap();
    assert!(vouched.success());
    browser.screen(1180, "light");
    browser.open(&format!("http://127.0.0.1:{http}/"));
    browser.wait("document.querySelectorAll('.chart:first-child .point').length >= 16");
    browser.detail(Path::new(&path), (1180.0, 960.0), 0.75);
}
