//! The active module of a mount, and its failures.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use relayer_rest_common::backoff::Backoff;
use relayer_rest_sandbox::Module;
use tokio::time::Instant;

use super::circuit_breaker::Experience;
use super::failure_policy::FailurePolicy;
use super::failure_window::{Baseline, FailureWindow, RequestKind, Runs};
use crate::request_metrics::ActiveId;

/// The maximum time between two health checks of a failing module. The backoff of a
/// module that has been in service for longer starts again.
const MAX_WAIT: Duration = Duration::from_mins(5);

/// A module that is, or was, active.
#[derive(Debug)]
pub struct ActiveModule {
    id: ActiveId,
    module: Module,
    since: SystemTime,
    activated: Instant,
    /// Its failures; `None` if they have no consequences.
    window: Option<Mutex<FailureWindow>>,
    probation: Probation,
    /// The backoff of its last open circuit.
    backoff: Option<Backoff>,
}

/// Whether a module is on probation when it is activated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Probation {
    /// It is new, and there is a previous module to roll back to.
    New,
    /// It has been in service before, or it is the first one.
    Known,
}

impl ActiveModule {
    /// Creates the entry of a module that was there from the start, or in service before.
    /// Failures have consequences only for an extension, whose circuit breaker may trip.
    pub(super) fn first(module: Module, is_extension: bool) -> Self {
        let active = Self::new(module, Probation::Known);
        if is_extension { active } else { Self { window: None, ..active } }
    }

    /// Creates the entry of a module whose circuit was open.
    pub(super) fn back(&self, backoff: Backoff) -> Self {
        Self { backoff: Some(backoff), ..Self::new(self.module.clone(), self.probation) }
    }

    pub(super) fn new(module: Module, probation: Probation) -> Self {
        Self {
            id: ActiveId::new(),
            since: SystemTime::now(),
            activated: Instant::now(),
            window: Some(Mutex::default()),
            probation,
            backoff: None,
            module: module.afresh(),
        }
    }

    /// Returns the backoff for an open circuit. It continues the last one if that ended
    /// not long ago.
    pub(super) fn backoff(&self, policy: &FailurePolicy) -> Backoff {
        let is_long_ago = self.activated.elapsed() > MAX_WAIT;
        match &self.backoff {
            Some(backoff) if !is_long_ago => backoff.clone(),
            _ => Backoff::new(policy.window, MAX_WAIT),
        }
    }

