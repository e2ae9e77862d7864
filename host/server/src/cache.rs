//! Cached responses, and runs that concurrent requests share.
//!
//! A module is a pure function of the request and of its recorded reads. So a response is
//! valid for all equal requests until the state that it was derived from changes, and
//! concurrent requests with the same key can share one run of the module.
//!
//! | file | job |
//! |---|---|
//! | `key.rs` | the cache key of a request |
//! | `recorded.rs` | a response and the request that it was derived from |
//! | `entries.rs` | cached responses by key, bounded in bytes |
//! | `local.rs` | copies of hot responses for each thread |
//! | `hot_requests.rs` | counts of requests whose responses are not cached |
//! | `in_flight.rs` | single-flight: runs that concurrent requests share |
//! | `tap.rs` | passes the misses of a module on to an observer |

mod entries;
mod hot_requests;
mod in_flight;
mod key;
mod local;
mod recorded;
mod tap;

use std::sync::Arc;

use bytesize::ByteSize;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;
use tracing::{Instrument, Span};

use crate::response::CompressionPermits;
use entries::Entries;
pub use entries::{Miss, Uncacheable};
pub use hot_requests::RequestStats;
use hot_requests::{HotRequests, hottest};
pub use in_flight::ResponseResult;
use in_flight::{InFlight, Role, RunResult};
pub use key::RequestRef;
use local::LocalCopies;
pub(crate) use local::release_unused as release_unused_copies;
pub(crate) use local::{Hit, MAX_COPY};
pub use recorded::RecordedResponse;
pub(crate) use recorded::request_size;
use relayer_rest_sandbox::{CallError, GuestRequest, GuestResponse, Module, RunPermit};
use relayer_rest_state::{Generation, Snapshot, StateReader};
use tap::Tap;
pub(crate) use tap::{TappedRun, TappedRuns};

/// The maximum number of runs that a request joins as a follower before it gets a run of
/// its own.
const MAX_JOINS: u32 = 4;

/// Caches the responses of modules. Cheap to clone.
#[derive(Clone)]
pub struct ResponseCache {
    /// `None` if the capacity is 0: nothing is cached.
    storage: Option<Arc<Storage>>,
    hot_requests: Arc<HotRequests>,
    permits: CompressionPermits,
    tap: Arc<Tap>,
}

struct Storage {
    entries: Entries,
    copies: LocalCopies,
    in_flight: Arc<InFlight>,
}

impl ResponseCache {
    /// Creates a cache with a capacity in bytes. With 0, nothing is cached.
    #[must_use]
    pub fn new(capacity: ByteSize) -> Self {
        let storage = |capacity| Storage {
            entries: Entries::new(capacity),
            copies: LocalCopies::new(),
            in_flight: Arc::default(),
        };
        let capacity = capacity.as_u64();
        Self {
            storage: (capacity > 0).then(|| Arc::new(storage(capacity))),
            hot_requests: Arc::default(),
            permits: CompressionPermits::default(),
            tap: Arc::default(),
        }
    }

    /// Returns the storage for the response to a request: none if its module can read the
    /// body, because the response is then for this request only.
    fn storage(&self, module: &Module, request_ref: RequestRef<'_>) -> Option<&Arc<Storage>> {
        self.storage.as_ref().filter(|_| !depends_on_body(module, request_ref))
    }

    /// Returns the cached response to a request if it is valid for this snapshot;
    /// otherwise, how to run the module.
    pub fn find(
        &self,
        module: &Module,
        request_ref: RequestRef<'_>,
        snapshot: &Snapshot,
    ) -> Result<Arc<RecordedResponse>, Miss> {
        match self.storage(module, request_ref) {
            Some(storage) => storage.entries.find(module.digest(), request_ref, snapshot),
            None => Err(Miss(None)),
        }
    }

    /// Returns the result of [`find`](Self::find), or this thread's copy of it.
    pub(crate) fn find_local(
        &self,
        module: &Module,
        request_ref: RequestRef<'_>,
        snapshot: &Snapshot,
    ) -> Result<Hit, Miss> {
        let Some(storage) = self.storage(module, request_ref) else { return Err(Miss(None)) };
        let module = module.digest();
        if let Some(copy) = storage.copies.find(module, request_ref, snapshot) {
            return Ok(Hit::Local(copy));
        }
        let response = storage.entries.find(module, request_ref, snapshot)?;
        storage.copies.insert(module, request_ref, &response);
        Ok(Hit::Shared(response))
    }

