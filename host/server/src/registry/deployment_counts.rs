//! Counters of the deployments of a mount.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

/// Counters that a mount passes on to its successors.
#[derive(Debug, Default)]
pub(super) struct DeploymentCounts {
    swaps: AtomicU64,
    rejections: AtomicU64,
    rollbacks: AtomicU64,
}

/// The deployments of a mount since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentStatus {
    /// The modules that were swapped in.
    pub swaps: u64,
    /// The candidates that were rejected.
    pub rejections: u64,
    /// The rollbacks, manual and after failures.
    pub rollbacks: u64,
}

impl DeploymentCounts {
    pub(super) fn swapped(&self) {
        self.swaps.fetch_add(1, Relaxed);
    }

    pub(super) fn rejected(&self) {
        self.rejections.fetch_add(1, Relaxed);
    }

    pub(super) fn rolled_back(&self) {
        self.rollbacks.fetch_add(1, Relaxed);
    }

    pub(super) fn status(&self) -> DeploymentStatus {
        DeploymentStatus {
            swaps: self.swaps.load(Relaxed),
            rejections: self.rejections.load(Relaxed),
            rollbacks: self.rollbacks.load(Relaxed),
        }
    }
}
