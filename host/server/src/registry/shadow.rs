//! A shadow: a candidate runs on each distinct miss of the active module, on the snapshot of the
//! module's run, and their responses are compared. Clients get those of the active module.
//!
//! The candidate runs on a thread of its own, of a lower priority. Its commands to the relayer
//! are compared and not executed.
//!
//! | file | job |
//! |---|---|
//! | `options.rs` | the options of a shadow |
//! | `expected.rs` | the changes that an operator expects |
//! | `session.rs` | the counters of a shadow in progress, and its early end |
//! | `tally.rs` | compares responses, and keeps the differences |
//! | `slowdown.rs` | compares processor times |
//! | `report.rs` | the report |

mod expected;
mod options;
mod report;
mod session;
mod slowdown;
mod tally;

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use relayer_rest_common::histogram::Histogram;
use relayer_rest_common::text::escape_control;
use relayer_rest_sandbox::{CallError, Module};
use relayer_rest_state::{Generation, StateReader};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tracing::{Instrument, info_span};

use super::active::ActiveModule;
use super::background_worker::BackgroundWorker;
use super::report::Rejection;
use super::run::{self, MAX_BYTES, MAX_REQUESTS};
use super::service::ModuleService;
use crate::cache::{RecordedResponse, RequestRef, RequestStats, TappedRun, TappedRuns};
pub use expected::{ChangeKind, ExpectedChanges, ExpectedChangesError};
pub use options::{Shadow, ShadowTime, ShadowTimeError};
pub use report::{RunsReport, ShadowDifference, ShadowReport};
pub(super) use session::{ShadowCounts, ShadowSession};
pub use session::{ShadowStatus, ShadowTally};
use slowdown::Slowdown;
use tally::Tally;

/// The interval in which a shadow notices that another module was activated.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// A shadow of the active module by a candidate.
pub(super) struct ShadowRun {
    pub(super) service: Arc<ModuleService>,
    pub(super) active: Arc<ActiveModule>,
    pub(super) candidate: Module,
    /// The name of the candidate in messages.
    pub(super) name: String,
    pub(super) options: Shadow,
    pub(super) state: StateReader,
}

/// A completed shadow.
pub(super) struct ShadowResult {
    pub(super) report: ShadowReport,
    /// The candidate's responses to frequent requests, on the newest state.
    pub(super) responses: Vec<Arc<RecordedResponse>>,
    /// Why the candidate is rejected, if it is.
    pub(super) rejection: Option<(Rejection, String)>,
}

/// How a shadow ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Its time is over.
    Time,
    /// The first difference that is not expected occurred, or the candidate is too slow.
    Violation,
    /// Another module is active.
    Replaced,
    Cancelled,
}

/// The comparisons of a shadow so far.
pub(super) struct Comparisons {
    run: ShadowRun,
    session: Arc<ShadowSession>,
    misses: TappedRuns,
    tally: Tally,
    /// Without a maximum, no processor times are compared.
    slowdown: Option<Slowdown>,
    active: Runs,
    candidate: Runs,
    /// The misses that were received, of which one may not be compared yet.
    received: u64,
    generations: u64,
    newest: Option<Generation>,
}

/// The runs of a module.
#[derive(Default)]
struct Runs {
    times: Histogram,
    failures: u64,
    peak_memory: usize,
}

impl ShadowRun {
    /// Begins the shadow: misses are received from now on, and not only once its thread runs.
    pub(super) fn begin(self) -> Comparisons {
        let totals = Arc::clone(self.service.slot.counts.shadows());
        Comparisons {
            session: Arc::new(ShadowSession::new(self.options.time, totals)),
            misses: self.service.cache.tap(self.active.module()),
            tally: Tally::new(self.options.expected.clone()),
            slowdown: self.options.max_slowdown.map(|max| Slowdown::new(max, self.active.module())),
            run: self,
            active: Runs::default(),
            candidate: Runs::default(),
            received: 0,
            generations: 0,
            newest: None,
        }
    }
}

