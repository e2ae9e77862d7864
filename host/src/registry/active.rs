//! A module in service, and those that were.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use super::circuit_breaker::MAX_WAIT;
use super::failure_policy::FailurePolicy;
use super::failure_window::{Baseline, FailureWindow, RequestKind, Runs};
use crate::backoff::Backoff;
use crate::module::{Digest, Module};

/// A module that is, or was, in service.
#[derive(Debug)]
pub struct ActiveModule {
    pub(super) module: Module,
    pub(super) since: SystemTime,
    /// Its failures; nothing where nothing follows from them.
    window: Option<Mutex<FailureWindow>>,
    probation: Probation,
    /// The waits while it was out of service, one after the other.
    backoff: Option<Backoff>,
}

/// What is known of a module when it comes into service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Probation {
    /// It is new, and there is another to go back to.
    New,
    /// It has been in service, or there was none before.
    Known,
}

/// The modules that were in service.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) previous: Option<Module>,
    /// Those that were taken out because they failed, and what is known of it.
    pub(super) quarantined: Vec<(Digest, String)>,
}

impl ActiveModule {
    /// One that was there from the start, or before. Only of an extension
    /// anything follows from failures: it can be taken out of service.
    pub(super) fn first(module: Module, is_extension: bool) -> Self {
        let active = Self::of(module, Probation::Known);
        if is_extension { active } else { Self { window: None, ..active } }
    }

    /// One that was out of service.
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

    /// The waits for when it is taken out of service: longer ones where it was
    /// so not long ago.
    pub(super) fn backoff(&self, budget: &FailurePolicy) -> Backoff {
        let is_long_ago = self.since.elapsed().is_ok_and(|time| time > MAX_WAIT);
        match &self.backoff {
            Some(backoff) if !is_long_ago => backoff.clone(),
            _ => Backoff::new(budget.within, MAX_WAIT),
        }
    }

    /// The module.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// How often it was asked since it came into service.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.module.runs()
    }

    /// How often it failed since it came into service.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.module.faults()
    }

    /// Notes that it has answered.
    pub(super) fn answered(&self, kind: RequestKind, budget: &FailurePolicy) {
        if let Some(mut window) = self.window() {
            window.answered(kind, self.counts(), budget, Instant::now());
        }
    }

    /// Notes that it has failed. Says whether the module before is to be asked the
    /// same.
    pub(super) fn failed(&self, kind: RequestKind, budget: &FailurePolicy) -> bool {
        let Some(mut window) = self.window() else { return false };
        window.failed(kind, self.counts(), budget, Instant::now());
        self.probation == Probation::New && window.wants_comparison(kind)
    }

    /// Notes what the module before does where this one fails. Says whether that one
    /// is to be put back: this one fails there among its first runs, or at too many
    /// such requests.
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

    /// Whether it fails at most of what it is asked.
    pub(super) fn is_failing(&self, budget: &FailurePolicy) -> bool {
        let window = self.window();
        window.is_some_and(|window| window.is_failing(self.counts(), budget, Instant::now()))
    }

    /// Whether it fails at such requests.
    pub(super) fn is_known_to_fail(&self, kind: RequestKind, budget: &FailurePolicy) -> bool {
        let window = self.window();
        window.is_some_and(|window| window.is_known_to_fail(kind, budget, Instant::now()))
    }

    /// Whether it answers such requests.
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
    /// Why a module is not taken any more.
    pub(super) fn reason_against(&self, digest: Digest) -> Option<&str> {
        let barred = self.quarantined.iter().find(|(barred, _)| *barred == digest);
        barred.map(|(_, reason)| reason.as_str())
    }
}
