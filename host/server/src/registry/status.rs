//! The status of a mount, for the control server.

use relayer_rest_conformance::Dialect;
use relayer_rest_sandbox::{Failures, ResetStatus};
use serde::{Deserialize, Serialize};

use super::deployment::CandidateStatus;
use super::deployment_counts::DeploymentStatus;

/// The current status of a mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountStatus {
    /// The name of its modules.
    pub name: String,
    /// Its path.
    pub mount: String,
    /// The dialect that candidates must speak if they do not name another.
    pub dialect: Dialect,
    /// Whether the server is not ready without its module.
    #[serde(default)]
    pub required: bool,
    /// Whether it has a module, and which one.
    #[serde(flatten)]
    pub state: MountState,
    /// The digest of the previous module, to which `rollback` returns.
    pub previous: Option<String>,
    /// The candidate in deployment.
    pub candidate: Option<CandidateStatus>,
    /// The quarantined modules.
    pub quarantined: Vec<QuarantineStatus>,
    /// The size of the cached responses, in bytes.
    pub cache_bytes: u64,
    /// The deployments since the start.
    #[serde(default)]
    pub deployments: DeploymentStatus,
}

/// The state of a mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum MountState {
    /// Its first module is being compiled or checked, or waits for that.
    Loading,
    /// It has a module.
    Active {
        /// The active module.
        module: ModuleStatus,
        /// The open circuit of an extension; `None` if it is closed.
        circuit: Option<CircuitStatus>,
    },
    /// Its first module was rejected.
    Disabled {
        /// The reason.
        reason: String,
    },
}

impl MountState {
    /// The names of all states.
    pub const NAMES: [&str; 3] = ["loading", "active", "disabled"];

    /// Returns the name of the state.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Active { .. } => "active",
            Self::Disabled { .. } => "disabled",
        }
    }
}

impl MountStatus {
    /// Returns the active module.
    #[must_use]
    pub fn module(&self) -> Option<&ModuleStatus> {
        match &self.state {
            MountState::Active { module, .. } => Some(module),
            _ => None,
        }
    }

    /// Returns the open circuit of an extension.
    #[must_use]
    pub fn circuit(&self) -> Option<&CircuitStatus> {
        match &self.state {
            MountState::Active { circuit, .. } => circuit.as_ref(),
            _ => None,
        }
    }
}

/// An active module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleStatus {
    /// Its digest.
    pub digest: String,
    /// When it was activated, in seconds since 1970.
    pub since: u64,
    /// How often clients caused a run; cached responses do not count.
    pub runs: u64,
    /// The number of its failures, by cause.
    pub failures: Failures,
    /// The checks that the slots of its instances are reset.
    pub resets: ResetStatus,
}

/// An open circuit: an extension is out of service because it failed too often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CircuitStatus {
    /// How the extension failed.
    pub reason: String,
    /// The seconds until the next health check.
    pub retry_after: u64,
}

/// A quarantined module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineStatus {
    /// Its digest.
    pub digest: String,
    /// How it failed.
    pub reason: String,
}
