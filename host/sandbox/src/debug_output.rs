//! The outputs of a run for debuggers: a core dump and a profile.

use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex, PoisonError};

use wasmtime::component::Component;
use wasmtime::{AsContext, AsContextMut, Engine, GuestProfiler, WasmCoreDump};

use super::epoch_ticker::TICK;

/// The outputs of a run that is repeated for a debugger. Cheap to clone: all clones have the same
/// outputs.
#[derive(Clone, Default)]
pub struct DebugOutput {
    wants_core_dump: bool,
    wants_profile: bool,
    outputs: Arc<Mutex<Outputs>>,
}

#[derive(Default)]
struct Outputs {
    core_dump: Option<Vec<u8>>,
    profiler: Option<GuestProfiler>,
}

impl DebugOutput {
    /// Keeps a core dump if the run traps, or if its time is over.
    #[must_use]
    pub fn with_core_dump(self) -> Self {
        Self { wants_core_dump: true, ..self }
    }

    /// Samples the stack of the guest every millisecond.
    #[must_use]
    pub fn with_profile(self) -> Self {
        Self { wants_profile: true, ..self }
    }

    /// Returns the core dump, in the format of the WebAssembly tool conventions. There is none if
    /// the run did not trap, or trapped while its instance was created.
    #[must_use]
    pub fn core_dump(&self) -> Option<Vec<u8>> {
        self.lock().core_dump.take()
    }

    /// Returns the profile as JSON for the profiler of Firefox; `None` if the run did not begin.
    #[must_use]
    pub fn profile(&self) -> Option<Vec<u8>> {
        let profiler = self.lock().profiler.take()?;
        let mut json = Vec::new();
        profiler.finish(&mut json).ok()?;
        Some(json)
    }

    /// Begins a profile, if one is wanted.
    pub(super) fn begin(&self, engine: &Engine, name: &str, component: &Component) {
        if self.wants_profile {
            let profiler =
                GuestProfiler::new_component(engine, name, TICK, component.clone(), []).ok();
            self.lock().profiler = profiler;
        }
    }

    /// Adds a sample to the profile.
    pub(super) fn sample(&self, store: impl AsContext) {
        if let Some(profiler) = &mut self.lock().profiler {
            profiler.sample(store, TICK);
        }
    }

    /// Keeps the core dump of an error, if one is wanted.
    pub(super) fn failed(&self, error: &wasmtime::Error, store: impl AsContextMut, name: &str) {
        if self.wants_core_dump
            && let Some(dump) = error.downcast_ref::<WasmCoreDump>()
        {
            self.lock().core_dump = Some(dump.serialize(store, name));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Outputs> {
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debug for DebugOutput {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { wants_core_dump, wants_profile, .. } = self;
        f.debug_struct("DebugOutput")
            .field("wants_core_dump", wants_core_dump)
            .field("wants_profile", wants_profile)
            .finish_non_exhaustive()
    }
}
