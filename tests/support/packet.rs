//! A small MQTT decoder for the scripted broker, written from the standard and
//! independent of rumqttc, so that both cannot be wrong in the same way.

/// A packet from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    Connect(Connect),
    Publish(Publish),
    Subscribe { pkid: u16, filters: usize },
    Unsubscribe { pkid: u16, filters: usize },
    PingReq,
    Disconnect { reason: u8 },
    Other(u8),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connect {
    /// 4 is MQTT 3.1.1, 5 is MQTT 5.
    pub(crate) level: u8,
    pub(crate) client_id: String,
    pub(crate) clean_start: bool,
    pub(crate) keep_alive_s: u16,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) will: Option<Will>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Will {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) qos: u8,
    pub(crate) retain: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Publish {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) qos: u8,
    pub(crate) retain: bool,
    pub(crate) dup: bool,
    pub(crate) pkid: u16,
    pub(crate) user_properties: Vec<(String, String)>,
    pub(crate) content_type: Option<String>,
    /// Length of the whole packet, header included.
    pub(crate) packet_bytes: usize,
}

/// Takes the first whole packet off `bytes`. `level` is that of the connection.
/// Panics on bytes that are no MQTT: a test wants to know.
pub(crate) fn take(bytes: &mut Vec<u8>, level: u8) -> Option<Packet> {
    let (header, remaining) = lengths(bytes)?;
    if bytes.len() < header + remaining {
        return None;
    }
    let packet: Vec<u8> = bytes.drain(..header + remaining).collect();
    let mut body = Reader { bytes: &packet[header..] };
    Some(match packet[0] >> 4 {
        1 => Packet::Connect(connect(&mut body)),
        3 => Packet::Publish(publish(packet[0], &mut body, level, packet.len())),
        8 => subscribe(&mut body, level),
        10 => unsubscribe(&mut body, level),
        12 => Packet::PingReq,
        14 => Packet::Disconnect { reason: body.bytes.first().copied().unwrap_or(0) },
        other => Packet::Other(other),
    })
}

fn lengths(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut remaining = 0;
    for i in 0..4 {
        let byte = *bytes.get(1 + i)?;
        remaining |= usize::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((2 + i, remaining));
        }
    }
    panic!("a remaining length of more than four bytes");
}

fn connect(body: &mut Reader<'_>) -> Connect {
    assert_eq!(body.text(), "MQTT");
    let level = body.byte();
    let flags = body.byte();
    let keep_alive_s = body.number();
    if level == 5 {
        body.properties();
    }
    let client_id = body.text();
    let will = (flags & 0x04 != 0).then(|| {
        if level == 5 {
            body.properties();
        }
        let topic = body.text();
        let payload = body.binary();
        Will { topic, payload, qos: flags >> 3 & 3, retain: flags & 0x20 != 0 }
    });
    let username = (flags & 0x80 != 0).then(|| body.text());
    let password = (flags & 0x40 != 0).then(|| body.text());
    let clean_start = flags & 0x02 != 0;
    Connect { level, client_id, clean_start, keep_alive_s, username, password, will }
}

fn publish(byte1: u8, body: &mut Reader<'_>, level: u8, packet_bytes: usize) -> Publish {
    let qos = byte1 >> 1 & 3;
    let topic = body.text();
    let pkid = if qos > 0 { body.number() } else { 0 };
    let (user_properties, content_type) =
        if level == 5 { body.properties() } else { (Vec::new(), None) };
    Publish {
        topic,
        payload: body.bytes.to_vec(),
        qos,
        retain: byte1 & 1 != 0,
        dup: byte1 & 8 != 0,
        pkid,
        user_properties,
        content_type,
        packet_bytes,
    }
}

fn subscribe(body: &mut Reader<'_>, level: u8) -> Packet {
    let pkid = body.number();
    if level == 5 {
        body.properties();
    }
    let mut filters = 0;
    while !body.bytes.is_empty() {
        body.text();
        body.byte();
        filters += 1;
    }
    Packet::Subscribe { pkid, filters }
}

