//! A mount: asking its module, and going back to the one before.

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

/// A module's place among the paths.
pub struct Mount {
    path: MountPath,
    engine: Engine,
    cache: ResponseCache,
    pub(super) dialect: Dialect,
    pub(super) limits: SwapLimits,
    failure_policy: FailurePolicy,
    active: ArcSwap<ActiveModule>,
    /// There is no service for now, and why.
    circuit: Mutex<Option<CircuitBreaker>>,
    /// The same, where a look must cost nothing.
    is_open: AtomicBool,
    history: Mutex<History>,
    candidate: Mutex<Option<CandidateStatus>>,
    reports: LogRate,
    /// Whose candidate is looked at.
    pub(super) deployment_lock: Arc<tokio::sync::Mutex<()>>,
    pub(super) background: BackgroundWorker,
}

/// A mount gives no answer of a module's.
#[derive(Debug)]
pub(crate) enum RespondError {
    /// The module failed.
    Failed(Arc<CallError>),
    /// The module is out of service, for this long at least.
    OutOfService { retry_after: Duration },
}

/// The modules that are known to fail, at most: the newest.
const MAX_QUARANTINED: usize = 32;

/// Requests that fail which the log has of a mount each second, at most: a client
/// may make as many as it likes. All are counted.
const MAX_REPORTS: u64 = 20;

/// There is no module to go back to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "mount {mount}: there is no module to go back to: {active} has been in service since the start, or was put back"
)]
pub struct NoPreviousModule {
    mount: MountPath,
    active: String,
}

impl Mount {
    /// The API, served by this module.
    #[must_use]
    pub fn api(module: Module) -> Self {
        Self::new(MountPath::root(), module, Dialect::default())
    }

