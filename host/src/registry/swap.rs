//! Hot-swap: a candidate becomes the active module in six steps: read, compile, probe,
//! compare, warm, activate. Only the last step affects the active module, and it is one
//! store of a pointer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use bytesize::ByteSize;
use serde::Deserialize;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;
use tracing::{info, warn};

use super::active::ActiveModule;
use super::failure_policy::check_time;
use super::mount::Mount;
use super::preflight::{Preflight, PreflightReport, Rejected};
use super::report::{Outcome, Rejection, StepTime, SwapReport, SwapStep};
use super::status::CandidateStatus;
use crate::conformance::{Dialect, Verdict};
use crate::module::{Digest, LimitError};
use crate::state::StateReader;
use crate::text::escape_control;
use crate::toml_text;

/// A module to deploy.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The source of the component.
    pub source: Source,
    /// The digest that it must have.
    pub sha256: Option<Digest>,
    /// The dialect that it must speak, instead of the mount's.
    pub dialect: Option<Dialect>,
    /// Whether this is a dry run.
    pub dry_run: bool,
    /// Whether it may be a quarantined module.
    pub force: bool,
}

/// The source of a component.
#[derive(Debug, Clone)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// Bytes in memory.
    Bytes {
        /// The name in messages.
        name: String,
        /// The component.
        bytes: Bytes,
    },
}

/// The limits for a swap.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SwapLimits {
    /// The maximum size of the component, in bytes. Default: 32 MiB; 1 KiB to 1 GiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub size: ByteSize,
    /// The maximum time from the first step to the last. Default: 1 min; 1 ms to 1 h.
    #[serde(deserialize_with = "toml_text::duration_field")]
    pub time: Duration,
    /// The maximum memory of the process that compiles the component, in bytes, if there
    /// is one. Default: 1 GiB; 64 MiB to 64 GiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub memory: ByteSize,
}

impl Default for SwapLimits {
    fn default() -> Self {
        Self { size: ByteSize::mib(32), time: Duration::from_mins(1), memory: ByteSize::gib(1) }
    }
}

impl SwapLimits {
    /// Returns an error if a limit is out of its range.
    pub fn check(&self) -> Result<(), LimitError> {
        if !(ByteSize::kib(1)..=ByteSize::gib(1)).contains(&self.size) {
            return Err(LimitError {
                key: "size",
                value: self.size.to_string(),
                range: "1KiB to 1GiB",
            });
        }
        if !(ByteSize::mib(64)..=ByteSize::gib(64)).contains(&self.memory) {
            return Err(LimitError {
                key: "memory",
                value: self.memory.to_string(),
                range: "64MiB to 64GiB",
            });
        }
        check_time("time", self.time)
    }
}

impl Candidate {
    /// Creates a candidate that must speak the mount's dialect.
    #[must_use]
    pub fn new(source: Source) -> Self {
        Self { source, sha256: None, dialect: None, dry_run: false, force: false }
    }
}

impl Source {
    /// Returns the name in messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::File(file) => file.display().to_string(),
            Self::Bytes { name, .. } => name.clone(),
        }
    }
}

impl Mount {
    /// Runs the preflight of a candidate, and activates it if it passes. If it does not,
    /// or if the returned future is dropped before it completes, nothing changes. `state`
    /// must be the one that the mount's server reads, or the cached responses of the new
    /// module may be of another relayer.
    pub async fn swap(self: &Arc<Self>, candidate: Candidate, state: &StateReader) -> SwapReport {
        let name = candidate.source.name();
        let dialect = candidate.dialect.unwrap_or(self.dialect);
        let mut report = SwapReport {
            mount: self.path().to_string(),
            candidate: name.clone(),
            from: self.active().module().digest().to_string(),
            to: None,
            dialect,
            outcome: Outcome::Unchanged,
            steps: Vec::new(),
            verdict: None,
            compared: 0,
            differences: Vec::new(),
        };
        let Some(progress) = Progress::start(self, name) else {
            let message = format!(
                "mount {}: another module is being looked at; try again when that is done",
                self.path()
            );
            report.outcome = Outcome::Rejected { reason: Rejection::Busy, message };
            return report;
        };
        let progress = Arc::new(progress);
        report.outcome = self.go_through(candidate, dialect, state, &progress, &mut report).await;
        let found = progress.found();
        (report.to, report.verdict) =
            (found.digest.map(|digest| digest.to_string()), found.verdict.clone());
        report.steps.clone_from(&found.steps);
        log(&report);
        drop(found);
        report
    }

