//! The status of a mount, for the control server.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::mount::Mount;
use super::report::SwapStep;
use crate::conformance::Dialect;
use crate::module::{Failures, ResetStatus};

/// The current status of a mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountStatus {
    /// The name of its modules.
    pub name: String,
    /// Its path.
    pub mount: String,
    /// The dialect that candidates must speak if they do not name another.
    pub dialect: Dialect,
    /// The active module.
    pub module: ModuleStatus,
    /// The open circuit of an extension; `None` if it is closed.
    pub circuit: Option<CircuitStatus>,
    /// The digest of the previous module, to which `rollback` returns.
    pub previous: Option<String>,
    /// The candidate in deployment.
    pub candidate: Option<CandidateStatus>,
    /// The quarantined modules.
    pub quarantined: Vec<QuarantineStatus>,
    /// The size of the cached responses, in bytes.
    pub cache_bytes: u64,
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

/// A candidate in deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateStatus {
    /// Its name, such as its file.
    pub name: String,
    /// The current step of its deployment.
    pub step: SwapStep,
}

/// A quarantined module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineStatus {
    /// Its digest.
    pub digest: String,
    /// How it failed.
    pub reason: String,
}

impl Mount {
    /// Returns the current status.
    #[must_use]
    pub fn status(&self) -> MountStatus {
        let history = self.history();
        let active = self.active();
        let quarantined = history.quarantined.iter().map(|(digest, reason)| QuarantineStatus {
            digest: digest.to_string(),
            reason: reason.clone(),
        });
        MountStatus {
            name: active.module.name().to_owned(),
            mount: self.path().to_string(),
            dialect: self.dialect,
            module: ModuleStatus {
                digest: active.module.digest().to_string(),
                since: seconds(active.since),
                runs: active.runs(),
                failures: active.module.failures(),
                resets: active.module.resets(),
            },
            circuit: self.current_circuit().map(|circuit| CircuitStatus {
                retry_after: circuit.retry_after().as_secs(),
                reason: circuit.reason,
            }),
            previous: history.previous.as_ref().map(|module| module.digest().to_string()),
            candidate: self.candidate().clone(),
            quarantined: quarantined.collect(),
            cache_bytes: self.cache().size().as_u64(),
        }
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
