//! A mount: a path, the service of its modules, and their deployment.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::Guard;
use futures_util::future::BoxFuture;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method};
use relayer_rest_common::log_rate::LogRate;
use relayer_rest_conformance::Dialect;
use relayer_rest_sandbox::{Digest, Engine, GuestRequest, Module, ModuleStats};
use relayer_rest_state::{Snapshot, StateReader};
use tokio::sync::{OwnedMutexGuard, watch};
use tracing::info;

use super::active::ActiveModule;
use super::background_worker::BackgroundWorker;
use super::candidate::{Candidate, SwapLimits};
use super::deployment::Deployment;
use super::explain::{Explanation, explain};
use super::failure_policy::FailurePolicy;
use super::location::RegistryAccess;
use super::path::MountPath;
use super::preflight::PreflightThread;
use super::references::References;
use super::report::SwapReport;
use super::service::{Found, ModuleService, RespondError, Responded, Uncached};
use super::slot::{ModuleSlot, Vacancy};
use super::status::{CircuitStatus, ModuleStatus, MountState, MountStatus, QuarantineStatus};
use super::swap::{self, Swap};
use crate::cache::{RequestRef, ResponseCache};
use crate::request_metrics::{RequestMetrics, RequestSeries};

/// A path, and the modules that serve the requests for it and below it.
pub struct Mount {
    id: u64,
    pub(super) service: Arc<ModuleService>,
    deployment: Arc<Deployment>,
    dialect: Dialect,
    is_required: bool,
    limits: SwapLimits,
    /// Limits the logged failures.
    reports: LogRate,
}

/// The maximum number of failed requests of a mount that are logged each second: a client
/// may cause any number. All are counted.
const MAX_REPORTS: u64 = 20;

/// The number of the next mount.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// A mount has no previous module to roll back to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("mount {mount}: no previous module to roll back to; {reason}")]
pub struct NoPreviousModule {
    mount: MountPath,
    reason: String,
}

impl Mount {
    /// Creates the mount of the API, served by this module.
    #[must_use]
    pub fn api(module: Module) -> Self {
        Self::serving(MountPath::root(), module)
    }

    /// Creates the mount of an extension: a module with a name of its own. Its responses
    /// may be any that HTTP allows.
    #[must_use]
    pub fn extension(path: MountPath, module: Module) -> Self {
        Self::serving(path, module)
    }

    fn serving(path: MountPath, module: Module) -> Self {
        let mount = Self::empty(path, module.name(), module.engine().clone());
        let service = &mount.service;
        let module = module.mounted_at(service.path.as_str());
        service.slot.fill(module, |module| service.known(module));
        mount
    }

    /// Creates a mount without a module, for modules that run on this engine. Its requests
    /// get 503 until [`Mount::load`] or [`Mount::swap`] has activated one.
    #[must_use]
    pub fn empty(path: MountPath, name: &str, engine: Engine) -> Self {
        let limits = SwapLimits::default();
        let is_extension = path != MountPath::root();
        let service = ModuleService {
            name: name.into(),
            path,
            references: Arc::new(References::new(engine.clone())),
            cache: ResponseCache::new(engine.limits().response_cache),
            engine,
            failure_policy: FailurePolicy::default(),
            slot: ModuleSlot::default(),
            background: BackgroundWorker::default(),
            check_time: limits.time,
            registries: RegistryAccess::default(),
            requests: Arc::default(),
        };
        Self {
            id: NEXT_ID.fetch_add(1, Relaxed),
            service: Arc::new(service),
            deployment: Arc::default(),
            dialect: if is_extension { Dialect::Any } else { Dialect::default() },
            is_required: !is_extension,
            limits,
            reports: LogRate::new(MAX_REPORTS),
        }
    }

    /// Sets the dialect that candidates must speak if they do not name another.
    #[must_use]
    pub fn with_dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Sets whether the server is not ready without its module. By default, only the API's
    /// mount is required.
    #[must_use]
    pub fn with_required(mut self, is_required: bool) -> Self {
        self.is_required = is_required;
        self
    }

    /// Sets the limits for swaps.
    ///
    /// # Panics
    /// Panics if the mount has served requests.
    #[must_use]
    pub fn with_swap_limits(mut self, limits: SwapLimits) -> Self {
        self.configure(|service| service.check_time = limits.time);
        self.limits = limits;
        self
    }

    /// Sets the registries of its modules, and the signature that they must have.
    ///
    /// # Panics
    /// Panics if the mount has served requests.
    #[must_use]
    pub fn with_registries(mut self, registries: RegistryAccess) -> Self {
        self.configure(|service| service.registries = registries);
        self
    }