    /// An extension: a module with a name of its own. It may answer whatever
    /// HTTP allows.
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
            is_open: AtomicBool::new(false),
            history: Mutex::default(),
            candidate: Mutex::default(),
            reports: LogRate::new(MAX_REPORTS),
            deployment_lock: Arc::default(),
            background: BackgroundWorker::default(),
        }
    }

    /// The dialect that candidates are to speak where they are not asked for
    /// another.
    #[must_use]
    pub fn with_dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// What a candidate may take to be looked at.
    #[must_use]
    pub fn with_swap_limits(mut self, limits: SwapLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The failures that a new module may have.
    #[must_use]
    pub fn with_failure_policy(mut self, budget: FailurePolicy) -> Self {
        self.failure_policy = budget;
        self
    }

    /// The same in the place of another with the same engine, whose module is the
    /// one before its own: where its own fails, that is put back.
    #[must_use]
    pub fn in_place_of(self, other: &Self) -> Self {
        let past = History {
            previous: Some(other.module()),
            quarantined: other.history().quarantined.clone(),
        };
        let active = ActiveModule::of(self.module(), Probation::New);
        Self { history: Mutex::new(past), active: ArcSwap::from_pointee(active), ..self }
    }

    /// Why a module is not taken any more, where it was in service here and
    /// failed too often.
    #[must_use]
    pub fn reason_against(&self, digest: Digest) -> Option<String> {
        self.history().reason_against(digest).map(str::to_owned)
    }

    /// Keeps candidates away for as long as what is returned lives. Nothing
    /// where one is being looked at.
    #[must_use]
    pub fn try_lock_deployment(&self) -> Option<OwnedMutexGuard<()>> {
        Arc::clone(&self.deployment_lock).try_lock_owned().ok()
    }

    /// The name that its modules have.
    #[must_use]
    pub fn name(&self) -> String {
        self.active().module.name().to_owned()
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &MountPath {
        &self.path
    }

    /// The module in service.
    #[must_use]
    pub fn module(&self) -> Module {
        self.active().module.clone()
    }

    /// What a candidate may take.
    pub(crate) fn swap_limits(&self) -> &SwapLimits {
        &self.limits
    }

    /// What runs its modules.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Its remembered answers.
    pub(crate) fn cache(&self) -> &ResponseCache {
        &self.cache
    }

    /// Returns memory that nothing uses: of slots without an instance, and of
    /// responses that were asked for once.
    #[cfg(feature = "cli")]
    pub(crate) fn release_idle_memory(&self) {
        self.cache.release_unused();
        self.engine.release_idle_memory();
    }

    /// The module in service, for the time of a look.
    pub(crate) fn active(&self) -> Guard<Arc<ActiveModule>> {
        self.active.load()
    }

    /// The answer to a request, and the module that it is wholly of.
    ///
    /// Where a new module fails, the one before it is asked: reading has no effect,
    /// so nothing is lost but time. It is put back where it answers what the new one
    /// fails at too often; where it fails at the same, the new one is not to blame.
    /// An extension that fails at most of what it is asked is taken out of service.
    pub(crate) async fn respond(
        self: &Arc<Self>,
        request: Arc<GuestRequest>,
        state: &StateReader,
    ) -> (Arc<ActiveModule>, Result<Arc<Response>, RespondError>) {
        let kind = RequestKind::of(&request);
        let mut active = self.active.load_full();
        loop {
            let mut trial = None;
            if self.is_open() {
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

    /// Does what follows from a failure of a module.
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
                // There was no place for it: that says nothing.
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

    /// Whether another module serves now in place of this one because it failed.
    fn has_gone_back(&self, failed: &Arc<ActiveModule>) -> bool {
        !Arc::ptr_eq(&self.active(), failed)
            && self.history().reason_against(failed.module.digest()).is_some()
    }

    /// What the log has of its requests that fail: of each mount so much, or one
    /// that fails all the time would make the others' failures go unsaid.
    pub(crate) fn reports(&self) -> &LogRate {
        &self.reports
    }

    /// Whether there is no service for now.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Relaxed)
    }

    pub(super) fn current_circuit(&self) -> Option<CircuitBreaker> {
        if self.is_open() { self.circuit().clone() } else { None }
    }

    pub(super) fn circuit(&self) -> MutexGuard<'_, Option<CircuitBreaker>> {
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called while the outage is held.
    pub(super) fn set_open(&self, is_out: bool) {
        self.is_open.store(is_out, Relaxed);
    }

    pub(super) fn failure_policy(&self) -> &FailurePolicy {
        &self.failure_policy
    }

    pub(super) fn is_extension(&self) -> bool {
        self.path != MountPath::root()
    }

    /// Puts a module into service, whatever was there.
    fn put(&self, active: Arc<ActiveModule>) {
        let mut outage = self.circuit();
        self.active.store(active);
        *outage = None;
        self.set_open(false);
    }

    /// Puts a module back that was out of service; or says that another is there
    /// by now, and leaves that.
    pub(super) fn close(&self, failed: &Arc<ActiveModule>, backoff: Backoff) -> bool {
        let _past = self.history();
        let is_there = Arc::ptr_eq(&self.active(), failed);
        if is_there {
            self.put(Arc::new(failed.back(backoff)));
        }
        is_there
    }

    /// Puts a module into service in place of this one; or says that another
    /// is there by now, and leaves that.
    pub(super) fn exchange(&self, module: Module, expected: &Arc<ActiveModule>) -> bool {
        let mut past = self.history();
        if !Arc::ptr_eq(&self.active(), expected) {
            return false;
        }
        let new = Arc::new(ActiveModule::of(module, Probation::New));
        self.put(Arc::clone(&new));
        // Whoever forced it in wants it.
        past.quarantined.retain(|(barred, _)| *barred != new.module.digest());
        past.previous = Some(expected.module.clone());
        let (from, to) = (expected.module.label(), new.module.label());
        info!(mount = %self.path, ?from, ?to, "exchanged the module");
        true
    }

    /// Puts the module back into service that was there before. That can be
    /// undone by doing it again. Says which module was in service and which
    /// one is now.
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

    /// Puts the module before back into service in place of this one, where that
    /// still serves.
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
