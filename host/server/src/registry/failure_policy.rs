//! The failures that a module may have before the mount rolls back, or before its circuit
//! breaker trips.

use std::time::Duration;

use relayer_rest_common::LimitError;
use relayer_rest_common::toml_text;
use serde::Deserialize;

/// How many failures are too many. A failure is a trap, a run that took too long, or a
/// response that HTTP does not allow. Failures for the same method and path count once,
/// even if their queries or headers differ.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FailurePolicy {
    /// The number of different requests within the window at which failures are too many.
    /// For the rollback of a new module, only requests to which the previous module
    /// responds count. Default: 5; 1 to 1,000.
    pub failures: u32,
    /// The time window. Default: 10 s; 1 ms to 1 h.
    #[serde(deserialize_with = "toml_text::duration_field")]
    pub window: Duration,
    /// The percentage of all runs within the window, and of all different requests, that
    /// must fail for the circuit breaker of an extension to trip. Default: 50; 1 to 100.
    pub failure_rate: u32,
    /// The number of first runs of a new module among which a single failure is too many,
    /// if the previous module responds. Default: 100.
    pub probation: u64,
}

impl Default for FailurePolicy {
    fn default() -> Self {
        Self { failures: 5, window: Duration::from_secs(10), failure_rate: 50, probation: 100 }
    }
}

impl FailurePolicy {
    /// Returns an error if a value is out of its range.
    pub fn check(&self) -> Result<(), LimitError> {
        if !(1..=1_000).contains(&self.failures) {
            return Err(LimitError {
                key: "failures",
                value: self.failures.to_string(),
                range: "1 to 1000",
            });
        }
        if !(1..=100).contains(&self.failure_rate) {
            return Err(LimitError {
                key: "failure_rate",
                value: self.failure_rate.to_string(),
                range: "1 to 100",
            });
        }
        check_time("window", self.window)
    }

    /// Returns whether the failed share of all is at least `failure_rate` percent.
    pub(super) fn is_rate_reached(&self, failed: u64, all: u64) -> bool {
        failed.saturating_mul(100) >= all.saturating_mul(self.failure_rate.into())
    }
}

/// Returns an error if a time is not from 1 ms to 1 h.
pub(super) fn check_time(key: &'static str, time: Duration) -> Result<(), LimitError> {
    if (Duration::from_millis(1)..=Duration::from_hours(1)).contains(&time) {
        return Ok(());
    }
    Err(LimitError { key, value: format!("{time:?}"), range: "1ms to 1h" })
}
