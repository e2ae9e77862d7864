//! Single-flight: concurrent requests for the same key share one module run.
//!
//! A run is cancelled when its last waiter is dropped.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use relayer_rest_sandbox::{CallError, GuestRequest};
use relayer_rest_state::Generation;

use super::key::CacheKey;
use super::recorded::RecordedResponse;

/// The result of a run: a response, or why there is none.
pub type Outcome = Result<Arc<RecordedResponse>, Arc<CallError>>;

/// The result of a shared run, and the snapshot generation it started on.
#[derive(Clone)]
pub(super) struct RunResult {
    pub(super) response: Outcome,
    pub(super) started_on: Generation,
    /// The request of the leader.
    pub(super) request: Arc<GuestRequest>,
}

impl RunResult {
    /// Returns whether a failure of this run applies to another request under the same
    /// key. The reads of a failed run are unknown, so only an identical request is known
    /// to fail in the same way. Overload applies to all requests.
    pub(super) fn applies_to(&self, request: &GuestRequest) -> bool {
        let was_not_run = |error: &Arc<CallError>| error.is_overload();
        self.response.as_ref().is_err_and(was_not_run)
            || (self.request.target == request.target && self.request.headers == request.headers)
    }
}

type Run = BoxFuture<'static, RunResult>;

/// Runs in progress, by cache key.
#[derive(Default)]
pub(super) struct InFlight {
    pending: Mutex<HashMap<CacheKey, Pending>>,
    next_id: AtomicU64,
}

struct Pending {
    id: u64,
    run: WeakShared<Run>,
}

/// Removes a run from [`InFlight`] when it completes or is cancelled.
struct RemoveOnDrop {
    in_flight: Arc<InFlight>,
    key: CacheKey,
    id: u64,
}

/// Whether a caller of [`InFlight::join`] started the run or joined one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Leader,
    Follower,
}

impl InFlight {
    /// Joins the run for `key`, or starts `run` if there is none.
    pub(super) fn join(
        self: &Arc<Self>,
        key: &CacheKey,
        run: impl FnOnce() -> Run,
    ) -> (Shared<Run>, Role) {
        let mut open = self.pending();
        if let Some(run) = open.get(key).and_then(|open| open.run.upgrade()) {
            return (run, Role::Follower);
        }
        let id = self.next_id.fetch_add(1, Relaxed);
        let remove_on_drop = RemoveOnDrop { in_flight: Arc::clone(self), key: key.clone(), id };
        let run = run();
        let run = async move {
            let _landing = remove_on_drop;
            run.await
        };
        let run = run.boxed().shared();
        let weak = run.downgrade().expect("a run that has not begun has not ended");
        open.insert(key.clone(), Pending { id, run: weak });
        (run, Role::Leader)
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<CacheKey, Pending>> {
        // Nothing that panics is done while it is held.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        let mut open = self.in_flight.pending();
        // A newer run may have started after the last waiter of this one was dropped.
        if open.get(&self.key).is_some_and(|open| open.id == self.id) {
            open.remove(&self.key);
        }
    }
}
