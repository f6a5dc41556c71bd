//! The password, read anew at each attempt so that a changed one counts.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::error::Failure;
use crate::core::seam::DownCause;

/// The content of the file without its last line break.
pub(super) async fn read(path: &Path) -> Result<String, Failure> {
    let text = tokio::fs::read_to_string(path).await.map_err(|error| Failure {
        reason: format!("cannot read the password file {}: {error}", path.display()),
        cause: DownCause::Refused,
    })?;
    if let Ok(facts) = tokio::fs::metadata(path).await
        && is_worth_a_word(path, facts.permissions().mode())
    {
        tracing::warn!(file = %path.display(), "every user of this machine may read the password file");
    }
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

/// The mode of each file of which it was said that everybody may read it: clients of
/// one file, and their attempts, say it once.
static SAID: Mutex<BTreeMap<PathBuf, u32>> = Mutex::new(BTreeMap::new());

/// Whether everybody may read the file and that is news.
fn is_worth_a_word(path: &Path, mode: u32) -> bool {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if mode & 0o004 == 0 {
        // Should it be opened again, that is news again.
        said.remove(path);
        return false;
    }
    said.insert(path.to_owned(), mode) != Some(mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_everybody_may_read_a_file_is_said_once() {
        let (one, other) = (Path::new("/said-once/one"), Path::new("/said-once/other"));
        let said = [
            (one, 0o100_600),
            (one, 0o100_644),
            (one, 0o100_644),
            (other, 0o100_644),
            (one, 0o100_666),
            (one, 0o100_640),
            (one, 0o100_666),
        ];
        let said = said.map(|(path, mode)| is_worth_a_word(path, mode));
        assert_eq!(said, [false, true, false, true, true, false, true]);
    }
}
