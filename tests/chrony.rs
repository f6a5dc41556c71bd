//! Our client of chronyd's command protocol against a real chronyd, which never
//! touches the clock (`-x`), beside what `chronyc` reads from it.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tidegate::core::clock::chrony::ChronyReport;
use tidegate::host::chrony::{ChronyError, parse, request, track};

fn chronyd_path() -> Option<PathBuf> {
    ["/usr/sbin/chronyd", "/usr/bin/chronyd", "/usr/local/sbin/chronyd"]
        .iter()
        .map(PathBuf::from)
        .find(|path| path.is_file())
}

/// Whether a test that needs chronyd can run. Where it must be there
/// (`TIDEGATE_REQUIRE_CHRONYD`), a missing one is a failure.
fn has_chronyd(test: &str) -> bool {
    let is_there = chronyd_path().is_some();
    #[expect(clippy::disallowed_methods, reason = "CI says that a skip is a failure")]
    let is_required = std::env::var_os("TIDEGATE_REQUIRE_CHRONYD").is_some();
    assert!(is_there || !is_required, "chronyd is required and not installed");
    if !is_there {
        skip(test);
    }
    is_there
}

#[expect(clippy::print_stdout, reason = "a skip is said, not silent")]
fn skip(test: &str) {
    println!("{test}: skipped, chronyd is not installed");
}

/// A free UDP port, as far as one can know.
fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A chronyd that is killed when dropped.
struct Chronyd {
    process: Child,
    command_port: u16,
}

impl Chronyd {
    /// Starts one that serves its own clock or follows another, as `role` says.
    fn start(folder: &Path, name: &str, role: &str) -> Self {
        let command_port = free_port();
        let config = folder.join(format!("{name}.conf"));
        let text = format!(
            "{role}\ncmdport {command_port}\nbindcmdaddress 127.0.0.1\nbindcmdaddress /\n\
             pidfile {}/{name}.pid\nuser root\n",
            folder.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(chronyd_path().unwrap());
        // -x: no control of the clock. -d: no daemon. -U: need not be root, and with
        // `user root` it stays whoever it is.
        command.args(["-x", "-d", "-U", "-f"]).arg(config);
        let process = command.stderr(Stdio::null()).spawn().unwrap();
        Self { process, command_port }
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.command_port))
    }

    /// The report once it says so.
    async fn report(&self, is_it: impl Fn(&ChronyReport) -> bool) -> ChronyReport {
        for _ in 0..3_000 {
            match track(self.address()).await {
                Ok(report) if is_it(&report) => return report,
                Ok(_) | Err(ChronyError::Unreachable { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("waited in vain for a report");
    }

    /// The columns of `chronyc -c tracking`.
    fn columns(&self) -> Vec<String> {
        let port = self.command_port.to_string();
        let output = Command::new("chronyc")
            .args(["-c", "-h", "127.0.0.1", "-p", &port, "tracking"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.trim().split(',').map(str::to_owned).collect()
    }

    /// Our report, and chronyc's columns just before and just after, all of the
    /// same update.
    async fn both(&self) -> (ChronyReport, [Vec<String>; 2]) {
        for _ in 0..200 {
            let before = self.columns();
            let report = track(self.address()).await.unwrap();
            let after = self.columns();
            if before[3] == after[3] {
                return (report, [before, after]);
            }
        }
        panic!("chronyd updates faster than it can be asked");
    }
}

impl Drop for Chronyd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Decimal text with a point as a whole number of its last places, exact.
fn decimal(text: &str, places: usize) -> i64 {
    let (whole, fraction) = text.split_once('.').unwrap();
    assert_eq!(fraction.len(), places, "{text}");
    format!("{whole}{fraction}").parse().unwrap()
}

/// Whether chronyc printed this value, with its three decimals.
fn is_printed(value: f64, text: &str) -> bool {
    (value - text.parse::<f64>().unwrap()).abs() <= 0.000_501
}

fn check(report: &ChronyReport, [before, after]: &[Vec<String>; 2]) {
    assert_eq!(before.len(), 14, "{before:?}");
    assert_eq!(format!("{:08X}", report.ref_id), before[0]);
    assert_eq!(report.stratum.to_string(), before[2]);
    assert_eq!(report.reference_ns, decimal(&before[3], 9));
    assert!(is_printed(report.freq_ppm, &before[7]), "{report:?} {before:?}");
    assert!(is_printed(report.skew_ppm, &before[9]), "{report:?} {before:?}");
    assert_eq!(report.root_delay_ns, decimal(&before[10], 9));
    // It grows from one question to the next.
    let dispersion = decimal(&before[11], 9)..=decimal(&after[11], 9);
    assert!(dispersion.contains(&report.root_dispersion_ns), "{report:?} {dispersion:?}");
    assert_eq!(report.is_synchronised, before[13] != "Not synchronised");
}

#[tokio::test]
async fn what_a_real_chronyd_says_is_read_as_chronyc_reads_it() {
    if !has_chronyd("what_a_real_chronyd_says") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let role = format!("port {port}\nbindaddress 127.0.0.1\nallow 127.0.0.1\nlocal stratum 8");
    let server = Chronyd::start(folder.path(), "server", &role);
    // `local`: it vouches for nothing but looks perfect.
    let own = server.report(|report| report.is_synchronised).await;
    assert_eq!((own.ref_id, own.stratum, own.is_refclock), (0x7F7F_0101, 8, true));
    assert!(own.judge(own.reference_ns).is_local_reference);

    let role = format!("port 0\nserver 127.0.0.1 port {port} iburst minpoll -2 maxpoll -2");
    let client = Chronyd::start(folder.path(), "client", &role);
    let early = client.report(|_| true).await;
    if !early.is_synchronised {
        assert_eq!(early.stratum, 0);
    }
    // The first update has no interval yet.
    client.report(|report| report.is_synchronised && report.update_interval_ns > 0).await;
    let (report, columns) = client.both().await;
    check(&report, &columns);
    assert_eq!((report.ref_id, report.stratum, report.is_refclock), (0x7F00_0001, 9, false));
}

#[tokio::test]
async fn c13_a_short_request_is_refused_with_status_19_and_a_headless_one_not_answered() {
    if !has_chronyd("c13_a_short_request") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Chronyd::start(folder.path(), "server", "port 0\nlocal stratum 8");
    server.report(|_| true).await;
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut reply = [0; 200];
    // The silent one first: an answer to it would come before the others.
    socket.send(&request(1)[..20]).unwrap();
    for (sequence, length) in [(2, 60), (3, 103)] {
        socket.send(&request(sequence)[..length]).unwrap();
        let received = socket.recv(&mut reply).unwrap();
        assert_eq!(received, 28);
        let refused = parse(&reply[..received], sequence).unwrap_err();
        assert!(matches!(refused, ChronyError::Refused { status: 19 }), "{refused}");
    }
    socket.send(&request(4)).unwrap();
    let received = socket.recv(&mut reply).unwrap();
    assert_eq!(received, 104);
    parse(&reply[..received], 4).unwrap();
}
