//! The slot of a mount: its active module, its previous one, and the quarantined ones.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use relayer_rest_sandbox::{Digest, Module};

use super::active::{ActiveModule, Probation};
use super::circuit_breaker::CircuitBreaker;
use super::deployment_counts::DeploymentCounts;

/// The maximum number of quarantined modules; the oldest is dropped.
const MAX_QUARANTINED: usize = 32;

/// The active module of a mount, and the history of its modules. The lock of the history
/// is acquired before that of the circuit.
pub(super) struct ModuleSlot {
    active: ArcSwap<ActiveModule>,
    history: Mutex<History>,
    /// The circuit breaker of the active module; it is closed when another is activated.
    pub(super) circuit: Arc<CircuitBreaker>,
    pub(super) counts: Arc<DeploymentCounts>,
}

/// The previous module of a mount, and the quarantined ones.
#[derive(Debug, Default)]
struct History {
    previous: Option<Module>,
    /// The modules that were replaced because they failed, and how they failed.
    quarantined: Vec<(Digest, String)>,
}

impl ModuleSlot {
    /// Creates the slot of a first module.
    pub(super) fn new(first: ActiveModule) -> Self {
        let counts = Arc::<DeploymentCounts>::default();
        counts.activated(first.module());
        Self {
            active: ArcSwap::from_pointee(first),
            history: Mutex::default(),
            circuit: Arc::default(),
            counts,
        }
    }

    /// Creates the slot of a module that succeeds another slot's: that one's module is
    /// its previous one.
    pub(super) fn succeeding(module: Module, other: &Self) -> Self {
        let history = History {
            previous: Some(other.load().module().clone()),
            quarantined: other.history().quarantined.clone(),
        };
        let counts = Arc::clone(&other.counts);
        counts.activated(&module);
        let slot = Self::new(ActiveModule::new(module, Probation::New));
        Self { history: Mutex::new(history), counts, ..slot }
    }

    /// Returns the active module, borrowed for a short time.
    pub(super) fn load(&self) -> Guard<Arc<ActiveModule>> {
        self.active.load()
    }

    /// Returns the active module.
    pub(super) fn load_full(&self) -> Arc<ActiveModule> {
        self.active.load_full()
    }

    /// Returns whether this is still the active module.
    pub(super) fn is_active(&self, module: &Arc<ActiveModule>) -> bool {
        Arc::ptr_eq(&self.load(), module)
    }

    /// Returns the previous module.
    pub(super) fn previous(&self) -> Option<Module> {
        self.history().previous.clone()
    }

    /// Returns why a module is quarantined.
    pub(super) fn reason_against(&self, digest: Digest) -> Option<String> {
        let history = self.history();
        let quarantined = history.quarantined.iter().find(|(other, _)| *other == digest);
        quarantined.map(|(_, reason)| reason.clone())
    }

    /// Returns the quarantined modules, and how they failed.
    pub(super) fn quarantined(&self) -> Vec<(Digest, String)> {
        self.history().quarantined.clone()
    }

    /// Activates a new module instead of `expected`, which becomes the previous one. A
    /// forced candidate leaves quarantine. Returns the entry of the new module, or `None`
    /// and changes nothing if another module is active by now.
    pub(super) fn exchange(
        &self,
        module: Module,
        expected: &Arc<ActiveModule>,
    ) -> Option<Arc<ActiveModule>> {
        let mut history = self.history();
        if !self.is_active(expected) {
            return None;
        }
        let new = Arc::new(ActiveModule::new(module, Probation::New));
        self.activate(Arc::clone(&new));
        history.quarantined.retain(|(digest, _)| *digest != new.module().digest());
        history.previous = Some(expected.module().clone());
        self.counts.swapped();
        Some(new)
    }

    /// Activates the previous module; a second call undoes the first. Returns the module
    /// that was active, and the new one, or `None` without a previous module.
    pub(super) fn roll_back(
        &self,
        entry: impl FnOnce(Module) -> ActiveModule,
    ) -> Option<(Arc<ActiveModule>, Arc<ActiveModule>)> {
        let mut history = self.history();
        let new = Arc::new(entry(history.previous.take()?));
        let old = self.load_full();
        self.activate(Arc::clone(&new));
        history.previous = Some(old.module().clone());
        self.counts.rolled_back();
        Some((old, new))
    }

    /// Quarantines the active module and activates the previous one. Returns that, or
    /// `None` and changes nothing if there is no previous module or another module is
    /// active by now.
    pub(super) fn quarantine(
        &self,
        failed: &Arc<ActiveModule>,
        reason: String,
        entry: impl FnOnce(Module) -> ActiveModule,
    ) -> Option<Arc<ActiveModule>> {
        let mut history = self.history();
        if !self.is_active(failed) {
            return None;
        }
        let new = Arc::new(entry(history.previous.take()?));
        if history.quarantined.len() == MAX_QUARANTINED {
            history.quarantined.remove(0);
        }
        history.quarantined.push((failed.module().digest(), reason));
        self.activate(Arc::clone(&new));
        self.counts.rolled_back();
        Some(new)
    }

