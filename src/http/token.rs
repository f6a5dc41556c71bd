//! The token that requests must bear where others than this machine can reach
//! the API.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;

use super::metrics::Metrics;
use super::page;
use crate::core::secret_mode::{SYSTEMD_CREDENTIALS, is_private};

/// Shorter ones can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// Wrong tokens within [`PACE_WITHIN`] that are answered at once.
const WRONG_MAX: u64 = 10;
const PACE_WITHIN: Duration = Duration::from_secs(60);
/// Beyond them the file is looked into no more often than this for a token that is not known:
/// a new one that is right waits so long at most.
const READ_EVERY: Duration = Duration::from_secs(1);

/// A secret; it shows itself to nobody. It is what its file says: that may change while
/// the agent runs.
#[derive(Clone)]
pub struct Token(Arc<Secret>);

struct Secret {
    file: PathBuf,
    /// As the file last said it.
    bytes: RwLock<Arc<[u8]>>,
    /// What has been wrong with the file since then, said once.
    wrong: Mutex<Option<String>>,
    pace: Mutex<Pace>,
}

/// How many wrong tokens came lately. Whoever tries many finds out slowly, and costs neither a
/// look into a file nor a line of the log each; who bears the right one is never kept waiting.
#[derive(Debug, Default)]
struct Pace {
    began: Option<Instant>,
    /// Since then.
    count: u64,
    /// Of them, those that no line of the log has told.
    untold: u64,
    read: Option<Instant>,
}

/// What is done about a token that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unknown {
    /// The file is looked into: it may be a new one.
    Look,
    /// Too many were wrong.
    Wait,
}

impl Pace {
    fn unknown(&mut self, now: Instant) -> Unknown {
        if self.began.is_none_or(|began| now - began >= PACE_WITHIN) {
            (self.began, self.count) = (Some(now), 0);
        }
        let is_due = self.read.is_none_or(|read| now - read >= READ_EVERY);
        if self.count >= WRONG_MAX && !is_due {
            self.count += 1;
            self.untold += 1;
            return Unknown::Wait;
        }
        self.read = Some(now);
        Unknown::Look
    }

    /// It was wrong. The number to be told now, at most once in [`PACE_WITHIN`].
    fn was_wrong(&mut self) -> Option<u64> {
        self.count += 1;
        self.untold += 1;
        (self.count == 1).then(|| std::mem::take(&mut self.untold))
    }

    fn is_over(&self) -> bool {
        self.count > WRONG_MAX
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// From a file that only its owner can read: at least 16 printable characters,
    /// and a line end.
    ///
    /// # Errors
    /// What is wrong with the file, for people, with its path.
    pub fn read(path: &Path) -> Result<Self, String> {
        let bytes = RwLock::new(read_bytes(path)?);
        let (file, wrong, pace) = (path.to_owned(), Mutex::default(), Mutex::default());
        Ok(Self(Arc::new(Secret { file, bytes, wrong, pace })))
    }

    /// Looks into the file again. While something is wrong with it the token stays what
    /// it was.
    async fn read_again(&self) {
        let file = self.0.file.clone();
        let Ok(read) = tokio::task::spawn_blocking(move || read_bytes(&file)).await else { return };
        let mut wrong = self.0.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(bytes) => {
                *self.0.bytes.write().unwrap_or_else(PoisonError::into_inner) = bytes;
                *wrong = None;
            }
            Err(what) if wrong.as_ref() != Some(&what) => {
                tracing::warn!("http.token_file: {what}; the token stays what it was");
                *wrong = Some(what);
            }
            Err(_) => {}
        }
    }

    /// Whether this is the token. Takes the same time wherever the two differ.
    fn is(&self, given: &[u8]) -> bool {
        let ours = Arc::clone(&self.0.bytes.read().unwrap_or_else(PoisonError::into_inner));
        let differences = ours
            .iter()
            .zip(given)
            .fold(0, |found, (ours, theirs)| std::hint::black_box(found | (ours ^ theirs)));
        ours.len() == given.len() && differences == 0
    }

    /// The same routes, for requests that bear the token. Whether the agent is
    /// alive and ready, everybody may know; the page holds no data and asks for the
    /// token itself.
    pub fn guard(self, router: Router, metrics: Arc<Metrics>) -> Router {
        router.layer(middleware::from_fn_with_state((self, metrics), ask))
    }

