//! What the scripted broker does on one connection.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How one connection is treated.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// Whether CONNECT is answered at all.
    pub(crate) answers_connect: bool,
    /// Return or reason code of CONNACK.
    pub(crate) connack_code: u8,
    pub(crate) session_present: bool,
    /// MQTT 5 properties of CONNACK.
    pub(crate) receive_maximum: Option<u16>,
    pub(crate) max_packet_size: Option<u32>,
    pub(crate) max_qos: Option<u8>,
    pub(crate) retain_available: Option<u8>,
    pub(crate) server_keep_alive: Option<u16>,
    /// A PUBACK sent right after CONNACK, for a packet id of times gone by.
    pub(crate) stray_puback: Option<u16>,
    pub(crate) acks: Acks,
    /// Closes the connection at this publish, counted from 1, without a PUBACK
    /// for it.
    pub(crate) close_at: Option<usize>,
    /// Sends DISCONNECT with this reason at this publish (0: right after
    /// CONNACK) and closes. MQTT 5.
    pub(crate) disconnect_at: Option<(usize, u8)>,
    pub(crate) answers_pings: bool,
    /// Closes when nothing was heard for so long.
    pub(crate) silence_max: Option<Duration>,
    /// Reads nothing more after so many publishes, and leaves the socket open.
    pub(crate) deaf_after: Option<usize>,
    /// Closes the socket, without a word, at a payload of more bytes than this.
    pub(crate) close_over: Option<usize>,
    pub(crate) subscriptions: Subscriptions,
    /// Topics and payloads that are retained here, whatever was subscribed to.
    pub(crate) retained: Vec<(String, Vec<u8>)>,
}

impl Default for Script {
    /// A broker as one would wish.
    fn default() -> Self {
        Self {
            answers_connect: true,
            connack_code: 0,
            session_present: false,
            receive_maximum: None,
            max_packet_size: None,
            max_qos: None,
            retain_available: None,
            server_keep_alive: None,
            stray_puback: None,
            acks: Acks::All,
            close_at: None,
            disconnect_at: None,
            answers_pings: true,
            silence_max: None,
            deaf_after: None,
            close_over: None,
            subscriptions: Subscriptions::Taken,
            retained: Vec::new(),
        }
    }
}

/// What becomes of SUBSCRIBE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subscriptions {
    /// SUBACK, then what is retained.
    Taken,
    /// The same, but only after the first publish of the client.
    TakenLate,
    /// SUBACK with a failure code.
    Refused,
    /// No answer.
    Ignored,
    /// The socket is closed without a word.
    Fatal,
}

/// Which PUBACKs are sent.
#[derive(Clone)]
pub(crate) enum Acks {
    /// One for each publish, at once.
    All,
    None,
    /// For the first so many publishes of the connection.
    First(usize),
    /// With the reason code for the topic (MQTT 5).
    ByTopic(Arc<dyn Fn(&str) -> u8 + Send + Sync>),
    /// Each waits until so many later publishes have come.
    Delayed(usize),
    /// Each after this time, and no more than so many a second.
    Paced {
        latency: Duration,
        per_second: u32,
    },
    /// In groups of so many, the last first.
    Reversed(usize),
    /// Each twice.
    Doubled,
    /// Each followed by one for this packet id.
    AndUnknown(u16),
}

impl fmt::Debug for Acks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acks")
    }
}
