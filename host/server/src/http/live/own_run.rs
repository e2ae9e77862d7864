//! How a request that waits gets a response that is not cached: by a run, or by that of an equal
//! request.

use std::sync::Arc;

use relayer_rest_sandbox::GuestRequest;
use relayer_rest_state::Generation;

use super::Shared;
use super::recent_runs::{NextRun, RunKey, RunNumber};
use super::resolve::Answer;

/// How a client that waits gets a response of its own.
pub(in crate::http) enum OwnResponse<R> {
    /// It is that of a run for an equal request.
    Answered(Answer),
    /// By this run, which may begin now.
    Run(R),
    /// By a later run.
    Later(NextRun),
}

/// A run for a request that waits, which begins. If it is dropped, it has no answer.
pub(in crate::http) struct OwnRun {
    shared: Arc<Shared>,
    /// The path of the request.
    path: Box<str>,
    key: RunKey,
    number: RunNumber,
}

impl OwnRun {
    /// Records the end of the run.
    pub(in crate::http) fn end(self, answer: &Answer) {
        let Self { shared, path, key, number } = &self;
        shared.entries().end_run(*key, *number, answer, path, &shared.registry);
        // It is forgotten after the interval.
        self.shared.due.notify_one();
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
        let mut entries = self.entries();
        match entries.own_response(request, since, &self.registry) {
            OwnResponse::Answered(answer) => OwnResponse::Answered(answer),
            OwnResponse::Later(next) => OwnResponse::Later(next),
            OwnResponse::Run(key) => {
                let number = entries.begin_run(key);
                let path = request.target.path().into();
                OwnResponse::Run(OwnRun { shared: Arc::clone(self), path, key, number })
            }
        }
    }
}
