//! The mounts of a host, as a follower of a fleet's plan sees them.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

/// A deployment of a module to a mount of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// The path of the mount.
    pub mount: String,
    /// The reference of the module; none for the one of the host's settings.
    pub module: Option<String>,
    /// The comparison with the active module before it is activated; without one, it is activated
    /// after all other checks.
    pub observation: Option<Observation>,
}

/// A comparison of a module with the active one, on the requests of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Its duration.
    pub time: Duration,
    /// The minimum number of compared requests.
    pub min_requests: u64,
    /// The maximum processor time of the module, to that of the active one.
    pub max_slowdown: NonZeroU32,
    /// The changes that are expected, in TOML.
    pub expected: String,
}

/// A deployed module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployed {
    /// The identity of the mount.
    pub mount: u64,
    /// The digest of the module.
    pub digest: String,
    /// The result of its comparison; zeros without one.
    pub compared: Comparison,
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// The compared requests.
    pub requests: u64,
    /// The requests of which the responses differ in expected ways.
    pub expected: u64,
}

/// The active module of a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveModule {
    /// The identity of the mount, which changes when a reload replaces it.
    pub mount: u64,
    /// Its digest.
    pub digest: String,
    /// The number of its runs since it was activated.
    pub runs: u64,
    /// The number of its failures since, by cause.
    pub failures: BTreeMap<String, u64>,
}

/// The reason why a module was not deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeployError {
    /// The module is rejected.
    Rejected(String),
    /// The module could not be checked, such as because a registry does not respond.
    Unavailable(String),
    /// Clients have not sent enough requests yet, or another deployment is in progress.
    Waiting(String),
}

impl DeployError {
    /// Returns the reason.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::Rejected(reason) | Self::Unavailable(reason) | Self::Waiting(reason) => reason,
        }
    }
}

/// The mounts of a host.
pub trait FleetMounts: Send + Sync {
    /// Deploys a module. If the future is dropped before it completes, nothing changes. Returns
    /// `None` if the module of the settings is requested for a mount that they do not have.
    fn deploy(
        &self,
        deployment: Deployment,
    ) -> BoxFuture<'static, Result<Option<Deployed>, DeployError>>;

    /// Returns the active module of a mount, or `None` if the mount or its module does not exist.
    fn active(&self, mount: &str) -> Option<ActiveModule>;

    /// Returns why a module of a mount was replaced by the one before it, if it failed.
    fn failure(&self, mount: &str, digest: &str) -> Option<String>;
}
