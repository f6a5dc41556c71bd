//! A scripted MQTT broker on the loopback: MQTT 3.1.1 and 5, plain or TLS. It
//! logs what it sees and answers as its [`Script`] says.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rumqttc::tokio_rustls::TlsAcceptor;
use rumqttc::tokio_rustls::rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::packet::{self, Connect, Packet, Publish, Will};

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
    /// Reads nothing more after so many publishes, and leaves the socket open.
    pub(crate) deaf_after: Option<usize>,
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
            deaf_after: None,
        }
    }
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

/// Everything seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// TCP connections taken.
    pub(crate) accepted: usize,
    /// TLS handshakes that failed.
    pub(crate) tls_failures: usize,
    pub(crate) connects: Vec<SeenConnect>,
    pub(crate) publishes: Vec<SeenPublish>,
    /// Connection and packet id of each PUBACK sent for a publish.
    pub(crate) pubacks: Vec<(usize, u16)>,
    pub(crate) pings: usize,
    /// Connection and reason of each DISCONNECT.
    pub(crate) disconnects: Vec<(usize, u8)>,
    /// Connections that have ended.
    pub(crate) closed: Vec<usize>,
}

/// A CONNECT; connections are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenConnect {
    pub(crate) connection: usize,
    pub(crate) level: u8,
    pub(crate) client_id: String,
    pub(crate) clean_start: bool,
    pub(crate) keep_alive_s: u16,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) will: Option<Will>,
}

/// A PUBLISH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenPublish {
    pub(crate) connection: usize,
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) qos: u8,
    pub(crate) retain: bool,
    pub(crate) dup: bool,
    pub(crate) pkid: u16,
    pub(crate) user_properties: Vec<(String, String)>,
    pub(crate) content_type: Option<String>,
    pub(crate) packet_bytes: usize,
}

impl SeenPublish {
    /// The payload, which must be JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.payload).expect("a payload that is not JSON")
    }
}

/// The running broker; it ends with this.
pub(crate) struct ScriptedBroker {
    port: u16,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    log: Mutex<Log>,
    scripts: Mutex<Scripts>,
    refuses: AtomicBool,
    changed: watch::Sender<()>,
    close: watch::Sender<()>,
}

struct Scripts {
    once: VecDeque<Script>,
    usual: Script,
}

impl ScriptedBroker {
    /// Starts it on a free port; every connection is treated by `script`.
    pub(crate) async fn start(script: Script) -> Self {
        Self::listen(script, None).await
    }

    /// The same over TLS.
    pub(crate) async fn start_tls(script: Script, config: ServerConfig) -> Self {
        Self::listen(script, Some(TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn listen(usual: Script, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            log: Mutex::default(),
            scripts: Mutex::new(Scripts { once: VecDeque::new(), usual }),
            refuses: AtomicBool::new(false),
            changed: watch::Sender::default(),
            close: watch::Sender::default(),
        });
        let task = tokio::spawn(accept(listener, tls, Arc::clone(&shared)));
        Self { port, shared, task }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// For connections from now on.
    pub(crate) fn set_script(&self, script: Script) {
        self.shared.scripts.lock().unwrap().usual = script;
    }

    /// For the next connection only; several calls queue up.
    pub(crate) fn next_connection(&self, script: Script) {
        self.shared.scripts.lock().unwrap().once.push_back(script);
    }

    /// While true, connections are closed as soon as they are taken.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.shared.refuses.store(refuses, Ordering::SeqCst);
    }

    /// Closes every connection there is.
    pub(crate) fn close_all(&self) {
        self.shared.close.send_replace(());
    }

    pub(crate) fn log(&self) -> Log {
        self.shared.log().clone()
    }

    pub(crate) fn connects(&self) -> Vec<SeenConnect> {
        self.log().connects
    }

    pub(crate) fn publishes(&self) -> Vec<SeenPublish> {
        self.log().publishes
    }

    /// Waits until the log shows the fact; panics at the deadline.
    pub(crate) async fn wait_for(&self, fact: impl Fn(&Log) -> bool, deadline: Duration) {
        let mut changed = self.shared.changed.subscribe();
        let wait = async {
            while !fact(&self.shared.log()) {
                changed.changed().await.unwrap();
            }
        };
        if tokio::time::timeout(deadline, wait).await.is_err() {
            panic!("not within {deadline:?}; the log: {:#?}", self.log());
        }
    }
}

impl Drop for ScriptedBroker {
    fn drop(&mut self) {
        self.task.abort();
        self.close_all();
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap()
    }

    fn note(&self, write: impl FnOnce(&mut Log)) {
        write(&mut self.log());
        self.changed.send_replace(());
    }

    fn script(&self) -> Script {
        let mut scripts = self.scripts.lock().unwrap();
        scripts.once.pop_front().unwrap_or_else(|| scripts.usual.clone())
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let mut connection = 0;
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        if shared.refuses.load(Ordering::SeqCst) {
            continue;
        }
        connection += 1;
        shared.note(|log| log.accepted += 1);
        stream.set_nodelay(true).unwrap();
        tokio::spawn(serve(connection, stream, tls.clone(), Arc::clone(&shared)));
    }
}

async fn serve(
    connection: usize,
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared>,
) {
    let script = shared.script();
    let mut close = shared.close.subscribe();
    let talk = Talk::new(connection, script, Arc::clone(&shared));
    let served = async {
        match tls {
            None => talk.run(stream).await,
            Some(acceptor) => match acceptor.accept(stream).await {
                Ok(stream) => talk.run(stream).await,
                Err(_) => shared.note(|log| log.tls_failures += 1),
            },
        }
    };
    tokio::select! {
        () = served => {}
        _ = close.changed() => {}
    }
    shared.note(|log| log.closed.push(connection));
}

/// The conversation on one connection.
struct Talk {
    connection: usize,
    script: Script,
    shared: Arc<Shared>,
    level: u8,
    publishes: usize,
    /// Publishes whose PUBACK is held back.
    held: VecDeque<u16>,
    out: Vec<u8>,
    is_over: bool,
}

impl Talk {
    fn new(connection: usize, script: Script, shared: Arc<Shared>) -> Self {
        Self {
            connection,
            script,
            shared,
            level: 0,
            publishes: 0,
            held: VecDeque::new(),
            out: Vec::new(),
            is_over: false,
        }
    }

    async fn run(mut self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut bytes = Vec::with_capacity(64 * 1024);
        loop {
            match stream.read_buf(&mut bytes).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            if self.script.deaf_after.is_some_and(|count| self.publishes >= count) {
                std::future::pending::<()>().await;
            }
            while !self.is_over
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

    fn hear(&mut self, packet: Packet) {
        match packet {
            Packet::Connect(connect) => self.connect(connect),
            Packet::Publish(publish) => self.publish(publish),
            Packet::Subscribe { pkid, filters } => {
                self.out.extend(packet::suback(self.level, pkid, filters));
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
        self.shared.note(|log| log.publishes.push(seen));
        if self.script.close_at == Some(self.publishes) {
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

    fn puback(&mut self, pkid: u16, code: u8) {
        self.out.extend(packet::puback(self.level, pkid, code));
        let connection = self.connection;
        self.shared.note(|log| log.pubacks.push((connection, pkid)));
    }
}
