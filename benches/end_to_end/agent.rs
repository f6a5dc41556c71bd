//! The agent: a backlog over TCP, then its drain.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use tidegate::config::Config;
use tidegate::http::api;
use tidegate::shell::notices::Notices;
use tidegate::shell::run;

use super::process::{cpu_seconds, forget_peak, free_port, mosquitto, peak_resident_kib};
use super::{INFLIGHT, report};

/// Fills a journal with the broker away and drains it; how long that took.
pub(crate) async fn fill_and_drain(format: &str, count: u64) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let config = configuration(folder.path(), port, format);
    let config = Config::parse(&config, Path::new("bench")).unwrap();
    let running = run::start(config, Notices::default()).await;
    let running = running.unwrap_or_else(|error| panic!("{error}"));
    let input = running.sources()[0].1;
    let own = std::process::id();

    let (started, cpu) = (Instant::now(), cpu_seconds(own));
    tokio::task::spawn_blocking(move || feed(input, count)).await.unwrap();
    let durable = started.elapsed();
    report("accept to durable, 100 series, JSON over TCP", count, durable);
    let per_million = 1e6 / count as f64;
    let spent = (cpu_seconds(own) - cpu) * per_million;
    println!("  {spent:.1} CPU seconds per million, feeder included");

    forget_peak();
    let _broker = mosquitto(folder.path(), port, "max_inflight_messages 0");
    let mut reports = running.reports.clone();
    reports.wait_for(|report| report.uplink.state == "up").await.unwrap();
    let (started, cpu) = (Instant::now(), cpu_seconds(own));
    while backlog(&running).await > 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let drained = started.elapsed();
    report(&format!("drain to mosquitto, {format}"), count, drained);
    let spent = (cpu_seconds(own) - cpu) * per_million;
    println!("  {spent:.1} CPU seconds per million, peak resident {} KiB", peak_resident_kib(own));
    running.stop().await;
    drained
}

/// Of this moment: reports are published four times a second.
async fn backlog(running: &run::Running) -> u64 {
    let (answer, report) = tokio::sync::oneshot::channel();
    running.requests.send(api::Request::Report(answer)).await.unwrap();
    report.await.unwrap().uplink.backlog
}

fn configuration(folder: &Path, port: u16, format: &str) -> String {
    format!(
        "[gateway]\nid = \"bench\"\ndata_dir = \"{}/data\"\n[clock]\nhold_unsynchronized = \"0s\"\n\
         [http]\nlisten = \"\"\n[[uplink]]\nformat = \"{format}\"\n\
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
