//! Limits the logged faults of a relayer: each is logged once, and their number is
//! bounded.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::{Duration, Instant};

use relayer_rest_common::log_rate::{LogRate, Permit};
use tracing::warn;

/// The maximum number of lines per second.
const MAX_RATE: u64 = 10;

/// The maximum number of faults recorded as reported. Beyond it, no fault is reported
/// until the hour is over; then all are reported again.
const MAX_FAULTS: usize = 1000;

const HOUR: Duration = Duration::from_hours(1);

pub(super) struct Reports {
    /// Hashes of faults, because a fault's text may be long.
    reported: HashSet<u64>,
    hasher: RandomState,
    since: Instant,
    rate: LogRate,
}

impl Reports {
    pub(super) fn new() -> Self {
        Self {
            reported: HashSet::new(),
            hasher: RandomState::new(),
            since: Instant::now(),
            rate: LogRate::new(MAX_RATE),
        }
    }

    /// Returns whether to log a fault: it has not been logged yet, and the limits permit
    /// it.
    pub(super) fn is_new(&mut self, fault: impl Hash) -> bool {
        self.is_new_at(Instant::now(), fault)
    }

    fn is_new_at(&mut self, now: Instant, fault: impl Hash) -> bool {
        if self.reported.len() >= MAX_FAULTS {
            if now.duration_since(self.since) < HOUR {
                return false;
            }
            self.reported.clear();
            self.since = now;
        }
        let fault = self.hasher.hash_one(fault);
        if self.reported.contains(&fault) || !self.is_allowed() {
            return false;
        }
        self.reported.insert(fault);
        if self.reported.len() == MAX_FAULTS {
            warn!(
                reported = MAX_FAULTS,
                hint = "others are omitted for up to an hour",
                "limit of logged faults of the relayer reached"
            );
        }
        true
    }

    /// Removes a fault that is over, so that it is reported if it recurs.
    pub(super) fn is_over(&mut self, fault: impl Hash) {
        self.reported.remove(&self.hasher.hash_one(fault));
    }

    /// Returns whether one more line may be logged now.
    pub(super) fn is_allowed(&self) -> bool {
        match self.rate.acquire(1) {
            Permit::Granted(omitted) => {
                if omitted > 0 {
                    warn!(omitted, "log lines about the relayer omitted");
                }
                true
            }
            Permit::LimitReached => {
                warn!(limit = MAX_RATE, "log rate about the relayer exceeded");
                false
            }
            Permit::Denied => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HOUR, LogRate, MAX_FAULTS, MAX_RATE, Reports};
    use std::time::Instant;

    #[test]
    fn a_fault_is_reported_again_only_after_it_was_over() {
        let mut reports = Reports::new();
        assert_eq!([(); 3].map(|()| reports.is_new("a")), [true, false, false]);
        assert!(reports.is_new("b"));
        reports.is_over("a");
        assert_eq!([(); 2].map(|()| reports.is_new("a")), [true, false]);
    }

    #[test]
    fn a_fault_beyond_the_rate_is_reported_later() {
        let mut reports = Reports { rate: LogRate::new(0), ..Reports::new() };
        assert!(!reports.is_new("a"));
        reports.rate = LogRate::new(MAX_RATE);
        assert!(reports.is_new("a"));
    }

    #[test]
    fn a_bounded_number_of_faults_is_tracked() {
        let mut reports = Reports { rate: LogRate::new(u64::MAX), ..Reports::new() };
        let now = Instant::now();
        let faults = 0..10 * MAX_FAULTS;
        let new = faults.clone().filter(|fault| reports.is_new_at(now, fault)).count();
        assert_eq!((new, reports.reported.len()), (MAX_FAULTS, MAX_FAULTS));
        let new = faults.filter(|fault| reports.is_new_at(now + 2 * HOUR, fault)).count();
        assert_eq!(new, MAX_FAULTS);
    }
}
