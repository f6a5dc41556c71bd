//! What the README and the pages beside it promise by their form: links lead
//! somewhere, and the configuration that a stranger copies first is good.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every page of prose, by its path in the project.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "CHANGELOG.md", "benches/README.md", "cross/README.md"]
            .map(PathBuf::from)
            .to_vec();
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path.strip_prefix(root()).unwrap().to_owned());
        }
    }
    pages
}

/// The targets of `[text](target)`, those on the web left out.
fn links(text: &str) -> Vec<&str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.contains("://"))
        .collect()
}

/// Anchors of the headings of a page, made as forges make them.
fn anchors(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim().to_lowercase())
        .map(|heading| {
            let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
            heading.chars().filter(kept).collect::<String>().replace(' ', "-")
        })
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(root().join(&page)).unwrap();
        for link in links(&text) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let beside = page.parent().unwrap_or(Path::new(""));
            let target = if file.is_empty() { page.clone() } else { beside.join(file) };
            let target = root().join(target);
            let has_anchor = || {
                let text = std::fs::read_to_string(&target).unwrap_or_default();
                anchors(&text).iter().any(|one| one == anchor)
            };
            if !target.exists() || !anchor.is_empty() && !has_anchor() {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

/// The here-document of "Run it", as a shell would write it.
#[test]
fn the_first_configuration_of_the_readme_is_good() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (_, rest) = readme.split_once("cat > first.toml <<'END'\n").unwrap();
    let (text, _) = rest.split_once("END\n").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("first.toml");
    std::fs::write(&config, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["check", "-c"])
        .arg(&config)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}