    async fn go_through(
        self: &Arc<Self>,
        candidate: Candidate,
        dialect: Dialect,
        state: &StateReader,
        progress: &Arc<Progress>,
        report: &mut SwapReport,
    ) -> Outcome {
        let dry_run = candidate.dry_run;
        let active = Arc::clone(&self.active());
        let examination = Preflight {
            progress: Arc::clone(progress),
            candidate,
            dialect,
            active: Arc::clone(&active),
            state: state.clone(),
        };
        let found = match timeout(self.limits.time, examination.run()).await {
            Ok(Ok(Some(found))) => found,
            Ok(Ok(None)) if !self.is_circuit_open() => return Outcome::Unchanged,
            Ok(Ok(None)) => {
                return self.look_again(&active, &report.candidate, dry_run, state).await;
            }
            Ok(Err(Rejected(reason, message))) => return Outcome::Rejected { reason, message },
            Err(_) => {
                let step = self.candidate().as_ref().map(|candidate| candidate.step);
                let message = format!(
                    "mount {}: module {} takes longer than {:?} to look at{}; \
                     raise swap.time where that is right",
                    self.path(),
                    report.candidate,
                    self.limits.time,
                    step.map(|step| format!(", and was at the step {step}")).unwrap_or_default(),
                );
                return Outcome::Rejected { reason: Rejection::Timeout, message };
            }
        };
        let PreflightReport { module, compared, differences, responses: answers } = found;
        (report.compared, report.differences) = (compared, differences);
        if dry_run {
            return Outcome::DryRun;
        }
        {
            let _step = progress.begin(SwapStep::Warm);
            // Like all cached responses, they are valid until the state that they were
            // derived from changes.
            for answer in &answers {
                self.cache().insert(&module, answer);
            }
        }
        let _step = progress.begin(SwapStep::Activate);
        if self.exchange(module, &active) {
            return Outcome::Swapped;
        }
        self.changed(&report.candidate)
    }

    fn changed(&self, name: &str) -> Outcome {
        let message = format!(
            "mount {}: another module came into service while {name} was looked at; swap again",
            self.path()
        );
        Outcome::Rejected { reason: Rejection::Conflict, message }
    }
}

impl Mount {
    /// Runs the health check of a module whose circuit is open, instead of at its next
    /// time.
    async fn look_again(
        self: &Arc<Self>,
        failed: &Arc<ActiveModule>,
        name: &str,
        dry_run: bool,
        state: &StateReader,
    ) -> Outcome {
        let found = timeout(self.limits.time, self.health_check(state)).await;
        let still = match found {
            Ok(Ok(())) if dry_run => return Outcome::DryRun,
            Ok(Ok(())) if self.close_circuit(failed, failed.backoff(self.failure_policy())) => {
                return Outcome::CircuitClosed;
            }
            Ok(Ok(())) => return self.changed(name),
            Ok(Err(reason)) => reason,
            Err(_) => format!("it takes longer than {:?} to look at", self.limits.time),
        };
        let message = format!(
            "mount {}: module {name}: is out of service, and still fails: {still}; \
             mend what it needs, or give another one",
            self.path()
        );
        Outcome::Rejected { reason: Rejection::Failures, message }
    }
}

/// The progress of a mount's candidate. It holds the deployment lock until all tasks that
/// work on the candidate are done.
pub(super) struct Progress {
    pub(super) mount: Arc<Mount>,
    found: Mutex<Interim>,
    _turn: OwnedMutexGuard<()>,
}

/// The findings so far.
#[derive(Default)]
pub(super) struct Interim {
    pub(super) digest: Option<Digest>,
    pub(super) verdict: Option<Verdict>,
    pub(super) steps: Vec<StepTime>,
}

/// A step in progress; it ends when this is dropped.
pub(super) struct Going<'a> {
    progress: &'a Progress,
    step: SwapStep,
    start: Instant,
}

impl Progress {
    /// Returns [`None`] if another deployment is in progress.
    fn start(mount: &Arc<Mount>, name: String) -> Option<Self> {
        let turn = mount.try_lock_deployment()?;
        *mount.candidate() = Some(CandidateStatus { name, step: SwapStep::Read });
        Some(Self { mount: Arc::clone(mount), found: Mutex::default(), _turn: turn })
    }

    pub(super) fn mount(&self) -> &Mount {
        &self.mount
    }

    pub(super) fn begin(&self, step: SwapStep) -> Going<'_> {
        if let Some(candidate) = &mut *self.mount.candidate() {
            candidate.step = step;
        }
        Going { progress: self, step, start: Instant::now() }
    }

    pub(super) fn read(&self, digest: Digest) {
        self.found().digest = Some(digest);
    }

    pub(super) fn judged(&self, verdict: &Verdict) {
        self.found().verdict = Some(verdict.clone());
    }

    fn found(&self) -> MutexGuard<'_, Interim> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        *self.mount.candidate() = None;
    }
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        let millis = self.start.elapsed().as_secs_f64() * 1e3;
        self.progress.found().steps.push(StepTime { step: self.step, millis });
    }
}

fn log(report: &SwapReport) {
    let SwapReport { mount, candidate, from, .. } = report;
    let to = report.to.as_deref().unwrap_or_default();
    let differences = report.differences.len();
    match &report.outcome {
        Outcome::Rejected { message, .. } => warn!("{}", escape_control(message)),
        outcome => info!(mount, candidate, from, to, differences, ?outcome, "looked at a module"),
    }
}
