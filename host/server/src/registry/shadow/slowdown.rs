//! Compares the processor time of a candidate with that of the active module.
//!
//! Both run on the same requests, one after the other on the thread of the shadow. The times of
//! runs for clients are no measure: they have another priority, and wait for processors.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use relayer_rest_sandbox::{GuestRequest, Module};
use relayer_rest_state::Snapshot;
use rustix::time::{ClockId, clock_gettime};

use crate::registry::run::{self, MeasuredRun};
use crate::response::CompressionPermits;

/// The number of measured requests. Each one costs a second run.
const MAX_REQUESTS: u32 = 1_000;

/// The number of measured requests before whose end no shadow is ended early.
const MIN_REQUESTS: u32 = 5;

/// The mean processor time of a run that is never too slow.
const FAST: Duration = Duration::from_millis(1);

/// The processor times of both modules.
pub(super) struct Slowdown {
    max: NonZeroU32,
    /// The active module, with counters of its own: these runs are not for clients.
    active: Module,
    requests: u32,
    active_time: Duration,
    candidate_time: Duration,
}

impl Slowdown {
    pub(super) fn new(max: NonZeroU32, active: &Module) -> Self {
        let active = active.clone().afresh();
        let (active_time, candidate_time) = (Duration::ZERO, Duration::ZERO);
        Self { max, active, requests: 0, active_time, candidate_time }
    }

    /// Returns whether further requests are to be measured.
    pub(super) fn measures(&self) -> bool {
        self.requests < MAX_REQUESTS
    }

    /// Runs both modules, and returns the run of the candidate.
    pub(super) async fn measure(
        &mut self,
        candidate: &Module,
        request: &Arc<GuestRequest>,
        snapshot: &Arc<Snapshot>,
        permits: &CompressionPermits,
    ) -> MeasuredRun {
        let start = thread_time();
        let active = run::measured(&self.active, request, snapshot, permits).await;
        let between = thread_time();
        let run = run::measured(candidate, request, snapshot, permits).await;
        // A failure is a difference already.
        if active.response.is_ok() && run.response.is_ok() {
            let candidate_time = thread_time().saturating_sub(between);
            self.add(between.saturating_sub(start), candidate_time);
        }
        run
    }

    fn add(&mut self, active: Duration, candidate: Duration) {
        self.requests += 1;
        self.active_time += active;
        self.candidate_time += candidate;
    }

    /// Returns the processor time of the candidate to that of the active module, if there are
    /// measured requests.
    pub(super) fn ratio(&self) -> Option<f64> {
        let ratio = self.candidate_time.as_secs_f64() / self.active_time.as_secs_f64();
        (self.requests > 0 && ratio.is_finite()).then_some(ratio)
    }

    /// Returns why the candidate is too slow, if it is. `early`: before the end of the shadow.
    pub(super) fn problem(&self, early: bool) -> Option<String> {
        let Self { max, requests, active_time, candidate_time, .. } = self;
        let mean = candidate_time.checked_div(*requests)?;
        let is_slow = mean > FAST && *candidate_time > *active_time * max.get();
        if !is_slow || early && *requests < MIN_REQUESTS {
            return None;
        }
        let millis = |time: Duration| time.as_secs_f64() * 1e3 / f64::from(*requests);
        Some(format!(
            "its runs take {:.2} ms of processor time, more than {max} times the {:.2} ms of the active module; make it faster, or raise --max-slowdown",
            millis(*candidate_time),
            millis(*active_time),
        ))
    }
}

fn thread_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}
