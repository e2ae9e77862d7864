//! How a request that waits gets a response that is not cached: by a run, or by that of an equal
//! request.

use std::sync::Arc;

use relayer_rest_sandbox::GuestRequest;
use relayer_rest_state::Generation;
use tokio::sync::futures::OwnedNotified;
use tokio::time::Instant;

use super::Shared;
use super::recent_runs::{RunKey, RunNumber};
use super::resolve::Answer;

/// How a client that waits gets a response of its own.
pub(in crate::http) enum OwnResponse<R> {
    /// It is that of a run for an equal request.
    Answered(Answer),
    /// By this run, which may begin now, and is recorded.
    Run(R),
    /// By a run at this time at the earliest, or as soon as a run for an equal request ends.
    Later(Instant, OwnedNotified),
}

/// A run for a request that waits, which may begin. If it is dropped, it has no answer.
pub(in crate::http) struct OwnRun {
    shared: Arc<Shared>,
    key: RunKey,
    number: RunNumber,
}

impl OwnRun {
    /// Records the end of the run.
    pub(in crate::http) fn end(self, answer: &Answer) {
        self.shared.entries().end_run(self.key, self.number, answer);
        // It is forgotten after the interval.
        self.shared.due.notify_one();
    }

    /// Records that the run is not needed.
    pub(super) fn cancel(self) {
        self.shared.entries().cancel_run(self.key, self.number);
    }
}

impl Drop for OwnRun {
    fn drop(&mut self) {
        self.shared.entries().abort_run(self.key, self.number);
    }
}

impl Shared {
    /// Returns how a request gets its response that came when this generation was the newest one.
    pub(super) fn own_response(
        self: &Arc<Self>,
        request: &GuestRequest,
        since: Generation,
    ) -> OwnResponse<OwnRun> {
        match self.entries().own_response(request, since, &self.registry) {
            OwnResponse::Answered(answer) => OwnResponse::Answered(answer),
            OwnResponse::Later(time, ended) => OwnResponse::Later(time, ended),
            OwnResponse::Run((key, number)) => {
                OwnResponse::Run(OwnRun { shared: Arc::clone(self), key, number })
            }
        }
    }
}
