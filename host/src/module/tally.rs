//! How often a module was asked, and how often it failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts that clones of a module share.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    runs: AtomicU64,
    faults: AtomicU64,
    /// The first run that failed, counted from 1.
    first_fault: AtomicU64,
}

impl Default for Counts {
    fn default() -> Self {
        let count = AtomicU64::default;
        Self { runs: count(), faults: count(), first_fault: u64::MAX.into() }
    }
}

impl Tally {
    /// Counts a run that begins. Returns its number, from 1.
    pub(super) fn run(&self) -> u64 {
        self.0.runs.fetch_add(1, Relaxed) + 1
    }

    /// Counts the failure of that run.
    pub(super) fn fault(&self, run: u64) {
        self.0.first_fault.fetch_min(run, Relaxed);
        self.0.faults.fetch_add(1, Relaxed);
    }

    pub(super) fn runs(&self) -> u64 {
        self.0.runs.load(Relaxed)
    }

    pub(super) fn faults(&self) -> u64 {
        self.0.faults.load(Relaxed)
    }

    pub(super) fn first_fault(&self) -> Option<u64> {
        Some(self.0.first_fault.load(Relaxed)).filter(|run| *run < u64::MAX)
    }
}
