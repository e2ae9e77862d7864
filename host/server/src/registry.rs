//! Mounts: which module serves which requests.
//!
//! The API is mounted at `/`, and each extension at a path prefix of its own. A mount has
//! an active module, the previous one, and at most one candidate in deployment.
//!
//! A program that embeds the host hot-swaps a module by a call:
//!
//! ```
//! use std::sync::Arc;
//!
//! use relayer_rest_conformance::Dialect;
//! use relayer_rest_modules::MODULE_1_13;
//! use relayer_rest_sandbox::{Engine, Limits, Module};
//! use relayer_rest_server::Server;
//! use relayer_rest_server::registry::{Candidate, Mount, Registry, Source};
//! use relayer_rest_state::StatePublisher;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let publisher = StatePublisher::new();
//! let engine = Engine::new(&Limits::default())?;
//! let registry = Arc::new(Registry::new(Mount::api(Module::embedded(&engine)?)));
//! let server = Server::with_registry(Arc::clone(&registry), publisher.reader());
//! // … and while it serves:
//! let name = "today's".to_owned();
//! let new = Candidate {
//!     dialect: Some(Dialect::V1_13),
//!     ..Candidate::new(Source::Bytes { name, bytes: MODULE_1_13.into() })
//! };
//! let api = registry.at("/").expect("the API is always there");
//! let report = api.swap(new, &publisher.reader()).await;
//! assert!(report.is_accepted(), "{:?}", report.outcome);
//! # drop(server);
//! # Ok(())
//! # }
//! ```
//!
//! | file | job |
//! |---|---|
//! | `path.rs` | mount paths, and which requests they match |
//! | `mount.rs` | a mount: the service of its modules, and their deployment |
//! | `service.rs` | serves requests, rolls back, and trips the circuit breaker |
//! | `slot.rs` | the active module, the previous one, and the quarantined ones |
//! | `active.rs` | the active module and its failures |
//! | `failure_policy.rs` | how many failures are too many |
//! | `failure_window.rs` | failures within a time window, rated against all requests |
//! | `circuit_breaker.rs` | stops running an extension that fails at most requests |
//! | `load.rs` | deploys the first module of a mount |
//! | `swap.rs` | hot-swap: from a candidate to the active module |
//! | `candidate.rs` | a module to deploy, and the limits for its deployment |
//! | `location.rs` | the location of a module: a file, or an OCI registry |
//! | `deployment.rs` | one deployment at a time, and its progress |
//! | `deployment_counts.rs` | counters of deployments |
//! | `preflight.rs` | checks of a candidate before it serves |
//! | `background_worker.rs` | the thread for preflights and health checks while requests are served |
//! | `health_check.rs` | health checks of the active module |
//! | `references.rs` | the bundled modules with which candidates are compared |
//! | `run.rs` | runs that no client waits for |
//! | `explain.rs` | explains a response: its reads, and why it is or is not cached |
//! | `warming.rs` | frequent requests, with which another process warms its cache |
//! | `compare.rs` | differences between the responses of two modules |
//! | `shadow.rs`, `shadow/` | compares a candidate with the active module on requests as they come |
//! | `report.rs` | the report of a swap |
//! | `status.rs` | the status of a mount |
//!
//! Locks are acquired in this order: deployment, history, circuit, failure window.

mod active;
mod background_worker;
mod candidate;
mod circuit_breaker;
mod compare;
mod deployment;
mod deployment_counts;
mod explain;
mod failure_policy;
mod failure_window;
mod health_check;
mod load;
mod location;
mod mount;
mod path;
mod preflight;
mod references;
mod report;
mod run;
mod service;
mod shadow;
mod slot;
mod status;
mod swap;
mod warming;

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use relayer_rest_sandbox::API;
use tokio::sync::watch;

pub use crate::request_metrics::{Origin, RequestSeries};
pub use active::ActiveModule;
pub use background_worker::BackgroundWorker;
pub use candidate::{Candidate, Source, SwapLimits};
pub use compare::{Change, ResponseDifference};
pub use deployment::CandidateStatus;
pub use deployment_counts::DeploymentStatus;
pub use explain::{CacheStatus, Explanation};
pub use failure_policy::FailurePolicy;
pub use load::LoadRejection;
pub use location::{ModuleLocation, RegistryAccess, RegistryModule};
pub use mount::{Mount, NoPreviousModule};
pub(crate) use path::{API_SEGMENTS, EXTENSIONS};
pub use path::{MountPath, MountPathError};
pub use references::References;
pub use report::{Rejection, StepTime, SwapOutcome, SwapReport, SwapStep};
pub(crate) use service::{Found, RespondError, RespondErrorKind, Responded, Uncached};
pub use shadow::{
    ChangeKind, ExpectedChanges, ExpectedChangesError, RunsReport, Shadow, ShadowDifference,
    ShadowReport, ShadowStatus, ShadowTally, ShadowTime, ShadowTimeError,
};
pub use status::{CircuitStatus, ModuleStatus, MountState, MountStatus, QuarantineStatus};
pub use warming::{HotRequest, Warmth};

