//! The memory of this process, and what the C library's allocator keeps for later.
//!
//! A commit's entries are a block of a megabyte or two that one thread fills and
//! another frees. glibc watches blocks of that size come and go, takes them for
//! usual, and from then on keeps them in the heap of each thread that ever had one,
//! where small long-lived blocks settle between them: half of the resident memory of
//! a busy agent was such holes. Told where to draw the line, it maps large blocks one
//! by one and gives them back at once. What that costs are the page faults of a
//! block, a fraction of what filling it costs.

/// Smallest block, in bytes, that is mapped by itself.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES_MIN: i32 = 128 * 1024;

/// Free bytes at the end of a heap from which on they are given back.
#[cfg(target_env = "gnu")]
const SPARE_BYTES_MAX: i32 = 256 * 1024;

/// Heaps that threads share; more only keep more holes.
#[cfg(target_env = "gnu")]
const HEAPS_MAX: i32 = 2;

/// Says so to the allocator; to be called before there are threads. Other C
/// libraries than glibc have nothing to be told: musl draws that line by itself.
pub fn keep_little() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN),
        (libc::M_TRIM_THRESHOLD, SPARE_BYTES_MAX),
        (libc::M_ARENA_MAX, HEAPS_MAX),
    ] {
        set(parameter, value);
    }
}

#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the C library's only door to its allocator's settings")]
fn set(parameter: libc::c_int, value: i32) {
    // SAFETY: two plain numbers; the call takes the allocator's own lock. Of no
    // weight if it is refused: more memory is kept, as without it.
    let _ = unsafe { libc::mallopt(parameter, value) };
}

/// Bytes of this process that are in memory (its resident set). `None` where the
/// kernel does not tell (a sandbox without `/proc`).
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_touched_is_resident() {
        let Some(before) = resident_bytes() else { return };
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        // Others may give some back meanwhile, but never so much.
        assert!(resident_bytes().unwrap() >= before + (32 << 20));
        drop(block);
    }
}
