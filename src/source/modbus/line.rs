//! A line of RTU: a serial port, or a serial server that is reached over TCP.
//!
//! Its answers carry no number. An answer that comes late looks like the next one
//! where both are of the same unit, function and length, as of two sources that read
//! one device at two paces. So, for a line:
//!
//! - Whoever uses it shares it here and takes turns: each exchange has it for itself.
//! - A question is owed until it is answered. While it is, nobody asks its unit: for
//!   twice the time that the answer had, counted from the question. That whoever
//!   asked is gone, stopped by a reload, or that the line was closed since, changes
//!   nothing: the answer may come all the same.
//! - What came while nobody asked is thrown away before each question.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::frame::{Framing, Request};
use super::link::{Asked, Fault, connect, exchange};
use super::serial::{self, Port};
use crate::config::modbus::ModbusLine;

/// After a fault, the line counts as quiet when nothing has come for this long.
const QUIET: Duration = Duration::from_millis(20);
/// Longest wait for a quiet line; then it is used all the same.
const QUIET_WITHIN: Duration = Duration::from_millis(500);
/// Most reads that throw away what came meanwhile: some peers never stop.
const DISCARDS_MAX: u32 = 64;

/// What a line is made of.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin + Send + std::fmt::Debug {
    /// Throws away what came so far.
    ///
    /// # Errors
    /// It is gone.
    fn discard(&mut self) -> io::Result<()>;
}

impl Wire for TcpStream {
    fn discard(&mut self) -> io::Result<()> {
        let mut bytes = [0; 512];
        for _ in 0..DISCARDS_MAX {
            match self.try_read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::NotConnected.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Open {
    wire: Box<dyn Wire>,
    silence: Duration,
    silent_from: Instant,
}

/// A line that is open, or will be when it is next needed.
#[derive(Debug)]
pub(super) struct SharedLine {
    line: ModbusLine,
    /// Fair: whoever waits longest is next.
    place: tokio::sync::Mutex<Option<Open>>,
    owed: Arc<Owed>,
}

/// Which lines are one: the same port, or the same address as it is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Port(PathBuf),
    Server(String, u16),
}

/// A line, for as long as anybody uses it, and what is owed on it, for longer.
struct Known {
    line: Weak<SharedLine>,
    owed: Arc<Owed>,
}

static LINES: Mutex<BTreeMap<Key, Known>> = Mutex::new(BTreeMap::new());

/// The line of that port or address, the same one for all who use it at the same
/// time.
pub(super) fn shared(line: &ModbusLine) -> Arc<SharedLine> {
    let key = match line {
        ModbusLine::Serial(port) => Key::Port(port.path.clone()),
        ModbusLine::Tcp { host, port, .. } => Key::Server(host.clone(), *port),
    };
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.retain(|_, known| known.line.strong_count() > 0 || known.owed.is_anything());
    let known = lines.get(&key);
    if let Some(line) = known.and_then(|known| known.line.upgrade()) {
        return line;
    }
    let owed = known.map_or_else(Arc::default, |known| Arc::clone(&known.owed));
    let place = tokio::sync::Mutex::default();
    let line = Arc::new(SharedLine { line: line.clone(), place, owed: Arc::clone(&owed) });
    lines.insert(key, Known { line: Arc::downgrade(&line), owed });
    line
}

/// The answers that may still come.
#[derive(Debug, Default)]
struct Owed(Mutex<Answers>);

#[derive(Debug, Default)]
struct Answers {
    /// Until when an answer of a unit may be that to an earlier question.
    units: BTreeMap<u8, Instant>,
    /// Until when a device may be about to speak, in time; where whoever asked did
    /// not wait for that.
    line: Option<Instant>,
}

impl Owed {
    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A question goes out.
    fn asked(&self, unit: u8, within: Duration) {
        let mut answers = self.answers();
        let now = Instant::now();
        answers.units.retain(|_, until| *until > now);
        answers.units.insert(unit, now + 2 * within);
        answers.line = Some(now + within);
    }

    /// It is answered.
    fn answered(&self, unit: u8) {
        let mut answers = self.answers();
        answers.units.remove(&unit);
        answers.line = None;
    }

    /// It is not, and was waited for.
    fn waited(&self) {
        self.answers().line = None;
    }

    /// Until when nobody asks this unit.
    fn by_unit(&self, unit: u8) -> Option<Instant> {
        let until = self.answers().units.get(&unit).copied();
        until.filter(|until| *until > Instant::now())
    }

    fn by_line(&self) -> Option<Instant> {
        self.answers().line.filter(|until| *until > Instant::now())
    }

    fn is_anything(&self) -> bool {
        self.answers().units.values().any(|until| *until > Instant::now())
    }
}

impl SharedLine {
    /// Opens the line where it is not open.
    ///
    /// # Errors
    /// [`Fault::NoConnection`].
    pub(super) async fn connect(&self, within: Duration) -> Result<(), Fault> {
        let mut place = self.place.lock().await;
        if place.is_none() {
            *place = Some(open(&self.line, within).await?);
        }
        Ok(())
    }

    /// Asks when it is this question's turn; `on_line` is called then.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(super) async fn ask(
        &self,
        request: Request,
        within: Duration,
        mut on_line: impl FnMut(),
    ) -> Asked {
        let mut turn = self.turn(request.unit).await;
        let wire = turn.fresh(within).await?;
        on_line();
        // Before the first byte goes out: dropped from here on, it stays owed.
        self.owed.asked(request.unit, within);
        let result = exchange(wire, request, Framing::Rtu, within).await;
        match &result {
            Ok(_) | Err(Fault::Exception(_)) => turn.end(request.unit),
            // Of a connection nobody knows whether it still leads anywhere.
            Err(Fault::NoAnswer { .. }) if matches!(self.line, ModbusLine::Serial(_)) => {
                turn.settle(Instant::now()).await;
            }
            Err(_) => turn.close(),
        }
        result
    }

    async fn turn(&self, unit: u8) -> Turn<'_> {
        loop {
            // Not while the line is ours: other units may be asked meanwhile.
            if let Some(until) = self.owed.by_unit(unit) {
                sleep_until(until).await;
            }
            let place = self.place.lock().await;
            if self.owed.by_unit(unit).is_none() {
                return Turn { line: self, place };
            }
        }
    }
}

