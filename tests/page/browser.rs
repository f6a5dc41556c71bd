//! A headless Chromium, driven by its DevTools protocol over a pipe: JSON messages
//! that end with a zero byte.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::process::wait;

/// For one answer of the browser, far beyond what it takes.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// A browser with one tab; it ends with this.
pub(crate) struct Browser {
    child: Child,
    pipe: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    last_id: u64,
    /// What the console of the tab has been told, errors only.
    errors: Vec<String>,
    _profile: TempDir,
}

/// The browser for `test`, or `None` where there is none. Where there must be one
/// (`TIDEGATE_REQUIRE_CHROMIUM`), a missing one is a failure.
pub(crate) fn browser(test: &str) -> Option<Browser> {
    let is_there = Command::new("chromium").arg("--version").output().is_ok();
    #[expect(clippy::disallowed_methods, reason = "CI says that a skip is a failure")]
    let is_required = std::env::var_os("TIDEGATE_REQUIRE_CHROMIUM").is_some();
    assert!(is_there || !is_required, "chromium is required and not installed");
    if !is_there {
        skip(test);
    }
    is_there.then(Browser::start)
}

#[expect(clippy::print_stdout, reason = "a skip is said, not silent")]
fn skip(test: &str) {
    println!("{test}: skipped, chromium is not installed");
}

impl Browser {
    fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The protocol is spoken on the descriptors 3 and 4. The sandbox needs rights
        // that a container lacks; what is looked at here is our own.
        let mut child = Command::new("sh")
            .args(["-c", r#"exec chromium "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#, "sh"])
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--remote-debugging-pipe", "--no-first-run", "--hide-scrollbars"])
            .args(["--disable-background-networking", "--disable-component-update"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pipe = child.stdin.take().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let (out, messages) = channel();
        std::thread::spawn(move || {
            for message in said.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("JSON of the browser");
                // Nobody listens once the test is over.
                let _ = out.send(message);
            }
        });
        let (session, errors) = (None, Vec::new());
        let mut browser =
            Self { child, pipe, messages, session, last_id: 0, errors, _profile: profile };
        let tab = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": tab["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.pipe.write_all(&bytes).unwrap();
        loop {
            let mut answer = self.messages.recv_timeout(ANSWER_WITHIN).expect(method);
            if answer["id"] == self.last_id {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.errors.push(params.to_string()),
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                self.errors.push(params["entry"].to_string());
            }
            _ => {}
        }
    }

    /// Opens an address in the tab.
    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
        wait("the page is there", || self.run("document.readyState") == "complete");
    }

    /// The value of an expression in the tab; a promise is waited for.
    pub(crate) fn run(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression in the tab is true.
    pub(crate) fn wait(&mut self, expression: &str) {
        wait(expression, || self.run(expression) == true);
    }

    /// Errors of scripts, of policies and of the network so far; forgets them.
    pub(crate) fn errors(&mut self) -> Vec<String> {
        self.run("0");
        std::mem::take(&mut self.errors)
    }

    /// A screen of so many pixels' width, light or dark.
    pub(crate) fn screen(&mut self, width: u32, scheme: &str) {
        let params = json!({
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.call("Emulation.setDeviceMetricsOverride", params);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// A picture of all of the page.
    pub(crate) fn picture(&mut self, path: &Path) {
        let size = self.call("Page.getLayoutMetrics", json!({}))["cssContentSize"].take();
        let (width, height) = (size["width"].as_f64().unwrap(), size["height"].as_f64().unwrap());
        self.detail(path, (width, height), 1.0);
    }

    /// A picture of so many pixels from its top left corner, scaled.
    pub(crate) fn detail(&mut self, path: &Path, (width, height): (f64, f64), scale: f64) {
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": scale });
        let params = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let shot = self.call("Page.captureScreenshot", params);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes(shot["data"].as_str().unwrap())).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What base64 stands for.
fn bytes(base64: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = base64.bytes().filter(|byte| *byte != b'=');
    let values: Vec<u32> =
        digits.map(|byte| DIGITS.iter().position(|digit| *digit == byte).unwrap() as u32).collect();
    let whole = |chunk: &[u32]| {
        let bits = (0..4).fold(0, |bits, i| bits << 6 | chunk.get(i).copied().unwrap_or(0));
        bits.to_be_bytes()[1..chunk.len()].to_vec()
    };
    values.chunks(4).flat_map(whole).collect()
}
