//! Rate limits for log messages that clients or modules can cause.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// A limit of `limit` units a second.
pub struct LogRate {
    limit: u64,
    window: Mutex<Window>,
}

struct Window {
    start: Instant,
    used: u64,
    left_out: u64,
}

/// The result of [`LogRate::acquire`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// The message may be written. Contains the number of messages left out before it,
    /// which must be logged first.
    Granted(u64),
    /// The message is denied, and the messages denied before it were all reported.
    LimitReached,
    /// The message is denied.
    Denied,
}

impl LogRate {
    /// Creates a limit of `limit` units a second.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        let window = Window { start: Instant::now(), used: 0, left_out: 0 };
        Self { limit, window: Mutex::new(window) }
    }

    /// Returns the limit of a second, in units.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Requests a permit for a message of `cost` units.
    pub fn acquire(&self, cost: u64) -> Permit {
        self.acquire_at(Instant::now(), cost)
    }

    fn acquire_at(&self, now: Instant, cost: u64) -> Permit {
        // Nothing that panics is done while it is held.
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left_out = 0;
        if now.duration_since(window.start) >= SECOND {
            left_out = std::mem::take(&mut window.left_out);
            window.start = now;
            window.used = 0;
        }
        if window.used.saturating_add(cost) <= self.limit {
            window.used += cost;
            return Permit::Granted(left_out);
        }
        window.left_out += left_out + 1;
        if window.left_out == 1 { Permit::LimitReached } else { Permit::Denied }
    }
}

#[cfg(test)]
mod tests {
    use super::{LogRate, Permit, SECOND};
    use std::time::Instant;

    #[test]
    fn lines_beyond_the_rate_are_counted() {
        let rate = LogRate::new(10);
        let start = Instant::now();
        let acquire = |seconds: u32, cost| rate.acquire_at(start + SECOND * (1 + seconds), cost);
        assert_eq!([acquire(0, 6), acquire(0, 4)], [Permit::Granted(0); 2]);
        assert_eq!(
            [acquire(0, 1), acquire(0, 1), acquire(0, 1)],
            [Permit::LimitReached, Permit::Denied, Permit::Denied]
        );
        assert_eq!([acquire(1, 10), acquire(2, 1)], [Permit::Granted(3), Permit::Granted(0)]);
        // A message that exceeds the limit of a second is never allowed.
        assert_eq!(
            [acquire(3, 11), acquire(4, 11), acquire(5, 1)],
            [Permit::LimitReached, Permit::Denied, Permit::Granted(2)]
        );
    }
}
