//! Deploys the first module of a mount. It passes the same preflight as the candidate of a swap.

use relayer_rest_common::text::escape_control;
use relayer_rest_state::StateReader;

use super::candidate::Candidate;
use super::mount::Mount;
use super::preflight::PreflightThread;
use super::report::{Rejection, SwapOutcome};

/// A first module that may not serve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LoadRejection {
    /// The reason.
    pub reason: Rejection,
    /// Details and a hint.
    pub message: String,
}

impl Mount {
    /// Deploys the first module of the mount, after the same preflight as a swap, on the
    /// thread of the caller. Does nothing if there is a module already. If the candidate is
    /// rejected, the mount is disabled until a swap activates another one.
    pub async fn load(
        &self,
        candidate: Candidate,
        state: &StateReader,
    ) -> Result<(), LoadRejection> {
        self.load_on(candidate, state, PreflightThread::Caller).await
    }

    /// Deploys the first module as [`Mount::load`] does, on a thread that leaves the
    /// processors to requests.
    pub async fn load_in_background(
        &self,
        candidate: Candidate,
        state: &StateReader,
    ) -> Result<(), LoadRejection> {
        self.load_on(candidate, state, PreflightThread::Background).await
    }

    /// Disables the mount, if it has no module, until one is activated. Clients get 503.
    pub fn disable(&self, reason: &str) {
        self.service.slot.disable(escape_control(reason));
    }

    async fn load_on(
        &self,
        candidate: Candidate,
        state: &StateReader,
        thread: PreflightThread,
    ) -> Result<(), LoadRejection> {
        let report = self.deploy(candidate, state, thread, true).await;
        let SwapOutcome::Rejected { reason, message } = report.outcome else { return Ok(()) };
        // Another deployment has an outcome of its own.
        if reason != Rejection::Busy {
            self.disable(&message);
        }
        Err(LoadRejection { reason, message })
    }
}
