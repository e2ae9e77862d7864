//! The slot of a mount: its active module, its previous one, and the quarantined ones.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::{ArcSwap, Guard};
use relayer_rest_sandbox::{Digest, Module};
use tokio::sync::watch;

use super::active::{ActiveModule, Probation};
use super::circuit_breaker::CircuitBreaker;
use super::deployment_counts::DeploymentCounts;

/// The maximum number of quarantined modules; the oldest is dropped.
const MAX_QUARANTINED: usize = 32;

/// The active module of a mount, and the history of its modules. The lock of the history
/// is acquired before that of the circuit.
#[derive(Default)]
pub(super) struct ModuleSlot {
    /// Empty until the first module is activated, and never again after that.
    active: OnceLock<ArcSwap<ActiveModule>>,
    history: Mutex<History>,
    /// The circuit breaker of the active module; it is closed when another is activated.
    pub(super) circuit: Arc<CircuitBreaker>,
    pub(super) counts: Arc<DeploymentCounts>,
    /// Notifies of activations.
    pub(super) activations: watch::Sender<()>,
}

/// The reason why a mount has no active module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Vacancy {
    /// Its first module is being compiled or checked, or waits for that.
    #[default]
    Loading,
    /// Its first module was rejected.
    Disabled {
        /// The reason.
        reason: String,
    },
}

/// The previous module of a mount, and the quarantined ones.
#[derive(Debug, Default)]
struct History {
    /// The reason why the slot is empty, while it is.
    vacancy: Vacancy,
    previous: Option<Module>,
    /// The modules that were replaced because they failed, and how they failed.
    quarantined: Vec<(Digest, String)>,
}

impl ModuleSlot {
    /// Creates an empty slot with the counters and the quarantined modules of another one,
    /// and with its active module as the previous one.
    pub(super) fn succeeding(other: &Self) -> Self {
        let previous = other.load_full().map(|active| active.module().clone());
        let counts = Arc::clone(&other.counts);
        let history = History { previous, ..other.replaced() };
        Self { history: Mutex::new(history), counts, ..Self::default() }
    }

    /// Creates an empty slot with the quarantined modules of another one.
    pub(super) fn replacing(other: &Self) -> Self {
        Self { history: Mutex::new(other.replaced()), ..Self::default() }
    }

    /// Returns the part of the history that remains when the mount is replaced.
    fn replaced(&self) -> History {
        History { quarantined: self.quarantined(), ..History::default() }
    }

    /// Returns the active module, borrowed for a short time.
    pub(super) fn load(&self) -> Option<Guard<Arc<ActiveModule>>> {
        self.active.get().map(ArcSwap::load)
    }

    /// Returns the active module.
    pub(super) fn load_full(&self) -> Option<Arc<ActiveModule>> {
        self.active.get().map(ArcSwap::load_full)
    }

    /// Returns why the slot is empty, if it is.
    pub(super) fn vacancy(&self) -> Option<Vacancy> {
        let vacancy = self.history().vacancy.clone();
        self.active.get().is_none().then_some(vacancy)
    }

    /// Records why the first module was rejected.
    pub(super) fn disable(&self, reason: String) {
        self.history().vacancy = Vacancy::Disabled { reason };
    }

    /// Activates the first module. It is on probation if there is a previous module to roll
    /// back to; otherwise, `entry` makes its entry. Returns the entry, or `None` and changes
    /// nothing if another module is active by now.
    pub(super) fn fill(
        &self,
        module: Module,
        entry: impl FnOnce(Module) -> ActiveModule,
    ) -> Option<Arc<ActiveModule>> {
        let history = self.history();
        let new = Arc::new(match history.previous {
            Some(_) => ActiveModule::new(module, Probation::New),
            None => entry(module),
        });
        self.active.set(ArcSwap::new(Arc::clone(&new))).ok()?;
        self.counts.activated(new.module());
        self.activations.send_replace(());
        Some(new)
    }

    /// Returns whether this is still the active module.
    pub(super) fn is_active(&self, module: &Arc<ActiveModule>) -> bool {
        self.load().is_some_and(|active| Arc::ptr_eq(&active, module))
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
        self.exchange_with(module, expected, |module| ActiveModule::new(module, Probation::New))
    }

