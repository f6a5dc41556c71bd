//! Every bound of the agent, in one place, with the relations between them
//! checked by the compiler.

/// Readings in one frame of the journal.
pub const FRAME_READINGS_MAX: usize = 256;

/// Bytes of one encoded frame. sled 0.34 moves larger values into files of
/// their own that it never deletes.
pub const FRAME_BYTES_MAX: usize = 6 * 1024;

/// Keys that are set for frames which are expected next.
pub const PLACES_MAX: usize = 32;

/// Operations in one sled transaction; larger ones leak memory in sled 0.34.
pub const BATCH_OPERATIONS_MAX: usize = 256;

/// Longest input line or payload that becomes a reading, in bytes.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a refused input or reading that the quarantine keeps.
pub const REFUSAL_BYTES_MAX: usize = 256 * 1024;

/// Refused inputs kept; beyond, the oldest go, counted.
pub const REFUSALS_KEPT_MAX: usize = 10_000;

/// Bytes of refused inputs kept.
pub const REFUSALS_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Characters of an entity, property, unit, id or quality detail.
pub const NAME_BYTES_MAX: usize = 512;

/// Levels of nesting of a composite value.
pub const NESTING_MAX: usize = 64;

/// Readings and refusals that a source may put into one batch.
pub const SOURCE_BATCH_MAX: usize = 512;

/// Batches that wait between all sources and the driver.
pub const SOURCE_QUEUE_MAX: usize = 8;

/// Inputs that the driver hands to the core in one turn.
pub const TURN_INPUTS_MAX: usize = 64;

/// Batches of sources among them. Whether there is room is asked before a turn, not
/// between its batches: this much may come on top of what waits already.
pub const TURN_BATCHES_MAX: usize = 8;

/// Entries that wait for the next commit before sources must wait. As many are on
/// their way to the disk meanwhile; more of them make commits larger and the agent,
/// by some 300 bytes each, but nothing faster.
pub const PENDING_ENTRIES_MAX: usize = 8 * 1024;

/// Estimated bytes in memory that wait for the next commit before sources must
/// wait.
pub const PENDING_BYTES_MAX: usize = 6 * 1024 * 1024;

/// Entries that one fetch from the journal may return.
pub const FETCH_ENTRIES_MAX: usize = 1024;

/// Estimated bytes that one fetch may return, one entry excepted.
pub const FETCH_BYTES_MAX: usize = 1024 * 1024;

/// Entries fetched and waiting to be published.
pub const READY_ENTRIES_MAX: usize = 2 * FETCH_ENTRIES_MAX;

/// Entries of a backlog that go out before all else, in journal order; a larger
/// one becomes a lane of its own beside what is live.
pub const BACKFILL_MIN: u64 = 1_000;

/// Readings in one publish, upper end of the configuration.
pub const BATCH_READINGS_MAX: usize = 2_000;

/// Uplinks of one configuration.
pub const UPLINKS_MAX: usize = 8;

/// Bytes of the template of a topic.
pub const TOPIC_BYTES_MAX: usize = 1_024;

/// Placeholders of one topic. With names of [`NAME_BYTES_MAX`], each escaped to three
/// times its length, a topic stays below MQTT's 65,535 bytes.
pub const TOPIC_PLACES_MAX: usize = 16;

/// Longest payload that is sent, in bytes, where the configuration does not say.
pub const MAX_PAYLOAD_DEFAULT: u64 = 128 * 1024;

/// Publishes without PUBACK, upper end of the configuration.
pub const INFLIGHT_MAX: usize = 10_000;

/// Entries in publishes without PUBACK, one publish excepted: what large batches
/// may take in memory.
pub const INFLIGHT_ENTRIES_MAX: usize = 16 * 1024;

/// Acknowledged ranges ahead of the contiguous prefix. A source that the broker
/// refuses leaves one hole per reading; beyond this bound its oldest reading is
/// set aside.
pub const ACKED_RANGES_MAX: usize = 4_096;

