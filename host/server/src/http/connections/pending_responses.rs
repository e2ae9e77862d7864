//! The responses that a client has not completely taken yet.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Progress means taking one of this many bytes that are held for the client, or sending
/// one of this many bytes that are reserved for the connection. So a connection that
/// takes a small response now and then, or sends a small part of a body, cannot hold the
/// memory of many others.
pub(super) const PROGRESS_SHARE: usize = 32;

/// The responses of a connection that are not completely written yet.
#[derive(Debug, Default)]
pub(super) struct PendingResponses {
    count: AtomicU32,
    /// The bytes of their bodies.
    bytes: AtomicUsize,
    /// The bytes that the client has taken since its last progress, and the time of that
    /// progress.
    taken: AtomicUsize,
    progress_at: AtomicU32,
    /// The time since which the client has taken nothing.
    untaken_since: AtomicU32,
    /// Whether the client has taken a part of a response.
    is_proven: AtomicBool,
}

impl PendingResponses {
    pub(super) fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    pub(super) fn progress_at(&self) -> u32 {
        self.progress_at.load(Relaxed)
    }

    pub(super) fn untaken_since(&self) -> u32 {
        self.untaken_since.load(Relaxed)
    }

    pub(super) fn is_proven(&self) -> bool {
        self.is_proven.load(Relaxed)
    }

    /// Records that the client has taken a part of a response.
    pub(super) fn prove(&self) {
        self.is_proven.store(true, Relaxed);
    }

    pub(super) fn add(&self, bytes: usize, now: u32) {
        // Another response does not mean that the client takes those before it.
        if self.count.fetch_add(1, Relaxed) == 0 {
            self.untaken_since.store(now, Relaxed);
            self.progress_at.store(now, Relaxed);
            self.taken.store(0, Relaxed);
        }
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub(super) fn take(&self, bytes: usize, now: u32) {
        self.untaken_since.store(now, Relaxed);
        let sum = self.taken.fetch_add(bytes, Relaxed).saturating_add(bytes);
        if sum.saturating_mul(PROGRESS_SHARE) >= self.bytes() {
            self.taken.store(0, Relaxed);
            self.progress_at.store(now, Relaxed);
        }
    }

    pub(super) fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
        self.count.fetch_sub(1, Relaxed);
    }
}
