//! From the file as written to a [`Config`], or to all problems at once.

use std::net::SocketAddr;
use std::time::Duration;

use super::agree::Claim;
use super::file::{Book, Findings, Section};
use super::on_disk::Wanted;
use super::units::{DAY, GIB, HOUR, KIB, MIB, TEN_YEARS, ms, secs};
use super::{CONTROL_SOCKET, Clock, Config, Credentials, Gateway, Journal, LOCK_FILE, LogFormat};
use super::{http, mqtt_source, output, source, uplink, value, window};
use crate::core::agent::WhenFull;
use crate::core::clock::Reference;
use crate::core::limits;

/// The configuration of a text, and what was found in it. The configuration is of use
/// only where nothing is wrong: else others stand in for values that cannot be used.
pub(super) fn check(text: &str, credentials: &Credentials) -> (Option<Config>, Findings) {
    let book = Book::new(text, credentials);
    let config = {
        let tree = book.syntax();
        // A broken tree would only add problems that are not there.
        if book.is_clean() { whole(&Section::root(&book, tree.get_ref())) } else { None }
    };
    (config, book.close())
}

/// `None` only after a problem was noted.
fn whole(root: &Section<'_>) -> Option<Config> {
    let gateway = gateway(root.table("gateway"));
    let clock = clock(root.table("clock"));
    let journal = journal(root.table("journal"));
    let id = gateway.as_ref().map_or("", |gateway| gateway.id.as_str());
    let uplinks = uplink::uplinks(root, id);
    // Names count even where the rest of their section is wrong.
    let names = |key| root.names_of(key);
    let outputs = output::outputs(root, id, &names("window"), &names("source"));
    let around = mqtt_source::Around { gateway: id, uplinks: &uplinks, outputs: &outputs };
    let sources = source::sources(root, &around);
    let windows = window::windows(root, &names("source"));
    let http = http::http(root.table("http"));
    root.refuse_unknown();
    Some(Config { gateway: gateway?, clock, journal, uplinks, sources, windows, outputs, http })
}

fn gateway(section: Section<'_>) -> Option<Gateway> {
    let formats = [
        ("auto", LogFormat::Auto),
        ("text", LogFormat::Text),
        ("json", LogFormat::Json),
        ("journald", LogFormat::Journald),
    ];
    let id = section.require("id", "\"gw-07\"", value::name);
    let data_dir = section.require("data_dir", "\"/var/lib/tidegate\"", value::path);
    if let Some(path) = &data_dir {
        section.names("data_dir", Wanted::DataDir, path);
        for own in [CONTROL_SOCKET, LOCK_FILE] {
            section.claim_fixed("data_dir", Claim::path(&path.join(own)));
        }
    }
    let log = section.read("log", "info".to_owned(), value::log_filter);
    let log_format = section.read("log_format", LogFormat::Auto, value::one_of(&formats));
    section.refuse_unknown();
    Some(Gateway { id: id?, data_dir: data_dir?, log, log_format })
}

fn clock(section: Section<'_>) -> Clock {
    let references = [
        ("auto", Reference::Auto),
        ("kernel", Reference::Kernel),
        ("chrony", Reference::Chrony),
        ("ptp4l", Reference::Ptp4l),
        ("none", Reference::None),
    ];
    let chrony = SocketAddr::from(([127, 0, 0, 1], 323));
    let clock = Clock {
        reference: section.read("reference", Reference::Auto, value::one_of(&references)),
        hold_unsynchronized: section.read(
            "hold_unsynchronized",
            secs(120),
            value::duration(Duration::ZERO..=DAY),
        ),
        restamp_settle: section.read(
            "restamp_settle",
            secs(30),
            value::duration(Duration::ZERO..=HOUR),
        ),
        max_drift_ppm: section.read("max_drift_ppm", 100, value::integer(1..=1_000)),
        chrony_address: section.read("chrony_address", chrony, value::udp_address),
    };
    section.refuse_unknown();
    clock
}

fn journal(section: Section<'_>) -> Journal {
    let policies = [
        ("drop-oldest", WhenFull::DropOldest),
        ("drop-newest", WhenFull::DropNewest),
        ("block", WhenFull::Block),
    ];
    let commit_max = limits::PENDING_BYTES_MAX as u64;
    let segments_max = limits::SEGMENTS_MAX as u64;
    let journal = Journal {
        commit_interval: section.read(
            "commit_interval",
            ms(500),
            value::duration(ms(1)..=secs(60)),
        ),
        commit_bytes: section.read("commit_bytes", 256 * KIB, value::size(KIB..=commit_max)),
        max_bytes: section.read("max_bytes", GIB, value::size(MIB..=1024 * GIB)),
        reserve_free: section.read("reserve_free", 128 * MIB, value::size(0..=1024 * GIB)),
        when_full: section.read("when_full", WhenFull::DropOldest, value::one_of(&policies)),
        max_age: section.read(
            "max_age",
            None,
            value::or_none(value::duration(secs(60)..=TEN_YEARS)),
        ),
        segment_bytes: section.read(
            "segment_bytes",
            limits::SEGMENT_BYTES_DEFAULT,
            value::size(64 * KIB..=256 * MIB),
        ),
        checkpoint_interval: section.read(
            "checkpoint_interval",
            secs(30),
            value::duration(ms(100)..=HOUR),
        ),
        stuck_after: section.read("stuck_after", secs(60), value::duration(secs(5)..=HOUR)),
    };
    if journal.max_bytes < 2 * journal.segment_bytes {
        section.problem(
            "max_bytes",
            "is less than two segments",
            "raise it or lower segment_bytes",
        );
    }
    if journal.max_bytes / journal.segment_bytes > segments_max {
        let what = format!("is more than {segments_max} segments");
        section.problem("max_bytes", what, "lower it or raise segment_bytes");
    }
    section.refuse_unknown();
    journal
}
