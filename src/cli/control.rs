//! A question to the running agent, through the control socket of its data
//! directory: one HTTP request, one answer, no client library.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::exit::{Exit, Failure};
use crate::http::api::VouchBody;
pub(super) use crate::shell::Report;
use crate::shell::listen::SOCKET_NAME;

/// The agent answers within two seconds or says that it cannot.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What reads a whole segment, or waits for a commit, takes longer.
const WORK_WITHIN: Duration = Duration::from_secs(120);

/// No answer is longer.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What an agent can be asked here. Each is answered with its report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// How it is.
    Status,
    /// To take the operator's word that the clock is right within an error.
    Vouch {
        /// Nanoseconds.
        error_ns: u64,
    },
}

impl Question {
    /// As an HTTP/1.0 request.
    fn request(self) -> io::Result<String> {
        let tail = "Host: tidegate\r\nConnection: close\r\n";
        Ok(match self {
            Question::Status => format!("GET /api/v1/status HTTP/1.0\r\n{tail}\r\n"),
            Question::Vouch { error_ns } => {
                let body = serde_json::to_string(&VouchBody { error_ns })?;
                let length = body.len();
                format!(
                    "POST /api/v1/clock/vouch HTTP/1.0\r\n{tail}Content-Type: application/json\r\n\
                     Content-Length: {length}\r\n\r\n{body}"
                )
            }
        })
    }
}

/// The status of the agent that runs on `data_dir`.
pub(super) fn report(data_dir: &Path) -> Result<Report, Failure> {
    ask(data_dir, &Question::Status).map_err(|error| failure(data_dir, &error))
}

/// Asks the agent that runs on `data_dir`.
///
/// # Errors
/// `NotFound` or `ConnectionRefused`: no agent runs. `PermissionDenied`: its
/// socket is out of reach. Any other: it did not answer, or not well.
pub(super) fn ask(data_dir: &Path, question: &Question) -> io::Result<Report> {
    let answer = exchange(data_dir, &question.request()?, ANSWER_WITHIN)?;
    Ok(serde_json::from_slice(&answer)?)
}

/// What the agent on `data_dir` answers on a path.
///
/// # Errors
/// As [`ask`]; `NotFound` also where the agent has nothing of that name.
pub(super) fn get(data_dir: &Path, path: &str) -> io::Result<Vec<u8>> {
    let request = format!("GET {path} HTTP/1.0\r\nHost: tidegate\r\nConnection: close\r\n\r\n");
    exchange(data_dir, &request, WORK_WITHIN)
}

/// The same as a value.
///
/// # Errors
/// As [`get`], and an answer that is not what was asked for.
pub(super) fn get_json<T: DeserializeOwned>(data_dir: &Path, path: &str) -> io::Result<T> {
    Ok(serde_json::from_slice(&get(data_dir, path)?)?)
}

/// What the agent on `data_dir` answers to a value.
///
/// # Errors
/// As [`get_json`].
pub(super) fn post_json<T: DeserializeOwned>(
    data_dir: &Path,
    path: &str,
    value: &impl Serialize,
) -> io::Result<T> {
    let body = serde_json::to_string(value)?;
    let request = format!(
        "POST {path} HTTP/1.0\r\nHost: tidegate\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    Ok(serde_json::from_slice(&exchange(data_dir, &request, WORK_WITHIN)?)?)
}

fn exchange(data_dir: &Path, request: &str, within: Duration) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(data_dir.join(SOCKET_NAME))?;
    stream.set_read_timeout(Some(within))?;
    stream.set_write_timeout(Some(within))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    body(answer)
}

/// What to say about such an error.
pub(super) fn failure(data_dir: &Path, error: &io::Error) -> Failure {
    if let Some(why) = absence(error, data_dir) {
        if error.kind() == io::ErrorKind::PermissionDenied {
            return Failure::new(Exit::Io, why);
        }
        return no_agent(data_dir);
    }
    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
        let what = "the agent on DIR does not answer in time: its log says what keeps it";
        return Failure::new(Exit::Io, what.replace("DIR", &data_dir.display().to_string()));
    }
    let path = data_dir.join(SOCKET_NAME);
    Failure::io(format_args!("the agent on {} cannot be asked", path.display()), error)
}

