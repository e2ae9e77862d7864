//! Serves requests with the active module, and rolls back to the previous one or trips
//! the circuit breaker if it fails.

use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::Guard;
use relayer_rest_common::backoff::Backoff;
use relayer_rest_common::text::{escape_control, truncate};
use relayer_rest_sandbox::{CallError, Engine, GuestRequest, Module};
use relayer_rest_state::{Snapshot, StateReader};
use tokio::time::sleep;
use tracing::{error, info, warn};

use super::active::ActiveModule;
use super::background_worker::BackgroundWorker;
use super::circuit_breaker::{CircuitBreaker, Trial};
use super::failure_policy::FailurePolicy;
use super::failure_window::{Baseline, RequestKind};
use super::health_check::HealthCheck;
use super::location::RegistryAccess;
use super::path::MountPath;
use super::references::References;
use super::slot::ModuleSlot;
use crate::cache::{Hit, Miss, RecordedResponse, RequestRef, ResponseCache};
use crate::request_metrics::RequestMetrics;

/// A path, and the module that serves the requests for it and below it.
pub(super) struct ModuleService {
    /// The name of its modules.
    pub(super) name: Arc<str>,
    pub(super) path: MountPath,
    pub(super) engine: Engine,
    pub(super) references: Arc<References>,
    pub(super) cache: ResponseCache,
    pub(super) failure_policy: FailurePolicy,
    pub(super) slot: ModuleSlot,
    pub(super) background: BackgroundWorker,
    /// The maximum time of a health check.
    pub(super) check_time: Duration,
    pub(super) registries: RegistryAccess,
    pub(super) requests: Arc<RequestMetrics>,
}

/// A cached response, and the active module, which has made it.
pub(crate) struct Found {
    pub(crate) active: Guard<Arc<ActiveModule>>,
    pub(crate) hit: Hit,
}

/// The response to a request without a cached one, and the module that was active then.
pub(crate) struct Responded {
    pub(crate) active: Arc<ActiveModule>,
    pub(crate) response: Arc<RecordedResponse>,
}

/// A request without a cached response, and the module that was active at the lookup.
#[derive(Debug)]
pub(crate) struct Uncached {
    active: Arc<ActiveModule>,
    miss: Miss,
}

impl Uncached {
    /// Returns the module that was active.
    pub(crate) fn module(&self) -> &Module {
        self.active.module()
    }
}

/// Why a module gave no response, and which one it was.
#[derive(Debug)]
pub(crate) struct RespondError {
    pub(crate) active: Arc<ActiveModule>,
    pub(crate) cause: RespondErrorKind,
}

#[derive(Debug)]
pub(crate) enum RespondErrorKind {
    /// The run failed, or was refused because of overload.
    Failed(Arc<CallError>),
    /// The circuit is open, for this long at least.
    OutOfService { retry_after: Duration },
}

impl RespondError {
    /// Returns whether the module may respond to other requests: it has failed for this one.
    pub(crate) fn is_of_request(&self) -> bool {
        matches!(&self.cause, RespondErrorKind::Failed(cause) if !cause.is_overload())
    }
}

impl ModuleService {
    pub(super) fn is_extension(&self) -> bool {
        self.path != MountPath::root()
    }

    /// Returns the entry of a module that was there from the start, or in service before.
    pub(super) fn known(&self, module: Module) -> ActiveModule {
        ActiveModule::first(module, self.is_extension())
    }

    pub(super) fn circuit(&self) -> &Arc<CircuitBreaker> {
        &self.slot.circuit
    }