    /// Returns a response that is valid for a snapshot no older than the request: a
    /// cached one, or the result of a run.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn get_or_run(
        &self,
        module: &Module,
        request: Arc<GuestRequest>,
        state: &StateReader,
    ) -> ResponseResult {
        match self.find(module, RequestRef::from(&*request), &state.peek()) {
            Ok(response) => Ok(response),
            Err(miss) => self.run(module, request, miss, state).await,
        }
    }

    /// Returns the response to a request that [`find`](Self::find) missed: the result of
    /// a shared run, or that of a run of its own.
    ///
    /// # Errors
    /// Returns an error if the module gives no response. Errors are not cached. The error
    /// of a shared run is passed on to identical requests only, except overload, which is
    /// passed on to all waiters: a request under the same key whose query or headers
    /// differ has one run of its own.
    pub async fn run(
        &self,
        module: &Module,
        request: Arc<GuestRequest>,
        miss: Miss,
        state: &StateReader,
    ) -> ResponseResult {
        let request_ref = RequestRef::from(&*request);
        let Some(storage) = self.storage(module, request_ref) else {
            return self.run_unshared(module, request, state).await;
        };
        let arrival = state.peek().generation();
        let mut miss = Some(miss);
        for _ in 0..MAX_JOINS {
            let found = match miss.take() {
                Some(miss) => Err(miss),
                None => storage.entries.find(module.digest(), request_ref, &state.peek()),
            };
            let key = match found {
                Ok(response) => return Ok(response),
                Err(Miss(Some(key))) => key,
                Err(Miss(None)) => break,
            };
            let (run, role) = storage.in_flight.join(&key, || {
                let permits = self.permits.clone();
                let module = module.clone();
                let state = state.clone();
                let (storage, tap) = (Arc::clone(storage), Arc::clone(&self.tap));
                let run = run_shared(storage, module, Arc::clone(&request), state, permits, tap);
                spawn_run(run.instrument(Span::current()), arrival, Arc::clone(&request)).boxed()
            });
            let is_leader = role == Role::Leader;
            let result = run.await;
            let response = match &result.response {
                Ok(response) => Arc::clone(response),
                Err(_) if !is_leader && !result.applies_to(&request) => break,
                // A run that failed on a snapshot older than this request may succeed
                // now.
                Err(_) if !is_leader && result.started_on < arrival => continue,
                Err(error) => return Err(Arc::clone(error)),
            };
            let reads = response.reads();
            let is_fresh = || {
                response.generation() >= arrival
                    || reads.is_valid_for(&state.peek(), request_ref.query, request_ref.headers)
            };
            if is_leader && !reads.is_complete() {
                self.hot_requests.count(module.digest(), &response);
            }
            if is_leader
                || (reads.matches_request(request_ref.query, request_ref.headers) && is_fresh())
            {
                return Ok(response);
            }
            if !reads.is_complete() {
                break;
            }
        }
        let response = self.run_unshared(module, request.clone(), state).await?;
        // Otherwise the next requests would also have to wait for the failure of another.
        storage.entries.insert(module.digest(), request_ref, &response);
        Ok(response)
    }

    /// Runs the module for one request; the run is not shared.
    fn run_unshared<'a>(
        &'a self,
        module: &'a Module,
        request: Arc<GuestRequest>,
        state: &'a StateReader,
    ) -> BoxFuture<'a, ResponseResult> {
        let run = async move {
            let is_repeatable = !depends_on_body(module, RequestRef::from(&*request));
            let response = execute(module, request, state, &self.permits, &self.tap).await?;
            if is_repeatable {
                self.hot_requests.count(module.digest(), &response);
            }
            Ok(response)
        };
        // Boxed, so that requests that wait for a shared run have no room for one of their own.
        run.boxed()
    }

    /// Returns the cached response to a request, which may no longer be valid. It does not count
    /// as a hit.
    pub(crate) fn peek(
        &self,
        module: &Module,
        request_ref: RequestRef<'_>,
    ) -> Option<Arc<RecordedResponse>> {
        self.storage.as_ref()?.entries.peek(module.digest(), request_ref)
    }

    /// Returns why a response is not cached, if it never is.
    pub(crate) fn uncacheable(&self, response: &RecordedResponse) -> Option<Uncacheable> {
        match &self.storage {
            Some(storage) => storage.entries.uncacheable(response),
            None => Some(Uncacheable::Disabled),
        }
    }

    /// Returns each distinct miss of this module from now on, for one observer at a time.
    pub(crate) fn tap(&self, module: &Module) -> TappedRuns {
        self.tap.open(module)
    }

    /// Caches a module's response under its request, and replaces any older one.
    pub fn insert(&self, module: &Module, response: &Arc<RecordedResponse>) {
        if let Some(storage) = &self.storage {
            storage.entries.insert(
                module.digest(),
                RequestRef::from(&**response.request()),
                response,
            );
        }
    }

    /// Returns the permits to compress responses.
    pub(crate) fn compression_permits(&self) -> &CompressionPermits {
        &self.permits
    }

    /// Returns at most `count` requests to a module, the most frequent first.
    #[must_use]
    pub fn hottest(&self, module: &Module, count: usize) -> Vec<RequestStats> {
        let mut stats = Vec::new();
        if let Some(storage) = &self.storage {
            storage.entries.add(module.digest(), &mut stats);
        }
        self.hot_requests.add(module.digest(), &mut stats);
        hottest(stats, count)
    }

    /// Drops responses that were requested only once.
    pub(crate) fn release_unused(&self) {
        if let Some(storage) = &self.storage {
            storage.entries.release_unused();
        }
    }

    /// Returns the number of responses that were evicted to make room for others.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.storage.as_ref().map_or(0, |storage| storage.entries.evictions())
    }

    /// Returns the number of requests that joined the run of another one.
    #[must_use]
    pub fn joined_runs(&self) -> u64 {
        self.storage.as_ref().map_or(0, |storage| storage.in_flight.joined())
    }

    /// Returns the number of bytes in use.
    #[must_use]
    pub fn size(&self) -> ByteSize {
        ByteSize::b(self.storage.as_ref().map_or(0, |storage| storage.entries.size()))
    }
}