async fn open(line: &ModbusLine, within: Duration) -> Result<Open, Fault> {
    let (wire, silence): (Box<dyn Wire>, _) = match line {
        ModbusLine::Serial(settings) => {
            let at = settings.path.display();
            let port = Port::open(settings)
                .map_err(|error| Fault::NoConnection(format!("{at}: {error}")))?;
            (Box::new(port), serial::silence(settings))
        }
        // The server keeps the silence on its line.
        ModbusLine::Tcp { host, port, .. } => {
            (Box::new(connect(host, *port, within).await?), Duration::ZERO)
        }
    };
    Ok(Open { wire, silence, silent_from: Instant::now() + silence })
}

/// The line, for one exchange.
struct Turn<'a> {
    line: &'a SharedLine,
    place: tokio::sync::MutexGuard<'a, Option<Open>>,
}

impl Turn<'_> {
    /// The line, open, after the silence between two frames, and without what came
    /// before: that answers nothing that is asked now.
    async fn fresh(&mut self, within: Duration) -> Result<&mut Box<dyn Wire>, Fault> {
        // The second time where it has been closed at the other end meanwhile.
        for _ in 0..2 {
            if self.place.is_none() {
                *self.place = Some(open(&self.line.line, within).await?);
            }
            if let Some(until) = self.line.owed.by_line() {
                self.settle(until).await;
            }
            let Some(open) = self.place.as_mut() else { break };
            sleep_until(open.silent_from).await;
            if open.wire.discard().is_ok() {
                break;
            }
            *self.place = None;
        }
        match self.place.as_mut() {
            Some(open) => Ok(&mut open.wire),
            None => Err(Fault::Broken("the line is closed as soon as it is opened".to_owned())),
        }
    }

    /// Ends an exchange that went well.
    fn end(&mut self, unit: u8) {
        self.line.owed.answered(unit);
        if let Some(open) = self.place.as_mut() {
            open.silent_from = Instant::now() + open.silence;
        }
    }

    /// Ends one that did not: whoever begins to speak until then, or does already,
    /// may finish first.
    async fn settle(&mut self, until: Instant) {
        let Some(open) = self.place.as_mut() else { return };
        let mut quiet = until.max(Instant::now() + QUIET);
        let end = quiet + QUIET_WITHIN;
        let mut bytes = [0; 256];
        while Instant::now() < end
            && matches!(timeout_at(quiet, open.wire.read(&mut bytes)).await, Ok(Ok(1..)))
        {
            quiet = Instant::now() + QUIET;
        }
        open.silent_from = Instant::now() + open.silence;
        self.line.owed.waited();
    }

    /// Closes the line: the next turn opens it again.
    fn close(mut self) {
        *self.place = None;
        self.line.owed.waited();
    }
}
