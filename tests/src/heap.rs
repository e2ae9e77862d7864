//! An allocator that counts allocations and their bytes. It is for programs of their own that do one
//! thing at a time, which install it with `#[global_allocator]`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, with counters.
pub struct Heap {
    allocations: AtomicUsize,
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Heap {
    /// Creates an allocator with nothing allocated yet.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is for a static")]
    pub const fn new() -> Self {
        Self {
            allocations: AtomicUsize::new(0),
            now: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        }
    }

    /// Returns by how many bytes allocations grew, at their peak, while `work` ran.
    pub fn peak_of(&self, work: impl FnOnce()) -> usize {
        let before = self.now.load(Relaxed);
        self.peak.store(before, Relaxed);
        work();
        self.peak.load(Relaxed) - before
    }

    /// Returns by how many bytes allocations grew while `work` ran.
    pub fn growth_of(&self, work: impl FnOnce()) -> usize {
        let before = self.now.load(Relaxed);
        work();
        self.now.load(Relaxed).saturating_sub(before)
    }

    /// Returns the number of allocations of all threads while `work` ran. An allocation that
    /// grows is a new one.
    pub fn allocations_of(&self, work: impl FnOnce()) -> usize {
        let before = self.allocations.load(Relaxed);
        work();
        self.allocations.load(Relaxed) - before
    }

    fn add(&self, bytes: usize) {
        self.allocations.fetch_add(1, Relaxed);
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
