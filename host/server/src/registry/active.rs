//! The active module of a mount, and its failures.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use relayer_rest_common::backoff::Backoff;
use relayer_rest_sandbox::Module;

use super::circuit_breaker::Experience;
use super::failure_policy::FailurePolicy;
use super::failure_window::{Baseline, FailureWindow, RequestKind, Runs};

/// The maximum time between two health checks of a failing module. The backoff of a
/// module that has been in service for longer starts again.
const MAX_WAIT: Duration = Duration::from_mins(5);

/// A module that is, or was, active.
#[derive(Debug)]
pub struct ActiveModule {
    module: Module,
    since: SystemTime,
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
            since: SystemTime::now(),
            window: Some(Mutex::default()),
            probation,
            backoff: None,
            module: module.afresh(),
        }
    }

    /// Returns the backoff for an open circuit. It continues the last one if that ended
    /// not long ago.
    pub(super) fn backoff(&self, budget: &FailurePolicy) -> Backoff {
        let is_long_ago = self.since.elapsed().is_ok_and(|time| time > MAX_WAIT);
        match &self.backoff {
            Some(backoff) if !is_long_ago => backoff.clone(),
            _ => Backoff::new(budget.window, MAX_WAIT),
        }
    }

    /// Returns the module.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.module
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
    pub fn faults(&self) -> u64 {
        self.module.faults()
    }

    /// Records a response.
    pub(super) fn responded(&self, kind: RequestKind, budget: &FailurePolicy) {
        if let Some(mut window) = self.window() {
            window.responded(kind, self.counts(), budget, Instant::now());
        }
    }

    /// Records a failure. Returns whether the previous module should be run on the same
    /// request.
    pub(super) fn failed(&self, kind: RequestKind, budget: &FailurePolicy) -> bool {
        let Some(mut window) = self.window() else { return false };
        window.failed(kind, self.counts(), budget, Instant::now());
        self.probation == Probation::New && window.wants_comparison(kind)
    }

    /// Records the result of the previous module for a request at which this one fails.
    /// Returns whether to roll back: the previous one responds, and this one fails among
    /// its first runs or at too many such requests.
    pub(super) fn compared(
        &self,
        kind: RequestKind,
        before: Baseline,
        budget: &FailurePolicy,
    ) -> bool {
        let Some(mut window) = self.window() else { return false };
        window.compared(kind, before);
        let is_new = before == Baseline::Answers && self.runs() <= u64::from(budget.probation);
        is_new || window.regressions() >= budget.failures as usize
    }

    /// Returns whether the module fails at most of its requests.
    pub(super) fn is_failing(&self, budget: &FailurePolicy) -> bool {
        let window = self.window();
        window.is_some_and(|window| window.is_failing(self.counts(), budget, Instant::now()))
    }

    /// Returns the module's earlier responses to requests of this kind.
    pub(super) fn experience(&self, kind: RequestKind, policy: &FailurePolicy) -> Experience {
        match self.window() {
            Some(window) if window.is_known_to_fail(kind, policy, Instant::now()) => {
                Experience::Fails
            }
            Some(window) if window.is_known_to_be_answered(kind) => Experience::Responds,
            _ => Experience::Unknown,
        }
    }

    fn counts(&self) -> Runs {
        Runs { all: self.runs(), failed: self.faults() }
    }

    fn window(&self) -> Option<MutexGuard<'_, FailureWindow>> {
        // Nothing that panics is done while it is held.
        Some(self.window.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
