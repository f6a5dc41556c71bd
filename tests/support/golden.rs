//! Texts for people, compared with files of `tests/cli` to the letter: whoever changes
//! words sees all of them. `TIDEGATE_BLESS=1 cargo test` writes the files.

use std::path::Path;

/// Compares with the file of that name.
pub(crate) fn check(name: &str, said: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli").join(name);
    #[expect(clippy::disallowed_methods, reason = "whoever changes words says so this way")]
    let is_blessed = std::env::var_os("TIDEGATE_BLESS").is_some();
    if is_blessed {
        std::fs::write(&path, said).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (known, said)) in (1..).zip(known.lines().zip(said.lines())) {
        assert_eq!(said, known, "line {number} of {}", path.display());
    }
    assert_eq!(said.lines().count(), known.lines().count(), "lines of {}", path.display());
}
