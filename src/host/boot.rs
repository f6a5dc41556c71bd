//! Which run of the machine this is, and what its clock was set by when it
//! started.
//!
//! Uptimes compare within one boot and one time namespace only (unshare(1)
//! `--time` shifts them), so the [`BootId`] names both: in any other than the
//! first namespace, the namespace's number is mixed into the kernel's id. The
//! kernel may give the number of a namespace that is gone to a new one.

use std::io;
use std::path::Path;

use chrono::NaiveDateTime;

use super::timesyncd::modified_at;
use crate::core::clock::facts::BootFacts;
use crate::core::id::BootId;
use crate::core::time::IngestTime;

/// Where Linux says it.
const BOOT_ID_FILE: &str = "proc/sys/kernel/random/boot_id";
/// A link that reads `time:[4026531834]`; missing before Linux 5.6.
const TIME_NAMESPACE: &str = "proc/self/ns/time";
/// The namespace that the machine starts with (`PROC_TIME_INIT_INO`).
const FIRST_NAMESPACE: u64 = 4_026_531_834;

/// The battery-backed clock.
const RTC: &str = "sys/class/rtc/rtc0";
/// What fake-hwclock saves: `2026-11-30 08:17:01`, in UTC.
const FAKE_HWCLOCK: &str = "etc/fake-hwclock.data";
/// What systemd-timesyncd touches now and then and at its end.
const TIMESYNC_CLOCK: &str = "var/lib/systemd/timesync/clock";

/// This run of the machine, and this time namespace.
///
/// # Errors
/// The file cannot be read (no `/proc`) or holds no UUID.
pub fn boot_id() -> io::Result<BootId> {
    boot_id_under(Path::new("/"))
}

fn boot_id_under(root: &Path) -> io::Result<BootId> {
    let path = root.join(BOOT_ID_FILE);
    let text = std::fs::read_to_string(&path)?;
    let boot = parse(text.trim()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{} holds no UUID", path.display()))
    })?;
    let namespace = time_namespace(&root.join(TIME_NAMESPACE));
    Ok(namespace.filter(|number| *number != FIRST_NAMESPACE).map_or(boot, |it| mix(boot, it)))
}

/// A UUID with or without its dashes.
fn parse(text: &str) -> Option<BootId> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let mut id = [0; 16];
    if digits.len() != 32 {
        return None;
    }
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = (high * 16 + low) as u8;
    }
    Some(BootId(id))
}

fn time_namespace(link: &Path) -> Option<u64> {
    let target = std::fs::read_link(link).ok()?;
    target.to_str()?.strip_prefix("time:[")?.strip_suffix(']')?.parse().ok()
}

/// XOR into the last eight bytes: two namespaces of a boot never share an id.
fn mix(boot: BootId, namespace: u64) -> BootId {
    let mut id = boot.0;
    for (byte, other) in id[8..].iter_mut().zip(namespace.to_be_bytes()) {
        *byte ^= other;
    }
    BootId(id)
}

/// What the machine says about its clock at boot. `root` is `/`. What is
/// missing is left out: the boot id is then all zeros, a time `None`.
pub fn boot_facts(root: &Path) -> BootFacts {
    BootFacts {
        boot: boot_id_under(root).unwrap_or_default(),
        is_set_by_rtc: text(&root.join(RTC).join("hctosys")).as_deref() == Some("1"),
        rtc: text(&root.join(RTC).join("since_epoch")).and_then(|seconds| unix(&seconds)),
        // Each is a lower bound: the later one says more.
        saved: fake_hwclock(root).max(modified_at(&root.join(TIMESYNC_CLOCK))),
    }
}

