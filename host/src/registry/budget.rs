//! The failures that a new module may have before the one before it is put
//! back.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::module::LimitError;
use crate::toml_text;

/// How many failures are too many. A failure is a trap, an answer that took too
/// long or one that HTTP does not allow.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultBudget {
    /// This many failures within the time are too many. Default: 5; 1 to
    /// 1,000.
    pub faults: u32,
    /// The time. Default: 10 s; 1 ms to 1 h.
    #[serde(deserialize_with = "toml_text::duration_field")]
    pub within: Duration,
    /// Among this many of its first runs, one failure is too many. Default:
    /// 100.
    pub first: u64,
}

impl Default for FaultBudget {
    fn default() -> Self {
        Self { faults: 5, within: Duration::from_secs(10), first: 100 }
    }
}

impl FaultBudget {
    /// Says what is out of its range.
    pub fn check(&self) -> Result<(), LimitError> {
        if !(1..=1_000).contains(&self.faults) {
            return Err(LimitError {
                key: "faults",
                value: self.faults.to_string(),
                range: "1 to 1000",
            });
        }
        check_time("within", self.within)
    }
}

/// Times from 1 ms to 1 h.
pub(super) fn check_time(key: &'static str, time: Duration) -> Result<(), LimitError> {
    if (Duration::from_millis(1)..=Duration::from_hours(1)).contains(&time) {
        return Ok(());
    }
    Err(LimitError { key, value: format!("{time:?}"), range: "1ms to 1h" })
}

/// The failures of a module since it came into service.
#[derive(Debug, Default)]
pub(super) struct Spending {
    known: u64,
    recent: VecDeque<Instant>,
}

impl Spending {
    /// Whether that is too much: this many failures, the first of them in this
    /// run, counted from when the module came into service.
    pub(super) fn is_spent(
        &mut self,
        budget: &FaultBudget,
        first: Option<u64>,
        faults: u64,
        now: Instant,
    ) -> bool {
        for _ in self.known..faults.min(self.known + u64::from(budget.faults)) {
            self.recent.push_back(now);
        }
        self.known = self.known.max(faults);
        self.recent.retain(|fault| now.duration_since(*fault) < budget.within);
        first.is_some_and(|run| run <= budget.first) || self.recent.len() >= budget.faults as usize
    }
}

#[cfg(test)]
mod tests {
    use super::{FaultBudget, Spending};
    use std::time::{Duration, Instant};

    #[test]
    fn one_failure_at_the_start_is_too_much() {
        let budget = FaultBudget::default();
        let now = Instant::now();
        assert!(!Spending::default().is_spent(&budget, None, 0, now));
        assert!(Spending::default().is_spent(&budget, Some(100), 1, now));
        assert!(!Spending::default().is_spent(&budget, Some(101), 1, now));
    }

    #[test]
    fn later_it_is_a_number_of_failures_within_a_time() {
        let budget = FaultBudget::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut spending = Spending::default();
        for (seconds, faults, is_spent) in [
            (0, 1, false),
            // Not counted twice.
            (0, 1, false),
            (2, 2, false),
            (3, 4, false),
            // The first is forgotten by now.
            (10, 5, false),
            (12, 7, true),
        ] {
            let spent = spending.is_spent(&budget, Some(1_000), faults, at(seconds));
            assert_eq!(spent, is_spent, "{seconds} s, {faults} failures");
        }
    }

    #[test]
    fn failures_at_once_are_all_counted() {
        let budget = FaultBudget::default();
        assert!(Spending::default().is_spent(&budget, Some(1_000), 5, Instant::now()));
        assert!(Spending::default().is_spent(&budget, Some(1_000), u64::MAX, Instant::now()));
    }
}
