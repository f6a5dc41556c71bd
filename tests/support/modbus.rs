//! A Modbus device that does what a script says, over TCP.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

/// One request as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Which it is since the start, from 1.
    pub(crate) number: usize,
    /// Its transaction id; 0 in RTU.
    pub(crate) id: u16,
    pub(crate) unit: u8,
    pub(crate) function: u8,
    pub(crate) address: u16,
    pub(crate) count: u16,
}

/// What the device does.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// These bytes.
    Send(Vec<u8>),
    /// It hangs up.
    Close,
}

/// What the device does when asked; nothing is silence.
pub(crate) type Script = dyn Fn(&Asked) -> Vec<Act> + Send + Sync;

impl Asked {
    /// An answer over TCP with this PDU.
    pub(crate) fn tcp(&self, pdu: &[u8]) -> Vec<u8> {
        tcp(self.id, self.unit, pdu)
    }

    /// The PDU that says these registers.
    pub(crate) fn words(&self, word: impl Fn(u16) -> u16) -> Vec<u8> {
        let mut pdu = vec![self.function, 2 * self.count as u8];
        let places = (0..self.count).map(|at| self.address.wrapping_add(at));
        pdu.extend(places.flat_map(|at| word(at).to_be_bytes()));
        pdu
    }

    /// All is well, over TCP.
    pub(crate) fn good(&self, word: impl Fn(u16) -> u16) -> Vec<Act> {
        vec![Act::Send(self.tcp(&self.words(word)))]
    }

    /// An exception, over TCP.
    pub(crate) fn exception(&self, code: u8) -> Vec<Act> {
        vec![Act::Send(self.tcp(&[self.function | 0x80, code]))]
    }
}

/// A frame of Modbus TCP.
pub(crate) fn tcp(id: u16, unit: u8, pdu: &[u8]) -> Vec<u8> {
    let mut frame = id.to_be_bytes().to_vec();
    frame.extend([0, 0, 0, pdu.len() as u8 + 1, unit]);
    frame.extend_from_slice(pdu);
    frame
}

/// A frame of RTU, with its checksum.
pub(crate) fn rtu(unit: u8, pdu: &[u8]) -> Vec<u8> {
    let mut frame = vec![unit];
    frame.extend_from_slice(pdu);
    let sum = frame.iter().fold(0xFFFF_u16, |sum, byte| {
        let shift = |sum: u16| if sum & 1 == 1 { sum >> 1 ^ 0xA001 } else { sum >> 1 };
        (0..8).fold(sum ^ u16::from(*byte), |sum, _| shift(sum))
    });
    frame.extend(sum.to_le_bytes());
    frame
}

/// A device and what it was asked.
#[derive(Clone)]
pub(crate) struct Device {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Device {
    /// Everything it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// A device that speaks Modbus TCP.
pub(crate) async fn device(script: impl Fn(&Asked) -> Vec<Act> + Send + Sync + 'static) -> Device {
    listen(script, false).await
}

/// One that speaks RTU, over TCP.
pub(crate) async fn rtu_device(
    script: impl Fn(&Asked) -> Vec<Act> + Send + Sync + 'static,
) -> Device {
    listen(script, true).await
}

async fn listen(
    script: impl Fn(&Asked) -> Vec<Act> + Send + Sync + 'static,
    is_rtu: bool,
) -> Device {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let device = Device { address: listener.local_addr().unwrap(), asked: Arc::default() };
    let (script, asked): (Arc<Script>, _) = (Arc::new(script), Arc::clone(&device.asked));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (script, asked) = (Arc::clone(&script), Arc::clone(&asked));
            tokio::spawn(async move { serve(stream, &*script, &asked, is_rtu).await });
        }
    });
    device
}

/// Answers what comes over a stream until it ends.
pub(crate) async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    script: &Script,
    asked: &Mutex<Vec<Asked>>,
    is_rtu: bool,
) -> Option<()> {
    loop {
        let mut request = [0; 12];
        let frame = if is_rtu { &mut request[..8] } else { &mut request[..] };
        stream.read_exact(frame).await.ok()?;
        let at = if is_rtu { 0 } else { 6 };
        let word = |at: usize| u16::from_be_bytes([request[at], request[at + 1]]);
        let one = {
            let mut asked = asked.lock().unwrap();
            let one = Asked {
                number: asked.len() + 1,
                id: if is_rtu { 0 } else { word(0) },
                unit: request[at],
                function: request[at + 1],
                address: word(at + 2),
                count: word(at + 4),
            };
            asked.push(one);
            one
        };
        for act in script(&one) {
            match act {
                Act::Send(bytes) => stream.write_all(&bytes).await.ok()?,
                Act::Close => return None,
            }
        }
    }
}
