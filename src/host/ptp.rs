//! What ptp4l says about its grandmaster, through `pmc` of the same package.
//!
//! ptp4l of linuxptp 4 has a socket that answers anybody who only asks
//! (`uds_ro_address`); earlier versions have none, and are then seen by what
//! they do to the kernel's clock alone. `pmc` needs a socket of its own that
//! ptp4l can reach: the service's runtime directory, as `/tmp` may be private.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::core::clock::ptp::PtpReport;

/// Where ptp4l puts its read-only socket, newer place first.
const SOCKETS: [&str; 2] = ["var/run/ptp/ptp4lro", "var/run/ptp4lro"];
/// `pmc` waits 100 ms for answers.
const PMC_TIMEOUT: Duration = Duration::from_secs(2);
const QUESTIONS: [&str; 4] = [
    "GET TIME_STATUS_NP",
    "GET PARENT_DATA_SET",
    "GET TIME_PROPERTIES_DATA_SET",
    "GET CURRENT_DATA_SET",
];

/// Why there is no report.
#[derive(Debug)]
pub enum PtpError {
    /// `pmc` could not be run.
    Run(io::Error),
    /// It did not end in time and was killed.
    Slow,
    /// It ended with an error.
    Failed {
        /// What it wrote to stderr.
        message: String,
    },
    /// ptp4l did not answer, or not everything.
    Missing {
        /// The first field that is missing or is no number.
        field: &'static str,
    },
}

impl fmt::Display for PtpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PtpError::Run(error) => {
                write!(f, "pmc cannot be run: {error}; it comes with linuxptp, as ptp4l does")
            }
            PtpError::Slow => f.write_str("pmc did not end within 2 s"),
            PtpError::Failed { message } => write!(f, "pmc failed: {message}"),
            PtpError::Missing { field } => {
                write!(f, "ptp4l does not tell `{field}`; does it run, and may it write to ")?;
                write!(f, "our socket?")
            }
        }
    }
}

impl std::error::Error for PtpError {}

/// ptp4l's read-only socket, where there is one. `root` is `/`.
pub fn socket(root: &Path) -> Option<PathBuf> {
    SOCKETS.iter().map(|socket| root.join(socket)).find(|socket| socket.exists())
}

/// Asks the ptp4l behind `socket`. Takes 100 ms, at most 2 s; `pmc` is killed
/// when the future is dropped.
///
/// # Errors
/// There is no `pmc`, or no full answer.
pub async fn ask(socket: &Path) -> Result<PtpReport, PtpError> {
    ask_through(OsStr::new("pmc"), socket).await
}

async fn ask_through(pmc: &OsStr, socket: &Path) -> Result<PtpReport, PtpError> {
    let own = own_socket();
    let mut command = Command::new(pmc);
    // -u: by the UNIX socket; -b 0: this ptp4l alone, not the network behind it.
    command.args(["-u", "-b", "0", "-s"]).arg(socket).arg("-i").arg(&own).args(QUESTIONS);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PMC_TIMEOUT, command.output()).await;
    // One that was killed leaves its socket behind.
    let _ = std::fs::remove_file(&own);
    let output = output.map_err(|_elapsed| PtpError::Slow)?.map_err(PtpError::Run)?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(PtpError::Failed { message });
    }
    parse(&String::from_utf8_lossy(&output.stdout))
}

fn own_socket() -> PathBuf {
    let folder = super::systemd::runtime_directory().unwrap_or_else(std::env::temp_dir);
    folder.join(format!("tidegate-pmc-{}-{:08x}", std::process::id(), super::draw() as u32))
}

/// Reads what `pmc` prints: one `name value` a line, indented under the answer
/// it belongs to. Unknown fields are passed over.
///
/// # Errors
/// A field is missing: ptp4l did not answer one of the questions.
pub fn parse(output: &str) -> Result<PtpReport, PtpError> {
    let fields = Fields { output };
    let is_one = |value: &str| match value {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    };
    Ok(PtpReport {
        has_grandmaster: fields.read("gmPresent", is_one)?,
        master_offset_ns: fields.read("master_offset", |value| value.parse().ok())?,
        path_delay_ns: fields.read("meanPathDelay", rounded)?,
        clock_class: fields.read("gm.ClockClass", |value| value.parse().ok())?,
        clock_accuracy: fields.read("gm.ClockAccuracy", hexadecimal)?,
        is_utc_offset_valid: fields.read("currentUtcOffsetValid", is_one)?,
        is_ptp_timescale: fields.read("ptpTimescale", is_one)?,
    })
}

