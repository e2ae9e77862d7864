//! Counters of a module's runs, and of its failures by cause.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

use super::call_error::CallError;
use super::trap::TrapKind;

/// Counters that the clones of a module share.
#[derive(Debug, Clone, Default)]
pub struct ModuleStats(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    runs: AtomicU64,
    /// By their kinds.
    traps: [AtomicU64; TrapKind::ALL.len()],
    timed_out: AtomicU64,
    invalid: AtomicU64,
    overloaded: AtomicU64,
    host: AtomicU64,
}

/// The numbers of failures to respond, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// The module trapped: 500.
    pub trapped: u64,
    /// The module took too long: 504.
    pub timed_out: u64,
    /// HTTP or the module's limits do not allow its response: 502.
    pub invalid: u64,
    /// The request got no permit, or no processor for too long: 503. This is not the
    /// module's fault.
    pub overloaded: u64,
    /// The host failed: 500. This is not a failure of the module.
    pub host: u64,
}

impl Failures {
    /// Returns the number of failures of the module itself.
    #[must_use]
    pub fn module_failures(&self) -> u64 {
        self.trapped + self.timed_out + self.invalid
    }
}

impl ModuleStats {
    /// Counts the start of a run.
    pub(super) fn run(&self) {
        self.0.runs.fetch_add(1, Relaxed);
    }

    /// Counts the failure of a run.
    pub(super) fn failed(&self, error: &CallError) {
        let count = match error {
            CallError::Trap(trapped) => &self.0.traps[trapped.kind as usize],
            CallError::Timeout(..) => &self.0.timed_out,
            CallError::Invalid(_) => &self.0.invalid,
            CallError::Overloaded | CallError::Starved(_) => &self.0.overloaded,
            CallError::Instantiate(_) | CallError::Host(_) => &self.0.host,
        };
        count.fetch_add(1, Relaxed);
    }

    /// Counts a request that got no permit.
    pub(super) fn overloaded(&self) {
        self.0.overloaded.fetch_add(1, Relaxed);
    }

    /// Returns the number of runs.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.0.runs.load(Relaxed)
    }

    /// Returns the number of traps of each kind.
    pub fn traps(&self) -> impl Iterator<Item = (TrapKind, u64)> {
        TrapKind::ALL.into_iter().map(|kind| (kind, self.0.traps[kind as usize].load(Relaxed)))
    }

    /// Returns the number of failures of each cause.
    #[must_use]
    pub fn failures(&self) -> Failures {
        let Counts { timed_out, invalid, overloaded, host, .. } = &*self.0;
        Failures {
            trapped: self.traps().map(|(_, count)| count).sum(),
            timed_out: timed_out.load(Relaxed),
            invalid: invalid.load(Relaxed),
            overloaded: overloaded.load(Relaxed),
            host: host.load(Relaxed),
        }
    }
}
