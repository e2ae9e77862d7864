//! The request bodies that a client has not completely sent yet.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// The minimum of received bytes that is progress of request bodies.
pub(super) const BODY_PROGRESS: usize = 1 << 10;

/// The request bodies of a connection that were not received completely.
#[derive(Debug, Default)]
pub(super) struct PendingBodies {
    count: AtomicU32,
    /// The time of their last progress, and the bytes that were received since.
    progress_at: AtomicU32,
    received: AtomicUsize,
}

impl PendingBodies {
    pub(super) fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    pub(super) fn progress_at(&self) -> u32 {
        self.progress_at.load(Relaxed)
    }

    pub(super) fn add(&self, now: u32) {
        // Another request is not progress of the bodies that are awaited already.
        if self.count.fetch_add(1, Relaxed) == 0 {
            self.progress_at.store(now, Relaxed);
            self.received.store(0, Relaxed);
        }
    }

    pub(super) fn receive(&self, bytes: usize, needed: usize, now: u32) {
        // Several bodies of HTTP/2 can add to the sum concurrently: one of them makes the
        // progress.
        if self.received.fetch_add(bytes, Relaxed).saturating_add(bytes) >= needed {
            self.received.store(0, Relaxed);
            self.progress_at.store(now, Relaxed);
        }
    }

    /// Removes a body, and returns how many there were.
    pub(super) fn remove(&self) -> u32 {
        self.count.fetch_sub(1, Relaxed)
    }
}
