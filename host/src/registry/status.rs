//! What is said of a mount to whoever controls it.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::mount::Mount;
use super::report::SwapStep;
use crate::conformance::Dialect;
use crate::module::{Failures, ResetStatus};

/// A mount, as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountStatus {
    /// The name of its modules.
    pub name: String,
    /// Its path.
    pub mount: String,
    /// The dialect that modules have to speak which do not say another.
    pub dialect: Dialect,
    /// The module in service.
    pub module: ModuleStatus,
    /// Why an extension is out of service, where it is.
    pub outage: Option<CircuitStatus>,
    /// The digest of the module before it, which `rollback` puts back.
    pub previous: Option<String>,
    /// The candidate that is looked at now.
    pub candidate: Option<CandidateStatus>,
    /// The modules that were taken out of service because they failed.
    pub barred: Vec<QuarantineStatus>,
    /// The bytes of answers that are remembered.
    pub remembered: u64,
}

/// A module in service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleStatus {
    /// Its digest.
    pub digest: String,
    /// Since when it has been in service, in seconds since 1970.
    pub since: u64,
    /// How often clients had it run: answers that were remembered do not
    /// count.
    pub runs: u64,
    /// How often it failed, by cause.
    pub failures: Failures,
    /// The checks that the slots of its instances are reset.
    pub resets: ResetStatus,
}

/// An extension is out of service, because it failed too often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CircuitStatus {
    /// How it failed.
    pub reason: String,
    /// In how many seconds it is looked at again.
    pub next: u64,
}

/// A module that may come into service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateStatus {
    /// What it is called: its file.
    pub name: String,
    /// What is being done with it.
    pub step: SwapStep,
}

/// A module that is not taken any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineStatus {
    /// Its digest.
    pub digest: String,
    /// Why.
    pub reason: String,
}

impl Mount {
    /// How things are.
    #[must_use]
    pub fn status(&self) -> MountStatus {
        let past = self.history();
        let active = self.active();
        let barred = past.quarantined.iter().map(|(digest, reason)| QuarantineStatus {
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
            outage: self.current_circuit().map(|outage| CircuitStatus {
                next: outage.retry_after().as_secs(),
                reason: outage.reason,
            }),
            previous: past.previous.as_ref().map(|module| module.digest().to_string()),
            candidate: self.candidate().clone(),
            barred: barred.collect(),
            remembered: self.cache().size().as_u64(),
        }
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
