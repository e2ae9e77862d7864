//! A mount: runs its module for requests, and rolls back to the previous one.

use std::fmt::{self, Debug, Formatter};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::OwnedMutexGuard;
use tracing::{error, info};

use super::active::{ActiveModule, History, Probation};
use super::background_worker::BackgroundWorker;
use super::circuit_breaker::CircuitBreaker;
use super::failure_policy::FailurePolicy;
use super::failure_window::{Baseline, RequestKind};
use super::path::MountPath;
use super::status::CandidateStatus;
use super::swap::SwapLimits;
use crate::backoff::Backoff;
use crate::cache::{RequestRef, ResponseCache};
use crate::conformance::Dialect;
use crate::log_rate::LogRate;
use crate::module::{CallError, Digest, Engine, GuestRequest, Module};
use crate::response::Response;
use crate::state::StateReader;
use crate::text::{escape_control, truncate};

/// A path, and the modules that serve the requests for it and below it.
pub struct Mount {
    path: MountPath,
    engine: Engine,
    cache: ResponseCache,
    pub(super) dialect: Dialect,
    pub(super) limits: SwapLimits,
    failure_policy: FailurePolicy,
    active: ArcSwap<ActiveModule>,
    /// The open circuit breaker; `None` while the circuit is closed.
    circuit: Mutex<Option<CircuitBreaker>>,
    /// Whether `circuit` is open, readable without its lock.
    is_circuit_open: AtomicBool,
    history: Mutex<History>,
    candidate: Mutex<Option<CandidateStatus>>,
    reports: LogRate,
    /// Held during a deployment, so that there is one at a time.
    pub(super) deployment_lock: Arc<tokio::sync::Mutex<()>>,
    pub(super) background: BackgroundWorker,
}

/// Why a mount has no response of a module.
#[derive(Debug)]
pub(crate) enum RespondError {
    /// The run failed, or was refused because of overload.
    Failed(Arc<CallError>),
    /// The circuit is open, for this long at least.
    OutOfService { retry_after: Duration },
}

/// The maximum number of quarantined modules; the oldest is dropped.
const MAX_QUARANTINED: usize = 32;

/// The maximum number of failed requests of a mount that are logged each second: a client
/// may cause any number. All are counted.
const MAX_REPORTS: u64 = 20;

/// A mount has no previous module to roll back to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "mount {mount}: there is no module to go back to: {active} has been in service since the start, or was put back"
)]
pub struct NoPreviousModule {
    mount: MountPath,
    active: String,
}

impl Mount {
    /// Creates the mount of the API, served by this module.
    #[must_use]
    pub fn api(module: Module) -> Self {
        Self::new(MountPath::root(), module, Dialect::default())
    }

    /// Creates the mount of an extension: a module with a name of its own. Its responses
    /// may be any that HTTP allows.
    #[must_use]
    pub fn extension(path: MountPath, module: Module) -> Self {
        Self::new(path, module, Dialect::Any)
    }

    fn new(path: MountPath, module: Module, dialect: Dialect) -> Self {
        let is_extension = path != MountPath::root();
        let module = module.mounted_at(path.as_str());
        Self {
            path,
            engine: module.engine().clone(),
            cache: ResponseCache::new(module.limits().response_cache),
            dialect,
            limits: SwapLimits::default(),
            failure_policy: FailurePolicy::default(),
            active: ArcSwap::from_pointee(ActiveModule::first(module, is_extension)),
            circuit: Mutex::default(),
            is_circuit_open: AtomicBool::new(false),
            history: Mutex::default(),
            candidate: Mutex::default(),
            reports: LogRate::new(MAX_REPORTS),
            deployment_lock: Arc::default(),
            background: BackgroundWorker::default(),
        }
    }

