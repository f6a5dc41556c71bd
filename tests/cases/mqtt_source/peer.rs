//! A broker of one client, played step by step by the test.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::agent::DEADLINE;

/// Where the agent subscribes.
pub(super) struct Peer(TcpListener);

/// One connection of the agent, subscribed.
pub(super) struct Talk {
    stream: TcpStream,
    level: u8,
    pub(super) client_id: String,
    pub(super) clean_start: bool,
    /// Bytes of SUBSCRIBE after its packet identifier.
    pub(super) subscription: Vec<u8>,
}

/// What is sent to the agent.
#[derive(Clone, Copy, Default)]
pub(super) struct Sent {
    pub(super) pkid: u16,
    pub(super) dup: bool,
    pub(super) retain: bool,
}

impl Peer {
    pub(super) fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub(super) fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// Takes the next connection, and what it subscribes to.
    pub(super) fn accept(&self, session_present: bool) -> Talk {
        let (stream, _) = self.0.accept().unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let (subscription, client_id) = (Vec::new(), String::new());
        let mut talk = Talk { stream, level: 0, client_id, clean_start: true, subscription };
        let (kind, connect) = talk.read();
        assert_eq!((kind, &connect[2..6]), (1, &b"MQTT"[..]));
        (talk.level, talk.clean_start) = (connect[6], connect[7] & 2 != 0);
        // Flags, keep-alive, and on MQTT 5 properties.
        let at = 10 + if talk.level == 5 { 1 + usize::from(connect[10]) } else { 0 };
        let length = usize::from(u16::from_be_bytes([connect[at], connect[at + 1]]));
        talk.client_id = String::from_utf8(connect[at + 2..at + 2 + length].to_vec()).unwrap();
        let present = u8::from(session_present);
        talk.write(0x20, if talk.level == 5 { vec![present, 0, 0] } else { vec![present, 0] });
        let (kind, subscribe) = talk.read();
        assert_eq!(kind, 8);
        let mut answer = subscribe[..2].to_vec();
        if talk.level == 5 {
            answer.push(0);
        }
        talk.subscription = subscribe[2..].to_vec();
        // One filter in these tests.
        answer.push(1);
        talk.write(0x90, answer);
        talk
    }
}

impl Talk {
    pub(super) fn publish(&mut self, topic: &str, payload: &[u8], sent: Sent) {
        let Sent { pkid, dup, retain } = sent;
        let mut body = u16::try_from(topic.len()).unwrap().to_be_bytes().to_vec();
        body.extend_from_slice(topic.as_bytes());
        body.extend_from_slice(&pkid.to_be_bytes());
        if self.level == 5 {
            body.push(0);
        }
        body.extend_from_slice(payload);
        self.write(0x32 | u8::from(dup) << 3 | u8::from(retain), body);
    }

    /// The next packet identifier that is acknowledged; `None` is a goodbye.
    pub(super) fn acknowledged(&mut self) -> Option<u16> {
        loop {
            match self.read() {
                (4, body) => return Some(u16::from_be_bytes([body[0], body[1]])),
                (12, _) => self.write(0xd0, Vec::new()),
                (14, _) => return None,
                (kind, _) => panic!("packet type {kind}"),
            }
        }
    }

    /// The filters of the next UNSUBSCRIBE, which is granted.
    pub(super) fn unsubscribed(&mut self) -> Vec<String> {
        let (kind, body) = self.read();
        assert_eq!(kind, 10);
        let is_v5 = self.level == 5;
        // Behind the packet identifier, and on MQTT 5 no properties.
        let mut rest = &body[if is_v5 { 3 } else { 2 }..];
        let mut filters = Vec::new();
        while let [high, low, after @ ..] = rest {
            let (filter, after) = after.split_at(usize::from(u16::from_be_bytes([*high, *low])));
            filters.push(String::from_utf8(filter.to_vec()).unwrap());
            rest = after;
        }
        let mut answer = body[..2].to_vec();
        if is_v5 {
            answer.push(0);
            answer.extend(filters.iter().map(|_| 0));
        }
        self.write(0xb0, answer);
        filters
    }

    /// The same for so many.
    pub(super) fn all_acknowledged(&mut self, count: usize) -> Vec<u16> {
        (0..count).map(|_| self.acknowledged().unwrap()).collect()
    }

    /// Whether the agent has said nothing since it was last heard.
    pub(super) fn is_silent(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    fn read(&mut self) -> (u8, Vec<u8>) {
        let mut byte = [0];
        self.stream.read_exact(&mut byte).unwrap();
        let kind = byte[0] >> 4;
        let (mut length, mut shift) = (0, 0);
        loop {
            self.stream.read_exact(&mut byte).unwrap();
            length |= usize::from(byte[0] & 0x7f) << shift;
            shift += 7;
            if byte[0] & 0x80 == 0 {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        (kind, body)
    }

    fn write(&mut self, first: u8, body: Vec<u8>) {
        let mut packet = vec![first];
        let mut length = body.len();
        loop {
            let more = if length > 0x7f { 0x80 } else { 0 };
            packet.push(u8::try_from(length & 0x7f).unwrap() | more);
            length >>= 7;
            if more == 0 {
                break;
            }
        }
        packet.extend(body);
        self.stream.write_all(&packet).unwrap();
    }
}
