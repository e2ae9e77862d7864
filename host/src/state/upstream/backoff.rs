//! How long to wait after a failure: longer each time, and never quite the
//! same.

use std::time::Duration;

/// The longest wait: a relayer that is back is to be noticed soon, and one that
/// is not there is not bothered.
const LONGEST: Duration = Duration::from_secs(5);

pub(super) struct Backoff {
    first: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(first: Duration) -> Self {
        Self { first, failures: 0 }
    }

    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The next wait: twice the one before, less up to half of it.
    pub(super) fn next(&mut self) -> Duration {
        let longest = self.first.max(LONGEST);
        let whole = self.first.saturating_mul(1 << self.failures.min(16)).min(longest);
        self.failures = self.failures.saturating_add(1);
        whole.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Backoff, LONGEST};
    use std::time::Duration;

    #[test]
    fn waits_double_up_to_the_longest_and_vary() {
        let mut backoff = Backoff::new(Duration::from_secs(1));
        for whole in [1, 2, 4, 5, 5] {
            let wait = backoff.next();
            let whole = Duration::from_secs(whole);
            assert!(whole / 2 <= wait && wait <= whole, "{wait:?} of {whole:?}");
        }
        let waits: Vec<_> = (0..8).map(|_| backoff.next()).collect();
        assert!(waits.iter().any(|wait| *wait != waits[0]), "{waits:?}");
        backoff.reset();
        assert!(backoff.next() <= Duration::from_secs(1));
    }

    #[test]
    fn waits_never_overflow() {
        let mut backoff = Backoff::new(Duration::from_millis(1));
        for _ in 0..100 {
            assert!(backoff.next() <= LONGEST);
        }
        let mut slow = Backoff::new(Duration::from_hours(1));
        assert!((0..5).all(|_| slow.next() <= Duration::from_hours(1)));
    }
}
