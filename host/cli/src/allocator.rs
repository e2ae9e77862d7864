//! The allocator of the command: jemalloc, whose threads return freed memory to the system. On other
//! systems than Linux with glibc, it has no such threads, and the command has the system's allocator.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::ffi::c_char;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The options of jemalloc, which reads them from this symbol. Huge pages are for the memories of
/// guests: the pages of 64 KiB in buffers would add two thirds to the memory of a connection.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "they are a symbol of C, and a text of C")]
#[unsafe(export_name = "_rjem_malloc_conf")]
static OPTIONS: Option<&'static c_char> = Some(unsafe { &*c"thp:never".as_ptr() });

/// Whether the allocator takes no huge pages.
pub(super) const REFUSES_HUGE_PAGES: bool = cfg!(all(target_os = "linux", target_env = "gnu"));

/// The environment of a process whose memory is bounded: jemalloc reserves memory in advance for each
/// core and for its threads, and a limit counts that as used.
pub(super) const BOUNDED: (&str, &str) = (
    "_RJEM_MALLOC_CONF",
    "background_thread:false,dirty_decay_ms:0,muzzy_decay_ms:0,narenas:1,retain:false",
);
