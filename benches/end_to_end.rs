//! The whole agent in one process: JSON lines over TCP to durable, then the
//! drain of that backlog to Mosquitto, beside bare rumqttc with the same bound in
//! flight. `cargo bench --bench end_to_end [-- READINGS]`; Linux, mosquitto installed.
#![expect(clippy::print_stdout, reason = "its output is the table")]
#![expect(clippy::unwrap_used, reason = "a failing benchmark may stop")]
#![expect(clippy::disallowed_methods, reason = "it measures time and reads arguments")]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::Packet;
use rumqttc::v5::{AsyncClient, Event, MqttOptions};
use tidegate::config::Config;
use tidegate::shell::run;

const INFLIGHT: u16 = 100;
const PAYLOAD_BYTES: usize = 440;

#[tokio::main]
async fn main() {
    let wanted = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let count: u64 = wanted.unwrap_or(500_000);
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = configuration(folder.path(), port);
    let running = run::start(Config::parse(&config, Path::new("bench")).unwrap()).await;
    let running = running.unwrap_or_else(|error| panic!("{error}"));
    let input = running.sources[0].1;

    let started = Instant::now();
    tokio::task::spawn_blocking(move || feed(input, count)).await.unwrap();
    let durable = started.elapsed();
    report("accept to durable, 100 series, JSON over TCP", count, durable);

    let mut broker = mosquitto(folder.path(), port);
    let mut reports = running.reports.clone();
    reports.wait_for(|report| report.uplink.state == "up").await.unwrap();
    let (started, cpu) = (Instant::now(), cpu_seconds());
    reports.wait_for(|report| report.uplink.backlog == 0).await.unwrap();
    let drained = started.elapsed();
    report("drain to mosquitto, one reading a message", count, drained);
    println!("  {:.1} CPU seconds per million (agent)", (cpu_seconds() - cpu) * 1e6 / count as f64);
    running.stop().await;

    let bare = bare_rumqttc(port, count).await;
    report("bare rumqttc, the same bound in flight", count, bare);
    println!("  drain at {:.2} of bare rumqttc", bare.as_secs_f64() / drained.as_secs_f64());
    println!("  peak resident {} KiB", peak_resident_kib());
    broker.kill().unwrap();
    broker.wait().unwrap();
}

fn configuration(folder: &Path, port: u16) -> String {
    format!(
        "[gateway]\nid = \"bench\"\ndata_dir = \"{}/data\"\n[clock]\nhold_unsynchronized = \"0s\"\n\
         [http]\nlisten = \"\"\n[[uplink]]\n\
         url = \"mqtt://127.0.0.1:{port}\"\ninflight_max = {INFLIGHT}\nreconnect_max = \"1s\"\n\
         [[source]]\nname = \"in\"\ntype = \"listen\"\naddress = \"127.0.0.1:0\"\nacknowledge = true\n",
        folder.display()
    )
}

fn feed(address: SocketAddr, count: u64) {
    let mut stream = TcpStream::connect(address).unwrap();
    let answers = BufReader::new(stream.try_clone().unwrap());
    let last = format!("{{\"acked\":{count}}}");
    let wait = std::thread::spawn(move || {
        assert!(answers.lines().map_while(Result::ok).any(|line| line == last), "not all durable");
    });
    let mut text = String::new();
    for n in 0..count {
        let (pump, value) = (n % 100, 400.0 + (n * 7_919 % 1_000) as f64 / 100.0);
        let time = 1_796_000_000_000 + n;
        let _ = writeln!(
            text,
            "{{\"entity\":\"pump-{pump}\",\"property\":\"pressure\",\"value\":{value:.2},\"unit\":\"kPa\",\"time\":{time}}}"
        );
        if text.len() > 64 * 1024 || n + 1 == count {
            stream.write_all(text.as_bytes()).unwrap();
            text.clear();
        }
    }
    wait.join().unwrap();
}

fn mosquitto(folder: &Path, port: u16) -> Child {
    let config = folder.join("mosquitto.conf");
    let text =
        format!("listener {port} 127.0.0.1\nallow_anonymous true\nmax_inflight_messages 0\n");
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new("mosquitto");
    command.arg("-c").arg(&config).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

async fn bare_rumqttc(port: u16, count: u64) -> Duration {
    let mut options = MqttOptions::new("bare", "127.0.0.1", port);
    options.set_outgoing_inflight_upper_limit(INFLIGHT).set_keep_alive(Duration::from_secs(30));
    let (client, mut events) = AsyncClient::new(options, 200);
    let started = Instant::now();
    tokio::spawn(async move {
        for _ in 0..count {
            let payload = vec![b'x'; PAYLOAD_BYTES];
            client.publish("bench/bare", QoS::AtLeastOnce, false, payload).await.unwrap();
        }
    });
    let mut acked = 0;
    while acked < count {
        if let Event::Incoming(Packet::PubAck(_)) = events.poll().await.unwrap() {
            acked += 1;
        }
    }
    started.elapsed()
}

fn report(what: &str, count: u64, took: Duration) {
    let rate = count as f64 / took.as_secs_f64();
    println!("{what}: {count} readings in {:.2} s, {rate:.0}/s", took.as_secs_f64());
}

/// User and system time of this process, from `/proc/self/stat` (100 ticks a
/// second).
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |field: usize| fields[field].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

fn peak_resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