    /// Activates a module as [`ModuleSlot::exchange`] does; `entry` makes its entry.
    pub(super) fn exchange_with(
        &self,
        module: Module,
        expected: &Arc<ActiveModule>,
        entry: impl FnOnce(Module) -> ActiveModule,
    ) -> Option<Arc<ActiveModule>> {
        let mut history = self.history();
        if !self.is_active(expected) {
            return None;
        }
        let new = Arc::new(entry(module));
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
        let old = self.load_full()?;
        let new = Arc::new(entry(history.previous.take()?));
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

    /// Activates a module instead of another one, and closes the circuit.
    fn activate(&self, module: Arc<ActiveModule>) {
        let Some(active) = self.active.get() else { return };
        self.counts.activated(module.module());
        self.circuit.close_with(|| active.store(module));
        self.activations.send_replace(());
    }

    fn history(&self) -> MutexGuard<'_, History> {
        // Nothing that panics is done while it is held.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_QUARANTINED, ModuleSlot, Vacancy};
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

    /// Returns a slot with module 0.
    fn filled() -> ModuleSlot {
        let slot = ModuleSlot::default();
        slot.fill(test_module(0), first).unwrap();
        slot
    }

    /// Returns a slot in which module 1 has replaced module 0.
    fn swapped() -> ModuleSlot {
        let slot = filled();
        slot.exchange(test_module(1), &entry(&slot)).unwrap();
        slot
    }

    fn entry(slot: &ModuleSlot) -> Arc<ActiveModule> {
        slot.load_full().unwrap()
    }

    fn active(slot: &ModuleSlot) -> Digest {
        entry(slot).module().digest()
    }

    fn trip(slot: &ModuleSlot) {
        assert!(slot.circuit.trip_if(|| true, "it fails".to_owned(), Duration::from_secs(1)));
    }

    #[test]
    fn an_empty_slot_is_filled_once() {
        let slot = ModuleSlot::default();
        assert_eq!(slot.vacancy(), Some(Vacancy::Loading));
        assert!(slot.load().is_none() && slot.roll_back(first).is_none());
        let reason = "it traps".to_owned();
        slot.disable(reason.clone());
        assert_eq!(slot.vacancy(), Some(Vacancy::Disabled { reason }));
        assert!(slot.fill(test_module(0), first).is_some());
        assert_eq!((slot.vacancy(), active(&slot)), (None, digest(0)));
        assert!(slot.fill(test_module(1), first).is_none());
        assert_eq!(active(&slot), digest(0));
    }

    #[test]
    fn a_slot_keeps_the_quarantined_modules_of_its_predecessor() {
        let old = swapped();
        old.quarantine(&entry(&old), "it traps".to_owned(), first).unwrap();
        let successor = ModuleSlot::succeeding(&old);
        let replacement = ModuleSlot::replacing(&old);
        for slot in [&successor, &replacement] {
            assert_eq!(slot.reason_against(digest(1)).as_deref(), Some("it traps"));
            assert_eq!(slot.vacancy(), Some(Vacancy::Loading));
        }
        assert_eq!(successor.previous().unwrap().digest(), digest(0));
        assert!(replacement.previous().is_none());
    }

    #[test]
    fn a_rollback_restores_the_previous_module_and_the_next_one_undoes_it() {
        assert!(filled().roll_back(first).is_none());
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
        let failed = entry(&slot);
        assert!(slot.quarantine(&failed, "it traps".to_owned(), first).is_some());
        assert_eq!(active(&slot), digest(0));
        assert!(slot.previous().is_none());
        assert_eq!(slot.reason_against(digest(1)).as_deref(), Some("it traps"));
        assert_eq!(slot.reason_against(digest(0)), None);
        // Another client that saw the failure changes nothing.
        assert!(slot.quarantine(&failed, "it traps".to_owned(), first).is_none());
        // The first module has no previous one.
        let first_one = entry(&slot);
        assert!(slot.quarantine(&first_one, "it traps".to_owned(), first).is_none());
        assert_eq!(slot.quarantined().len(), 1);
    }

    #[test]
    fn a_forced_candidate_leaves_quarantine() {
        let slot = swapped();
        slot.quarantine(&entry(&slot), "it traps".to_owned(), first).unwrap();
        let expected = entry(&slot);
        slot.exchange(test_module(1), &expected).unwrap();
        assert_eq!((active(&slot), slot.quarantined()), (digest(1), Vec::new()));
    }

    #[test]
    fn a_swap_fails_if_another_module_was_activated_meanwhile() {
        let slot = swapped();
        let compared = entry(&slot);
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
        let active = entry(&slot);
        slot.exchange(test_module(2), &active).unwrap();
        assert!(!slot.circuit.is_open());
        trip(&slot);
        slot.quarantine(&entry(&slot), "it traps".to_owned(), first).unwrap();
        assert!(!slot.circuit.is_open());
        trip(&slot);
        assert!(slot.renew(&entry(&slot), first(test_module(0))));
        assert!(!slot.circuit.is_open());
    }

    #[test]
    fn the_oldest_of_many_quarantined_modules_is_dropped() {
        let slot = swapped();
        let failed = |number: usize| format!("failure {number}");
        for number in 0..=MAX_QUARANTINED {
            slot.quarantine(&entry(&slot), failed(number), first).unwrap();
            // Restored by hand, so that it does not leave quarantine.
            let new = Arc::new(ActiveModule::new(test_module(1), Probation::New));
            slot.history().previous = Some(entry(&slot).module().clone());
            slot.activate(new);
        }
        let quarantined = slot.quarantined();
        assert_eq!(quarantined.len(), MAX_QUARANTINED);
        assert_eq!(quarantined[0].1, failed(1));
    }
}
