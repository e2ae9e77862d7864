//! The allocator: it hands out memory and takes none back.
//!
//! An instance lives for one request, so that nothing needs to be put in order
//! behind it. The memory has its size from the start, since growing it costs
//! the host a system call for each request; it grows only for an answer that
//! does not fit.
#![allow(unsafe_code, reason = "an allocator hands out raw memory")]

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32;
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr;

/// Enough for all answers but the state of some hundred workers, in bytes. With a stack
/// of 32 KiB and its data, a module has two pages; the host clears them after each
/// request.
const ARENA: usize = 64 << 10;

/// A page of WebAssembly's memory, in bytes.
const PAGE: usize = 64 << 10;

/// The memory grows by at least 1 MiB, in pages.
const MIN_GROWTH: usize = (1 << 20) / PAGE;

static mut MEMORY: [MaybeUninit<u8>; ARENA] = [MaybeUninit::uninit(); ARENA];

/// What is left: from the next byte to hand out to the end.
#[derive(Debug)]
pub struct Arena {
    next: Cell<usize>,
    end: Cell<usize>,
}

// SAFETY: a module has one thread.
unsafe impl Sync for Arena {}

// SAFETY: what is handed out lies between `next` and `end`, which is memory
// that nothing else refers to, and `next` moves behind it. It moves back only
// over what is given back and lies right before it.
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
        // SAFETY: the caller vouches for `start`, `layout` and `size`, and the
        // new piece is another.
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
    /// There can be one.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "none is like another")]
    pub const fn new() -> Self {
        Self { next: Cell::new(0), end: Cell::new(0) }
    }

    fn is_last(&self, start: *mut u8, layout: Layout) -> bool {
        start as usize + layout.size() == self.next.get()
    }

    /// Takes the arena, the first time, or makes the memory grow by what an
    /// allocation needs.
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
        // Where there is not as much as there had better be, just enough.
        let (start, end) = grow(needed.max(MIN_GROWTH)).or_else(|| grow(needed))?;
        if start != self.end.get() {
            self.next.set(start);
        }
        self.end.set(end);
        Some(())
    }
}

/// Makes the memory grow by some pages: from where to where.
fn grow(pages: usize) -> Option<(usize, usize)> {
    let before = wasm32::memory_grow::<0>(pages);
    let end = before.checked_add(pages)?.checked_mul(PAGE)?;
    (before != usize::MAX).then_some((before * PAGE, end))
}