    /// Whether this is the token, by the file as it is now; and if it is not, whether too
    /// many were wrong lately.
    async fn judge(&self, given: &[u8]) -> Verdict {
        let pace = || self.0.pace.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is known may be the old one.
        if !self.is(given) && pace().unknown(Instant::now()) == Unknown::Wait {
            return Verdict::Wait;
        }
        self.read_again().await;
        if self.is(given) {
            return Verdict::Right;
        }
        let mut pace = pace();
        if let Some(count) = pace.was_wrong() {
            tracing::warn!(count, "requests bear a wrong token");
        }
        if pace.is_over() { Verdict::Wait } else { Verdict::Wrong }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Right,
    Wrong,
    /// Wrong, as too many before it.
    Wait,
}

fn read_bytes(path: &Path) -> Result<Arc<[u8]>, String> {
    let wrong = |what: String| format!("{}: {what}", path.display());
    let cannot = |error: io::Error| {
        let way_out = match error.kind() {
            io::ErrorKind::NotFound => "write one with: umask 077; openssl rand -hex 32 > FILE",
            _ => "let the user that runs Tidegate read it",
        };
        wrong(format!("cannot be read: {error}; {way_out}"))
    };
    let mode = std::fs::metadata(path).map_err(cannot)?.permissions().mode() & 0o777;
    if !is_private(mode, path.starts_with(SYSTEMD_CREDENTIALS)) {
        let what = format!("others than its owner have access (mode {mode:04o})");
        return Err(wrong(format!("{what}; chmod 600 it and renew the token")));
    }
    let text = std::fs::read_to_string(path).map_err(cannot)?;
    let token = text.trim_ascii_end();
    if token.len() < TOKEN_BYTES_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let what = "holds no token: one line of at least 16 printable characters";
        return Err(wrong(format!("{what}; write one with: openssl rand -hex 32")));
    }
    Ok(token.as_bytes().into())
}

async fn ask(
    State((token, metrics)): State<(Token, Arc<Metrics>)>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    if matches!(path, "/healthz" | "/readyz") || page::is_asset(path) {
        return next.run(request).await;
    }
    let given = request.headers().get(header::AUTHORIZATION).map(|value| value.as_bytes());
    let given = given.and_then(|value| value.split_at_checked("Bearer ".len()));
    let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"Bearer "));
    let verdict = match given {
        Some((_, given)) => Some(token.judge(given.trim_ascii()).await),
        None => None,
    };
    match verdict {
        Some(Verdict::Right) => return next.run(request).await,
        Some(Verdict::Wrong | Verdict::Wait) => metrics.wrong_token(),
        None => {}
    }
    if verdict == Some(Verdict::Wait) {
        let said = "too many wrong tokens in the last minute\n";
        return (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "1")], said).into_response();
    }
    let said =
        "this needs the header \"Authorization: Bearer TOKEN\" with the token of http.token_file\n";
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], said).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, mode: u32) -> Result<Token, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        Token::read(&path).map_err(|said| said.replace(&path.display().to_string(), "F"))
    }

    #[test]
    fn a_token_is_right_to_the_last_byte() {
        let token = read("0123456789abcdef\n", 0o600).unwrap();
        assert!(token.is(b"0123456789abcdef"));
        for wrong in ["", "0123456789abcdeF", "0123456789abcde", "0123456789abcdef0"] {
            assert!(!token.is(wrong.as_bytes()), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[tokio::test]
    async fn a_token_changes_with_its_file_and_stays_while_that_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let write = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        write("0123456789abcdef", 0o600);
        let token = Token::read(&path).unwrap();
        write("fedcba9876543210", 0o600);
        token.read_again().await;
        assert!(token.is(b"fedcba9876543210") && !token.is(b"0123456789abcdef"));
        write("0123456789abcdef", 0o644);
        token.read_again().await;
        assert!(token.is(b"fedcba9876543210"));
    }

    #[tokio::test]
    async fn many_wrong_tokens_are_slowed_down_and_the_right_one_never_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "0123456789abcdef").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let token = Token::read(&path).unwrap();
        for _ in 0..WRONG_MAX {
            assert_eq!(token.judge(b"guess").await, Verdict::Wrong);
        }
        for _ in 0..3 {
            assert_eq!(token.judge(b"guess").await, Verdict::Wait);
            assert_eq!(token.judge(b"0123456789abcdef").await, Verdict::Right);
        }
    }

    #[test]
    fn wrong_tokens_are_told_once_a_minute_and_the_file_is_left_in_peace() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        let told: Vec<_> =
            (0..WRONG_MAX).map(|i| (pace.unknown(at(i)), pace.was_wrong())).collect();
        assert_eq!(told[0], (Unknown::Look, Some(1)));
        assert!(told[1..].iter().all(|one| *one == (Unknown::Look, None)));
        assert_eq!(pace.unknown(at(500)), Unknown::Wait);
        assert_eq!(pace.unknown(at(1_100)), Unknown::Look, "a new token may be there");
        assert_eq!(pace.was_wrong(), None);
        assert_eq!(pace.unknown(at(60_000)), Unknown::Look);
        assert_eq!(pace.was_wrong(), Some(WRONG_MAX + 2), "with those of the minute before");
    }

    #[test]
    fn what_is_wrong_with_the_file_is_said() {
        let others = "others than its owner have access";
        let expected = format!("F: {others} (mode 0640); chmod 600 it and renew the token");
        assert_eq!(read("0123456789abcdef", 0o640).unwrap_err(), expected);
        let expected = "F: holds no token: one line of at least 16 printable characters; \
                        write one with: openssl rand -hex 32";
        for text in ["", "short", "0123456789 bcdef", "0123456789abcde\u{e9}"] {
            assert_eq!(read(text, 0o400).unwrap_err(), expected);
        }
        let said = Token::read(Path::new("/nowhere/token")).unwrap_err();
        assert!(said.starts_with("/nowhere/token: cannot be read: "), "{said}");
    }
}
