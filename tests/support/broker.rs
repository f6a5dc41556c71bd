//! A scripted MQTT broker on the loopback: MQTT 3.1.1 and 5, plain or TLS. It
//! logs what it sees and answers as its [`Script`] says.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rumqttc::tokio_rustls::TlsAcceptor;
use rumqttc::tokio_rustls::rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::conversation::Talk;
use super::packet::Will;
use super::script::Script;

/// Everything seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// TCP connections taken.
    pub(crate) accepted: usize,
    /// TLS handshakes that failed.
    pub(crate) tls_failures: usize,
    /// The certificate that each client showed, in DER.
    pub(crate) certificates: Vec<Vec<u8>>,
    pub(crate) connects: Vec<SeenConnect>,
    pub(crate) publishes: Vec<SeenPublish>,
    /// Connection and packet id of each PUBACK sent for a publish.
    pub(crate) pubacks: Vec<(usize, u16)>,
    /// Most publishes that a connection had without PUBACK at one time.
    pub(crate) unacknowledged_max: usize,
    pub(crate) pings: usize,
    pub(crate) subscribes: usize,
    pub(crate) unsubscribes: usize,
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

pub(super) struct Shared {
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

    pub(super) fn note(&self, write: impl FnOnce(&mut Log)) {
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
                Ok(stream) => {
                    if let Some([shown, ..]) = stream.get_ref().1.peer_certificates() {
                        shared.note(|log| log.certificates.push(shown.to_vec()));
                    }
                    talk.run(stream).await;
                }
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
