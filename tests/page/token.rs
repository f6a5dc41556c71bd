//! The page of a gateway that asks for a token.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::browser::browser;
use super::care::is_legible;
use super::plant::Plant;

const TOKEN: &str = "0123456789abcdef";

fn enter(token: &str) -> String {
    format!(
        "document.getElementById('token').value = '{token}'; \
         document.getElementById('ask').requestSubmit()"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_asks_for_the_token_and_keeps_it_out_of_addresses() {
    let Some(mut browser) = browser("the page and its token") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, format!("{TOKEN}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let plant = Plant::start(&format!("token_file = \"{}\"", path.display())).await;
    browser.open(&plant.url());
    browser.wait("!document.getElementById('ask').hidden");
    assert_eq!(browser.run("document.getElementById('data').hidden"), true);
    for scheme in ["light", "dark"] {
        browser.screen(390, scheme);
        is_legible(&mut browser, scheme);
    }
    let trouble = "document.getElementById('ask-trouble').textContent";
    assert_eq!(browser.run(trouble), "");

    browser.run(&enter("no such token at all"));
    browser.wait(&format!("{trouble} === 'The gateway does not take this token.'"));
    assert_eq!(browser.run("document.getElementById('data').hidden"), true);

    browser.run(&enter(TOKEN));
    let shown = "document.getElementById('data')?.hidden === false \
                 && document.getElementById('gateway').textContent === 'gw-07'";
    browser.wait(shown);
    assert_eq!(browser.run("document.getElementById('ask').hidden"), true);

    // It is known to this tab, and to nothing that lasts or is seen by others.
    browser.open(&plant.url());
    browser.wait(shown);
    let kept = json!([[TOKEN], 0, ""]);
    assert_eq!(
        browser.run("[Object.values(sessionStorage), localStorage.length, document.cookie]"),
        kept
    );
    let addresses = "[location.href, ...performance.getEntries().map((one) => one.name)].join(' ')";
    let addresses = browser.run(addresses);
    let addresses = addresses.as_str().unwrap();
    assert!(addresses.contains("/api/v1/windows") && !addresses.contains(TOKEN), "{addresses}");
}
