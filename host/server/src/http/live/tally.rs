//! Counters of live responses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

/// The clients that wait for the next version of a response, and the work for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveStatus {
    /// The clients that wait now.
    pub waiters: u64,
    /// The different responses that they wait for.
    pub entries: u64,
    /// The bytes of the versions of these responses, and of the clients' requests.
    pub bytes: u64,
    /// The runs of modules for them since the start.
    pub runs: u64,
    /// The runs whose response was the one before.
    pub unchanged_runs: u64,
    /// The versions that a waiting client was woken for since the start.
    pub wakeups: u64,
    /// The requests that were refused because of a limit.
    pub refused: u64,
}

/// The counters of a server's live responses. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct LiveTally(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    waiters: AtomicU64,
    entries: AtomicU64,
    bytes: AtomicU64,
    runs: AtomicU64,
    unchanged_runs: AtomicU64,
    wakeups: AtomicU64,
    refused: AtomicU64,
}

/// Bytes that count until this is dropped.
#[derive(Debug)]
pub(super) struct CountedBytes {
    tally: LiveTally,
    bytes: u64,
    limit: u64,
}

impl LiveTally {
    /// Returns the current counts.
    #[must_use]
    pub fn status(&self) -> LiveStatus {
        let Counts { waiters, entries, bytes, runs, unchanged_runs, wakeups, refused } = &*self.0;
        LiveStatus {
            waiters: waiters.load(Relaxed),
            entries: entries.load(Relaxed),
            bytes: bytes.load(Relaxed),
            runs: runs.load(Relaxed),
            unchanged_runs: unchanged_runs.load(Relaxed),
            wakeups: wakeups.load(Relaxed),
            refused: refused.load(Relaxed),
        }
    }

    /// Sets the numbers of waiters and entries.
    pub(super) fn set(&self, waiters: usize, entries: usize) {
        self.0.waiters.store(waiters as u64, Relaxed);
        self.0.entries.store(entries as u64, Relaxed);
    }

    pub(super) fn ran(&self) {
        self.0.runs.fetch_add(1, Relaxed);
    }

    pub(super) fn ran_without_change(&self) {
        self.0.unchanged_runs.fetch_add(1, Relaxed);
    }

    pub(super) fn woke(&self, waiters: usize) {
        self.0.wakeups.fetch_add(waiters as u64, Relaxed);
    }

    pub(super) fn refused(&self) {
        self.0.refused.fetch_add(1, Relaxed);
    }

    /// Counts these bytes, unless there would be more than `limit`.
    pub(super) fn count(&self, bytes: usize, limit: u64) -> Option<CountedBytes> {
        let bytes = bytes as u64;
        let sum = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        self.0.bytes.fetch_update(Relaxed, Relaxed, sum).ok()?;
        Some(CountedBytes { tally: self.clone(), bytes, limit })
    }
}

impl CountedBytes {
    /// Counts further bytes within the same limit.
    pub(super) fn count(&self, bytes: usize) -> Option<Self> {
        self.tally.count(bytes, self.limit)
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.tally.0.bytes.fetch_sub(self.bytes, Relaxed);
    }
}
