//! The limit of runs a second.

use std::time::Duration;

use tokio::time::Instant;

/// The time whose runs are permitted at once.
const BURST: Duration = Duration::from_secs(1);

/// Permits a number of runs each second, in bursts of at most a second's.
pub(super) struct RunBudget {
    interval: Duration,
    /// The time at which the budget is full again.
    full_at: Instant,
}

impl RunBudget {
    pub(super) fn new(runs_per_second: u32) -> Self {
        Self { interval: Duration::from_secs(1) / runs_per_second.max(1), full_at: Instant::now() }
    }

    /// Returns when there is a run.
    pub(super) fn next(&self, now: Instant) -> Instant {
        let full_at = self.full_at.max(now) + self.interval;
        full_at.checked_sub(BURST).map_or(now, |next| next.max(now))
    }

    /// Takes the next run out of the budget, and returns when it may begin.
    pub(super) fn reserve(&mut self, now: Instant) -> Instant {
        let next = self.next(now);
        self.full_at = self.full_at.max(now) + self.interval;
        next
    }

    /// Gives a run back that was not needed.
    pub(super) fn give_back(&mut self) {
        self.full_at -= self.interval;
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, RunBudget};

    #[tokio::test(start_paused = true)]
    async fn runs_are_limited_to_a_number_each_second() {
        let mut budget = RunBudget::new(10);
        let now = Instant::now();
        let interval = Duration::from_millis(100);
        for _ in 0..10 {
            assert_eq!(budget.reserve(now), now);
        }
        assert_eq!(budget.next(now), now + interval);
        // A reserved run is no longer there for others.
        assert_eq!(budget.reserve(now), now + interval);
        assert_eq!(budget.reserve(now), now + 2 * interval);
        budget.give_back();
        assert_eq!(budget.reserve(now + interval), now + 2 * interval);
        let later = now + Duration::from_secs(100);
        for _ in 0..10 {
            assert_eq!(budget.reserve(later), later);
        }
        assert_eq!(budget.next(later), later + interval);
    }
}
