//! The allocator of the command: jemalloc, whose threads return freed memory to the system. On other
//! systems than Linux with glibc, it has no such threads, and the command has the system's allocator.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The environment of a process whose memory is bounded: jemalloc reserves memory in advance for each
/// core and for its threads, and a limit counts that as used.
pub(super) const BOUNDED: (&str, &str) = (
    "_RJEM_MALLOC_CONF",
    "background_thread:false,dirty_decay_ms:0,muzzy_decay_ms:0,narenas:1,retain:false",
);
