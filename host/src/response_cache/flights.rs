//! Runs that are shared by all who wait for them.
//!
//! A run goes on as long as anybody waits for it, whoever began it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};

use super::key::Key;
use crate::answer::Answer;
use crate::module::{CallError, ModuleRequest};
use crate::state::Generation;

/// How a run ends.
pub type Outcome = Result<Arc<Answer>, Arc<CallError>>;

/// What comes of a run, and the generation of the state when it began.
#[derive(Clone)]
pub(super) struct Landed {
    pub(super) outcome: Outcome,
    pub(super) began: Generation,
    /// The request that was run, or would have been.
    pub(super) request: Arc<ModuleRequest>,
}

impl Landed {
    /// Whether a failure of this run is that of another request under the same key,
    /// too. What a failed run has read is not known, so only an identical request is
    /// known to fail in the same way. A request that was turned away, or found no
    /// processor, says nothing but how busy the server is, which holds for all.
    pub(super) fn fails_for(&self, request: &ModuleRequest) -> bool {
        let was_not_run = |error: &Arc<CallError>| error.is_overload();
        self.outcome.as_ref().is_err_and(was_not_run)
            || (self.request.target == request.target && self.request.headers == request.headers)
    }
}

type Run = BoxFuture<'static, Landed>;

/// The runs that somebody waits for.
#[derive(Default)]
pub(super) struct Flights {
    open: Mutex<HashMap<Key, Open>>,
    count: AtomicU64,
}

struct Open {
    number: u64,
    run: WeakShared<Run>,
}

/// Takes a run off the list when it ends, or when nobody waits for it.
struct Landing {
    flights: Arc<Flights>,
    key: Key,
    number: u64,
}

impl Flights {
    /// The run for this key, and whether it was just begun.
    pub(super) fn join(
        self: &Arc<Self>,
        key: &Key,
        run: impl FnOnce() -> Run,
    ) -> (Shared<Run>, bool) {
        let mut open = self.open();
        if let Some(run) = open.get(key).and_then(|open| open.run.upgrade()) {
            return (run, false);
        }
        let number = self.count.fetch_add(1, Relaxed);
        let landing = Landing { flights: Arc::clone(self), key: key.clone(), number };
        let run = run();
        let run = async move {
            let _landing = landing;
            run.await
        };
        let run = run.boxed().shared();
        let weak = run.downgrade().expect("a run that has not begun has not ended");
        open.insert(key.clone(), Open { number, run: weak });
        (run, true)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Key, Open>> {
        // Nothing that panics is done while it is held.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        let mut open = self.flights.open();
        // There may be a newer one: begun when nobody waited for this any more.
        if open.get(&self.key).is_some_and(|open| open.number == self.number) {
            open.remove(&self.key);
        }
    }
}
