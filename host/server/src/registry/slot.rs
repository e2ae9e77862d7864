//! The slot of a mount: its active module, its previous one, and the quarantined ones.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use relayer_rest_sandbox::{Digest, Module};

use super::active::{ActiveModule, Probation};
use super::circuit_breaker::CircuitBreaker;

/// The maximum number of quarantined modules; the oldest is dropped.
const MAX_QUARANTINED: usize = 32;

/// The active module of a mount, and the history of its modules. The lock of the history
/// is acquired before that of the circuit.
pub(super) struct ModuleSlot {
    active: ArcSwap<ActiveModule>,
    history: Mutex<History>,
    /// The circuit breaker of the active module; it is closed when another is activated.
    pub(super) circuit: Arc<CircuitBreaker>,
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
        Self {
            active: ArcSwap::from_pointee(first),
            history: Mutex::default(),
            circuit: Arc::default(),
        }
    }

    /// Creates the slot of a module that succeeds another slot's: that one's module is
    /// its previous one.
    pub(super) fn succeeding(module: Module, other: &Self) -> Self {
        let history = History {
            previous: Some(other.load().module().clone()),
            quarantined: other.history().quarantined.clone(),
        };
        let slot = Self::new(ActiveModule::new(module, Probation::New));
        Self { history: Mutex::new(history), ..slot }
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
        self.circuit.close_with(|| self.active.store(module));
    }

    fn history(&self) -> MutexGuard<'_, History> {
        // Nothing that panics is done while it is held.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
