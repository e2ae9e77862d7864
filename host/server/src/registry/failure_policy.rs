//! The failures that a module may have before the mount rolls back, or before its circuit
//! breaker trips.

use std::time::Duration;

use relayer_rest_common::limits;

limits! {
    /// How many failures are too many. A failure is a trap, a run that took too long, or a
    /// response that HTTP does not allow. Failures for the same method and path count once,
    /// even if their queries or headers differ.
    pub struct FailurePolicy {
        /// For the rollback of a new module, only requests to which the previous module
        /// responds count.
        failures: u32 = "5", "1" to "1000", "Number of different paths at which failures are too many";
        window: Duration = "\"10s\"", "1ms" to "1h", "Time window in which they are counted";
        failure_rate: u32 = "50", "1" to "100", "Percentage of paths, and of runs, that must fail for the circuit breaker of an extension to trip";
        /// If the previous module responds to the same request.
        probation: u32 = "100", "0" to "1000000000", "Number of first runs of a new module in which a single failure is too many";
    }
}

impl FailurePolicy {
    /// Returns whether the failed share of all is at least `failure_rate` percent.
    pub(super) fn is_rate_reached(&self, failed: u64, all: u64) -> bool {
        failed.saturating_mul(100) >= all.saturating_mul(self.failure_rate.into())
    }
}