struct Fields<'a> {
    output: &'a str,
}

impl Fields<'_> {
    fn read<T>(
        &self,
        field: &'static str,
        value: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, PtpError> {
        let mut lines = self.output.lines().filter_map(|line| {
            let (name, value) = line.trim().split_once(char::is_whitespace)?;
            (name == field).then_some(value.trim())
        });
        lines.next().and_then(value).ok_or(PtpError::Missing { field })
    }
}

/// Nanoseconds with the fraction that PTP gives them, to the nearest one.
fn rounded(value: &str) -> Option<i64> {
    let value: f64 = value.parse().ok()?;
    value.is_finite().then(|| value.round() as i64)
}

fn hexadecimal(value: &str) -> Option<u8> {
    u8::from_str_radix(value.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What pmc 3.1.1 printed of a ptp4l without anybody to follow.
    const ALONE: &str = include_str!("../../tests/data/pmc_alone.txt");
    /// Of a ptp4l that follows a grandmaster of class 6 with `free_running`: it
    /// sees the 37 s between TAI and UTC and corrects nothing.
    const FOLLOWER: &str = include_str!("../../tests/data/pmc_follower.txt");

    #[test]
    fn a_real_answer_is_read_in_full() {
        let follower = PtpReport {
            has_grandmaster: true,
            master_offset_ns: 36_999_999_995,
            path_delay_ns: 2_328,
            clock_class: 6,
            clock_accuracy: 0x21,
            is_utc_offset_valid: true,
            is_ptp_timescale: true,
        };
        assert_eq!(parse(FOLLOWER).unwrap(), follower);
        let alone = PtpReport {
            has_grandmaster: false,
            master_offset_ns: 0,
            path_delay_ns: 0,
            clock_class: 248,
            clock_accuracy: 0xFE,
            is_utc_offset_valid: false,
            is_ptp_timescale: false,
        };
        assert_eq!(parse(ALONE).unwrap(), alone);
    }

    #[test]
    fn an_unanswered_question_is_named() {
        let silent = "sending: GET TIME_STATUS_NP\nsending: GET PARENT_DATA_SET\n";
        let error = parse(silent).unwrap_err().to_string();
        assert!(error.starts_with("ptp4l does not tell `gmPresent`"), "{error}");
        let half = FOLLOWER.replace("meanPathDelay    2328.0", "meanPathDelay    inf");
        let error = parse(&half).unwrap_err().to_string();
        assert!(error.starts_with("ptp4l does not tell `meanPathDelay`"), "{error}");
        let negative = FOLLOWER.replace("2328.0", "-2328.6");
        assert_eq!(parse(&negative).unwrap().path_delay_ns, -2_329);
    }

    #[test]
    fn the_newer_socket_is_asked_first() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(socket(root.path()), None);
        std::fs::create_dir_all(root.path().join("var/run/ptp")).unwrap();
        std::fs::write(root.path().join(SOCKETS[1]), "").unwrap();
        assert_eq!(socket(root.path()), Some(root.path().join("var/run/ptp4lro")));
        std::fs::write(root.path().join(SOCKETS[0]), "").unwrap();
        assert_eq!(socket(root.path()), Some(root.path().join("var/run/ptp/ptp4lro")));
    }

    #[tokio::test]
    async fn a_missing_or_failing_pmc_is_said() {
        let missing = ask_through(OsStr::new("/nonexistent/pmc"), Path::new("x")).await;
        assert!(missing.unwrap_err().to_string().starts_with("pmc cannot be run: "));
        let failing = ask_through(OsStr::new("false"), Path::new("x")).await;
        assert_eq!(failing.unwrap_err().to_string(), "pmc failed: ");
        let silent = ask_through(OsStr::new("true"), Path::new("x")).await;
        assert!(matches!(silent, Err(PtpError::Missing { field: "gmPresent" })));
    }
}
