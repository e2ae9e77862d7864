//! The allocator of the command, and the size of its pages. The allocator is jemalloc, whose threads
//! return freed memory to the system. On other systems than Linux with glibc, it has no such threads,
//! and the command has the system's allocator.

use tracing::debug;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The environment of a process whose memory is bounded: jemalloc reserves memory in advance for each
/// core and for its threads, and a limit counts that as used.
pub(super) const BOUNDED: (&str, &str) = (
    "_RJEM_MALLOC_CONF",
    "background_thread:false,dirty_decay_ms:0,muzzy_decay_ms:0,narenas:1,retain:false",
);

/// Lets the system give the process small pages only. If it uses huge ones where it can
/// (`/sys/kernel/mm/transparent_hugepage/enabled` is `always`), each connection takes twice the
/// memory, and a slot of the pool 2 MiB.
pub(super) fn disable_huge_pages() {
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        debug!(%error, "cannot disable huge pages");
    }
}