fn text(path: &Path) -> Option<String> {
    // An RTC whose oscillator has stopped answers EINVAL.
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

fn unix(seconds: &str) -> Option<IngestTime> {
    let seconds: i64 = seconds.parse().ok()?;
    Some(IngestTime::from_unix_ns(seconds.checked_mul(1_000_000_000)?))
}

fn fake_hwclock(root: &Path) -> Option<IngestTime> {
    let saved = text(&root.join(FAKE_HWCLOCK))?;
    let time = NaiveDateTime::parse_from_str(&saved, "%Y-%m-%d %H:%M:%S").ok()?;
    Some(IngestTime::from_unix_ns(time.and_utc().timestamp_nanos_opt()?))
}

#[cfg(test)]
mod tests {
    use std::fs::{File, create_dir_all, write};
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    const ID: &str = "5c9f1f0e-7a3b-4a55-9d6c-0123456789ab";

    /// A machine's files under a folder of the test's own.
    fn place(root: &Path, file: &str, content: &str) {
        let path = root.join(file);
        create_dir_all(path.parent().unwrap()).unwrap();
        write(path, content).unwrap();
    }

    fn at(seconds: i64) -> Option<IngestTime> {
        Some(IngestTime::from_unix_ns(seconds * 1_000_000_000))
    }

    #[test]
    fn a_boot_id_prints_as_it_was_read() {
        assert_eq!(parse(ID).unwrap().to_string(), ID);
        assert_eq!(parse("5c9f1f0e"), None);
        assert_eq!(parse("zc9f1f0e-7a3b-4a55-9d6c-0123456789ab"), None);
        boot_id().unwrap();
    }

    #[test]
    fn another_time_namespace_is_another_boot() {
        let root = tempfile::tempdir().unwrap();
        place(root.path(), BOOT_ID_FILE, &format!("{ID}\n"));
        let id = || boot_id_under(root.path()).unwrap().to_string();
        assert_eq!(id(), ID, "a kernel without time namespaces");
        let link = root.path().join(TIME_NAMESPACE);
        create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("time:[4026531834]", &link).unwrap();
        assert_eq!(id(), ID, "the first one");
        std::fs::remove_file(&link).unwrap();
        // 4026532270 is 0xF00001AE.
        std::os::unix::fs::symlink("time:[4026532270]", &link).unwrap();
        assert_eq!(id(), "5c9f1f0e-7a3b-4a55-9d6c-0123b5678805");
    }

    #[test]
    fn what_is_missing_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(boot_facts(root.path()), BootFacts::default());
    }

    #[test]
    fn the_battery_backed_clock_says_its_time_and_whether_it_was_used() {
        let root = tempfile::tempdir().unwrap();
        place(root.path(), "sys/class/rtc/rtc0/since_epoch", "1796026795\n");
        place(root.path(), "sys/class/rtc/rtc0/hctosys", "0\n");
        let facts = boot_facts(root.path());
        assert_eq!((facts.rtc, facts.is_set_by_rtc), (at(1_796_026_795), false));
        place(root.path(), "sys/class/rtc/rtc0/hctosys", "1\n");
        place(root.path(), "sys/class/rtc/rtc0/since_epoch", "never\n");
        let facts = boot_facts(root.path());
        assert_eq!((facts.rtc, facts.is_set_by_rtc), (None, true));
    }

    #[test]
    fn of_two_saved_times_the_later_one_counts() {
        let root = tempfile::tempdir().unwrap();
        place(root.path(), FAKE_HWCLOCK, "2026-11-30 08:17:01\n");
        assert_eq!(boot_facts(root.path()).saved, at(1_796_026_621));
        place(root.path(), TIMESYNC_CLOCK, "");
        let file = File::options().write(true).open(root.path().join(TIMESYNC_CLOCK)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_796_026_620)).unwrap();
        assert_eq!(boot_facts(root.path()).saved, at(1_796_026_621));
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_796_026_700)).unwrap();
        assert_eq!(boot_facts(root.path()).saved, at(1_796_026_700));
        place(root.path(), FAKE_HWCLOCK, "yesterday\n");
        assert_eq!(boot_facts(root.path()).saved, at(1_796_026_700));
    }
}
