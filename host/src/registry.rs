//! Which module serves what.
//!
//! The API is mounted at `/`, and each extension at a prefix of its own. A
//! mount has one module in service, the one before it, and at most one
//! candidate that is being looked at.
//!
//! A program that embeds the host swaps by a call:
//!
//! ```
//! use std::sync::Arc;
//!
//! use relayer_rest_host::Server;
//! use relayer_rest_host::conformance::Dialect;
//! use relayer_rest_host::module::{Engine, Limits, MODULE_1_13, Module};
//! use relayer_rest_host::registry::{Candidate, Mount, Registry, Source};
//! use relayer_rest_host::state::StatePublisher;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let publisher = StatePublisher::new();
//! let engine = Engine::new(&Limits::default())?;
//! let registry = Arc::new(Registry::new(Mount::api(Module::embedded(&engine)?)));
//! let server = Server::of(Arc::clone(&registry), publisher.reader());
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
//! | `path.rs` | where something may be mounted, and which requests that takes |
//! | `mount.rs` | a mount: asking its module, and going back to the one before |
//! | `active.rs` | a module in service, and those that were |
//! | `failure_policy.rs` | the failures that a module may have |
//! | `failure_window.rs` | its failures within a time, against all that it is asked |
//! | `circuit_breaker.rs` | an extension that had more: taken out of service, and put back |
//! | `swap.rs` | from a candidate to the module in service |
//! | `preflight.rs` | what is found out about a candidate before it serves |
//! | `background_worker.rs` | the thread on which that is done |
//! | `health_check.rs` | asking the module in service, on that thread |
//! | `compare.rs` | the same questions to two modules |
//! | `report.rs` | what is said of a swap |
//! | `status.rs` | what is said of a mount |

mod active;
mod background_worker;
mod circuit_breaker;
mod compare;
mod failure_policy;
mod failure_window;
mod health_check;
mod mount;
mod path;
mod preflight;
mod report;
mod status;
mod swap;

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use crate::module::API;

pub use active::ActiveModule;
#[cfg(feature = "cli")]
pub(crate) use background_worker::BackgroundWorker;
pub use compare::{Change, Difference};
pub use failure_policy::FailurePolicy;
pub(crate) use mount::RespondError;
pub use mount::{Mount, NoPreviousModule};
pub use path::{MountPath, MountPathError};
pub use report::{Outcome, Refusal, StepTime, SwapReport, SwapStep};
pub use status::{CandidateStatus, CircuitStatus, ModuleStatus, MountStatus, QuarantineStatus};
pub use swap::{Candidate, Source, SwapLimits};

/// All that is mounted, which can be exchanged as a whole while it serves.
#[derive(Debug)]
pub struct Registry(ArcSwap<Mounts>);

/// All that is mounted at one moment: the API, and extensions.
#[derive(Debug, Clone)]
pub struct Mounts {
    api: Arc<Mount>,
    extensions: Vec<Arc<Mount>>,
}

/// A mount that cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MountError {
    /// There is one of that name.
    #[error("there are two modules of the name {0:?}; each needs one of its own")]
    Name(String),
    /// It is where the API is.
    #[error(
        "{0:?} cannot be mounted at /, where the API is; mount it elsewhere, such as at /ext/{0}"
    )]
    OfTheApi(String),
    /// Its requests would be those of another, too.
    #[error("the mounts {0} and {1} overlap; mount one of them elsewhere")]
    Overlap(MountPath, MountPath),
}

impl Registry {
    /// The API alone.
    #[must_use]
    pub fn new(api: Mount) -> Self {
        Self::of(Mounts::new(api))
    }

    /// All of these.
    #[must_use]
    pub fn of(mounts: Mounts) -> Self {
        Self(ArcSwap::from_pointee(mounts))
    }

    /// The same with an extension, too.
    pub fn with(self, extension: Mount) -> Result<Self, MountError> {
        let mounts = Arc::unwrap_or_clone(self.0.into_inner());
        mounts.with(extension).map(Self::of)
    }

    /// Puts all of these in the place of what is there. Requests that have
    /// begun end where they are.
    pub fn exchange(&self, mounts: Mounts) {
        self.0.store(Arc::new(mounts));
    }

    /// All that is mounted now.
    #[must_use]
    pub fn mounts(&self) -> Arc<Mounts> {
        self.0.load_full()
    }

    /// What is mounted at a path.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<Arc<Mount>> {
        self.now().iter().find(|mount| mount.path().as_str() == path).cloned()
    }

    /// The same, for the time of a look.
    pub(crate) fn now(&self) -> Guard<Arc<Mounts>> {
        self.0.load()
    }
}

impl Mounts {
    /// The API alone.
    #[must_use]
    pub fn new(api: impl Into<Arc<Mount>>) -> Self {
        Self { api: api.into(), extensions: Vec::new() }
    }

    /// The same with an extension, too.
    pub fn with(mut self, extension: impl Into<Arc<Mount>>) -> Result<Self, MountError> {
        let extension = extension.into();
        let names: Vec<_> = self.iter().map(|mount| mount.name()).collect();
        let mounted = names.iter().map(String::as_str).zip(self.iter().map(|mount| mount.path()));
        check_conflicts(mounted, &extension.name(), extension.path())?;
        self.extensions.push(extension);
        Ok(self)
    }

    /// Each mount, the API's first.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Mount>> {
        std::iter::once(&self.api).chain(&self.extensions)
    }

    /// The mount that a request is for: of an extension, or the API's.
    pub(crate) fn route(&self, path: &str) -> &Arc<Mount> {
        let extension = self.extensions.iter().find(|mount| mount.path().matches(path));
        extension.unwrap_or(&self.api)
    }
}

/// Says why an extension cannot be mounted beside these, by their names and
/// paths.
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
        // The API has what nobody else has.
        if *at != MountPath::root() && at.overlaps(path) {
            return Err(MountError::Overlap(at.clone(), path.clone()));
        }
    }
    Ok(())
}
