//! The way to a device: connecting, one question and its answer, and what is done
//! when there is none.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::frame::{Answer, Exception, Finder, Framing, NotModbus, Request};
use super::serial::{self, SharedPort};
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
    Tcp(Option<TcpStream>),
    Serial(Arc<SharedPort>),
}

/// Bytes of an answer, and nothing else came.
pub(super) type Asked = Result<Vec<u8>, Fault>;

impl Link {
    /// A way that is not used yet. `timeout` is for connecting, and again for each
    /// answer.
    pub fn new(line: &ModbusLine, timeout: Duration) -> Self {
        let way = match line {
            ModbusLine::Tcp { .. } => Way::Tcp(None),
            ModbusLine::Serial(port) => Way::Serial(serial::shared(port)),
        };
        Self { line: line.clone(), timeout, way, id: 0 }
    }

    /// Whether a connection stands. A serial port is as good as one.
    pub fn is_connected(&self) -> bool {
        match &self.way {
            Way::Tcp(stream) => stream.is_some(),
            Way::Serial(_) => true,
        }
    }

    /// Connects where that is to be done.
    ///
    /// # Errors
    /// [`Fault::NoConnection`].
    pub async fn connect(&mut self) -> Result<(), Fault> {
        let (Way::Tcp(place @ None), ModbusLine::Tcp { host, port, .. }) =
            (&mut self.way, &self.line)
        else {
            return Ok(());
        };
        let shown = shown_host(host, *port);
        let connecting = timeout(self.timeout, TcpStream::connect((host.as_str(), *port))).await;
        let stream = connecting
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
            .map_err(|error| Fault::NoConnection(format!("cannot connect to {shown}: {error}")))?;
        *place = Some(stream);
        Ok(())
    }

    /// Asks, and gives the bytes of the answer: two a register, or packed bits.
    /// `on_line` is called as soon as the line is ours, before the question goes
    /// out.
    ///
    /// After a fault that leaves an answer on its way, the connection is closed:
    /// what comes late meets nobody. A serial line is waited for until it is quiet.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn ask(&mut self, request: Request, on_line: impl FnMut()) -> Asked {
        self.connect().await?;
        self.id = self.id.wrapping_add(1);
        match (&mut self.way, &self.line) {
            (Way::Tcp(place), ModbusLine::Tcp { is_rtu, .. }) => {
                let framing = if *is_rtu { Framing::Rtu } else { Framing::Tcp(self.id) };
                let result = ask_over_tcp(place, request, framing, self.timeout, on_line).await;
                if !matches!(result, Ok(_) | Err(Fault::Exception(_))) {
                    *place = None;
                }
                result
            }
            (Way::Serial(port), ModbusLine::Serial(settings)) => {
                let at = settings.path.display();
                ask_over_serial(port, request, self.timeout, on_line)
                    .await
                    .unwrap_or_else(|error| Err(Fault::NoConnection(format!("{at}: {error}"))))
            }
            // The way is made from the line.
            _ => Err(Fault::Broken("the line has changed".to_owned())),
        }
    }
}

async fn ask_over_tcp(
    place: &mut Option<TcpStream>,
    request: Request,
    framing: Framing,
    within: Duration,
    mut on_line: impl FnMut(),
) -> Asked {
    let Some(stream) = place else {
        return Err(Fault::Broken("the connection is closed".to_owned()));
    };
    on_line();
    exchange(stream, request, framing, within).await
}

/// The outer error: the port is not there.
async fn ask_over_serial(
    port: &SharedPort,
    request: Request,
    within: Duration,
    mut on_line: impl FnMut(),
) -> io::Result<Asked> {
    let mut turn = port.turn().await?;
    let fresh = turn.fresh().await;
    let Ok(stream) = fresh else {
        let error = fresh.err().unwrap_or(io::ErrorKind::NotConnected.into());
        turn.close();
        return Err(error);
    };
    on_line();
    let result = exchange(stream, request, Framing::Rtu, within).await;
    match &result {
        Ok(_) | Err(Fault::Exception(_)) => turn.end(),
        Err(Fault::Broken(_)) => turn.close(),
        Err(_) => turn.settle().await,
    }
    Ok(result)
}

/// One question, one answer.
async fn exchange(
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
