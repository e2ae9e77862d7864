//! How often a module was asked, and how often it failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts that all clones of a module share.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    runs: AtomicU64,
    faults: AtomicU64,
}

impl Tally {
    pub(super) fn run(&self) {
        self.0.runs.fetch_add(1, Relaxed);
    }

    pub(super) fn fault(&self) {
        self.0.faults.fetch_add(1, Relaxed);
    }

    pub(super) fn runs(&self) -> u64 {
        self.0.runs.load(Relaxed)
    }

    pub(super) fn faults(&self) -> u64 {
        self.0.faults.load(Relaxed)
    }
}
