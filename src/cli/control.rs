//! A question to the running agent, through the control socket of its data
//! directory: one HTTP request, one answer, no client library.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::exit::Failure;
use crate::http::api::VouchBody;
pub(super) use crate::shell::Report;
use crate::shell::listen::SOCKET_NAME;

/// The agent answers within two seconds or says that it cannot.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// An answer is some kilobytes; more than this is not ours.
const ANSWER_BYTES_MAX: u64 = 16 * 1024 * 1024;

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
    let mut stream = UnixStream::connect(data_dir.join(SOCKET_NAME))?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    stream.set_write_timeout(Some(ANSWER_WITHIN))?;
    stream.write_all(question.request()?.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(serde_json::from_slice(&body(answer)?)?)
}

/// What to say about such an error.
pub(super) fn failure(data_dir: &Path, error: &io::Error) -> Failure {
    let path = data_dir.join(SOCKET_NAME);
    Failure::io(format_args!("no agent answers on {}", path.display()), error)
}

/// The body of an answer to an HTTP/1.0 request: all that follows the head.
fn body(mut answer: Vec<u8>) -> io::Result<Vec<u8>> {
    const END_OF_HEAD: &[u8] = b"\r\n\r\n";
    let wrong = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
    let end = answer.windows(END_OF_HEAD.len()).position(|window| window == END_OF_HEAD);
    let Some(end) = end else { return Err(wrong("the answer has no head".to_owned())) };
    let body = answer.split_off(end + END_OF_HEAD.len());
    let head = String::from_utf8_lossy(&answer);
    let line = head.lines().next().unwrap_or_default();
    if line.split(' ').nth(1) == Some("200") {
        return Ok(body);
    }
    Err(wrong(format!("{line}: {}", String::from_utf8_lossy(&body).trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_body_or_an_error_with_both_lines() {
        let good = b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec();
        assert_eq!(body(good).unwrap(), b"{}");
        let bad = b"HTTP/1.0 503 Service Unavailable\r\n\r\nthe agent does not answer\n".to_vec();
        let error = body(bad).unwrap_err().to_string();
        assert_eq!(error, "HTTP/1.0 503 Service Unavailable: the agent does not answer");
        assert!(body(b"garbage".to_vec()).is_err());
    }
}
