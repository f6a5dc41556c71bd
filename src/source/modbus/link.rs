//! The way to a device: connecting, one question and its answer, and what is done
//! when there is none.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::frame::{Answer, Exception, Finder, Framing, NotModbus, Request};
use super::line::{self, SharedLine};
use crate::config::modbus::{ModbusLine, shown_host};

/// Why there is no answer.
#[derive(Debug)]
pub enum Fault {
    /// The device says that it cannot.
    Exception(Exception),
    /// It cannot be reached; for people.
    NoConnection(String),
    /// Nothing that answers the question came in time.
    NoAnswer {
        /// Who was asked.
        unit: u8,
        /// How long was waited.
        within: Duration,
        /// Something else came meanwhile.
        strangers: bool,
    },
    /// What came is not what was agreed on; for people.
    NotModbus(String),
    /// The connection broke; for people.
    Broken(String),
}

impl Fault {
    /// The line itself is not there: no other question fares better.
    pub(super) const fn is_of_the_line(&self) -> bool {
        matches!(self, Fault::NoConnection(_))
    }

    /// What it means for some registers of a device that answers for others.
    pub(super) fn for_some(&self) -> String {
        match self {
            Fault::NoAnswer { unit, within, .. } => format!(
                "unit {unit} does not answer for this register within {}, for others it does",
                humantime::format_duration(*within)
            ),
            other => format!("{other}; for other registers it answers"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Exception(exception) => exception.fmt(f),
            Fault::NoConnection(what) | Fault::NotModbus(what) | Fault::Broken(what) => {
                f.write_str(what)
            }
            Fault::NoAnswer { unit, within, strangers } => {
                write!(
                    f,
                    "unit {unit} does not answer within {}",
                    humantime::format_duration(*within)
                )?;
                if *strangers {
                    f.write_str(" (something else came: check unit_id and the kind of line)")?;
                }
                Ok(())
            }
        }
    }
}

/// The way to one device.
#[derive(Debug)]
pub struct Link {
    line: ModbusLine,
    timeout: Duration,
    way: Way,
    /// Of the last request over TCP. Goes on over reconnects, so that no two
    /// questions close in time have the same.
    id: u16,
}

#[derive(Debug)]
enum Way {
    /// Modbus TCP: a connection of its own, whose answers are numbered.
    Own(Option<TcpStream>),
    /// RTU: shared with all who use the same line. Whether it was open when we last
    /// used it.
    Shared(Arc<SharedLine>, bool),
}

/// Bytes of an answer, and nothing else came.
pub(super) type Asked = Result<Vec<u8>, Fault>;

impl Link {
    /// A way that is not used yet. `timeout` is for connecting, and again for each
    /// answer.
    pub fn new(line: &ModbusLine, timeout: Duration) -> Self {
        let way = match line {
            ModbusLine::Tcp { is_rtu: false, .. } => Way::Own(None),
            _ => Way::Shared(line::shared(line), false),
        };
        Self { line: line.clone(), timeout, way, id: 0 }
    }

    /// Whether the line is open, as far as is known. A connection that the device
    /// closed while nobody asked is none.
    pub fn is_connected(&self) -> bool {
        match &self.way {
            Way::Own(stream) => stream.as_ref().is_some_and(is_open),
            Way::Shared(_, is_open) => *is_open,
        }
    }

    /// Connects where that is to be done.
    ///
    /// # Errors
    /// [`Fault::NoConnection`].
    pub async fn connect(&mut self) -> Result<(), Fault> {
        if self.is_connected() {
            return Ok(());
        }
        match (&mut self.way, &self.line) {
            (Way::Own(place), ModbusLine::Tcp { host, port, .. }) => {
                *place = None;
                *place = Some(connect(host, *port, self.timeout).await?);
            }
            (Way::Shared(line, is_open), _) => {
                line.connect(self.timeout).await?;
                *is_open = true;
            }
            // Only what has an address is not shared.
            (Way::Own(_), ModbusLine::Serial(_)) => {}
        }
        Ok(())
    }

    /// Asks, and gives the bytes of the answer: two a register, or packed bits.
    /// `on_line` is called as soon as the line is ours, before the question goes
    /// out.
    ///
    /// After a fault that leaves an answer on its way, a connection is closed, and
    /// nobody asks that unit on a line of RTU until the answer is over: what comes
    /// late meets nobody.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn ask(&mut self, request: Request, mut on_line: impl FnMut()) -> Asked {
        self.connect().await?;
        match &mut self.way {
            Way::Own(place) => {
                let Some(stream) = place else {
                    return Err(Fault::Broken("the connection is closed".to_owned()));
                };
                self.id = self.id.wrapping_add(1);
                on_line();
                let result = exchange(stream, request, Framing::Tcp(self.id), self.timeout).await;
                if !matches!(result, Ok(_) | Err(Fault::Exception(_))) {
                    *place = None;
                }
                result
            }
            Way::Shared(line, is_open) => {
                let result = line.ask(request, self.timeout, on_line).await;
                *is_open = !matches!(result, Err(Fault::NoConnection(_) | Fault::Broken(_)));
                result
            }
        }
    }
}

/// A connection to a device or a serial server.
///
/// # Errors
/// [`Fault::NoConnection`].
pub(super) async fn connect(host: &str, port: u16, within: Duration) -> Result<TcpStream, Fault> {
    let shown = shown_host(host, port);
    timeout(within, TcpStream::connect((host, port)))
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
        .map_err(|error| Fault::NoConnection(format!("cannot connect to {shown}: {error}")))
}

/// Whether the other end has not closed it, as far as is known. Many devices close
/// what was idle for a while.
fn is_open(stream: &TcpStream) -> bool {
    !matches!(stream.peek(&mut [0]).now_or_never(), Some(Ok(0) | Err(_)))
}

/// One question, one answer.
pub(super) async fn exchange(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: Request,
    framing: Framing,
    within: Duration,
) -> Asked {
    let deadline = Instant::now() + within;
    let mut finder = Finder::new(request, framing);
    let spoken = async {
        stream.write_all(&request.encode(framing)).await?;
        stream.flush().await?;
        let mut bytes = [0; 512];
        loop {
            let count = stream.read(&mut bytes).await?;
            if count == 0 {
                return Err(io::Error::other("the device closes the connection"));
            }
            match finder.push(&bytes[..count]) {
                Ok(None) => {}
                Ok(Some(answer)) => return Ok(Ok(answer)),
                Err(lost) => return Ok(Err(lost)),
            }
        }
    };
    match timeout_at(deadline, spoken).await {
        Ok(Ok(Ok(Answer::Data(data)))) => Ok(data),
        Ok(Ok(Ok(Answer::Exception(exception)))) => Err(Fault::Exception(exception)),
        Ok(Ok(Err(NotModbus(why)))) => Err(Fault::NotModbus(format!(
            "what answers is not Modbus TCP: {why}; a transparent serial server needs \
             rtu_over_tcp = true"
        ))),
        Ok(Err(error)) => Err(Fault::Broken(error.to_string())),
        Err(_) => Err(Fault::NoAnswer {
            unit: request.unit,
            within,
            strangers: finder.has_seen_strangers(),
        }),
    }
}
