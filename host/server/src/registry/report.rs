//! The report of a swap: its steps, the differences, and the reason for a rejection.

use std::fmt::{self, Display, Formatter};

use relayer_rest_conformance::{Dialect, Verdict};
use serde::{Deserialize, Serialize};

use super::compare::ResponseDifference;
use super::shadow::ShadowReport;

/// The report of a swap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SwapReport {
    /// The path of the mount.
    pub mount: String,
    /// The name of the candidate, such as its file.
    pub candidate: String,
    /// The digest of the module that was active, if there was one.
    pub from: Option<String>,
    /// The digest of the candidate, if it could be read.
    pub to: Option<String>,
    /// The dialect that the candidate had to speak.
    pub dialect: Dialect,
    /// The outcome of the swap.
    #[serde(flatten)]
    pub outcome: SwapOutcome,
    /// The steps that were run, in order.
    pub steps: Vec<StepTime>,
    /// The conformance verdict, if the candidate was probed.
    pub verdict: Option<Verdict>,
    /// The number of requests that both modules were run on.
    pub compared: usize,
    /// The requests to which their responses differ, and how.
    pub differences: Vec<ResponseDifference>,
    /// The report of the shadow, if there was one.
    #[serde(default)]
    pub shadow: Option<ShadowReport>,
}

/// The outcome of a swap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum SwapOutcome {
    /// The candidate is active.
    Swapped,
    /// The candidate passed, and is not active because this was a dry run.
    DryRun,
    /// The candidate is the active module.
    Unchanged,
    /// The candidate is the active module, whose circuit was open; it passed its health
    /// check, and the circuit is closed.
    CircuitClosed,
    /// The candidate was rejected; nothing has changed.
    Rejected {
        /// The reason.
        reason: Rejection,
        /// Details and a hint.
        message: String,
    },
}

/// The reason why a candidate was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rejection {
    /// Another deployment is in progress.
    Busy,
    /// The candidate cannot be read.
    Unreadable,
    /// The candidate exceeds the size limit.
    TooLarge,
    /// The candidate does not have the requested digest.
    DigestMismatch,
    /// The candidate does not have the signature that its mount requires.
    Unsigned,
    /// The candidate is quarantined: it failed in service before.
    Quarantined,
    /// The candidate is not a component, or does not match the contract.
    Invalid,
    /// The candidate traps, takes too long, or gives a response that HTTP does not allow.
    Failures,
    /// The responses of the candidate do not conform to the dialect.
    Nonconforming,
    /// Another module was activated meanwhile.
    Conflict,
    /// The shadow has a difference that is not expected.
    Differences,
    /// The candidate takes too much processor time, compared with the active module.
    TooSlow,
    /// The shadow compared fewer requests than required.
    TooFewRequests,
    /// The shadow was ended by a request.
    Cancelled,
    /// The preflight took longer than its limit.
    Timeout,
    /// The host failed.
    Host,
}

/// The time that a step took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepTime {
    /// The step.
    pub step: SwapStep,
    /// Its duration, in milliseconds.
    pub millis: f64,
}

/// A step of a swap; the steps are run in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwapStep {
    /// Reads the candidate and computes its digest.
    Read,
    /// Compiles the candidate and checks it against the contract.
    Compile,
    /// Checks the candidate against the rules of its dialect.
    Probe,
    /// Runs requests of clients on the candidate and on the active module.
    Compare,
    /// Compares the candidate with the active module on requests of clients, as they come.
    Shadow,
    /// Caches the responses of the candidate.
    Warm,
    /// Activates the candidate.
    Activate,
}

impl Display for SwapStep {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Compile => "compile",
            Self::Probe => "probe",
            Self::Compare => "compare",
            Self::Shadow => "shadow",
            Self::Warm => "warm",
            Self::Activate => "activate",
        })
    }
}

impl SwapReport {
    /// Returns whether the candidate is active, or would be without a dry run.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        !matches!(self.outcome, SwapOutcome::Rejected { .. })
    }
}