    /// Sets the failure policy for its modules.
    ///
    /// # Panics
    /// Panics if the mount has served requests.
    #[must_use]
    pub fn with_failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.configure(|service| service.failure_policy = policy);
        self
    }

    /// Returns this empty mount as the successor of another with the same engine. The other's
    /// module is its previous one: if its own fails, it rolls back to that.
    ///
    /// # Panics
    /// Panics if the mount has served requests.
    #[must_use]
    pub fn succeeding(mut self, other: &Self) -> Self {
        let slot = ModuleSlot::succeeding(&other.service.slot);
        let references = Arc::clone(&other.service.references);
        let requests = Arc::clone(&other.service.requests);
        self.configure(|service| {
            service.slot = slot;
            service.references = references;
            service.requests = requests;
        });
        self
    }

    /// Returns this empty mount in place of another with another engine, whose quarantined
    /// modules remain quarantined.
    ///
    /// # Panics
    /// Panics if the mount has served requests.
    #[must_use]
    pub fn replacing(mut self, other: &Self) -> Self {
        let slot = ModuleSlot::replacing(&other.service.slot);
        self.configure(|service| service.slot = slot);
        self
    }

    fn configure(&mut self, change: impl FnOnce(&mut ModuleService)) {
        let service = Arc::get_mut(&mut self.service);
        change(service.expect("a mount is configured before it serves"));
    }

    /// Keeps deployments away until the returned guard is dropped. Returns [`None`] if
    /// one is in progress.
    #[must_use]
    pub fn try_lock_deployment(&self) -> Option<OwnedMutexGuard<()>> {
        self.deployment.try_lock()
    }

    /// Returns the number of this mount, which no other one of this process has.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the name of its modules.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.service.name
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &MountPath {
        &self.service.path
    }

    /// Returns the active module, if there is one.
    #[must_use]
    pub fn module(&self) -> Option<Module> {
        self.active().map(|active| active.module().clone())
    }

    /// Returns the active module, borrowed for a short time.
    pub(crate) fn active(&self) -> Option<Guard<Arc<ActiveModule>>> {
        self.service.slot.load()
    }

    /// Returns a receiver that is notified of each later activation of a module.
    pub(crate) fn activations(&self) -> watch::Receiver<()> {
        self.service.slot.activations.subscribe()
    }

    /// Returns why its first module was rejected, if it has none for this reason.
    #[must_use]
    pub fn reason_disabled(&self) -> Option<String> {
        match self.service.slot.vacancy()? {
            Vacancy::Loading => None,
            Vacancy::Disabled { reason } => Some(reason),
        }
    }

    /// Returns the limits for swaps.
    #[must_use]
    pub fn swap_limits(&self) -> &SwapLimits {
        &self.limits
    }

    /// Returns the registries of its modules, and the signature that they must have.
    #[must_use]
    pub fn registries(&self) -> &RegistryAccess {
        &self.service.registries
    }

    /// Returns the engine of its modules.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.service.engine
    }

    /// Returns its response cache.
    #[must_use]
    pub fn cache(&self) -> &ResponseCache {
        &self.service.cache
    }

    /// Releases unused memory: slots without an instance, and responses that were
    /// requested only once.
    pub fn release_idle_memory(&self) {
        self.service.cache.release_unused();
        self.service.engine.release_idle_memory();
    }

    /// Returns the limit of logged failures. Each mount has its own, so that one that
    /// fails all the time does not suppress the failures of others.
    pub(crate) fn reports(&self) -> &LogRate {
        &self.reports
    }

    /// Returns the requests that were served, if a server counts them, by module, method,
    /// status and origin of the response.
    #[must_use]
    pub fn request_series(&self) -> Vec<RequestSeries> {
        self.service.requests.series()
    }

    /// Returns the counters of the last modules, by the values of `x-relayer-module`.
    #[must_use]
    pub fn module_stats(&self) -> Vec<(HeaderValue, ModuleStats)> {
        self.service.slot.counts.modules()
    }

    pub(crate) fn requests(&self) -> &RequestMetrics {
        &self.service.requests
    }

    /// Returns the cached response of the active module to a request.
    pub(crate) fn find(
        &self,
        active: Guard<Arc<ActiveModule>>,
        request_ref: RequestRef<'_>,
        snapshot: &Snapshot,
    ) -> Result<Found, Uncached> {
        self.service.find(active, request_ref, snapshot)
    }

    /// Runs the active module for a request without a cached response.
    pub(crate) async fn run(
        &self,
        request: Arc<GuestRequest>,
        uncached: Uncached,
        state: &StateReader,
    ) -> Result<Responded, RespondError> {
        self.service.run(request, uncached, state).await
    }

    /// Runs the preflight of a candidate, and activates it if it passes. If it does not,
    /// or if the returned future is dropped before it completes, nothing changes. `state`
    /// must be the one that the mount's server reads, or the cached responses of the new
    /// module may be of another relayer.
    pub async fn swap(&self, candidate: Candidate, state: &StateReader) -> SwapReport {
        let report = self.deploy(candidate, state, PreflightThread::Background, false).await;
        swap::log(&report);
        report
    }

    /// Swaps as [`Mount::swap`] does, on the thread of the caller instead of one with a low
    /// priority, which the caller would wait for.
    pub async fn swap_here(&self, candidate: Candidate, state: &StateReader) -> SwapReport {
        let report = self.deploy(candidate, state, PreflightThread::Caller, false).await;
        swap::log(&report);
        report
    }

    /// Runs the preflight of a candidate, and activates it. With `is_first`, does nothing if
    /// there is a module already.
    pub(super) async fn deploy(
        &self,
        candidate: Candidate,
        state: &StateReader,
        thread: PreflightThread,
        is_first: bool,
    ) -> SwapReport {
        let swap = Swap {
            service: &self.service,
            deployment: &self.deployment,
            limits: &self.limits,
            dialect: candidate.dialect.unwrap_or(self.dialect),
            state,
            thread,
            is_first,
        };
        // The type of this future is too deep for the compiler in programs that embed the host.
        let run: BoxFuture<'_, SwapReport> = Box::pin(swap.run(candidate));
        run.await
    }

    /// Returns whether a shadow is in progress.
    #[must_use]
    pub fn has_shadow(&self) -> bool {
        self.deployment.shadow().is_some()
    }

    /// Ends the shadow in progress, whose candidate is rejected. Returns whether there was one.
    #[must_use]
    pub fn cancel_shadow(&self) -> bool {
        let session = self.deployment.shadow().clone();
        session.as_ref().map(|session| session.cancel()).is_some()
    }

    /// Explains the active module's response to a request, whose target has the path of the
    /// mount: the values that it was derived from, and why it is or is not cached. Clients are
    /// not affected, the run is not counted, and its commands are not executed.
    pub async fn explain(&self, request: GuestRequest, state: &StateReader) -> Explanation {
        let mut request = request;
        if request.method == Method::HEAD {
            request.method = Method::GET;
        }
        let own = PathAndQuery::try_from(&*self.path().strip_prefix(request.target.as_str()));
        request.target = own.unwrap_or(PathAndQuery::from_static("/"));
        explain(&self.service, request, state).await
    }

    /// Rolls back to the previous module. A second call undoes the first. Returns the
    /// digests of the module that was active and of the one that is active now.
    pub fn rollback(&self) -> Result<(Digest, Digest), NoPreviousModule> {
        let entry = |module| self.service.known(module);
        let Some((old, new)) = self.service.slot.roll_back(entry) else {
            let reason = self.active().map_or("it has no module yet".to_owned(), |active| {
                let digest = active.module().digest().short();
                format!("{digest} is the first module, or a rollback after failures activated it")
            });
            return Err(NoPreviousModule { mount: self.path().clone(), reason });
        };
        let from = old.module().digest();
        let to = new.module().digest();
        info!(mount = %self.path(), from = ?old.module().label(), to = %to.short(), "module rolled back");
        Ok((from, to))
    }

    /// Returns the current status.
    #[must_use]
    pub fn status(&self) -> MountStatus {
        let slot = &self.service.slot;
        let circuit = slot.circuit.current().map(|circuit| CircuitStatus {
            retry_after: circuit.retry_after().as_secs(),
            reason: circuit.reason,
        });
        let quarantined = slot.quarantined().into_iter();
        let quarantined = quarantined
            .map(|(digest, reason)| QuarantineStatus { digest: digest.to_string(), reason });
        let state = match (self.active(), slot.vacancy()) {
            (Some(active), _) => MountState::Active {
                module: ModuleStatus {
                    digest: active.module().digest().to_string(),
                    since: seconds(active.since()),
                    runs: active.runs(),
                    failures: active.module().failures(),
                    resets: active.module().resets(),
                },
                circuit,
            },
            (None, Some(Vacancy::Disabled { reason })) => MountState::Disabled { reason },
            // It may have become active in between.
            (None, Some(Vacancy::Loading) | None) => MountState::Loading,
        };
        MountStatus {
            name: self.name().to_owned(),
            mount: self.path().to_string(),
            dialect: self.dialect,
            required: self.is_required,
            state,
            previous: slot.previous().map(|module| module.digest().to_string()),
            candidate: self.deployment.status(),
            quarantined: quarantined.collect(),
            cache_bytes: self.cache().size().as_u64(),
            deployments: slot.counts.status(),
        }
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Debug for Mount {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mount").field("path", self.path()).finish_non_exhaustive()
    }
}
