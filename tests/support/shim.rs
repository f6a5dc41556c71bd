//! The agent under a clock of the test's own: `tests/data/clock_shim.c`,
//! preloaded, answers for the wall clock and for the kernel's word on it. And on a
//! disk of its own: `tests/data/disk_shim.c`.

use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use super::process::Process;

/// What `adjtimex` says of a clock that nobody vouches for.
pub(crate) const SATURATED: &str = "5 64 16000000 16000000 0 0 10000 0";
/// By chronyd with `rtcsync`: within 9,876 us.
pub(crate) const VOUCHED: &str = "0 8193 9776 100 0 0 10000 37";

/// Compiles `tests/data/NAME.c` into `folder`, to be preloaded; `None`, and said so,
/// where there is no C compiler. Where there must be one (`TIDEGATE_REQUIRE_CC`),
/// that is a failure.
fn compile(folder: &Path, name: &str, test: &str) -> Option<PathBuf> {
    let library = folder.join(format!("{name}.so"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{name}.c"));
    let compiler = Command::new("cc")
        .args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .output();
    match compiler {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(library)
        }
        Err(error) => {
            #[expect(clippy::disallowed_methods, reason = "CI says that a skip is a failure")]
            let is_required = std::env::var_os("TIDEGATE_REQUIRE_CC").is_some();
            assert!(!is_required, "a C compiler is required: cc: {error}");
            skip(test);
            None
        }
    }
}

/// The compiled shim and the file that it reads.
pub(crate) struct FakeClock {
    library: PathBuf,
    file: PathBuf,
}

impl FakeClock {
    /// Compiles the shim into `folder`; `None`, and said so, where there is no C
    /// compiler. Where there must be one (`TIDEGATE_REQUIRE_CC`), that is a failure.
    pub(crate) fn build(folder: &Path, test: &str) -> Option<Self> {
        let library = compile(folder, "clock_shim", test)?;
        Some(Self { library, file: folder.join("clock") })
    }

    /// Sets the wall clock to the true time and so much, and the kernel's word
    /// on it, in one step.
    pub(crate) fn set(&self, ahead_ns: i64, kernel: &str) {
        let beside = self.file.with_extension("new");
        std::fs::write(&beside, format!("{ahead_ns}\n{kernel}\n")).unwrap();
        std::fs::rename(&beside, &self.file).unwrap();
    }

    /// The agent under this clock; its log is appended to `log`.
    pub(crate) fn agent(&self, config: &Path, log: &Path) -> Process {
        preloaded(config, log, &self.library, &[("CLOCK_SHIM_FILE", &self.file)])
    }
}

/// How the files of a bad disk behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ailment {
    None,
    /// A sync does not come back.
    Hang,
    /// Every change is refused.
    ReadOnly,
    /// Every change fails.
    Error,
}

/// A disk that can be made bad while the agent runs.
pub(crate) struct BadDisk {
    library: PathBuf,
    file: PathBuf,
    below: PathBuf,
}

impl BadDisk {
    /// For the files below `below`; `None`, and said so, without a C compiler.
    pub(crate) fn build(folder: &Path, below: &Path, test: &str) -> Option<Self> {
        let library = compile(folder, "disk_shim", test)?;
        Some(Self { library, file: folder.join("disk"), below: below.to_owned() })
    }

    /// From now on.
    pub(crate) fn set(&self, ailment: Ailment) {
        let word = match ailment {
            Ailment::None => "",
            Ailment::Hang => "hang",
            Ailment::ReadOnly => "EROFS",
            Ailment::Error => "EIO",
        };
        let beside = self.file.with_extension("new");
        std::fs::write(&beside, word).unwrap();
        std::fs::rename(&beside, &self.file).unwrap();
    }

    /// The agent on this disk; its log is appended to `log`.
    pub(crate) fn agent(&self, config: &Path, log: &Path) -> Process {
        let facts = [("DISK_SHIM_FILE", &*self.file), ("DISK_SHIM_BELOW", &*self.below)];
        preloaded(config, log, &self.library, &facts)
    }
}