/// What to say where it is known that nobody could be asked.
pub(super) fn no_agent(data_dir: &Path) -> Failure {
    let start = "start it with `systemctl start tidegate`, or `tidegate run`";
    Failure::new(Exit::Io, format_args!("{}: {start}", nobody(data_dir)))
}

fn nobody(data_dir: &Path) -> String {
    format!("no agent runs on {}", data_dir.display())
}

/// Why nobody could be asked, where that is what the error means.
pub(super) fn absence(error: &io::Error, data_dir: &Path) -> Option<String> {
    // By the system's word: an agent that has nothing of a name says `NotFound` too.
    error.raw_os_error()?;
    let place = data_dir.display();
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Some(nobody(data_dir)),
        io::ErrorKind::PermissionDenied => {
            Some(format!("the agent's socket in {place} is its owner's alone: try sudo"))
        }
        _ => None,
    }
}

/// The body of an answer to an HTTP/1.0 request: all that follows the head.
fn body(mut answer: Vec<u8>) -> io::Result<Vec<u8>> {
    const END_OF_HEAD: &[u8] = b"\r\n\r\n";
    let error = |kind, message: String| io::Error::new(kind, message);
    let wrong = |message: String| error(io::ErrorKind::InvalidData, message);
    let end = answer.windows(END_OF_HEAD.len()).position(|window| window == END_OF_HEAD);
    let Some(end) = end else { return Err(wrong("the answer has no head".to_owned())) };
    let body = answer.split_off(end + END_OF_HEAD.len());
    let head = String::from_utf8_lossy(&answer);
    let line = head.lines().next().unwrap_or_default();
    let said = String::from_utf8_lossy(&body);
    match line.split(' ').nth(1) {
        Some("200") => {
            let announced = head.lines().find_map(content_length);
            if announced.is_some_and(|length| length != body.len()) {
                return Err(error(io::ErrorKind::UnexpectedEof, "the answer breaks off".into()));
            }
            Ok(body)
        }
        Some("404") => Err(error(io::ErrorKind::NotFound, said.trim().to_owned())),
        _ => Err(wrong(format!("{line}: {}", said.trim()))),
    }
}

fn content_length(line: &str) -> Option<usize> {
    let (name, value) = line.split_once(':')?;
    name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_does_not_answer_is_named_with_what_to_do() {
        let said = |error: io::Error| failure(Path::new("/d"), &error).message;
        let start = "start it with `systemctl start tidegate`, or `tidegate run`";
        let absent = io::Error::from_raw_os_error(2);
        assert_eq!(said(absent), format!("no agent runs on /d: {start}"));
        let refused = io::Error::from_raw_os_error(111);
        assert_eq!(said(refused), format!("no agent runs on /d: {start}"));
        let locked = io::Error::from_raw_os_error(13);
        assert_eq!(said(locked), "the agent's socket in /d is its owner's alone: try sudo");
        let silent = io::Error::from_raw_os_error(11);
        let late = "the agent on /d does not answer in time: its log says what keeps it";
        assert_eq!(said(silent), late);
        let odd = io::Error::new(io::ErrorKind::InvalidData, "what?");
        assert_eq!(said(odd), "the agent on /d/control.sock cannot be asked: what?");
    }

    #[test]
    fn an_answer_is_its_body_or_an_error_with_both_lines() {
        let good = b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec();
        assert_eq!(body(good).unwrap(), b"{}");
        let bad = b"HTTP/1.0 503 Service Unavailable\r\n\r\nthe agent does not answer\n".to_vec();
        let error = body(bad).unwrap_err().to_string();
        assert_eq!(error, "HTTP/1.0 503 Service Unavailable: the agent does not answer");
        let absent = b"HTTP/1.0 404 Not Found\r\n\r\nthere is none\n".to_vec();
        assert_eq!(body(absent).unwrap_err().kind(), io::ErrorKind::NotFound);
        let short = b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n{}".to_vec();
        assert_eq!(body(short).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(body(b"garbage".to_vec()).is_err());
    }
}
