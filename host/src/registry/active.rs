//! A module in service, and those that were.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use super::budget::FaultBudget;
use super::outage::LONGEST_WAIT;
use super::window::{Before, FailureWindow, Kind, Runs};
use crate::backoff::Backoff;
use crate::module::{Digest, Module};

/// A module that is, or was, in service.
#[derive(Debug)]
pub struct Active {
    pub(super) module: Module,
    pub(super) since: SystemTime,
    /// Its failures; nothing where nothing follows from them.
    window: Option<Mutex<FailureWindow>>,
    trust: Trust,
    /// The waits while it was out of service, one after the other.
    backoff: Option<Backoff>,
}

/// What is known of a module when it comes into service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// It is new, and there is another to go back to.
    New,
    /// It has been in service, or there was none before.
    Known,
}

/// The modules that were in service.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) previous: Option<Module>,
    /// Those that were taken out because they failed, and what is known of it.
    pub(super) barred: Vec<(Digest, String)>,
}

impl Active {
    /// One that was there from the start, or before. Only of an extension
    /// anything follows from failures: it can be taken out of service.
    pub(super) fn first(module: Module, is_extension: bool) -> Self {
        let active = Self::of(module, Trust::Known);
        if is_extension { active } else { Self { window: None, ..active } }
    }

    /// One that was out of service.
    pub(super) fn back(&self, backoff: Backoff) -> Self {
        Self { backoff: Some(backoff), ..Self::of(self.module.clone(), self.trust) }
    }

    pub(super) fn of(module: Module, trust: Trust) -> Self {
        Self {
            since: SystemTime::now(),
            window: Some(Mutex::default()),
            trust,
            backoff: None,
            module: module.afresh(),
        }
    }

    /// The waits for when it is taken out of service: longer ones where it was
    /// so not long ago.
    pub(super) fn backoff(&self, budget: &FaultBudget) -> Backoff {
        let is_long_ago = self.since.elapsed().is_ok_and(|time| time > LONGEST_WAIT);
        match &self.backoff {
            Some(backoff) if !is_long_ago => backoff.clone(),
            _ => Backoff::new(budget.within, LONGEST_WAIT),
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
    pub(super) fn answered(&self, kind: Kind, budget: &FaultBudget) {
        if let Some(mut window) = self.window() {
            window.answered(kind, self.counts(), budget, Instant::now());
        }
    }

    /// Notes that it has failed. Says whether the module before is to be asked the
    /// same.
    pub(super) fn failed(&self, kind: Kind, budget: &FaultBudget) -> bool {
        let Some(mut window) = self.window() else { return false };
        window.failed(kind, self.counts(), budget, Instant::now());
        self.trust == Trust::New && window.wants_comparison(kind)
    }

    /// Notes what the module before does where this one fails. Says whether that one
    /// is to be put back: this one fails there among its first runs, or at too many
    /// such requests.
    pub(super) fn compared(&self, kind: Kind, before: Before, budget: &FaultBudget) -> bool {
        let Some(mut window) = self.window() else { return false };
        window.compared(kind, before);
        let is_new = before == Before::Answers && self.runs() <= budget.first;
        is_new || window.regressions() >= budget.faults as usize
    }

    /// Whether it fails at most of what it is asked.
    pub(super) fn is_failing(&self, budget: &FaultBudget) -> bool {
        let window = self.window();
        window.is_some_and(|window| window.is_failing(self.counts(), budget, Instant::now()))
    }

    /// Whether it fails at such requests.
    pub(super) fn is_known_to_fail(&self, kind: Kind, budget: &FaultBudget) -> bool {
        let window = self.window();
        window.is_some_and(|window| window.is_known_to_fail(kind, budget, Instant::now()))
    }

    /// Whether it answers such requests.
    pub(super) fn is_known_to_answer(&self, kind: Kind) -> bool {
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

impl Past {
    /// Why a module is not taken any more.
    pub(super) fn reason_against(&self, digest: Digest) -> Option<&str> {
        let barred = self.barred.iter().find(|(barred, _)| *barred == digest);
        barred.map(|(_, reason)| reason.as_str())
    }
}