    pub(super) fn health_check(&self) -> HealthCheck<'_> {
        let Self { path, cache, background, check_time, .. } = self;
        HealthCheck { mount: path, cache, background, time: *check_time }
    }

    /// Returns the cached response of the active module to a request, even while the
    /// circuit is open.
    pub(super) fn find(
        &self,
        active: Guard<Arc<ActiveModule>>,
        request_ref: RequestRef<'_>,
        snapshot: &Snapshot,
    ) -> Result<Found, Uncached> {
        match self.cache.find_local(active.module(), request_ref, snapshot) {
            Ok(hit) => Ok(Found { active, hit }),
            Err(miss) => Err(Uncached { active: Guard::into_inner(active), miss }),
        }
    }

    /// Runs the active module for a request without a cached response.
    ///
    /// If a new module fails, the previous one is run on the same request, to compare:
    /// reading has no effect, so this costs nothing but time. The mount rolls back if the
    /// previous module responds to requests at which the new one fails too often; if it
    /// fails at the same ones, the new module is not to blame. The circuit breaker of an
    /// extension trips if it fails at most of its requests.
    pub(super) async fn run(
        self: &Arc<Self>,
        request: Arc<GuestRequest>,
        uncached: Uncached,
        state: &StateReader,
    ) -> Result<Responded, RespondError> {
        let kind = RequestKind::new(&request);
        let mut uncached = uncached;
        let mut first_failure = None;
        loop {
            let Uncached { active, miss } = uncached;
            let mut trial = None;
            if self.circuit().is_open() {
                let experience = active.experience(kind, &self.failure_policy);
                trial = match self.circuit().try_half_open(experience) {
                    Ok(trial) => trial,
                    Err(retry_after) => {
                        let cause = RespondErrorKind::OutOfService { retry_after };
                        return Err(RespondError { active, cause });
                    }
                };
            }
            let restored =
                match self.cache.run(active.module(), Arc::clone(&request), miss, state).await {
                    Ok(response) => {
                        // A command is not given again by another module.
                        if let Some(failure) =
                            first_failure.take_if(|_| !response.commands().is_empty())
                        {
                            return Err(failure);
                        }
                        active.responded(kind, &self.failure_policy);
                        if trial.as_ref().is_some_and(Trial::closes) {
                            self.close_circuit(&active, active.backoff(&self.failure_policy));
                        }
                        return Ok(Responded { active, response });
                    }
                    Err(cause) => {
                        if cause.is_module_failure() {
                            self.failed(&active, kind, &cause, &request, state).await;
                        }
                        let restored = self.restored_after(&active);
                        let failure =
                            RespondError { active, cause: RespondErrorKind::Failed(cause) };
                        let Some(restored) = restored else { return Err(failure) };
                        first_failure.get_or_insert(failure);
                        restored
                    }
                };
            uncached = match self.find(restored, RequestRef::from(&*request), &state.peek()) {
                Ok(Found { active, hit }) => {
                    let active = Guard::into_inner(active);
                    return Ok(Responded { active, response: hit.into_shared() });
                }
                Err(uncached) => uncached,
            };
        }
    }

    /// Handles a failure: compares with the previous module, rolls back, or trips the
    /// circuit breaker.
    async fn failed(
        self: &Arc<Self>,
        failed: &Arc<ActiveModule>,
        kind: RequestKind,
        cause: &CallError,
        request: &Arc<GuestRequest>,
        state: &StateReader,
    ) {
        if !self.slot.is_active(failed) {
            return;
        }
        let previous = self.slot.previous();
        if failed.failed(kind, &self.failure_policy)
            && let Some(previous) = previous
        {
            let before = match self.cache.get_or_run(&previous, Arc::clone(request), state).await {
                Ok(_) => Some(Baseline::Responds),
                Err(cause) if cause.is_module_failure() => Some(Baseline::Fails),
                // It was overloaded or the host failed, which says nothing about the
                // module.
                Err(_) => None,
            };
            if before.is_some_and(|before| failed.compared(kind, before, &self.failure_policy)) {
                return self.try_automatic_rollback(failed, cause);
            }
        }
        if self.is_extension() && failed.is_failing(&self.failure_policy) {
            self.trip(failed, cause, state);
        }
    }

    /// Returns the active module if a rollback replaced this one because it failed.
    fn restored_after(&self, failed: &Arc<ActiveModule>) -> Option<Guard<Arc<ActiveModule>>> {
        let active = self.slot.load()?;
        let is_replaced = !Arc::ptr_eq(&active, failed)
            && self.slot.reason_against(failed.module().digest()).is_some();
        is_replaced.then_some(active)
    }

    /// Closes the circuit of a module that responds again. Returns `false`, and changes
    /// nothing, if another module is active by now.
    pub(super) fn close_circuit(&self, failed: &Arc<ActiveModule>, backoff: Backoff) -> bool {
        let is_closed = self.slot.renew(failed, failed.back(backoff));
        if is_closed {
            info!(mount = %self.path, "extension enabled");
        }
        is_closed
    }

    /// Quarantines a module and rolls back to the previous one, if the failed module is
    /// still active.
    fn try_automatic_rollback(&self, failed: &Arc<ActiveModule>, cause: &CallError) {
        let reason = reason(failed, cause);
        let rolled_back = self.slot.quarantine(failed, reason.clone(), |module| self.known(module));
        if let Some(active) = rolled_back {
            error!(
                mount = %self.path,
                module = ?failed.module().label(),
                previous = ?active.module().label(),
                reason,
                "module failed; quarantined, and rolled back to the previous one"
            );
        }
    }

    /// Opens the circuit of an extension that failed too often. Does nothing if it is
    /// open already, or if another module is active.
    fn trip(self: &Arc<Self>, failed: &Arc<ActiveModule>, cause: &CallError, state: &StateReader) {
        let mut backoff = failed.backoff(&self.failure_policy);
        let wait = backoff.next_delay();
        let reason = reason(failed, cause);
        if !self.circuit().trip_if(|| self.slot.is_active(failed), reason.clone(), wait) {
            return;
        }
        error!(
            mount = %self.path,
            module = ?failed.module().label(),
            reason,
            next_probe = ?wait,
            "extension disabled"
        );
        // The waiting task holds weak references: mount and module may be gone by then.
        let service = Arc::downgrade(self);
        let failed = Arc::downgrade(failed);
        tokio::spawn(probe_until_closed(service, failed, state.clone(), backoff, wait));
    }
}

/// Runs health checks until the module passes one, or until another module is active.
async fn probe_until_closed(
    service: Weak<ModuleService>,
    failed: Weak<ActiveModule>,
    state: StateReader,
    mut backoff: Backoff,
    mut wait: Duration,
) {
    loop {
        sleep(wait).await;
        let Some((service, failed)) = service.upgrade().zip(failed.upgrade()) else { return };
        if !service.slot.is_active(&failed) {
            return;
        }
        match service.health_check().run(failed.module().clone(), &state).await {
            Ok(()) => {
                service.close_circuit(&failed, backoff);
                return;
            }
            Err(reason) => {
                wait = backoff.next_delay();
                // Another module may have been activated meanwhile, which closed the
                // circuit.
                if !service.circuit().postpone_if(|| service.slot.is_active(&failed), wait) {
                    return;
                }
                warn!(
                    mount = %service.path,
                    reason,
                    next_probe = ?wait,
                    "extension still fails"
                );
            }
        }
    }
}

/// Describes how a module failed.
fn reason(failed: &ActiveModule, cause: &CallError) -> String {
    let runs = failed.runs();
    let failures = failed.module_failures();
    let cause = escape_control(&truncate(&cause.to_string()));
    format!("{failures} of {runs} runs failed; last: {cause}")
}
