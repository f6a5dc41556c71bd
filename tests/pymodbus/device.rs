//! The devices of `server.py`, and the serial line before those that have one.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::process::{Process, free_port, wait};
use crate::support::pty;

/// What a device told before it answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) unit: u8,
    pub(crate) address: u16,
    /// Which answer with this value it was.
    pub(crate) n: u32,
    /// Nanoseconds since 1970, by this machine's clock.
    pub(crate) at: i64,
}

/// A Python with pymodbus, or a word on why the test is skipped.
#[expect(clippy::disallowed_methods, reason = "which Python has it is for whoever runs the test")]
pub(crate) fn python(test: &str) -> Option<String> {
    let python = std::env::var("TIDEGATE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let asked = Command::new(&python).args(["-c", "import pymodbus.simulator"]).output();
    if asked.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let is_required = std::env::var_os("TIDEGATE_REQUIRE_PYMODBUS").is_some();
    assert!(!is_required, "pymodbus is required, and {python} does not have it");
    skip(test, &python);
    None
}

#[expect(clippy::print_stdout, reason = "a skip is said, not silent")]
fn skip(test: &str, python: &str) {
    println!("{test}: skipped, {python} has no pymodbus.simulator: pip install pymodbus==3.16.1");
}

/// All devices: they are up or down together, and say other things each time.
pub(crate) struct Devices {
    python: String,
    pub(crate) rtu_port: u16,
    pub(crate) tcp_port: u16,
    base: u32,
    told: Arc<Mutex<Vec<Told>>>,
    running: Option<Process>,
}

impl Devices {
    pub(crate) fn new(python: String) -> Self {
        let (rtu_port, tcp_port) = (free_port(), free_port());
        Self { python, rtu_port, tcp_port, base: 0, told: Arc::default(), running: None }
    }

    pub(crate) fn up(&mut self) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pymodbus/server.py");
        let numbers = [u32::from(self.rtu_port), u32::from(self.tcp_port), self.base];
        let mut child = Command::new(&self.python)
            .arg(script)
            .args(numbers.map(|number| number.to_string()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        self.base += 1_000;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = Arc::clone(&self.told);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The last may be cut off.
                let Ok(line) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
                let number = |key: &str| line[key].as_i64().unwrap();
                told.lock().unwrap().push(Told {
                    unit: number("unit") as u8,
                    address: number("address") as u16,
                    n: number("n") as u32,
                    at: number("at"),
                });
            }
        });
        self.running = Some(Process(child));
        for port in [self.rtu_port, self.tcp_port] {
            wait("pymodbus listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        }
    }

    pub(crate) fn down(&mut self) {
        self.running.take().unwrap().kill();
    }

    pub(crate) fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap().clone()
    }
}

/// A serial line with a server of serial lines at its other end, which connects to the
/// devices whenever it can.
pub(crate) struct SerialServer {
    pub(crate) path: String,
    _held: OwnedFd,
}

impl SerialServer {
    pub(crate) fn before(port: u16) -> Self {
        let (device, path, held) = pty::line();
        let to_line = File::from(device);
        let mut from_line = to_line.try_clone().unwrap();
        let devices: Arc<Mutex<Option<TcpStream>>> = Arc::default();
        let connected = Arc::clone(&devices);
        std::thread::spawn(move || answers(port, &to_line, &connected));
        std::thread::spawn(move || {
            let mut bytes = [0; 256];
            while let Ok(count) = from_line.read(&mut bytes) {
                // What nobody takes is lost, as on a line.
                if let Some(devices) = devices.lock().unwrap().as_mut() {
                    let _ = devices.write_all(&bytes[..count]);
                }
            }
        });
        Self { path, _held: held }
    }
}

/// Carries answers to the line, until the test ends.
fn answers(port: u16, mut line: &File, connected: &Mutex<Option<TcpStream>>) {
    loop {
        let Ok(mut devices) = TcpStream::connect(("127.0.0.1", port)) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        devices.set_nodelay(true).unwrap();
        *connected.lock().unwrap() = Some(devices.try_clone().unwrap());
        let mut bytes = [0; 256];
        while let Ok(count @ 1..) = devices.read(&mut bytes) {
            if line.write_all(&bytes[..count]).is_err() {
                return;
            }
        }
        let _ = devices.shutdown(Shutdown::Both);
        *connected.lock().unwrap() = None;
    }
}
