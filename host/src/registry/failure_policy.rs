//! The failures that a module may have before the one before it is put back, or it
//! is taken out of service.

use std::time::Duration;

use serde::Deserialize;

use crate::module::LimitError;
use crate::toml_text;

/// How many failures are too many. A failure is a trap, an answer that took too
/// long or one that HTTP does not allow. Failures at one method and path count once,
/// whatever their queries and headers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FailurePolicy {
    /// Failures at this many different requests within the time are too many, of a
    /// new module such at which the one before answers. Default: 5; 1 to 1,000,
    /// though no more than 500 are told apart.
    pub faults: u32,
    /// The time. Default: 10 s; 1 ms to 1 h.
    #[serde(deserialize_with = "toml_text::duration_field")]
    pub within: Duration,
    /// An extension is taken out of service only where it fails at this many percent
    /// of all runs within the time, and of all different requests. Default: 50; 1
    /// to 100.
    pub failure_rate: u32,
    /// Among this many of its first runs, one failure is too many, where the module
    /// before answers. Default: 100.
    pub first: u64,
}

impl Default for FailurePolicy {
    fn default() -> Self {
        Self { faults: 5, within: Duration::from_secs(10), failure_rate: 50, first: 100 }
    }
}

impl FailurePolicy {
    /// Says what is out of its range.
    pub fn check(&self) -> Result<(), LimitError> {
        if !(1..=1_000).contains(&self.faults) {
            return Err(LimitError {
                key: "faults",
                value: self.faults.to_string(),
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
        check_time("within", self.within)
    }

    /// Whether so many of all are the share that is too much.
    pub(super) fn is_rate_reached(&self, failed: u64, all: u64) -> bool {
        failed.saturating_mul(100) >= all.saturating_mul(self.failure_rate.into())
    }
}

/// Times from 1 ms to 1 h.
pub(super) fn check_time(key: &'static str, time: Duration) -> Result<(), LimitError> {
    if (Duration::from_millis(1)..=Duration::from_hours(1)).contains(&time) {
        return Ok(());
    }
    Err(LimitError { key, value: format!("{time:?}"), range: "1ms to 1h" })
}