impl Comparisons {
    /// Returns the shadow as other tasks see it.
    pub(super) fn session(&self) -> &Arc<ShadowSession> {
        &self.session
    }

    /// Runs the shadow until its end. It is cancelled when the returned future is dropped.
    pub(super) async fn run(self) -> io::Result<ShadowResult> {
        let name = escape_control(&self.run.name);
        let span = info_span!("shadow", mount = %self.run.service.path, name);
        // Not the mount's thread, which health checks need meanwhile.
        let thread = BackgroundWorker::default();
        thread.run(self.complete().instrument(span)).await
    }

    async fn complete(mut self) -> ShadowResult {
        let start = Instant::now();
        let session = Arc::clone(&self.session);
        let mut responses = Vec::new();
        let end = tokio::select! {
            biased;
            () = session.cancelled() => End::Cancelled,
            end = self.observe(&mut responses) => end,
        };
        self.misses.discard();
        self.set_dropped();
        let tally = self.session.tally();
        let report = ShadowReport {
            seconds: start.elapsed().as_secs_f64(),
            requests: tally.requests,
            generations: self.generations,
            dropped: tally.dropped,
            frequent: responses.len() as u64,
            unexpected: tally.unexpected,
            expected: tally.expected,
            differences: self.tally.listed(),
            unlisted: self.tally.unlisted(),
            unseen: self.tally.unseen(),
            slowdown: self.slowdown.as_ref().and_then(Slowdown::ratio),
            active: self.active.report(),
            candidate: self.candidate.report(),
        };
        let rejection = self.rejection(end, &report);
        ShadowResult { report, responses, rejection }
    }

    /// Compares misses until the shadow ends, and then the frequent requests.
    async fn observe(&mut self, responses: &mut Vec<Arc<RecordedResponse>>) -> End {
        let end = self.compare_misses().await;
        if end != End::Time {
            return end;
        }
        self.misses.close();
        while self.passes() {
            let Some(miss) = self.misses.next().await else { break };
            self.compare_miss(miss).await;
        }
        if self.passes() && self.session.tally().requests >= self.run.options.min_requests {
            self.compare_frequent(responses).await;
        }
        End::Time
    }

