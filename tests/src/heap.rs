//! An allocator that counts allocated bytes. It is for programs of their own that do one
//! thing at a time, which install it with `#[global_allocator]`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, with a counter.
pub struct Heap {
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Heap {
    /// Creates an allocator with nothing allocated yet.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is for a static")]
    pub const fn new() -> Self {
        Self { now: AtomicUsize::new(0), peak: AtomicUsize::new(0) }
    }

    /// Returns by how many bytes allocations grew, at their peak, while `work` ran.
    pub fn peak_of(&self, work: impl FnOnce()) -> usize {
        let before = self.now.load(Relaxed);
        self.peak.store(before, Relaxed);
        work();
        self.peak.load(Relaxed) - before
    }

    fn add(&self, bytes: usize) {
        let now = self.now.fetch_add(bytes, Relaxed) + bytes;
        self.peak.fetch_max(now, Relaxed);
    }

    fn remove(&self, bytes: usize) {
        self.now.fetch_sub(bytes, Relaxed);
    }
}

#[allow(unsafe_code, reason = "an allocator can be written in no other way")]
// SAFETY: each call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.remove(layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.remove(layout.size());
        self.add(size);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