/// Returns whether the response may depend on the body, which is not part of the key.
fn depends_on_body(module: &Module, request_ref: RequestRef<'_>) -> bool {
    request_ref.has_body && module.reads_bodies()
}

/// Runs the module for one request.
async fn execute(
    module: &Module,
    request: Arc<GuestRequest>,
    state: &StateReader,
    permits: &CompressionPermits,
    tap: &Tap,
) -> ResponseResult {
    let permit = RunPermit::acquire_in_turn(module).await?;
    let snapshot = state.snapshot();
    let generation = snapshot.generation();
    let observed = tap.begin(module, &request, &snapshot);
    let make = {
        let module = module.clone();
        let request = Arc::clone(&request);
        let permits = permits.clone();
        move |response: GuestResponse| {
            let request_ref = RequestRef::from(&*request);
            let memory = response.memory;
            (RecordedResponse::new(&module, request_ref, response, generation, &permits), memory)
        }
    };
    let (result, memory) = match permit.execute_then(request, snapshot, make).await {
        Ok((response, memory)) => (Ok(Arc::new(response)), memory),
        Err(error) => (Err(Arc::new(error)), 0),
    };
    if let Some(observed) = observed {
        observed.complete(&result, memory);
    }
    result
}

/// Runs in a task of its own, so that waiters are woken when the run has ended and not
/// before, and so that a panic is an error for all of them. The task is aborted when the
/// last waiter is dropped.
fn spawn_run(
    run: impl Future<Output = RunResult> + Send + 'static,
    started_on: Generation,
    request: Arc<GuestRequest>,
) -> impl Future<Output = RunResult> + Send + 'static {
    let mut tasks = JoinSet::new();
    // Not in the future, which would keep the room for it.
    tasks.spawn(run);
    async move {
        match tasks.join_next().await {
            Some(Ok(result)) => result,
            Some(Err(error)) => {
                let response = Err(Arc::new(CallError::Host(error.to_string())));
                RunResult { response, started_on, request }
            }
            None => unreachable!("there is one"),
        }
    }
}

/// Runs the module for all waiters. The response is cached before they continue.
async fn run_shared(
    storage: Arc<Storage>,
    module: Module,
    request: Arc<GuestRequest>,
    state: StateReader,
    permits: CompressionPermits,
    tap: Arc<Tap>,
) -> RunResult {
    let request_ref = RequestRef::from(&*request);
    let started_on = state.peek().generation();
    // Another run may have completed since the last lookup.
    let cached = storage.entries.find(module.digest(), request_ref, &state.peek());
    if let Ok(response) = cached {
        return RunResult { response: Ok(response), started_on, request };
    }
    let response = execute(&module, Arc::clone(&request), &state, &permits, &tap).await;
    if let Ok(response) = &response {
        storage.entries.insert(module.digest(), request_ref, response);
    }
    RunResult { response, started_on, request }
}
