//! The active module of a mount, and the history of its modules.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use super::circuit_breaker::MAX_WAIT;
use super::failure_policy::FailurePolicy;
use super::failure_window::{Baseline, FailureWindow, RequestKind, Runs};
use crate::backoff::Backoff;
use crate::module::{Digest, Module};

/// A module that is, or was, active.
#[derive(Debug)]
pub struct ActiveModule {
    pub(super) module: Module,
    pub(super) since: SystemTime,
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

/// The previous module of a mount, and the quarantined ones.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) previous: Option<Module>,
    /// The modules that were replaced because they failed, and how they failed.
    pub(super) quarantined: Vec<(Digest, String)>,
}

impl ActiveModule {
    /// Creates the entry of a module that was there from the start, or in service before.
    /// Failures have consequences only for an extension, whose circuit breaker may trip.
    pub(super) fn first(module: Module, is_extension: bool) -> Self {
        let active = Self::of(module, Probation::Known);
        if is_extension { active } else { Self { window: None, ..active } }
    }

    /// Creates the entry of a module whose circuit was open.
    pub(super) fn back(&self, backoff: Backoff) -> Self {
        Self { backoff: Some(backoff), ..Self::of(self.module.clone(), self.probation) }
    }

    pub(super) fn of(module: Module, probation: Probation) -> Self {
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
            _ => Backoff::new(budget.within, MAX_WAIT),
        }
    }

    /// Returns the module.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.module
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
    pub(super) fn answered(&self, kind: RequestKind, budget: &FailurePolicy) {
        if let Some(mut window) = self.window() {
            window.answered(kind, self.counts(), budget, Instant::now());
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
        let is_new = before == Baseline::Answers && self.runs() <= budget.first;
        is_new || window.regressions() >= budget.faults as usize
    }

    /// Returns whether the module fails at most of its requests.
    pub(super) fn is_failing(&self, budget: &FailurePolicy) -> bool {
        let window = self.window();
        window.is_some_and(|window| window.is_failing(self.counts(), budget, Instant::now()))
    }

    /// Returns whether the module fails at requests of this kind.
    pub(super) fn is_known_to_fail(&self, kind: RequestKind, budget: &FailurePolicy) -> bool {
        let window = self.window();
        window.is_some_and(|window| window.is_known_to_fail(kind, budget, Instant::now()))
    }

    /// Returns whether the module responds to requests of this kind.
    pub(super) fn is_known_to_answer(&self, kind: RequestKind) -> bool {
        self.window().is_some_and(|window| window.is_known_to_be_answered(kind))
    }

    fn counts(&self) -> Runs {
        Runs { all: self.runs(), failed: self.faults() }
    }

    fn window(&self) -> Option<MutexGuard<'_, FailureWindow>> {
        // Nothing that panics is done while it is held.
        Some(self.window.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl History {
    /// Returns why a module is quarantined.
    pub(super) fn reason_against(&self, digest: Digest) -> Option<&str> {
        let barred = self.quarantined.iter().find(|(barred, _)| *barred == digest);
        barred.map(|(_, reason)| reason.as_str())
    }
}