    /// Returns the module.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.module
    }

    pub(crate) fn id(&self) -> ActiveId {
        self.id
    }

    /// Returns when it was activated.
    #[must_use]
    pub fn since(&self) -> SystemTime {
        self.since
    }

    /// Returns the number of its runs since it was activated.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.module.runs()
    }

    /// Returns the number of its failures since it was activated.
    #[must_use]
    pub fn module_failures(&self) -> u64 {
        self.module.module_failures()
    }

    /// Records a response.
    pub(super) fn responded(&self, kind: RequestKind, policy: &FailurePolicy) {
        if let Some(mut window) = self.window() {
            window.responded(kind, self.counts(), policy, Instant::now());
        }
    }

    /// Records a failure. Returns whether the previous module should be run on the same
    /// request.
    pub(super) fn failed(&self, kind: RequestKind, policy: &FailurePolicy) -> bool {
        let Some(mut window) = self.window() else { return false };
        window.failed(kind, self.counts(), policy, Instant::now());
        self.probation == Probation::New && window.wants_comparison(kind)
    }

    /// Records the result of the previous module for a request at which this one fails.
    /// Returns whether to roll back: the previous one responds, and this one fails among
    /// its first runs or at too many such requests.
    pub(super) fn compared(
        &self,
        kind: RequestKind,
        before: Baseline,
        policy: &FailurePolicy,
    ) -> bool {
        let Some(mut window) = self.window() else { return false };
        window.compared(kind, before);
        let is_new = before == Baseline::Responds && self.runs() <= u64::from(policy.probation);
        is_new || window.regressions() >= policy.failures as usize
    }

    /// Returns whether the module fails at most of its requests.
    pub(super) fn is_failing(&self, policy: &FailurePolicy) -> bool {
        let window = self.window();
        window.is_some_and(|window| window.is_failing(self.counts(), policy, Instant::now()))
    }

    /// Returns the module's earlier responses to requests of this kind.
    pub(super) fn experience(&self, kind: RequestKind, policy: &FailurePolicy) -> Experience {
        match self.window() {
            Some(window) if window.is_known_to_fail(kind, policy, Instant::now()) => {
                Experience::Fails
            }
            Some(window) if window.is_known_to_respond(kind) => Experience::Responds,
            _ => Experience::Unknown,
        }
    }

    fn counts(&self) -> Runs {
        Runs { all: self.runs(), failed: self.module_failures() }
    }

    fn window(&self) -> Option<MutexGuard<'_, FailureWindow>> {
        // Nothing that panics is done while it is held.
        Some(self.window.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::{ActiveModule, MAX_WAIT, Probation};
    use crate::registry::circuit_breaker::Experience;
    use crate::registry::failure_policy::FailurePolicy;
    use crate::registry::failure_window::{Baseline, RequestKind};
    use relayer_rest_sandbox::{GuestRequest, Module, RunPermit};
    use relayer_rest_state::StatePublisher;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::time::advance;

    /// Two failures of different requests within ten seconds are too many, and one among
    /// the first two runs.
    fn policy() -> FailurePolicy {
        let window = Duration::from_secs(10);
        FailurePolicy { failures: 2, window, probation: 2, ..FailurePolicy::default() }
    }

    fn kind(path: &'static str) -> RequestKind {
        RequestKind::new(&request(path))
    }

    fn request(path: &'static str) -> GuestRequest {
        let target = path.parse().unwrap();
        GuestRequest::new(http::Method::GET, target, http::HeaderMap::new())
    }

    fn module() -> Module {
        crate::registry::test_module(0)
    }

    /// Runs a module until its probation is over.
    async fn serve(active: &ActiveModule) {
        let snapshot = StatePublisher::new().reader().snapshot();
        while active.runs() <= policy().probation.into() {
            let permit = RunPermit::acquire(active.module()).await.unwrap();
            let request = Arc::new(request("/version"));
            permit.execute(request, Arc::clone(&snapshot)).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_on_probation_is_rolled_back_if_the_previous_module_responds() {
        for (before, is_rolled_back) in [(Baseline::Responds, true), (Baseline::Fails, false)] {
            let new = ActiveModule::new(module(), Probation::New);
            assert!(new.failed(kind("/a"), &policy()), "it is compared");
            assert_eq!(new.compared(kind("/a"), before, &policy()), is_rolled_back);
            // Each kind of request is compared once.
            assert!(!new.failed(kind("/a"), &policy()));
        }
        let known = ActiveModule::new(module(), Probation::Known);
        assert!(!known.failed(kind("/a"), &policy()), "there is no module to compare with");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_after_probation_are_rolled_back_within_the_window_only() {
        for (pause, is_rolled_back) in [(1, true), (30, false)] {
            let new = ActiveModule::new(module(), Probation::New);
            serve(&new).await;
            assert!(new.failed(kind("/a"), &policy()));
            assert!(!new.compared(kind("/a"), Baseline::Responds, &policy()), "it is the only one");
            advance(Duration::from_secs(pause)).await;
            assert!(new.failed(kind("/b"), &policy()));
            let compared = new.compared(kind("/b"), Baseline::Responds, &policy());
            assert_eq!(compared, is_rolled_back, "after {pause} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn experience_with_a_request_ends_with_the_window() {
        let active = ActiveModule::first(module(), true);
        let experience = |path| active.experience(kind(path), &policy());
        assert_eq!(experience("/a"), Experience::Unknown);
        active.failed(kind("/a"), &policy());
        active.responded(kind("/b"), &policy());
        assert_eq!(experience("/a"), Experience::Fails);
        assert_eq!(experience("/b"), Experience::Responds);
        advance(policy().window + Duration::from_millis(1)).await;
        assert_eq!(experience("/a"), Experience::Unknown);
        active.responded(kind("/a"), &policy());
        assert_eq!(experience("/a"), Experience::Responds);
        // Failures of the API's first module have no consequences.
        let first = ActiveModule::first(module(), false);
        first.failed(kind("/a"), &policy());
        assert_eq!(first.experience(kind("/a"), &policy()), Experience::Unknown);
        assert!(!first.is_failing(&policy()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_backoff_starts_again_after_a_long_time_in_service() {
        // The delays vary by up to half.
        let half = policy().window / 2;
        let mut backoff = ActiveModule::first(module(), true).backoff(&policy());
        assert!((half..=policy().window).contains(&backoff.next_delay()));
        for _ in 0..10 {
            backoff.next_delay();
        }
        let back = ActiveModule::first(module(), true).back(backoff);
        assert!(back.backoff(&policy()).next_delay() >= MAX_WAIT / 2);
        advance(MAX_WAIT + Duration::from_secs(1)).await;
        assert!(back.backoff(&policy()).next_delay() <= policy().window);
    }
}
