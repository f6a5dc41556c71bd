//! What `/proc` says of a process, and the broker as one.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A child that is gone when dropped.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// User and system time of a process, from `/proc/PID/stat` (100 ticks a second).
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |field: usize| fields[field].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

/// The most memory that was resident since [`forget_peak`].
pub(crate) fn peak_resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The peak of this process counts from here.
pub(crate) fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Mosquitto on a port, with more lines of configuration.
pub(crate) fn mosquitto(folder: &Path, port: u16, more: &str) -> Killed {
    let config = folder.join(format!("mosquitto-{port}.conf"));
    let text = format!("listener {port} 127.0.0.1\nallow_anonymous true\n{more}\n");
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new("mosquitto");
    command.arg("-c").arg(&config).stdout(Stdio::null()).stderr(Stdio::null());
    Killed(command.spawn().unwrap())
}
