//! Circuit breaker: stops running an extension that fails at most of its requests.
//!
//! While the circuit is open, runs are refused, but cached responses that are still valid
//! are served. Requests of a kind to which the module last responded still run. Of other
//! requests that are not known to fail, one runs now and then (half-open). The circuit
//! closes when the module responds to one of these, or when it passes a health check,
//! which is repeated with backoff.
//!
//! The circuit is that of the active module. Changes that depend on the module therefore
//! take a condition or an action, which runs with the lock of the circuit held.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The minimum time between two trials that run one at a time, and the minimum time until
/// a trial closes the circuit.
const BETWEEN_TRIALS: Duration = Duration::from_secs(1);

/// The circuit breaker of a mount. The circuit is closed at first.
#[derive(Debug, Default)]
pub(super) struct CircuitBreaker {
    circuit: Mutex<Option<OpenCircuit>>,
    /// Whether `circuit` is open, readable without its lock.
    is_open: AtomicBool,
}

/// An open circuit: the reason, and when it may close.
#[derive(Debug, Clone)]
pub(super) struct OpenCircuit {
    pub(super) reason: String,
    /// When the next health check runs.
    next: Instant,
    begin: Instant,
    /// When the next trial may run that excludes others, and whether one is running.
    next_trial: Instant,
    is_tried: bool,
}

/// A module's earlier responses to requests of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Experience {
    Responds,
    Fails,
    Unknown,
}

/// A request of a client that runs while the circuit is open.
#[derive(Debug)]
pub(super) struct Trial {
    breaker: Arc<CircuitBreaker>,
    /// Whether the module is not known to respond to its kind: such trials run one at a
    /// time.
    is_exclusive: bool,
}

impl OpenCircuit {
    /// Returns the minimum time that a client should wait.
    pub(super) fn retry_after(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }
}

impl CircuitBreaker {
    /// Returns whether the circuit is open.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Relaxed)
    }

    /// Returns the open circuit, or `None` if it is closed.
    pub(super) fn current(&self) -> Option<OpenCircuit> {
        if self.is_open() { self.circuit().clone() } else { None }
    }

    /// Returns a trial if a request may run while the circuit is open, [`None`] if the
    /// circuit is closed by now, or how long the client should wait.
    pub(super) fn try_half_open(
        self: &Arc<Self>,
        experience: Experience,
    ) -> Result<Option<Trial>, Duration> {
        let mut circuit = self.circuit();
        let Some(open) = circuit.as_mut() else { return Ok(None) };
        if experience == Experience::Fails {
            return Err(open.retry_after());
        }
        let is_exclusive = experience == Experience::Unknown;
        if is_exclusive {
            let now = Instant::now();
            if open.is_tried || now < open.next_trial {
                return Err(open.next_trial.saturating_duration_since(now));
            }
            open.is_tried = true;
            open.next_trial = now + BETWEEN_TRIALS;
        }
        Ok(Some(Trial { breaker: Arc::clone(self), is_exclusive }))
    }

    /// Opens the circuit until a health check after this time, if the condition holds.
    /// Returns `false` if it is open already, or if the condition does not hold.
    pub(super) fn trip_if(
        &self,
        condition: impl FnOnce() -> bool,
        reason: String,
        wait: Duration,
    ) -> bool {
        let mut circuit = self.circuit();
        if circuit.is_some() || !condition() {
            return false;
        }
        let begin = Instant::now();
        let next_trial = begin + BETWEEN_TRIALS;
        *circuit =
            Some(OpenCircuit { reason, next: begin + wait, begin, next_trial, is_tried: false });
        self.is_open.store(true, Relaxed);
        true
    }

    /// Postpones the next health check by this time, if the circuit is open and the
    /// condition holds. Returns `false` otherwise.
    pub(super) fn postpone_if(&self, condition: impl FnOnce() -> bool, wait: Duration) -> bool {
        match self.circuit().as_mut().filter(|_| condition()) {
            Some(open) => {
                open.next = Instant::now() + wait;
                true
            }
            None => false,
        }
    }

    /// Closes the circuit, together with an action.
    pub(super) fn close_with(&self, action: impl FnOnce()) {
        let mut circuit = self.circuit();
        action();
        *circuit = None;
        self.is_open.store(false, Relaxed);
    }

    fn circuit(&self) -> MutexGuard<'_, Option<OpenCircuit>> {
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Trial {
    /// Returns whether a response closes the circuit. It stays open for
    /// [`BETWEEN_TRIALS`] at least, or it would open and close as often as requests come.
    pub(super) fn closes(&self) -> bool {
        let is_over = |open: &OpenCircuit| open.begin.elapsed() >= BETWEEN_TRIALS;
        self.breaker.circuit().as_ref().is_some_and(is_over)
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if self.is_exclusive
            && let Some(open) = self.breaker.circuit().as_mut()
        {
            open.is_tried = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BETWEEN_TRIALS, CircuitBreaker, Experience};
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::time::advance;

    const WAIT: Duration = Duration::from_secs(10);

    fn open() -> Arc<CircuitBreaker> {
        let breaker = Arc::new(CircuitBreaker::default());
        assert!(breaker.trip_if(|| true, "it fails".to_owned(), WAIT));
        breaker
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_circuit_rejects_failing_requests_until_the_health_check() {
        let breaker = open();
        assert_eq!(breaker.try_half_open(Experience::Fails).unwrap_err(), WAIT);
        advance(WAIT / 2).await;
        assert_eq!(breaker.try_half_open(Experience::Fails).unwrap_err(), WAIT / 2);
        assert!(breaker.postpone_if(|| true, 2 * WAIT));
        assert_eq!(breaker.current().unwrap().retry_after(), 2 * WAIT);
        assert!(!breaker.postpone_if(|| false, 3 * WAIT));
        assert_eq!(breaker.current().unwrap().retry_after(), 2 * WAIT);
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_requests_are_tried_one_at_a_time() {
        let breaker = open();
        assert_eq!(breaker.try_half_open(Experience::Unknown).unwrap_err(), BETWEEN_TRIALS);
        advance(BETWEEN_TRIALS).await;
        let trial = breaker.try_half_open(Experience::Unknown).unwrap().expect("it is open");
        advance(BETWEEN_TRIALS).await;
        assert!(breaker.try_half_open(Experience::Unknown).is_err(), "one is running");
        // Requests to which the module responds do not wait for it.
        assert!(breaker.try_half_open(Experience::Responds).unwrap().is_some());
        drop(trial);
        assert!(breaker.try_half_open(Experience::Unknown).unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_trial_closes_the_circuit_only_after_a_while() {
        let breaker = open();
        let trial = breaker.try_half_open(Experience::Responds).unwrap().expect("it is open");
        assert!(!trial.closes());
        advance(BETWEEN_TRIALS).await;
        assert!(trial.closes());
        let mut is_run = false;
        breaker.close_with(|| is_run = true);
        assert!(is_run && !breaker.is_open() && breaker.current().is_none());
        assert!(breaker.try_half_open(Experience::Fails).unwrap().is_none(), "it is closed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_circuit_opens_once_and_only_under_its_condition() {
        let breaker = CircuitBreaker::default();
        assert!(!breaker.trip_if(|| false, "another module is active".to_owned(), WAIT));
        assert!(!breaker.is_open());
        assert!(breaker.trip_if(|| true, "first".to_owned(), WAIT));
        assert!(!breaker.trip_if(|| true, "second".to_owned(), WAIT));
        assert_eq!(breaker.current().unwrap().reason, "first");
    }
}
