//! A reader that feeds numbered lines over TCP and, after a broken connection,
//! sends again from the first line that was not acknowledged.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Lines on the way without acknowledgement.
const AHEAD_MAX: u64 = 20_000;

#[derive(Debug)]
pub(crate) struct Feeder {
    pub(crate) acked: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<()>,
}

impl Feeder {
    /// Feeds `{"entity":…,"property":"n","value":1}` to `count`.
    pub(crate) fn start(port: u16, entity: &str, count: u64) -> Self {
        Self::heavy(port, entity, count, 0)
    }

    /// The same, each with an id of so many characters that do not compress: that
    /// many bytes more on the agent's disk.
    pub(crate) fn heavy(port: u16, entity: &str, count: u64, id_chars: usize) -> Self {
        let acked = Arc::new(AtomicU64::new(0));
        let load = Load { entity: entity.to_owned(), count, id_chars };
        let shared = Arc::clone(&acked);
        let thread = std::thread::spawn(move || {
            while shared.load(Ordering::SeqCst) < count {
                if feed(port, &load, &shared).is_err() {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        });
        Self { acked, thread }
    }

    pub(crate) fn acked(&self) -> u64 {
        self.acked.load(Ordering::SeqCst)
    }

    pub(crate) fn join(self) {
        self.thread.join().unwrap();
    }
}

/// What is fed.
struct Load {
    entity: String,
    count: u64,
    id_chars: usize,
}

impl Load {
    fn write(&self, text: &mut String, n: u64) {
        let entity = &self.entity;
        let _ = write!(text, "{{\"entity\":\"{entity}\",\"property\":\"n\",\"value\":{n}");
        if self.id_chars > 0 {
            text.push_str(",\"id\":\"");
            let mut draws = n;
            for _ in 0..self.id_chars.div_ceil(8) {
                draws = draws.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ n;
                let _ = write!(text, "{:08x}", draws >> 32);
            }
            text.push('"');
        }
        text.push_str("}\n");
    }
}

fn feed(port: u16, load: &Load, acked: &Arc<AtomicU64>) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let base = acked.load(Ordering::SeqCst);
    let is_over = Arc::new(AtomicBool::new(false));
    let answers = BufReader::new(stream.try_clone()?);
    let (shared, over) = (Arc::clone(acked), Arc::clone(&is_over));
    let reader = std::thread::spawn(move || {
        for line in answers.lines().map_while(Result::ok) {
            let answer: serde_json::Value = serde_json::from_str(&line).unwrap();
            shared.store(base + answer["acked"].as_u64().unwrap(), Ordering::SeqCst);
        }
        over.store(true, Ordering::SeqCst);
    });
    let outcome = send(&mut stream, load, base + 1..load.count + 1, acked, &is_over);
    // The connection may be gone already; then there is nothing to close.
    let _ = stream.shutdown(Shutdown::Write);
    reader.join().unwrap();
    outcome
}

fn send(
    stream: &mut TcpStream,
    load: &Load,
    numbers: std::ops::Range<u64>,
    acked: &AtomicU64,
    is_over: &AtomicBool,
) -> std::io::Result<()> {
    let mut text = String::new();
    for n in numbers.clone() {
        load.write(&mut text, n);
        if text.len() > 32 * 1024 || n + 1 == numbers.end {
            stream.write_all(text.as_bytes())?;
            text.clear();
        }
        while n > acked.load(Ordering::SeqCst) + AHEAD_MAX && !is_over.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if is_over.load(Ordering::SeqCst) {
            return Err(std::io::ErrorKind::ConnectionReset.into());
        }
    }
    Ok(())
}
