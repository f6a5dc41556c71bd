//! The broker's side of one connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::broker::{SeenConnect, SeenPublish, Shared};
use super::packet::{self, Connect, Packet, Publish};
use super::script::{Acks, Script, Subscriptions};

/// The conversation on one connection.
pub(super) struct Talk {
    connection: usize,
    script: Script,
    shared: Arc<Shared>,
    level: u8,
    publishes: usize,
    unacknowledged: usize,
    /// Publishes whose PUBACK is held back.
    held: VecDeque<u16>,
    /// Publishes whose PUBACK has a time.
    paced: VecDeque<(Instant, u16)>,
    /// A SUBSCRIBE that is answered later.
    unanswered: Option<(u16, usize)>,
    out: Vec<u8>,
    is_over: bool,
}

impl Talk {
    pub(super) fn new(connection: usize, script: Script, shared: Arc<Shared>) -> Self {
        Self {
            connection,
            script,
            shared,
            level: 0,
            publishes: 0,
            unacknowledged: 0,
            held: VecDeque::new(),
            paced: VecDeque::new(),
            unanswered: None,
            out: Vec::new(),
            is_over: false,
        }
    }

    pub(super) async fn run(mut self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut bytes = Vec::with_capacity(64 * 1024);
        let mut heard = Instant::now();
        loop {
            let due = self.paced.front().map(|(due, _)| *due);
            let silence_max = self.script.silence_max.unwrap_or(Duration::MAX);
            tokio::select! {
                read = stream.read_buf(&mut bytes) => match read {
                    Ok(0) | Err(_) => return,
                    Ok(_) => heard = Instant::now(),
                },
                () = until(due) => {}
                () = tokio::time::sleep(silence_max.saturating_sub(heard.elapsed())) => return,
            }
            self.acknowledge_what_is_due();
            if self.is_deaf() {
                std::future::pending::<()>().await;
            }
            while !self.is_over
                && !self.is_deaf()
                && let Some(packet) = packet::take(&mut bytes, self.level)
            {
                self.hear(packet);
            }
            let written = stream.write_all(&self.out).await.is_ok() && stream.flush().await.is_ok();
            self.out.clear();
            if self.is_over || !written {
                let _ = stream.shutdown().await;
                return;
            }
        }
    }

    fn is_deaf(&self) -> bool {
        self.script.deaf_after.is_some_and(|count| self.publishes >= count)
    }

    fn hear(&mut self, packet: Packet) {
        match packet {
            Packet::Connect(connect) => self.connect(connect),
            Packet::Publish(publish) => self.publish(publish),
            Packet::Subscribe { pkid, filters } => {
                self.shared.note(|log| log.subscribes += 1);
                self.subscribe(pkid, filters);
            }
            Packet::Unsubscribe { pkid, filters } => {
                self.shared.note(|log| log.unsubscribes += 1);
                self.out.extend(packet::unsuback(self.level, pkid, filters));
            }
            Packet::PingReq => {
                self.shared.note(|log| log.pings += 1);
                if self.script.answers_pings {
                    self.out.extend(packet::PINGRESP);
                }
            }
            Packet::Disconnect { reason } => {
                let connection = self.connection;
                self.shared.note(|log| log.disconnects.push((connection, reason)));
                self.is_over = true;
            }
            Packet::Other(kind) => panic!("packet type {kind}"),
        }
    }

    fn connect(&mut self, connect: Connect) {
        self.level = connect.level;
        let seen = SeenConnect {
            connection: self.connection,
            level: connect.level,
            client_id: connect.client_id,
            clean_start: connect.clean_start,
            keep_alive_s: connect.keep_alive_s,
            username: connect.username,
            password: connect.password,
            will: connect.will,
        };
        self.shared.note(|log| log.connects.push(seen));
        let Script { answers_connect, connack_code, session_present, .. } = self.script;
        if !answers_connect {
            return;
        }
        let properties = self.connack_properties();
        self.out.extend(packet::connack(self.level, session_present, connack_code, &properties));
        if let Some(pkid) = self.script.stray_puback {
            self.out.extend(packet::puback(self.level, pkid, 0));
        }
        self.is_over = connack_code != 0;
        self.end_at(0);
    }

    fn subscribe(&mut self, pkid: u16, filters: usize) {
        match self.script.subscriptions {
            Subscriptions::Taken => self.grant(pkid, filters),
            Subscriptions::TakenLate => self.unanswered = Some((pkid, filters)),
            Subscriptions::Refused => {
                let code = if self.level == 5 { 0x87 } else { 0x80 };
                self.out.extend(packet::suback(self.level, pkid, filters, code));
            }
            Subscriptions::Ignored => {}
            Subscriptions::Fatal => self.is_over = true,
        }
    }

