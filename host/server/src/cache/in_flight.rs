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
pub type ResponseResult = Result<Arc<RecordedResponse>, Arc<CallError>>;

/// The result of a shared run, and the snapshot generation it started on.
#[derive(Clone)]
pub(super) struct RunResult {
    pub(super) response: ResponseResult,
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
    /// The number of requests that joined the run of another one.
    joined: AtomicU64,
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
            self.joined.fetch_add(1, Relaxed);
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

    /// Returns the number of requests that joined the run of another one.
    pub(super) fn joined(&self) -> u64 {
        self.joined.load(Relaxed)
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

#[cfg(test)]
mod tests {
    use super::{InFlight, Role, Run, RunResult};
    use crate::cache::key::{CacheKey, CacheKeyRef, RequestRef};
    use futures_util::FutureExt;
    use futures_util::future::{join_all, pending};
    use relayer_rest_sandbox::{CallError, Digest, GuestRequest, TrapKind, Trapped};
    use relayer_rest_state::StatePublisher;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::time::{Instant, sleep};

    fn request(target: &'static str) -> Arc<GuestRequest> {
        let target = target.parse().unwrap();
        let headers = http::HeaderMap::new();
        Arc::new(GuestRequest::new(http::Method::GET, target, headers))
    }

    fn key(path: &'static str) -> CacheKey {
        let request = request(path);
        CacheKeyRef::new(Digest::new(b"module"), RequestRef::from(&*request)).key()
    }

    /// Returns the result of a run that fails with this error.
    fn failed(error: CallError) -> RunResult {
        let started_on = StatePublisher::new().reader().snapshot().generation();
        RunResult { response: Err(Arc::new(error)), started_on, request: request("/a?b") }
    }

    fn trap(cause: String) -> CallError {
        CallError::Trap(Trapped { kind: TrapKind::Other, cause })
    }

    /// Returns a run that takes this time.
    fn run(seconds: u64) -> Run {
        async move {
            sleep(Duration::from_secs(seconds)).await;
            failed(trap(format!("after {seconds} s")))
        }
        .boxed()
    }

    fn count(in_flight: &InFlight) -> usize {
        in_flight.pending().len()
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_waiters_share_the_run_of_the_first_one() {
        let (in_flight, start) = (Arc::new(InFlight::default()), Instant::now());
        let wait = async |delay: u64, seconds: u64| {
            sleep(Duration::from_secs(delay)).await;
            let (shared, role) = in_flight.join(&key("/a"), || run(seconds));
            let error = shared.await.response.unwrap_err().to_string();
            (role, error, start.elapsed().as_secs())
        };
        // The last one comes after the end of the run.
        let found = join_all([wait(0, 5), wait(2, 7), wait(4, 7), wait(6, 3)]).await;
        let of_first = |role| (role, "the module trapped: after 5 s".to_owned(), 5);
        assert_eq!(found[0], of_first(Role::Leader));
        assert_eq!(found[1..3], [Role::Follower, Role::Follower].map(of_first));
        assert_eq!(found[3], (Role::Leader, "the module trapped: after 3 s".to_owned(), 9));
        assert_eq!(count(&in_flight), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn runs_of_different_keys_are_separate() {
        let in_flight = Arc::new(InFlight::default());
        let (_one, first) = in_flight.join(&key("/a"), || run(1));
        let (_other, second) = in_flight.join(&key("/b"), || run(1));
        assert_eq!((first, second), (Role::Leader, Role::Leader));
        assert_eq!(count(&in_flight), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_is_cancelled_with_its_last_waiter() {
        let in_flight = Arc::new(InFlight::default());
        let alive = Arc::new(());
        let endless = || {
            let alive = Arc::clone(&alive);
            async move {
                let never = pending().await;
                drop(alive);
                never
            }
            .boxed()
        };
        let (leader, _) = in_flight.join(&key("/a"), endless);
        let (follower, role) = in_flight.join(&key("/a"), endless);
        assert_eq!(role, Role::Follower);
        drop(leader);
        assert_eq!((Arc::strong_count(&alive), count(&in_flight)), (2, 1));
        drop(follower);
        assert_eq!((Arc::strong_count(&alive), count(&in_flight)), (1, 0));
        let (_, role) = in_flight.join(&key("/a"), endless);
        assert_eq!(role, Role::Leader);
    }

    /// A run that starts while the previous one is being dropped stays.
    #[tokio::test(start_paused = true)]
    async fn a_cancelled_run_does_not_remove_a_newer_one() {
        struct JoinOnDrop(Arc<InFlight>, tokio::sync::mpsc::UnboundedSender<super::Shared<Run>>);
        impl Drop for JoinOnDrop {
            fn drop(&mut self) {
                let (newer, role) = self.0.join(&key("/a"), || run(1));
                assert_eq!(role, Role::Leader);
                self.1.send(newer).unwrap();
            }
        }
        let in_flight = Arc::new(InFlight::default());
        let (sender, mut newer) = tokio::sync::mpsc::unbounded_channel();
        let joins = JoinOnDrop(Arc::clone(&in_flight), sender);
        let (older, _) = in_flight.join(&key("/a"), || {
            async move {
                let _joins = joins;
                pending().await
            }
            .boxed()
        });
        drop(older);
        let newer = newer.recv().await.unwrap();
        assert_eq!(count(&in_flight), 1);
        let (_, role) = in_flight.join(&key("/a"), || run(1));
        assert_eq!(role, Role::Follower);
        assert!(newer.await.response.is_err());
        assert_eq!(count(&in_flight), 0);
    }

    #[test]
    fn failures_apply_to_identical_requests_and_overload_to_all() {
        let trapped = failed(trap("cause".to_owned()));
        assert!(trapped.applies_to(&request("/a?b")));
        assert!(!trapped.applies_to(&request("/a?c")));
        assert!(failed(CallError::Overloaded).applies_to(&request("/a?c")));
        assert!(failed(CallError::Starved(Duration::ZERO)).applies_to(&request("/a?c")));
    }
}
