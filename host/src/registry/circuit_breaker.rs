//! An extension that is out of service because it fails at most of what it is asked:
//! a circuit breaker that is open.
//!
//! Only runs are refused; what is remembered and still current is served. Requests of
//! a kind that it has answered lately still run, as do others now and then, one at a
//! time. It is back when it answers one of those, or when it answers aside from
//! clients, where it is looked at from time to time.

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

/// The longest time between two looks; one that is in service for longer is
/// trusted as at first.
pub(super) const MAX_WAIT: Duration = Duration::from_mins(5);

/// The time between two requests of clients that are run to see what comes of it,
/// and the least time until the module is back.
const BETWEEN_TRIALS: Duration = Duration::from_secs(1);

/// Why there is no service, and until when at least.
#[derive(Debug, Clone)]
pub(super) struct CircuitBreaker {
    pub(super) reason: String,
    /// When it is looked at again.
    pub(super) next: Instant,
    begin: Instant,
    /// When the next request of a client is run, and whether one is.
    next_trial: Instant,
    is_tried: bool,
}

/// A client's request that is run while its module is out of service.
pub(super) struct Trial {
    mount: Arc<Mount>,
    failed: Arc<ActiveModule>,
    /// Whether it is of a kind of which nothing is known.
    is_the_only_one: bool,
}

impl CircuitBreaker {
    /// What a client has to wait at least.
    pub(super) fn retry_after(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }
}

impl Mount {
    /// Whether a request is run while its module is out of service, or how long its
    /// client should wait. Nothing where the module is in service by now.
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

    /// Takes an extension out of service that failed too often; where it is out
    /// by now, or another is there, that stays so.
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
        self.set_open(true);
        // Whoever waits holds nothing of what may be gone by then.
        let (mount, failed, state) = (Arc::downgrade(self), Arc::downgrade(failed), state.clone());
        tokio::spawn(probe_until_closed(mount, failed, state, backoff, wait));
    }
}

impl Trial {
    /// The module has answered: it is back in service. Not at once, or it would go in
    /// and out as often as it is asked.
    pub(super) fn succeeded(self) {
        let is_over = |outage: &CircuitBreaker| outage.begin.elapsed() >= BETWEEN_TRIALS;
        let mount = &self.mount;
        if mount.circuit().as_ref().is_some_and(is_over) {
            let backoff = self.failed.backoff(mount.failure_policy());
            if mount.close(&self.failed, backoff) {
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

/// Looks at a module that is out of service until it answers, or until another
/// is in its place.
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
        // Another may have been put there meanwhile, which ended the outage.
        let Some(known) = outage.as_mut().filter(|_| Arc::ptr_eq(&mount.active(), &failed)) else {
            return;
        };
        match found {
            Ok(()) => {
                drop(outage);
                if mount.close(&failed, backoff) {
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