    fn grant(&mut self, pkid: u16, filters: usize) {
        self.out.extend(packet::suback(self.level, pkid, filters, 0));
        for (topic, payload) in &self.script.retained {
            self.out.extend(packet::retained(self.level, topic, payload));
        }
    }

    fn connack_properties(&self) -> Vec<u8> {
        let mut properties = Vec::new();
        let mut put = |id: u8, value: &[u8]| {
            properties.push(id);
            properties.extend_from_slice(value);
        };
        if let Some(value) = self.script.receive_maximum {
            put(0x21, &value.to_be_bytes());
        }
        if let Some(value) = self.script.max_packet_size {
            put(0x27, &value.to_be_bytes());
        }
        if let Some(value) = self.script.max_qos {
            put(0x24, &[value]);
        }
        if let Some(value) = self.script.retain_available {
            put(0x25, &[value]);
        }
        if let Some(value) = self.script.server_keep_alive {
            put(0x13, &value.to_be_bytes());
        }
        properties
    }

    fn publish(&mut self, publish: Publish) {
        self.publishes += 1;
        let (pkid, qos) = (publish.pkid, publish.qos);
        let topic = publish.topic.clone();
        let is_too_long = self.script.close_over.is_some_and(|limit| publish.payload.len() > limit);
        let seen = SeenPublish {
            connection: self.connection,
            topic: publish.topic,
            payload: publish.payload,
            qos,
            retain: publish.retain,
            dup: publish.dup,
            pkid,
            user_properties: publish.user_properties,
            content_type: publish.content_type,
            packet_bytes: publish.packet_bytes,
        };
        self.unacknowledged += usize::from(qos > 0);
        let unacknowledged = self.unacknowledged;
        self.shared.note(|log| {
            log.publishes.push(seen);
            log.unacknowledged_max = log.unacknowledged_max.max(unacknowledged);
        });
        if let Some((pkid, filters)) = self.unanswered.take() {
            self.grant(pkid, filters);
        }
        if is_too_long || self.script.close_at == Some(self.publishes) {
            self.is_over = true;
            return;
        }
        if self.end_at(self.publishes) || qos == 0 {
            return;
        }
        self.acknowledge(pkid, &topic);
    }

    fn end_at(&mut self, publish: usize) -> bool {
        match self.script.disconnect_at {
            Some((at, reason)) if at == publish => {
                self.out.extend(packet::disconnect(reason));
                self.is_over = true;
                true
            }
            _ => false,
        }
    }

    fn acknowledge(&mut self, pkid: u16, topic: &str) {
        match self.script.acks.clone() {
            Acks::All => self.puback(pkid, 0),
            Acks::None => {}
            Acks::First(count) => {
                if self.publishes <= count {
                    self.puback(pkid, 0);
                }
            }
            Acks::ByTopic(code) => self.puback(pkid, code(topic)),
            Acks::Delayed(count) => {
                self.held.push_back(pkid);
                if self.held.len() > count
                    && let Some(oldest) = self.held.pop_front()
                {
                    self.puback(oldest, 0);
                }
            }
            Acks::Paced { latency, per_second } => {
                let pause = Duration::from_secs(1) / per_second;
                let earliest = Instant::now() + latency;
                let due =
                    self.paced.back().map_or(earliest, |(last, _)| earliest.max(*last + pause));
                self.paced.push_back((due, pkid));
            }
            Acks::Reversed(count) => {
                self.held.push_back(pkid);
                if self.held.len() == count {
                    while let Some(newest) = self.held.pop_back() {
                        self.puback(newest, 0);
                    }
                }
            }
            Acks::Doubled => {
                self.puback(pkid, 0);
                self.out.extend(packet::puback(self.level, pkid, 0));
            }
            Acks::AndUnknown(unknown) => {
                self.puback(pkid, 0);
                self.out.extend(packet::puback(self.level, unknown, 0));
            }
        }
    }

    fn acknowledge_what_is_due(&mut self) {
        while let Some((due, pkid)) = self.paced.front().copied()
            && due <= Instant::now()
        {
            self.paced.pop_front();
            self.puback(pkid, 0);
        }
    }

    fn puback(&mut self, pkid: u16, code: u8) {
        self.out.extend(packet::puback(self.level, pkid, code));
        self.unacknowledged = self.unacknowledged.saturating_sub(1);
        let connection = self.connection;
        self.shared.note(|log| log.pubacks.push((connection, pkid)));
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