    async fn compare_misses(&mut self) -> End {
        let mut time = pin!(sleep(self.run.options.time.get()));
        let mut check = interval(CHECK_INTERVAL);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let miss = tokio::select! {
                biased;
                () = &mut time => return End::Time,
                _ = check.tick() => None,
                miss = self.misses.next() => miss,
            };
            if let Some(miss) = miss {
                self.compare_miss(miss).await;
            }
            self.set_dropped();
            if !self.run.service.slot.is_active(&self.run.active) {
                return End::Replaced;
            }
            if self.run.options.abort && (!self.passes() || self.is_slow()) {
                return End::Violation;
            }
        }
    }

    /// Runs the candidate on a miss of the active module.
    async fn compare_miss(&mut self, miss: TappedRun) {
        self.received += 1;
        let generation = miss.snapshot.generation();
        if self.newest.is_none_or(|newest| newest < generation) {
            self.newest = Some(generation);
            self.generations += 1;
        }
        let ShadowRun { service, candidate, .. } = &self.run;
        let permits = service.cache.compression_permits();
        let run = match &mut self.slowdown {
            Some(slowdown) if slowdown.measures() => {
                slowdown.measure(candidate, &miss.request, &miss.snapshot, permits).await
            }
            _ => run::measured(candidate, &miss.request, &miss.snapshot, permits).await,
        };
        let before = outcome(&miss.response);
        self.active.record(miss.time, miss.memory, before.is_err());
        self.candidate.record(run.time, run.memory, run.response.is_err());
        let after = run.response.as_deref();
        let comparison = self.tally.compare(&miss.request, before, after);
        self.session.compared(comparison);
    }

    /// Compares the responses to the most frequent requests on the newest state, since they may
    /// have been cached all the time. The candidate's are for the cache.
    async fn compare_frequent(&mut self, responses: &mut Vec<Arc<RecordedResponse>>) {
        let ShadowRun { service, active, candidate, state, .. } = &self.run;
        let permits = service.cache.compression_permits();
        // Its counters are separate, so that the comparison does not count as requests of clients.
        let active_apart = active.module().clone().afresh();
        let snapshot = state.snapshot();
        let mut bytes = 0;
        for RequestStats { request, hits, response } in
            service.cache.hottest(active.module(), MAX_REQUESTS)
        {
            let request_ref = RequestRef::from(&*request);
            let is_current = |response: &Arc<RecordedResponse>| {
                response.reads().is_valid_for(&snapshot, request_ref.query, request_ref.headers)
            };
            let before = match response.filter(is_current) {
                Some(response) => Ok(response),
                None => run::measured(&active_apart, &request, &snapshot, permits).await.response,
            };
            let after = run::measured(candidate, &request, &snapshot, permits).await.response;
            let comparison = self.tally.compare(&request, before.as_deref(), after.as_deref());
            self.session.differs(comparison);
            let Ok(after) = after else { continue };
            after.set_hits(hits);
            bytes += after.plain().body.len();
            responses.push(after);
            if bytes > MAX_BYTES {
                return;
            }
        }
    }

    /// Returns whether no difference occurred that is not expected.
    fn passes(&self) -> bool {
        self.session.tally().unexpected == 0
    }

    /// Returns whether enough requests show already that the candidate is too slow.
    fn is_slow(&self) -> bool {
        self.slowdown.as_ref().is_some_and(|slowdown| slowdown.problem(true).is_some())
    }

    fn set_dropped(&self) {
        let compared = self.session.tally().requests;
        self.session.set_dropped(self.misses.dropped() + self.received - compared);
    }

    fn rejection(&self, end: End, report: &ShadowReport) -> Option<(Rejection, String)> {
        let ShadowRun { service, name, options, .. } = &self.run;
        let ShadowReport { requests, unexpected, .. } = report;
        let (reason, message) = match (end, self.tally.first_unexpected()) {
            (End::Cancelled, _) => {
                (Rejection::Cancelled, "the shadow was ended early; swap again".to_owned())
            }
            (End::Replaced, _) => (
                Rejection::Conflict,
                "another module was activated during the shadow; swap again".to_owned(),
            ),
            (End::Time | End::Violation, Some(first)) => {
                let request = &first.request;
                let change = first.first.describe();
                let message = format!(
                    "{unexpected} responses differ in a way that is not expected, such as that to {request}: {change}; correct the module, or declare the changes with --expect"
                );
                (Rejection::Differences, message)
            }
            (End::Time, None) if *requests < options.min_requests => {
                let message = format!(
                    "{requests} requests were compared, fewer than {}; choose a longer --shadow, or less --min-requests",
                    options.min_requests
                );
                (Rejection::TooFewRequests, message)
            }
            (End::Time | End::Violation, None) => {
                let problem =
                    self.slowdown.as_ref().and_then(|slowdown| slowdown.problem(false))?;
                (Rejection::TooSlow, problem)
            }
        };
        Some((reason, format!("mount {}: module {name}: {message}", service.path)))
    }
}

impl Runs {
    fn record(&mut self, time: Duration, memory: usize, is_failure: bool) {
        self.times.record(time);
        self.peak_memory = self.peak_memory.max(memory);
        self.failures += u64::from(is_failure);
    }

    fn report(&self) -> RunsReport {
        RunsReport::new(&self.times.times(), self.failures, self.peak_memory)
    }
}

fn outcome(
    result: &Result<Arc<RecordedResponse>, Arc<CallError>>,
) -> Result<&RecordedResponse, &CallError> {
    match result {
        Ok(response) => Ok(response),
        Err(error) => Err(error),
    }
}
