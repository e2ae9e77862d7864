//! Counters of the deployments of a mount, and of its last modules.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderValue;
use relayer_rest_sandbox::{Module, ModuleStats};
use serde::{Deserialize, Serialize};

use super::shadow::{ShadowCounts, ShadowTally};

/// The number of modules whose counters are kept. The counters of a module that was rolled back
/// are still exported.
const MAX_MODULES: usize = 4;

/// Counters that a mount passes on to its successors.
#[derive(Debug, Default)]
pub(super) struct DeploymentCounts {
    swaps: AtomicU64,
    rejections: AtomicU64,
    rollbacks: AtomicU64,
    shadows: Arc<ShadowCounts>,
    /// The last modules, by their labels. The active one is the last.
    modules: Mutex<Vec<(HeaderValue, ModuleStats)>>,
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
    /// The requests of all shadows.
    #[serde(default)]
    pub shadows: ShadowTally,
}

impl DeploymentCounts {
    /// Keeps the counters of a module that is activated.
    pub(super) fn activated(&self, module: &Module) {
        let mut modules = self.lock();
        modules.retain(|(label, _)| label != module.label());
        if modules.len() == MAX_MODULES {
            modules.remove(0);
        }
        modules.push((module.label().clone(), module.stats().clone()));
    }

    /// Returns the counters of the last modules, by their labels.
    pub(super) fn modules(&self) -> Vec<(HeaderValue, ModuleStats)> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(HeaderValue, ModuleStats)>> {
        // Nothing that panics is done while it is held.
        self.modules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn swapped(&self) {
        self.swaps.fetch_add(1, Relaxed);
    }

    pub(super) fn rejected(&self) {
        self.rejections.fetch_add(1, Relaxed);
    }

    pub(super) fn rolled_back(&self) {
        self.rollbacks.fetch_add(1, Relaxed);
    }

    /// Returns the counters of all shadows.
    pub(super) fn shadows(&self) -> &Arc<ShadowCounts> {
        &self.shadows
    }

    pub(super) fn status(&self) -> DeploymentStatus {
        DeploymentStatus {
            swaps: self.swaps.load(Relaxed),
            rejections: self.rejections.load(Relaxed),
            rollbacks: self.rollbacks.load(Relaxed),
            shadows: self.shadows.tally(),
        }
    }
}
