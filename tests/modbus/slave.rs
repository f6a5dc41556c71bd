//! A device that speaks RTU, one question after the other: on a serial line, or
//! behind a transparent serial server.

use std::fs::File;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::support::modbus::{Asked, rtu};

/// What the device does.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// It says these bytes.
    Say(Vec<u8>),
    /// It does nothing for so long, or until somebody asks again.
    Linger(Duration),
}

type Question = [u8; 8];

/// Everything a device was asked so far.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Asked>>>);

impl Log {
    pub(crate) fn all(&self) -> Vec<Asked> {
        self.0.lock().unwrap().clone()
    }

    fn add(&self, question: &Question) -> Asked {
        let word = |at: usize| u16::from_be_bytes([question[at], question[at + 1]]);
        let mut all = self.0.lock().unwrap();
        let one = Asked {
            number: all.len() + 1,
            id: 0,
            unit: question[0],
            function: question[1],
            address: word(2),
            count: word(4),
        };
        all.push(one);
        one
    }
}

/// The answer that says these registers.
pub(crate) fn good(asked: &Asked, word: impl Fn(u16) -> u16) -> Act {
    Act::Say(rtu(asked.unit, &asked.words(word)))
}

async fn answer(
    mut questions: UnboundedReceiver<Question>,
    log: Log,
    script: impl Fn(&Asked) -> Vec<Act>,
    mut say: impl FnMut(Vec<u8>),
) {
    let mut next = None;
    loop {
        let question = match next.take() {
            Some(question) => question,
            None => match questions.recv().await {
                Some(question) => question,
                None => return,
            },
        };
        for act in script(&log.add(&question)) {
            match act {
                Act::Say(bytes) => say(bytes),
                Act::Linger(time) => next = timeout(time, questions.recv()).await.ok().flatten(),
            }
        }
    }
}

/// Answers on a line as a script says, until the test ends.
pub(crate) fn serve(device: OwnedFd, script: impl Fn(&Asked) -> Vec<Act> + Send + 'static) -> Log {
    let log = Log::default();
    let mut reading = File::from(device);
    let mut writing = reading.try_clone().unwrap();
    let (asks, questions) = unbounded_channel();
    std::thread::spawn(move || {
        let mut question = [0; 8];
        while reading.read_exact(&mut question).is_ok() && asks.send(question).is_ok() {}
    });
    let say = move |bytes: Vec<u8>| writing.write_all(&bytes).unwrap();
    tokio::spawn(answer(questions, log.clone(), script, say));
    log
}

/// A serial server with one device: it passes on what any connection says, and what
/// the device says to all of them.
pub(crate) async fn serial_server(
    script: impl Fn(&Asked) -> Vec<Act> + Send + 'static,
) -> (SocketAddr, Log) {
    let log = Log::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (asks, questions) = unbounded_channel();
    let ears: Arc<Mutex<Vec<UnboundedSender<Vec<u8>>>>> = Arc::default();
    let heard = Arc::clone(&ears);
    let say = move |bytes: Vec<u8>| {
        heard.lock().unwrap().retain(|ear| ear.send(bytes.clone()).is_ok());
    };
    tokio::spawn(answer(questions, log.clone(), script, say));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (mut reading, mut writing) = stream.into_split();
            let (ear, mut hears) = unbounded_channel::<Vec<u8>>();
            ears.lock().unwrap().push(ear);
            let asks = asks.clone();
            tokio::spawn(async move {
                let mut question = [0; 8];
                while reading.read_exact(&mut question).await.is_ok() {
                    asks.send(question).unwrap();
                }
            });
            tokio::spawn(async move {
                while let Some(bytes) = hears.recv().await {
                    if writing.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, log)
}
