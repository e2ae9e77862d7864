//! The deployment session of a mount: one candidate at a time, and its progress.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use relayer_rest_conformance::Verdict;
use relayer_rest_sandbox::Digest;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedMutexGuard;

use super::report::{StepTime, SwapStep};
use super::shadow::{ShadowSession, ShadowStatus};

/// Admits one candidate at a time.
#[derive(Debug, Default)]
pub(super) struct Deployment {
    lock: Arc<tokio::sync::Mutex<()>>,
    candidate: Mutex<Option<CandidateStatus>>,
    shadow: Mutex<Option<Arc<ShadowSession>>>,
}

/// A candidate in deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateStatus {
    /// Its name, such as its file.
    pub name: String,
    /// The current step of its deployment.
    pub step: SwapStep,
    /// The shadow, in that step.
    #[serde(default)]
    pub shadow: Option<ShadowStatus>,
}

/// The progress of a candidate. It holds the deployment lock until all tasks that work on
/// the candidate are done.
pub(super) struct Progress {
    deployment: Arc<Deployment>,
    interim: Mutex<Interim>,
    _lock: OwnedMutexGuard<()>,
}

/// The findings so far.
#[derive(Default)]
pub(super) struct Interim {
    pub(super) digest: Option<Digest>,
    pub(super) verdict: Option<Verdict>,
    pub(super) steps: Vec<StepTime>,
}

/// A step in progress; it ends when this is dropped.
pub(super) struct RunningStep<'a> {
    progress: &'a Progress,
    step: SwapStep,
    start: Instant,
}

impl Deployment {
    /// Keeps deployments away until the returned guard is dropped. Returns [`None`] if
    /// one is in progress.
    pub(super) fn try_lock(&self) -> Option<OwnedMutexGuard<()>> {
        Arc::clone(&self.lock).try_lock_owned().ok()
    }

    /// Returns the status of the candidate in deployment.
    pub(super) fn status(&self) -> Option<CandidateStatus> {
        let shadow = self.shadow().as_ref().map(|session| session.status());
        Some(CandidateStatus { shadow, ..self.candidate().clone()? })
    }

    /// Returns the shadow in progress.
    pub(super) fn shadow(&self) -> MutexGuard<'_, Option<Arc<ShadowSession>>> {
        self.shadow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the candidate in deployment.
    pub(super) fn candidate(&self) -> MutexGuard<'_, Option<CandidateStatus>> {
        self.candidate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    /// Starts a deployment. Returns [`None`] if another one is in progress.
    pub(super) fn start(deployment: &Arc<Deployment>, name: String) -> Option<Self> {
        let lock = deployment.try_lock()?;
        *deployment.candidate() =
            Some(CandidateStatus { name, step: SwapStep::Read, shadow: None });
        let deployment = Arc::clone(deployment);
        Some(Self { deployment, interim: Mutex::default(), _lock: lock })
    }

    /// Begins a step, which ends when the returned value is dropped.
    pub(super) fn begin(&self, step: SwapStep) -> RunningStep<'_> {
        if let Some(candidate) = &mut *self.deployment.candidate() {
            candidate.step = step;
        }
        RunningStep { progress: self, step, start: Instant::now() }
    }

    /// Begins the shadow of the candidate.
    pub(super) fn begin_shadow(&self, session: &Arc<ShadowSession>) -> RunningStep<'_> {
        *self.deployment.shadow() = Some(Arc::clone(session));
        self.begin(SwapStep::Shadow)
    }

    pub(super) fn read(&self, digest: Digest) {
        self.interim().digest = Some(digest);
    }

    pub(super) fn judged(&self, verdict: &Verdict) {
        self.interim().verdict = Some(verdict.clone());
    }

    pub(super) fn interim(&self) -> MutexGuard<'_, Interim> {
        self.interim.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        *self.deployment.candidate() = None;
        *self.deployment.shadow() = None;
    }
}

impl Drop for RunningStep<'_> {
    fn drop(&mut self) {
        let millis = self.start.elapsed().as_secs_f64() * 1e3;
        if self.step == SwapStep::Shadow {
            *self.progress.deployment.shadow() = None;
        }
        self.progress.interim().steps.push(StepTime { step: self.step, millis });
    }
}