fn unsubscribe(body: &mut Reader<'_>, level: u8) -> Packet {
    let pkid = body.number();
    if level == 5 {
        body.properties();
    }
    let mut filters = 0;
    while !body.bytes.is_empty() {
        body.text();
        filters += 1;
    }
    Packet::Unsubscribe { pkid, filters }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(count);
        self.bytes = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn binary(&mut self) -> Vec<u8> {
        let length = usize::from(self.number());
        self.take(length).to_vec()
    }

    fn text(&mut self) -> String {
        String::from_utf8(self.binary()).expect("a string that is not UTF-8")
    }

    /// User properties and content type; the others are skipped.
    fn properties(&mut self) -> (Vec<(String, String)>, Option<String>) {
        let mut length = 0;
        for i in 0..4 {
            let byte = self.byte();
            length |= usize::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                break;
            }
        }
        let mut inner = Reader { bytes: self.take(length) };
        let (mut user, mut content_type) = (Vec::new(), None);
        while !inner.bytes.is_empty() {
            match inner.byte() {
                0x26 => user.push((inner.text(), inner.text())),
                0x03 => content_type = Some(inner.text()),
                0x01 | 0x17 | 0x19 => drop(inner.byte()),
                0x21..=0x23 => drop(inner.number()),
                0x02 | 0x11 | 0x18 | 0x27 => drop(inner.take(4)),
                0x08 | 0x15 => drop(inner.text()),
                0x09 | 0x16 => drop(inner.binary()),
                other => panic!("property {other:#04x}"),
            }
        }
        (user, content_type)
    }
}

/// CONNACK; `properties` are encoded ones, for MQTT 5 only.
pub(crate) fn connack(level: u8, session_present: bool, code: u8, properties: &[u8]) -> Vec<u8> {
    let mut body = vec![u8::from(session_present), code];
    if level == 5 {
        body.push(u8::try_from(properties.len()).unwrap());
        body.extend_from_slice(properties);
    }
    let mut packet = vec![0x20, u8::try_from(body.len()).unwrap()];
    packet.extend(body);
    packet
}

/// PUBACK; the code is written for MQTT 5 only, where it is not zero.
pub(crate) fn puback(level: u8, pkid: u16, code: u8) -> Vec<u8> {
    let [high, low] = pkid.to_be_bytes();
    if level == 5 && code != 0 { vec![0x40, 3, high, low, code] } else { vec![0x40, 2, high, low] }
}

/// SUBACK with this code for every filter: the QoS granted, or a failure.
pub(crate) fn suback(level: u8, pkid: u16, filters: usize, code: u8) -> Vec<u8> {
    let mut body = pkid.to_be_bytes().to_vec();
    if level == 5 {
        body.push(0);
    }
    body.extend(std::iter::repeat_n(code, filters));
    let mut packet = vec![0x90, u8::try_from(body.len()).unwrap()];
    packet.extend(body);
    packet
}

/// UNSUBACK: success for every filter.
pub(crate) fn unsuback(level: u8, pkid: u16, filters: usize) -> Vec<u8> {
    let mut packet = suback(level, pkid, if level == 5 { filters } else { 0 }, 0);
    packet[0] = 0xb0;
    packet
}

/// A retained message, QoS 0.
pub(crate) fn retained(level: u8, topic: &str, payload: &[u8]) -> Vec<u8> {
    let mut body = u16::try_from(topic.len()).unwrap().to_be_bytes().to_vec();
    body.extend(topic.as_bytes());
    if level == 5 {
        body.push(0);
    }
    body.extend(payload);
    let length = body.len();
    assert!(length < 16_384, "two bytes of length");
    let mut packet = vec![0x31, (length % 128) as u8 | 0x80, (length / 128) as u8];
    packet.extend(body);
    packet
}

/// DISCONNECT from the broker, MQTT 5.
pub(crate) fn disconnect(reason: u8) -> Vec<u8> {
    vec![0xe0, 2, reason, 0]
}

/// PINGRESP.
pub(crate) const PINGRESP: [u8; 2] = [0xd0, 0];
