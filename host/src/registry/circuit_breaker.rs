//! Circuit breaker: stops running an extension that fails at most of its requests.
//!
//! While the circuit is open, runs are refused, but cached responses that are still valid
//! are served. Requests of a kind to which the module last responded still run. Of other
//! requests that are not known to fail, one runs now and then (half-open). The circuit
//! closes when the module responds to one of these, or when it passes a health check,
//! which is repeated with backoff.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

use super::active::ActiveModule;
use super::failure_window::RequestKind;
use super::mount::Mount;
use crate::backoff::Backoff;
use crate::module::CallError;
use crate::state::StateReader;
use crate::text::{escape_control, truncate};

/// The maximum time between two health checks. The backoff of a module that has been in
/// service for longer starts again.
pub(super) const MAX_WAIT: Duration = Duration::from_mins(5);

/// The minimum time between two trials that run one at a time, and the minimum time until
/// a trial closes the circuit.
const BETWEEN_TRIALS: Duration = Duration::from_secs(1);

/// An open circuit: the reason, and when it may close.
#[derive(Debug, Clone)]
pub(super) struct CircuitBreaker {
    pub(super) reason: String,
    /// When the next health check runs.
    pub(super) next: Instant,
    begin: Instant,
    /// When the next trial may run that excludes others, and whether one is running.
    next_trial: Instant,
    is_tried: bool,
}

/// A request of a client that runs while the circuit is open.
pub(super) struct Trial {
    mount: Arc<Mount>,
    failed: Arc<ActiveModule>,
    /// Whether the module is not known to respond to its kind: such trials run one at a
    /// time.
    is_the_only_one: bool,
}

impl CircuitBreaker {
    /// Returns the minimum time that a client should wait.
    pub(super) fn retry_after(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }
}

impl Mount {
    /// Returns a trial if a request may run while the circuit is open, [`None`] if the
    /// circuit is closed by now, or how long the client should wait.
    pub(super) fn try_half_open(
        self: &Arc<Self>,
        failed: &Arc<ActiveModule>,
        kind: RequestKind,
    ) -> Result<Option<Trial>, Duration> {
        let mut outage = self.circuit();
        let Some(known) = outage.as_mut() else { return Ok(None) };
        if failed.is_known_to_fail(kind, self.failure_policy()) {
            return Err(known.retry_after());
        }
        let is_the_only_one = !failed.is_known_to_answer(kind);
        if is_the_only_one {
            let now = Instant::now();
            if known.is_tried || now < known.next_trial {
                return Err(known.next_trial.saturating_duration_since(now));
            }
            (known.is_tried, known.next_trial) = (true, now + BETWEEN_TRIALS);
        }
        let (mount, failed) = (Arc::clone(self), Arc::clone(failed));
        Ok(Some(Trial { mount, failed, is_the_only_one }))
    }

    /// Opens the circuit of an extension that failed too often. Does nothing if it is
    /// open already, or if another module is active.
    pub(super) fn trip(
        self: &Arc<Self>,
        failed: &Arc<ActiveModule>,
        cause: &CallError,
        state: &StateReader,
    ) {
        let mut outage = self.circuit();
        if outage.is_some() || !Arc::ptr_eq(&self.active(), failed) {
            return;
        }
        let mut backoff = failed.backoff(self.failure_policy());
        let wait = backoff.next();
        let (runs, faults) = (failed.runs(), failed.faults());
        let cause = escape_control(&truncate(&cause.to_string()));
        let reason = format!("it failed {faults} times in {runs} runs, at last because {cause}");
        let module = failed.module().label();
        error!(
            mount = %self.path(),
            ?module,
            "the extension is taken out of service, and looked at again in {wait:?}: {reason}"
        );
        let begin = Instant::now();
        let (next, next_trial) = (begin + wait, begin + BETWEEN_TRIALS);
        *outage = Some(CircuitBreaker { reason, next, begin, next_trial, is_tried: false });
        self.set_circuit_open(true);
        // The waiting task holds weak references: mount and module may be gone by then.
        let (mount, failed, state) = (Arc::downgrade(self), Arc::downgrade(failed), state.clone());
        tokio::spawn(probe_until_closed(mount, failed, state, backoff, wait));
    }
}

impl Trial {
    /// Closes the circuit after a response. It stays open for [`BETWEEN_TRIALS`] at
    /// least, or it would open and close as often as requests come.
    pub(super) fn succeeded(self) {
        let is_over = |outage: &CircuitBreaker| outage.begin.elapsed() >= BETWEEN_TRIALS;
        let mount = &self.mount;
        if mount.circuit().as_ref().is_some_and(is_over) {
            let backoff = self.failed.backoff(mount.failure_policy());
            if mount.close_circuit(&self.failed, backoff) {
                info!(mount = %mount.path(), "the extension answers, and is back in service");
            }
        }
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if self.is_the_only_one
            && let Some(outage) = self.mount.circuit().as_mut()
        {
            outage.is_tried = false;
        }
    }
}

/// Runs health checks until the module passes one, or until another module is active.
async fn probe_until_closed(
    mount: Weak<Mount>,
    failed: Weak<ActiveModule>,
    state: StateReader,
    mut backoff: Backoff,
    mut wait: Duration,
) {
    loop {
        sleep(wait).await;
        let Some((mount, failed)) = mount.upgrade().zip(failed.upgrade()) else { return };
        if !Arc::ptr_eq(&mount.active(), &failed) {
            return;
        }
        let found = timeout(mount.limits.time, mount.health_check(&state)).await;
        let found = found.unwrap_or_else(|_| Err("it takes too long to look at".to_owned()));
        let mut outage = mount.circuit();
        // Another module may have been activated meanwhile, which closed the circuit.
        let Some(known) = outage.as_mut().filter(|_| Arc::ptr_eq(&mount.active(), &failed)) else {
            return;
        };
        match found {
            Ok(()) => {
                drop(outage);
                if mount.close_circuit(&failed, backoff) {
                    info!(mount = %mount.path(), "the extension answers, and is back in service");
                }
                return;
            }
            Err(reason) => {
                wait = backoff.next();
                known.next = Instant::now() + wait;
                warn!(mount = %mount.path(), "the extension still fails, and is looked at again in {wait:?}: {reason}");
            }
        }
    }
}