/// Tries of a publish that the broker answers with "invalid" before it is set
/// aside.
pub const INVALID_TRIES_MAX: u32 = 2;

/// Bytes of the file system that are never filled, whatever the configuration
/// says: the journal's engine must not meet a full disk, and what is under way when
/// the limit is reached must still find room.
pub const RESERVE_BYTES_MIN: u64 = 8 * 1024 * 1024;

/// Bytes of one segment, where the configuration does not say.
pub const SEGMENT_BYTES_DEFAULT: u64 = 16 * 1024 * 1024;

/// Segments on disk; of the default size, 64 GiB of journal.
pub const SEGMENTS_MAX: usize = 4_096;

/// Sources of one configuration.
pub const SOURCES_MAX: usize = 256;

/// Windows of one configuration.
pub const WINDOWS_MAX: usize = 64;

/// Outputs of one configuration.
pub const OUTPUTS_MAX: usize = 16;

/// Readings that one output holds to bring them into order; beyond, the oldest go
/// out early.
pub const HELD_READINGS_MAX: usize = 100_000;

/// Estimated bytes that one output holds to bring readings into order.
pub const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A reading is held for at most this many entries of the journal, because what is
/// held must be read again after a restart and keeps its segment on disk.
pub const HELD_ENTRIES_SPAN_MAX: u64 = 500_000;

/// Connections of one `listen` source.
pub const LISTEN_CONNECTIONS_MAX: usize = 64;

/// Bytes that say where a source is; they ride in every commit.
pub const POSITION_BYTES_MAX: usize = 8 * 1024;

/// Files that one `file` source follows.
pub const FILES_MAX: usize = 256;

/// Bytes of all running totals as they are stored, names included; they ride in a
/// commit now and then.
pub const TOTALS_BYTES_MAX: usize = 640 * 1024;

/// Series with a deadband whose last kept reading is remembered, over all sources;
/// some 200 bytes each.
pub const DEADBAND_SERIES_MAX: usize = 100_000;

/// Requests that one `http` source holds at a time.
pub const PUSH_REQUESTS_MAX: usize = 8;

/// HTTP connections at the address, and as many at the control socket. A third of
/// them at most are streams.
pub const HTTP_CONNECTIONS_MAX: usize = 96;

/// Inputs between the store thread, the link task and the driver.
pub const EVENT_QUEUE_MAX: usize = 1024;

/// 2026-01-01T00:00:00Z, a fixed date before this release: a wall clock that shows
/// less is wrong. In nanoseconds since 1970.
pub const CLOCK_FLOOR_NS: i64 = 1_767_225_600_000_000_000;

/// 2026-11-30T00:00:00Z, a fixed date before this release: a clock that shows less is
/// wrong, and certificates are judged as if it showed this. In seconds since 1970.
pub const CERTIFICATE_FLOOR_S: u64 = 1_795_996_800;

// Totals fit the transaction of a commit's state, beside the rest of it.
const _: () = assert!(TOTALS_BYTES_MAX.div_ceil(FRAME_BYTES_MAX) <= BATCH_OPERATIONS_MAX / 2);
// A turn at most doubles what may wait; and the rest of its inputs is for others.
const _: () = assert!(SOURCE_BATCH_MAX * TURN_BATCHES_MAX <= PENDING_ENTRIES_MAX);
const _: () = assert!(TURN_BATCHES_MAX < TURN_INPUTS_MAX);
const _: () = assert!(FETCH_ENTRIES_MAX <= READY_ENTRIES_MAX);
const _: () = assert!(FRAME_READINGS_MAX <= FETCH_ENTRIES_MAX);
const _: () = assert!(BATCH_READINGS_MAX <= READY_ENTRIES_MAX);
const _: () = assert!(REFUSAL_BYTES_MAX <= LINE_BYTES_MAX);
// Single readings fill every slot.
const _: () = assert!(INFLIGHT_MAX <= INFLIGHT_ENTRIES_MAX);
// MQTT packet identifiers are 16 bits wide, zero excluded.
const _: () = assert!(INFLIGHT_MAX < u16::MAX as usize);
