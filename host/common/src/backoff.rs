//! Exponential backoff with jitter.

use std::time::Duration;

/// The delays between the attempts after a failure.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// Creates a backoff with this first delay and this maximum.
    #[must_use]
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest: first.max(longest), failures: 0 }
    }

    /// Starts again with the first delay.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns the next delay, which doubles up to the maximum, less a random part of up
    /// to half of it.
    pub fn next_delay(&mut self) -> Duration {
        let whole = self.first.saturating_mul(1 << self.failures.min(16)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        whole.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;
    use std::time::Duration;

    const MAX_DELAY: Duration = Duration::from_secs(5);

    #[test]
    fn waits_double_up_to_the_maximum_and_vary() {
        let mut backoff = Backoff::new(Duration::from_secs(1), MAX_DELAY);
        for whole in [1, 2, 4, 5, 5] {
            let wait = backoff.next_delay();
            let whole = Duration::from_secs(whole);
            assert!(whole / 2 <= wait && wait <= whole, "{wait:?} of {whole:?}");
        }
        let waits: Vec<_> = (0..8).map(|_| backoff.next_delay()).collect();
        assert!(waits.iter().any(|wait| *wait != waits[0]), "{waits:?}");
        backoff.reset();
        assert!(backoff.next_delay() <= Duration::from_secs(1));
    }

    #[test]
    fn waits_never_overflow() {
        let mut backoff = Backoff::new(Duration::from_millis(1), MAX_DELAY);
        for _ in 0..100 {
            assert!(backoff.next_delay() <= MAX_DELAY);
        }
        let mut slow = Backoff::new(Duration::from_hours(1), MAX_DELAY);
        assert!((0..5).all(|_| slow.next_delay() <= Duration::from_hours(1)));
    }
}
