//! The allocator of the command: jemalloc, whose threads return freed memory to the system.

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// The environment of a process whose memory is bounded: jemalloc reserves memory in advance for each
/// core and for its threads, and a limit counts that as used.
pub(super) const BOUNDED: (&str, &str) =
    ("_RJEM_MALLOC_CONF", "background_thread:false,narenas:1,retain:false");
