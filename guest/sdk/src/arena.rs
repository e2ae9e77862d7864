//! A bump allocator: it reuses no memory except that of the last allocation.
//!
//! An instance lives for one request and need not free memory. The arena is part of the
//! initial memory, because growing the memory costs the host a system call per request;
//! the memory grows only if the allocations of a request do not fit.
#![allow(unsafe_code, reason = "an allocator hands out raw memory")]

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32;
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr;

/// The size of the arena in bytes: enough for all responses except the state of some
/// hundred workers. With a stack of 32 KiB and its data, a module has two pages, which
/// the host clears after each request.
const ARENA: usize = 64 << 10;

/// The size of a WebAssembly page, in bytes.
const PAGE: usize = 64 << 10;

/// The preferred minimum growth of the memory: 1 MiB, in pages.
const MIN_GROWTH: usize = (1 << 20) / PAGE;

static mut MEMORY: [MaybeUninit<u8>; ARENA] = [MaybeUninit::uninit(); ARENA];

/// The allocator. Free memory is from `next` to `end`; both are 0 before the first use.
#[derive(Debug)]
pub struct Arena {
    next: Cell<usize>,
    end: Cell<usize>,
}

// SAFETY: a module is single-threaded.
unsafe impl Sync for Arena {}

// SAFETY: each allocation is taken from between `next` and `end`, memory that nothing
// else refers to, and `next` moves past it. `next` moves back only over the last
// allocation, when that is freed or shrunk.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let fits = |start: usize| {
            let start = start.checked_next_multiple_of(layout.align())?;
            let next = start.checked_add(layout.size())?;
            (next <= self.end.get()).then_some((start, next))
        };
        let found = fits(self.next.get())
            .or_else(|| self.more(layout).and_then(|()| fits(self.next.get())));
        let Some((start, next)) = found else { return ptr::null_mut() };
        self.next.set(next);
        start as *mut u8
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        if self.is_last(start, layout) {
            self.next.set(start as usize);
        }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let is_last = self.is_last(start, layout);
        if size <= layout.size() || is_last && size <= self.end.get() - start as usize {
            if is_last {
                self.next.set(start as usize + size);
            }
            return start;
        }
        // A large response grows in place: copies of it would exceed the memory limit.
        let more = Layout::from_size_align(size - layout.size(), 1).ok();
        if is_last && more.and_then(|more| self.more(more)).is_some() && self.is_last(start, layout)
        {
            self.next.set(start as usize + size);
            return start;
        }
        // SAFETY: the caller guarantees `start`, `layout` and `size`; the new allocation
        // is larger than the old one and does not overlap it.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(start, new, layout.size());
            }
            new
        }
    }
}

impl Arena {
    /// Creates the allocator. A module must have only one, as all use the same static.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "none is like another")]
    pub const fn new() -> Self {
        Self { next: Cell::new(0), end: Cell::new(0) }
    }

    fn is_last(&self, start: *mut u8, layout: Layout) -> bool {
        start as usize + layout.size() == self.next.get()
    }

    /// Makes room for an allocation: takes the static the first time, then grows the
    /// memory.
    fn more(&self, layout: Layout) -> Option<()> {
        if self.end.get() == 0 {
            let start = (&raw const MEMORY) as usize;
            self.next.set(start);
            self.end.set(start + ARENA);
            if layout.size() + layout.align() <= ARENA {
                return Some(());
            }
        }
        let needed = layout.size().checked_add(layout.align())?.div_ceil(PAGE);
        // The memory limit may forbid the minimum growth but allow the needed pages.
        let (start, end) = grow(needed.max(MIN_GROWTH)).or_else(|| grow(needed))?;
        if start != self.end.get() {
            self.next.set(start);
        }
        self.end.set(end);
        Some(())
    }
}

/// Grows the memory; returns the start and the end address of the new pages.
fn grow(pages: usize) -> Option<(usize, usize)> {
    let before = wasm32::memory_grow::<0>(pages);
    let end = before.checked_add(pages)?.checked_mul(PAGE)?;
    (before != usize::MAX).then_some((before * PAGE, end))
}
