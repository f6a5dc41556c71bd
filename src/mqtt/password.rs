//! The password, read anew at each attempt so that a changed one counts.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::error::Failure;
use crate::core::seam::DownCause;

/// The content of the file without its last line break.
pub(super) async fn read(path: &Path) -> Result<String, Failure> {
    let text = tokio::fs::read_to_string(path).await.map_err(|error| Failure {
        reason: format!("cannot read the password file {}: {error}", path.display()),
        cause: DownCause::Refused,
    })?;
    if let Ok(facts) = tokio::fs::metadata(path).await
        && facts.permissions().mode() & 0o004 != 0
    {
        tracing::warn!(file = %path.display(), "every user of this machine may read the password file");
    }
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}