/// A disk with a page cache that a power cut takes: see `tests/data/disk_shim.c`.
pub(crate) struct VolatileDisk {
    library: PathBuf,
    platter: PathBuf,
    below: PathBuf,
}

impl VolatileDisk {
    /// For the files below `below`, a folder that is there; `None`, and said so,
    /// without a C compiler.
    pub(crate) fn build(folder: &Path, below: &Path, test: &str) -> Option<Self> {
        let library = compile(folder, "disk_shim", test)?;
        let platter = folder.join("platter");
        std::fs::create_dir_all(&platter).unwrap();
        let disk = Self { library, platter, below: below.to_owned() };
        disk.settle(below);
        Some(disk)
    }

    /// The agent on this disk; its log is appended to `log`.
    pub(crate) fn agent(&self, config: &Path, log: &Path) -> Process {
        let facts = [("DISK_SHIM_PLATTER", &*self.platter), ("DISK_SHIM_BELOW", &*self.below)];
        preloaded(config, log, &self.library, &facts)
    }

    /// The power is cut and comes again: of everything below there is what was
    /// synced, and nothing else. The agent must be dead by SIGKILL.
    pub(crate) fn cut_power(&self) {
        let survivors = self.below.with_extension("survivors");
        self.restore(&key(&self.below), &survivors);
        std::fs::remove_dir_all(&self.below).unwrap();
        std::fs::rename(&survivors, &self.below).unwrap();
        std::fs::remove_dir_all(&self.platter).unwrap();
        std::fs::create_dir_all(&self.platter).unwrap();
        self.settle(&self.below);
    }

    /// What is left of a file or folder, written anew at `to`.
    fn restore(&self, key: &str, to: &Path) {
        let synced = std::fs::read(self.platter.join(key));
        if key.starts_with("file-") {
            // A name that is durable before any contents are: an empty file.
            return std::fs::write(to, synced.unwrap_or_default()).unwrap();
        }
        std::fs::create_dir(to).unwrap();
        let names = synced.map(|bytes| String::from_utf8(bytes).unwrap()).unwrap_or_default();
        for (key, name) in names.lines().filter_map(|line| line.split_once(' ')) {
            self.restore(key, &to.join(name));
        }
    }

    /// What survived one cut is there for the next.
    fn settle(&self, path: &Path) {
        let place = self.platter.join(key(path));
        if path.is_file() {
            std::fs::copy(path, place).unwrap();
            return;
        }
        let mut names = String::new();
        for entry in std::fs::read_dir(path).unwrap().map(Result::unwrap) {
            self.settle(&entry.path());
            let _ = writeln!(names, "{} {}", key(&entry.path()), entry.file_name().display());
        }
        std::fs::write(place, names).unwrap();
    }
}

/// What `tests/data/disk_shim.c` calls a file or folder on the platter.
fn key(path: &Path) -> String {
    let facts = std::fs::symlink_metadata(path).unwrap();
    let birth = facts.created().unwrap().duration_since(UNIX_EPOCH).unwrap();
    let kind = if facts.is_dir() { "dir" } else { "file" };
    format!("{kind}-{}-{}-{}", facts.ino(), birth.as_secs(), birth.subsec_nanos())
}

fn preloaded(config: &Path, log: &Path, library: &Path, facts: &[(&str, &Path)]) -> Process {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["run", "-c"])
        .arg(config)
        .env("LD_PRELOAD", library)
        .envs(facts.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    Process(child)
}

#[expect(clippy::print_stdout, reason = "a skip is said, not silent")]
fn skip(test: &str) {
    println!("{test}: skipped, there is no C compiler");
}

/// The true time, in nanoseconds since the UNIX epoch.
#[expect(clippy::disallowed_methods, reason = "the truth that the agent's stamps are held against")]
pub(crate) fn truth_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_nanos()).unwrap()
}

/// How far ahead a clock is that shows `unix_s` now.
pub(crate) fn showing(unix_s: i64) -> i64 {
    unix_s * 1_000_000_000 - truth_ns()
}
