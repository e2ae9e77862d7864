//! Limits the requests that the client of a connection cancels.
//!
//! A client of HTTP/2 can send requests and reset them immediately, so that none counts
//! among its concurrent streams for long, while each has started a run of a module. Each
//! cancelled request adds to a debt that is paid off with time; a connection with too
//! much debt gets 429 for uncached responses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The time in which the debt of one request is paid off: 50 a second.
const PRICE: Duration = Duration::from_millis(20);

/// The maximum debt of a connection: the price of 100 requests, more than it can have
/// open at once.
const MAX_DEBT: Duration = Duration::from_secs(2);

/// The debt of one connection.
pub(super) struct Cancelled {
    start: Instant,
    /// The time when the debt is paid off, in microseconds since `start`.
    paid_off: AtomicU64,
}

/// A request that is being handled. If it is dropped before it is
/// [completed](Self::complete), it was cancelled.
pub(super) struct Pending {
    cancelled: Arc<Cancelled>,
    is_complete: bool,
}

impl Cancelled {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), paid_off: AtomicU64::new(0) }
    }

    /// Returns whether the debt is too large to start another run.
    pub(super) fn is_too_much(&self) -> bool {
        let paid_off = self.paid_off.load(Relaxed);
        // Most connections have no debt, and need no clock.
        paid_off > 0 && paid_off.saturating_sub(self.now()) > micros(MAX_DEBT)
    }

    pub(super) fn pending(self: &Arc<Self>) -> Pending {
        Pending { cancelled: Arc::clone(self), is_complete: false }
    }

    fn count(&self) {
        let now = self.now();
        let add = |paid_off: u64| Some(paid_off.max(now).saturating_add(micros(PRICE)));
        _ = self.paid_off.fetch_update(Relaxed, Relaxed, add);
    }

    fn now(&self) -> u64 {
        micros(self.start.elapsed())
    }
}

impl Pending {
    pub(super) fn complete(mut self) {
        self.is_complete = true;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.is_complete {
            self.cancelled.count();
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Cancelled, MAX_DEBT, PRICE, micros};
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn completed_requests_are_not_counted() {
        let cancelled = Arc::new(Cancelled::new());
        for _ in 0..10_000 {
            cancelled.pending().complete();
        }
        assert_eq!(cancelled.paid_off.load(Relaxed), 0);
        assert!(!cancelled.is_too_much());
    }

    #[test]
    fn cancelled_requests_add_up_to_the_limit() {
        let cancelled = Arc::new(Cancelled::new());
        for _ in 0..200 {
            drop(cancelled.pending());
        }
        let owed = cancelled.paid_off.load(Relaxed);
        assert!(owed >= 200 * micros(PRICE) && owed > micros(MAX_DEBT), "{owed}");
    }

    #[test]
    fn cancelled_requests_are_forgotten_with_time() {
        let mut cancelled = Cancelled::new();
        cancelled.paid_off.store(u64::MAX, Relaxed);
        assert!(cancelled.is_too_much());
        cancelled.paid_off.store(cancelled.now() + micros(2 * MAX_DEBT), Relaxed);
        cancelled.start = cancelled.start.checked_sub(2 * MAX_DEBT).unwrap();
        assert!(!cancelled.is_too_much());
    }
}
