//! What is said of a swap: what was done, what would change, and why not.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::compare::Difference;
use crate::conformance::{Dialect, Verdict};

/// All that came of a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SwapReport {
    /// The path of the mount.
    pub mount: String,
    /// What the candidate is called: its file.
    pub candidate: String,
    /// The digest of the module that was in service.
    pub from: String,
    /// The digest of the candidate, where it could be read.
    pub to: Option<String>,
    /// The dialect that it was to speak.
    pub dialect: Dialect,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What was done, in its order.
    pub steps: Vec<StepTime>,
    /// What the candidate was found to answer, where it came to that.
    pub verdict: Option<Verdict>,
    /// How many requests both modules were asked.
    pub compared: usize,
    /// Those that they answer differently, and how.
    pub differences: Vec<Difference>,
}

/// How a swap ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// The candidate serves.
    Exchanged,
    /// The candidate would serve now, had this not been a trial.
    DryRun,
    /// The candidate is the module in service.
    Unchanged,
    /// The candidate is the module that was out of service; it answers, and is
    /// in service again.
    PutBack,
    /// The candidate does not serve; all is as it was.
    Refused {
        /// The kind of the reason.
        reason: Refusal,
        /// Why, and what to do.
        message: String,
    },
}

/// Why a candidate does not serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// Another candidate is being looked at.
    Busy,
    /// It cannot be read.
    Unreadable,
    /// It is larger than a module may be.
    TooLarge,
    /// It is not the one that was asked for.
    Digest,
    /// It failed in service before.
    Barred,
    /// It is no component, or not one of the contract.
    Invalid,
    /// It traps, takes too long, or answers what HTTP does not allow.
    Faults,
    /// Its answers are not those of the dialect.
    Dialect,
    /// Another module came into service meanwhile.
    Changed,
    /// It took longer to look at than it may.
    TooSlow,
    /// The host failed.
    Host,
}

/// Something that was done with a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepTime {
    /// What.
    pub step: SwapStep,
    /// How long it took, in milliseconds.
    pub millis: f64,
}

/// What is done with a candidate, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwapStep {
    /// It is read, and its digest made.
    Read,
    /// It is compiled and held against the contract.
    Compile,
    /// It is asked all that its dialect speaks of.
    Probe,
    /// It is asked what clients ask, and so is the module in service.
    Compare,
    /// Its answers are put where they are remembered.
    Warm,
    /// It comes into service.
    Exchange,
}

impl Display for SwapStep {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Compile => "compile",
            Self::Probe => "probe",
            Self::Compare => "compare",
            Self::Warm => "warm",
            Self::Exchange => "exchange",
        })
    }
}

impl SwapReport {
    /// Whether the candidate serves, or would.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        !matches!(self.outcome, Outcome::Refused { .. })
    }
}