    /// Sets the dialect that candidates must speak if they do not name another.
    #[must_use]
    pub fn with_dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Sets the limits for swaps.
    #[must_use]
    pub fn with_swap_limits(mut self, limits: SwapLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the failure policy for its modules.
    #[must_use]
    pub fn with_failure_policy(mut self, budget: FailurePolicy) -> Self {
        self.failure_policy = budget;
        self
    }

    /// Returns this mount as the successor of another with the same engine. The other's
    /// module is its previous one: if its own fails, it rolls back to that.
    #[must_use]
    pub fn in_place_of(self, other: &Self) -> Self {
        let past = History {
            previous: Some(other.module()),
            quarantined: other.history().quarantined.clone(),
        };
        let active = ActiveModule::of(self.module(), Probation::New);
        Self { history: Mutex::new(past), active: ArcSwap::from_pointee(active), ..self }
    }

    /// Returns why a module is quarantined, if it was in service here and failed too
    /// often.
    #[must_use]
    pub fn reason_against(&self, digest: Digest) -> Option<String> {
        self.history().reason_against(digest).map(str::to_owned)
    }

    /// Keeps deployments away until the returned guard is dropped. Returns [`None`] if
    /// one is in progress.
    #[must_use]
    pub fn try_lock_deployment(&self) -> Option<OwnedMutexGuard<()>> {
        Arc::clone(&self.deployment_lock).try_lock_owned().ok()
    }

    /// Returns the name of its modules.
    #[must_use]
    pub fn name(&self) -> String {
        self.active().module.name().to_owned()
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &MountPath {
        &self.path
    }

    /// Returns the active module.
    #[must_use]
    pub fn module(&self) -> Module {
        self.active().module.clone()
    }

    /// Returns the limits for swaps.
    pub(crate) fn swap_limits(&self) -> &SwapLimits {
        &self.limits
    }

    /// Returns the engine of its modules.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns its response cache.
    pub(crate) fn cache(&self) -> &ResponseCache {
        &self.cache
    }

    /// Releases unused memory: slots without an instance, and responses that were
    /// requested only once.
    #[cfg(feature = "cli")]
    pub(crate) fn release_idle_memory(&self) {
        self.cache.release_unused();
        self.engine.release_idle_memory();
    }

    /// Returns the active module, borrowed for a short time.
    pub(crate) fn active(&self) -> Guard<Arc<ActiveModule>> {
        self.active.load()
    }

    /// Returns the response to a request, and the one module that it comes from.
    ///
    /// If a new module fails, the previous one is run on the same request, to compare:
    /// reading has no effect, so this costs nothing but time. The mount rolls back if the
    /// previous module responds to requests at which the new one fails too often; if it
    /// fails at the same ones, the new module is not to blame. The circuit breaker of an
    /// extension trips if it fails at most of its requests.
    pub(crate) async fn respond(
        self: &Arc<Self>,
        request: Arc<GuestRequest>,
        state: &StateReader,
    ) -> (Arc<ActiveModule>, Result<Arc<Response>, RespondError>) {
        let kind = RequestKind::of(&request);
        let mut active = self.active.load_full();
        loop {
            let mut trial = None;
            if self.is_circuit_open() {
                let question = RequestRef::from(&*request);
                let found = self.cache.find(&active.module, question, &state.peek());
                if let Some(answer) = found {
                    return (active, Ok(answer));
                }
                trial = match self.try_half_open(&active, kind) {
                    Ok(trial) => trial,
                    Err(retry_after) => {
                        return (active, Err(RespondError::OutOfService { retry_after }));
                    }
                };
            }
            match self.cache.get_or_run(&active.module, Arc::clone(&request), state).await {
                Ok(answer) => {
                    active.answered(kind, &self.failure_policy);
                    if let Some(trial) = trial {
                        trial.succeeded();
                    }
                    return (active, Ok(answer));
                }
                Err(cause) => {
                    if cause.is_fault() {
                        self.failed(&active, kind, &cause, &request, state).await;
                    }
                    if self.has_gone_back(&active) {
                        active = self.active.load_full();
                        continue;
                    }
                    return (active, Err(RespondError::Failed(cause)));
                }
            }
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
        if !Arc::ptr_eq(&self.active(), failed) {
            return;
        }
        let previous = self.history().previous.clone();
        if failed.failed(kind, &self.failure_policy)
            && let Some(previous) = previous
        {
            let before = match self.cache.get_or_run(&previous, Arc::clone(request), state).await {
                Ok(_) => Some(Baseline::Answers),
                Err(cause) if cause.is_fault() => Some(Baseline::Fails),
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

    /// Returns whether a rollback replaced this module because it failed.
    fn has_gone_back(&self, failed: &Arc<ActiveModule>) -> bool {
        !Arc::ptr_eq(&self.active(), failed)
            && self.history().reason_against(failed.module.digest()).is_some()
    }

    /// Returns the limit of logged failures. Each mount has its own, so that one that
    /// fails all the time does not suppress the failures of others.
    pub(crate) fn reports(&self) -> &LogRate {
        &self.reports
    }

    /// Returns whether the circuit is open.
    pub(crate) fn is_circuit_open(&self) -> bool {
        self.is_circuit_open.load(Relaxed)
    }

    pub(super) fn current_circuit(&self) -> Option<CircuitBreaker> {
        if self.is_circuit_open() { self.circuit().clone() } else { None }
    }

    pub(super) fn circuit(&self) -> MutexGuard<'_, Option<CircuitBreaker>> {
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Must be called with the lock of `circuit` held.
    pub(super) fn set_circuit_open(&self, is_open: bool) {
        self.is_circuit_open.store(is_open, Relaxed);
    }

    pub(super) fn failure_policy(&self) -> &FailurePolicy {
        &self.failure_policy
    }

    pub(super) fn is_extension(&self) -> bool {
        self.path != MountPath::root()
    }

    /// Activates a module, whichever was active before, and closes the circuit.
    fn put(&self, active: Arc<ActiveModule>) {
        let mut outage = self.circuit();
        self.active.store(active);
        *outage = None;
        self.set_circuit_open(false);
    }

    /// Closes the circuit of a module. Returns `false`, and changes nothing, if another
    /// module is active by now.
    pub(super) fn close_circuit(&self, failed: &Arc<ActiveModule>, backoff: Backoff) -> bool {
        let _past = self.history();
        let is_there = Arc::ptr_eq(&self.active(), failed);
        if is_there {
            self.put(Arc::new(failed.back(backoff)));
        }
        is_there
    }

    /// Activates a module instead of `expected`. Returns `false`, and changes nothing, if
    /// another module is active by now.
    pub(super) fn exchange(&self, module: Module, expected: &Arc<ActiveModule>) -> bool {
        let mut past = self.history();
        if !Arc::ptr_eq(&self.active(), expected) {
            return false;
        }
        let new = Arc::new(ActiveModule::of(module, Probation::New));
        self.put(Arc::clone(&new));
        // A forced candidate leaves quarantine.
        past.quarantined.retain(|(barred, _)| *barred != new.module.digest());
        past.previous = Some(expected.module.clone());
        let (from, to) = (expected.module.label(), new.module.label());
        info!(mount = %self.path, ?from, ?to, "exchanged the module");
        true
    }

    /// Rolls back to the previous module. A second call undoes the first. Returns the
    /// digests of the module that was active and of the one that is active now.
    pub fn rollback(&self) -> Result<(Digest, Digest), NoPreviousModule> {
        let mut past = self.history();
        let Some(previous) = past.previous.take() else {
            let active = self.active().module.digest().short();
            return Err(NoPreviousModule { mount: self.path.clone(), active });
        };
        let digest = previous.digest();
        let old = self.active.load_full();
        self.put(Arc::new(ActiveModule::first(previous, self.is_extension())));
        past.previous = Some(old.module.clone());
        info!(mount = %self.path, from = ?old.module.label(), to = %digest.short(), "rolled back");
        Ok((old.module.digest(), digest))
    }

    /// Quarantines a module and rolls back to the previous one, if the failed module is
    /// still active.
    fn try_automatic_rollback(&self, failed: &Arc<ActiveModule>, cause: &CallError) {
        let mut past = self.history();
        if !Arc::ptr_eq(&self.active(), failed) {
            return;
        }
        let Some(previous) = past.previous.take() else { return };
        let (runs, faults) = (failed.runs(), failed.faults());
        let cause = escape_control(&truncate(&cause.to_string()));
        let reason = format!("it failed {faults} times in {runs} runs, at last because {cause}");
        error!(
            mount = %self.path,
            module = ?failed.module.label(),
            previous = ?previous.label(),
            "the module is taken out of service and the one before it put back: {reason}"
        );
        if past.quarantined.len() == MAX_QUARANTINED {
            past.quarantined.remove(0);
        }
        past.quarantined.push((failed.module.digest(), reason));
        self.put(Arc::new(ActiveModule::first(previous, self.is_extension())));
    }

    pub(super) fn candidate(&self) -> MutexGuard<'_, Option<CandidateStatus>> {
        self.candidate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        // Nothing that panics is done while it is held.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debug for Mount {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mount").field("path", &self.path).finish_non_exhaustive()
    }
}
