//! Secrets that systemd hands to the service (`LoadCredential=`, systemd.exec(5)),
//! named in the configuration as `credential:NAME` where a file could be named.

use std::path::PathBuf;

use toml::de::DeValue;

use super::file::{Section, Wrong};
use super::on_disk::Wanted;
use super::value::{self, Checked};

/// How a credential is written.
const SCHEME: &str = "credential:";
/// As systemd has it.
const NAME_BYTES_MAX: usize = 255;

/// The credentials of this process, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// Not looked at: `credential:NAME` stays as it is written. For whoever only
    /// reads a configuration.
    #[default]
    Unseen,
    /// There are none: systemd has not started this process, or its unit names none.
    Absent,
    /// They are in this folder, each a file of its name.
    In(PathBuf),
}

impl Credentials {
    /// Those of a process that uses them: `folder` is what systemd says, if it says
    /// anything.
    pub fn given(folder: Option<PathBuf>) -> Self {
        folder.map_or(Self::Absent, Self::In)
    }

    fn find(&self, name: &str) -> Checked<PathBuf> {
        let unit = format!(
            "write LoadCredential={name}:/etc/tidegate/secrets/{name} in the unit (systemctl edit \
             tidegate), then restart it"
        );
        match self {
            Self::Unseen => Ok(format!("{SCHEME}{name}").into()),
            Self::Absent => {
                let what = "systemd has given no credentials to this process";
                Err(Wrong::new(what, format!("{unit}; outside of systemd write a path")))
            }
            Self::In(folder) => {
                let path = folder.join(name);
                if path.is_file() {
                    return Ok(path);
                }
                let what = format!("systemd has given no credential {name:?} to this process");
                Err(Wrong::new(what, unit))
            }
        }
    }
}

/// A file, or a credential; nothing for the empty text.
pub(super) fn file(section: &Section<'_>, key: &'static str) -> Option<PathBuf> {
    let file = section.read(key, None, |value| file_of(value, section.credentials()));
    if let Some(path) = &file {
        section.names(key, Wanted::File, path);
    }
    file
}

fn file_of(value: &DeValue<'_>, credentials: &Credentials) -> Checked<Option<PathBuf>> {
    let written = value::text(value)?;
    let Some(name) = written.strip_prefix(SCHEME) else { return value::optional_path(value) };
    let is_odd = |c: char| c == '/' || c == ':' || c.is_control() || !c.is_ascii();
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len())
        && !matches!(name, "." | "..")
        && !name.contains(is_odd);
    if !is_name {
        let fix = "use 1 to 255 ASCII characters without / and :, like \"credential:password\"";
        return Err(Wrong::new(format!("{name:?} is no name of a credential"), fix));
    }
    credentials.find(name).map(Some)
}

/// The name of a credential that nobody has looked for yet.
pub(super) fn unseen(path: &std::path::Path) -> Option<&str> {
    path.to_str()?.strip_prefix(SCHEME)
}
