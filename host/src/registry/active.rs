//! A module in service, and those that were.

use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use super::budget::{FaultBudget, Spending};
use super::outage::LONGEST_WAIT;
use crate::backoff::Backoff;
use crate::module::{Digest, Module};

/// A module that is, or was, in service.
#[derive(Debug)]
pub struct Active {
    pub(super) module: Module,
    pub(super) since: SystemTime,
    /// The failures that it may have; nothing where nothing follows from them.
    spending: Option<Mutex<Spending>>,
    trust: Trust,
    /// The waits while it was out of service, one after the other.
    backoff: Option<Backoff>,
}

/// What is known of a module when it comes into service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// One failure at the start is too many: it is new, and there is another to
    /// go back to; or it has just been out of service.
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
        if is_extension { active } else { Self { spending: None, ..active } }
    }

    /// One that was out of service.
    pub(super) fn back(module: Module, backoff: Backoff) -> Self {
        Self { backoff: Some(backoff), ..Self::of(module, Trust::New) }
    }

    pub(super) fn of(module: Module, trust: Trust) -> Self {
        Self {
            since: SystemTime::now(),
            spending: Some(Mutex::default()),
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

    pub(super) fn has_spent(&self, budget: &FaultBudget) -> bool {
        self.spending.as_ref().is_some_and(|spending| {
            let mut spending = spending.lock().unwrap_or_else(PoisonError::into_inner);
            let first = self.module.first_fault().filter(|_| self.trust == Trust::New);
            spending.is_spent(budget, first, self.faults(), Instant::now())
        })
    }
}

impl Past {
    /// Why a module is not taken any more.
    pub(super) fn reason_against(&self, digest: Digest) -> Option<&str> {
        let barred = self.barred.iter().find(|(barred, _)| *barred == digest);
        barred.map(|(_, reason)| reason.as_str())
    }
}
