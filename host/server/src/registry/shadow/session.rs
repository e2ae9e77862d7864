//! A shadow in progress, as other tasks see it: its counters, and its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::options::ShadowTime;

/// A shadow in progress.
#[derive(Debug)]
pub(in crate::registry) struct ShadowSession {
    ends: SystemTime,
    counts: ShadowCounts,
    /// The counters of all shadows of the mount.
    totals: Arc<ShadowCounts>,
    is_cancelled: watch::Sender<bool>,
}

/// Counters of shadows.
#[derive(Debug, Default)]
pub(in crate::registry) struct ShadowCounts {
    requests: AtomicU64,
    expected: AtomicU64,
    unexpected: AtomicU64,
    dropped: AtomicU64,
}

/// The counters of a shadow, or of all shadows of a mount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShadowTally {
    /// The requests that were compared.
    pub requests: u64,
    /// The requests with expected differences only.
    pub expected: u64,
    /// The requests with a difference that was not expected.
    pub unexpected: u64,
    /// The requests that were not compared, because the candidate was too slow.
    pub dropped: u64,
}

/// A shadow in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShadowStatus {
    /// When it ends, in seconds since 1970.
    pub ends: u64,
    /// Its counters.
    #[serde(flatten)]
    pub tally: ShadowTally,
}

/// How the responses to a request differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Comparison {
    Equal,
    Expected,
    Unexpected,
}

impl ShadowSession {
    pub(in crate::registry) fn new(time: ShadowTime, totals: Arc<ShadowCounts>) -> Self {
        Self {
            ends: SystemTime::now() + time.get(),
            counts: ShadowCounts::default(),
            totals,
            is_cancelled: watch::Sender::new(false),
        }
    }

    /// Ends the shadow.
    pub(in crate::registry) fn cancel(&self) {
        self.is_cancelled.send_replace(true);
    }

    /// Waits until the shadow is cancelled.
    pub(super) async fn cancelled(&self) {
        // The sender is alive.
        self.is_cancelled.subscribe().wait_for(|is_cancelled| *is_cancelled).await.ok();
    }

    /// Returns the current status.
    pub(in crate::registry) fn status(&self) -> ShadowStatus {
        let ends = self.ends.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        ShadowStatus { ends, tally: self.counts.tally() }
    }

    /// Counts a compared request.
    pub(super) fn compared(&self, comparison: Comparison) {
        for counts in [&self.counts, &*self.totals] {
            counts.requests.fetch_add(1, Relaxed);
        }
        self.differs(comparison);
    }

    /// Counts a difference in the response to a request that counts already.
    pub(super) fn differs(&self, comparison: Comparison) {
        for counts in [&self.counts, &*self.totals] {
            match comparison {
                Comparison::Equal => {}
                Comparison::Expected => drop(counts.expected.fetch_add(1, Relaxed)),
                Comparison::Unexpected => drop(counts.unexpected.fetch_add(1, Relaxed)),
            }
        }
    }

    /// Sets the number of requests that were dropped.
    pub(super) fn set_dropped(&self, dropped: u64) {
        let before = self.counts.dropped.swap(dropped, Relaxed);
        self.totals.dropped.fetch_add(dropped.saturating_sub(before), Relaxed);
    }

    /// Returns the counters.
    pub(super) fn tally(&self) -> ShadowTally {
        self.counts.tally()
    }
}

impl ShadowCounts {
    pub(in crate::registry) fn tally(&self) -> ShadowTally {
        ShadowTally {
            requests: self.requests.load(Relaxed),
            expected: self.expected.load(Relaxed),
            unexpected: self.unexpected.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
        }
    }
}
