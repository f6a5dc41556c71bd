//! An agent that may take so much memory and no more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::process::Process;

/// How the kernel is told.
#[derive(Debug)]
pub(crate) enum MemoryLimit {
    /// A control group of the test's own, for root alone: beyond the limit the
    /// kernel kills. Removed when dropped, once the agent is gone.
    Group {
        /// Its folder.
        path: PathBuf,
    },
    /// `ulimit -d`: heap and mappings of one's own, stacks of threads included; beyond
    /// the limit an allocation fails, which ends the process. Files that are mapped
    /// do not count.
    Data {
        /// In KiB.
        kib: u64,
    },
}

impl MemoryLimit {
    /// A control group where this process may make one, else `ulimit -d`; says
    /// which.
    pub(crate) fn of(mib: u64, test: &str) -> Self {
        let name = format!("tidegate-{test}-{}", std::process::id());
        let places =
            [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];
        for (root, file) in places {
            let path = Path::new(root).join(&name);
            if fs::create_dir(&path).is_err() {
                continue;
            }
            let limit = Self::Group { path: path.clone() };
            // Where it is no control group there is no such file.
            let limits = path.join(file);
            if limits.is_file() && fs::write(limits, (mib << 20).to_string()).is_ok() {
                say(&format!("{test}: {mib} MiB by a control group"));
                return limit;
            }
        }
        say(&format!("{test}: {mib} MiB by ulimit -d, no control group is to be had here"));
        Self::Data { kib: mib << 10 }
    }

    /// The agent within the limit; its log is appended to `log`.
    pub(crate) fn agent(&self, config: &Path, log: &Path) -> Process {
        let log = fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        // The shell limits itself and becomes the agent.
        let limited = match self {
            Self::Group { path } => format!("echo $$ > '{}/cgroup.procs'", path.display()),
            Self::Data { kib } => format!("ulimit -d {kib}"),
        };
        let child = Command::new("sh")
            .args(["-ec", &format!("{limited}; exec \"$0\" run -c \"$1\"")])
            .arg(env!("CARGO_BIN_EXE_tidegate"))
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Process(child)
    }

    /// How often the kernel killed, where it counts that.
    pub(crate) fn kills(&self) -> u64 {
        let Self::Group { path } = self else { return 0 };
        let events = ["memory.events", "memory.oom_control"];
        let text = events.iter().find_map(|file| fs::read_to_string(path.join(file)).ok());
        let text = text.unwrap();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.unwrap().parse().unwrap()
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        if let Self::Group { path } = self {
            let _ = fs::remove_dir(path);
        }
    }
}

#[expect(clippy::print_stdout, reason = "which limit it was is said")]
fn say(what: &str) {
    println!("{what}");
}
