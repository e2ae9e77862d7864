//! The messages of a roll-out that are not stored.

use std::time::Duration;

use relayer_rest_state::FleetGeneration;
use serde::{Deserialize, Serialize};

use super::mounts::Comparison;
use super::plan::{MAX_MOUNTS, MAX_NAME, MAX_PATH, MAX_REASON};
use crate::message::Message;

/// Requests the reports of hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) version: u32,
    /// The number of the newest plan, for hosts that have not got it.
    pub(crate) plan: u64,
    /// The time within which hosts report, so that not all of them do at once.
    pub(crate) spread: Duration,
}

/// The report of a host on the modules of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostReport {
    pub(crate) version: u32,
    /// The name of the host.
    pub host: String,
    /// The number of the plan that it follows; 0 for none.
    pub plan: u64,
    /// The generation of the state that it serves.
    pub generation: Option<FleetGeneration>,
    /// The age of the state in seconds, if it is not confirmed any more.
    pub age: Option<u64>,
    /// The mounts of the plan.
    pub mounts: Vec<MountReport>,
}

/// The report of a host on a mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountReport {
    /// The path of the mount.
    pub mount: String,
    /// The number of its roll-out.
    pub rollout: u64,
    /// The state of the module that the plan asks for.
    #[serde(flatten)]
    pub state: MountState,
}

/// The state of the module that a plan asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum MountState {
    /// It is being deployed.
    Deploying {
        /// Why it is not yet active, if it had to be tried again.
        reason: Option<String>,
    },
    /// It is active.
    Active {
        /// Whether it is the one that is rolled out.
        is_new: bool,
        /// Its runs since.
        runs: u64,
        /// Its comparison with the module before it.
        compared: Comparison,
    },
    /// It failed, and the module before it is active.
    Failed {
        /// The reason.
        reason: String,
    },
}

impl Message for Call {}

impl Message for HostReport {
    fn problem(&self) -> Option<String> {
        let Self { host, mounts, .. } = self;
        let is_name = (1..=MAX_NAME).contains(&host.len());
        let is_bounded = |report: &MountReport| {
            let reason = match &report.state {
                MountState::Deploying { reason } => reason.as_deref().unwrap_or_default(),
                MountState::Active { .. } => "",
                MountState::Failed { reason } => reason,
            };
            report.mount.len() <= MAX_PATH && reason.len() <= MAX_REASON
        };
        let is_valid = is_name && mounts.len() <= MAX_MOUNTS && mounts.iter().all(is_bounded);
        (!is_valid).then(|| "its texts or mounts are out of their bounds".to_owned())
    }
}
