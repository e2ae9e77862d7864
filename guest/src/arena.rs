//! The allocator: an arena in the module's own memory.
//!
//! An instance lives for one request. If its memory grew, the host would pay
//! for it on each request: pages made accessible, touched for the first time
//! and taken away again. So the memory has its size from the start, and grows
//! only for an answer that does not fit.
#![allow(unsafe_code, reason = "an allocator hands out raw memory")]

use core::alloc::Layout;
use core::arch::wasm32;
use core::mem::MaybeUninit;

use talc::base::{Talc, binning::Binning};
use talc::cell::TalcSyncCell;
use talc::source::Source;
use talc::wasm::WasmBinning;

/// Enough for the state of 10,000 workers and its JSON, in bytes. Pages that
/// a request does not touch cost nothing.
const ARENA: usize = 8 << 20;

/// A page of WebAssembly's memory, in bytes.
const PAGE: usize = 64 << 10;

/// The memory grows by at least 1 MiB, in pages.
const LEAST_GROWTH: usize = (1 << 20) / PAGE;

static mut MEMORY: [MaybeUninit<u8>; ARENA] = [MaybeUninit::uninit(); ARENA];

#[global_allocator]
static ALLOCATOR: TalcSyncCell<ArenaThenGrow, WasmBinning> =
    TalcSyncCell::new_wasm(ArenaThenGrow { arena_is_taken: false });

/// Where the allocator gets its memory: the arena first, then growth.
#[derive(Debug)]
struct ArenaThenGrow {
    arena_is_taken: bool,
}

// SAFETY: it never allocates, and claims each piece of memory once.
unsafe impl Source for ArenaThenGrow {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        let (base, size) = if talc.source.arena_is_taken {
            grow(layout)?
        } else {
            talc.source.arena_is_taken = true;
            ((&raw mut MEMORY).cast::<u8>(), ARENA)
        };
        // SAFETY: nothing else refers to MEMORY or to pages that just came to
        // be, and each is claimed once.
        unsafe { talc.claim(base, size) }.map(drop).ok_or(())
    }
}

/// Grows the memory by what an allocation needs and the allocator's own notes.
fn grow(layout: Layout) -> Result<(*mut u8, usize), ()> {
    let needed = layout.size() + layout.align() + 1024;
    let pages = needed.div_ceil(PAGE).max(LEAST_GROWTH);
    match wasm32::memory_grow::<0>(pages) {
        usize::MAX => Err(()),
        before => Ok(((before * PAGE) as *mut u8, pages * PAGE)),
    }
}