    /// Replaces the entry of a module, and closes the circuit. Returns `false`, and
    /// changes nothing, if another module is active by now.
    pub(super) fn renew(&self, active: &Arc<ActiveModule>, entry: ActiveModule) -> bool {
        let _history = self.history();
        let is_active = self.is_active(active);
        if is_active {
            self.activate(Arc::new(entry));
        }
        is_active
    }

    /// Activates a module, whichever was active before, and closes the circuit.
    fn activate(&self, module: Arc<ActiveModule>) {
        self.counts.activated(module.module());
        self.circuit.close_with(|| self.active.store(module));
    }

    fn history(&self) -> MutexGuard<'_, History> {
        // Nothing that panics is done while it is held.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_QUARANTINED, ModuleSlot};
    use crate::registry::active::{ActiveModule, Probation};
    use crate::registry::test_module;
    use relayer_rest_sandbox::{Digest, Module};
    use std::sync::Arc;
    use std::time::Duration;

    fn first(module: Module) -> ActiveModule {
        ActiveModule::first(module, true)
    }

    fn digest(number: u8) -> Digest {
        test_module(number).digest()
    }

    /// Returns a slot in which module 1 has replaced module 0.
    fn swapped() -> ModuleSlot {
        let slot = ModuleSlot::new(first(test_module(0)));
        let old = slot.load_full();
        slot.exchange(test_module(1), &old).unwrap();
        slot
    }

    fn active(slot: &ModuleSlot) -> Digest {
        slot.load().module().digest()
    }

    fn trip(slot: &ModuleSlot) {
        assert!(slot.circuit.trip_if(|| true, "it fails".to_owned(), Duration::from_secs(1)));
    }

    #[test]
    fn a_rollback_restores_the_previous_module_and_the_next_one_undoes_it() {
        assert!(ModuleSlot::new(first(test_module(0))).roll_back(first).is_none());
        let slot = swapped();
        for (from, to) in [(1, 0), (0, 1), (1, 0)] {
            let (old, new) = slot.roll_back(first).unwrap();
            assert_eq!(old.module().digest(), digest(from));
            assert_eq!((new.module().digest(), active(&slot)), (digest(to), digest(to)));
            assert_eq!(slot.previous().unwrap().digest(), digest(from));
        }
    }

    #[test]
    fn a_quarantined_module_is_replaced_by_the_previous_one_and_is_not_previous() {
        let slot = swapped();
        let failed = slot.load_full();
        assert!(slot.quarantine(&failed, "it traps".to_owned(), first).is_some());
        assert_eq!(active(&slot), digest(0));
        assert!(slot.previous().is_none());
        assert_eq!(slot.reason_against(digest(1)).as_deref(), Some("it traps"));
        assert_eq!(slot.reason_against(digest(0)), None);
        // Another client that saw the failure changes nothing.
        assert!(slot.quarantine(&failed, "it traps".to_owned(), first).is_none());
        // The first module has no previous one.
        let first_one = slot.load_full();
        assert!(slot.quarantine(&first_one, "it traps".to_owned(), first).is_none());
        assert_eq!(slot.quarantined().len(), 1);
    }

    #[test]
    fn a_forced_candidate_leaves_quarantine() {
        let slot = swapped();
        slot.quarantine(&slot.load_full(), "it traps".to_owned(), first).unwrap();
        let expected = slot.load_full();
        slot.exchange(test_module(1), &expected).unwrap();
        assert_eq!((active(&slot), slot.quarantined()), (digest(1), Vec::new()));
    }

    #[test]
    fn a_swap_fails_if_another_module_was_activated_meanwhile() {
        let slot = swapped();
        let compared = slot.load_full();
        slot.roll_back(first).unwrap();
        assert!(slot.exchange(test_module(2), &compared).is_none());
        assert_eq!(active(&slot), digest(0));
        assert_eq!(slot.previous().unwrap().digest(), digest(1));
        assert!(!slot.renew(&compared, first(test_module(1))));
    }

    #[tokio::test(start_paused = true)]
    async fn each_activation_closes_the_circuit() {
        let slot = swapped();
        trip(&slot);
        slot.roll_back(first).unwrap();
        assert!(!slot.circuit.is_open());
        trip(&slot);
        let active = slot.load_full();
        slot.exchange(test_module(2), &active).unwrap();
        assert!(!slot.circuit.is_open());
        trip(&slot);
        slot.quarantine(&slot.load_full(), "it traps".to_owned(), first).unwrap();
        assert!(!slot.circuit.is_open());
        trip(&slot);
        assert!(slot.renew(&slot.load_full(), first(test_module(0))));
        assert!(!slot.circuit.is_open());
    }

    #[test]
    fn the_oldest_of_many_quarantined_modules_is_dropped() {
        let slot = swapped();
        let failed = |number: usize| format!("failure {number}");
        for number in 0..=MAX_QUARANTINED {
            slot.quarantine(&slot.load_full(), failed(number), first).unwrap();
            // Restored by hand, so that it does not leave quarantine.
            let new = Arc::new(ActiveModule::new(test_module(1), Probation::New));
            slot.history().previous = Some(slot.load().module().clone());
            slot.activate(new);
        }
        let quarantined = slot.quarantined();
        assert_eq!(quarantined.len(), MAX_QUARANTINED);
        assert_eq!(quarantined[0].1, failed(1));
    }
}