/// The mounts, which can be replaced as a whole while the server runs.
#[derive(Debug)]
pub struct Registry {
    mounts: ArcSwap<Mounts>,
    /// Notifies of replacements.
    changes: watch::Sender<()>,
}

/// The mounts at one moment: the API, and extensions.
#[derive(Debug, Clone)]
pub struct Mounts {
    api: Arc<Mount>,
    extensions: Vec<Arc<Mount>>,
}

/// The reason why a mount cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MountError {
    /// Another mount has that name.
    #[error("duplicate name {0:?}; give each module a unique name")]
    Name(String),
    /// The path is `/`, which is reserved for the API.
    #[error("extension {0:?}: / is reserved for the API; mount it elsewhere, such as at /ext/{0}")]
    OfTheApi(String),
    /// Some requests would match another mount, too.
    #[error("mounts {0} and {1} overlap; mount one of them elsewhere")]
    Overlap(MountPath, MountPath),
}

impl Registry {
    /// Creates a registry with the API alone.
    #[must_use]
    pub fn new(api: Mount) -> Self {
        Self::with_mounts(Mounts::new(api))
    }

    /// Creates a registry with these mounts.
    #[must_use]
    pub fn with_mounts(mounts: Mounts) -> Self {
        Self { mounts: ArcSwap::from_pointee(mounts), changes: watch::Sender::new(()) }
    }

    /// Adds an extension.
    pub fn with(self, extension: Mount) -> Result<Self, MountError> {
        let mounts = Arc::unwrap_or_clone(self.mounts.into_inner());
        mounts.with(extension).map(Self::with_mounts)
    }

    /// Replaces all mounts. Requests in flight are finished by the mounts that they began
    /// on.
    pub fn exchange(&self, mounts: Mounts) {
        self.mounts.store(Arc::new(mounts));
        self.changes.send_replace(());
    }

    /// Returns a receiver that is notified of each later replacement of all mounts.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Returns the current mounts.
    #[must_use]
    pub fn mounts(&self) -> Arc<Mounts> {
        self.mounts.load_full()
    }

    /// Returns the mount at a path.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<Arc<Mount>> {
        self.now().iter().find(|mount| mount.path().as_str() == path).cloned()
    }

    /// Returns the current mounts, borrowed for a short time.
    pub(crate) fn now(&self) -> Guard<Arc<Mounts>> {
        self.mounts.load()
    }
}

impl Mounts {
    /// Creates mounts with the API alone.
    #[must_use]
    pub fn new(api: impl Into<Arc<Mount>>) -> Self {
        Self { api: api.into(), extensions: Vec::new() }
    }

    /// Adds an extension.
    pub fn with(mut self, extension: impl Into<Arc<Mount>>) -> Result<Self, MountError> {
        let extension = extension.into();
        let mounted = self.iter().map(|mount| (mount.name(), mount.path()));
        check_conflicts(mounted, extension.name(), extension.path())?;
        self.extensions.push(extension);
        Ok(self)
    }

    /// Returns each mount, the API's first.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Mount>> {
        std::iter::once(&self.api).chain(&self.extensions)
    }

    /// Returns the mount that serves this path: an extension's, or the API's.
    pub(crate) fn route(&self, path: &str) -> &Arc<Mount> {
        let extension = self.extensions.iter().find(|mount| mount.path().matches(path));
        extension.unwrap_or(&self.api)
    }
}

/// Returns an error if an extension cannot be mounted beside these, given by name and
/// path.
pub(crate) fn check_conflicts<'a>(
    mounted: impl IntoIterator<Item = (&'a str, &'a MountPath)>,
    name: &str,
    path: &MountPath,
) -> Result<(), MountError> {
    if name == API {
        return Err(MountError::Name(name.to_owned()));
    }
    if *path == MountPath::root() {
        return Err(MountError::OfTheApi(name.to_owned()));
    }
    for (other, at) in mounted {
        if other == name {
            return Err(MountError::Name(name.to_owned()));
        }
        // The API serves the requests that match no extension.
        if *at != MountPath::root() && at.overlaps(path) {
            return Err(MountError::Overlap(at.clone(), path.clone()));
        }
    }
    Ok(())
}

/// Returns the bundled module with a number added to it: other numbers are other modules.
#[cfg(test)]
pub(crate) fn test_module(number: u8) -> relayer_rest_sandbox::Module {
    use relayer_rest_modules::DEFAULT_MODULE;
    use relayer_rest_sandbox::{Engine, Limits, Module};
    use std::sync::{LazyLock, OnceLock};
    static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(&Limits::default()).unwrap());
    static MODULES: [OnceLock<Module>; 3] = [const { OnceLock::new() }; 3];
    let load = || {
        // A custom section, with an empty name.
        let bytes = [DEFAULT_MODULE, &[0, 2, 0, number]].concat();
        Module::from_bytes(&ENGINE, "test", &bytes).unwrap()
    };
    MODULES[usize::from(number)].get_or_init(load).clone()
}
