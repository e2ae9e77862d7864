//! Answers that are remembered.
//!
//! A module is a pure function of the request and of what it read, and all
//! reads are recorded. So an answer is good for whoever asks the same for as
//! long as everything that it was made from is as it was; and those who ask
//! the same at the same time can share one run of the module.
//!
//! | file | job |
//! |---|---|
//! | `key.rs` | what is the same question |
//! | `entries.rs` | answers by question, within a number of bytes |
//! | `hot_requests.rs` | what was asked and is not remembered |
//! | `in_flight.rs` | runs that are shared by all who wait for them |

mod entries;
mod hot_requests;
mod in_flight;
mod key;

use std::sync::Arc;

use bytesize::ByteSize;
use futures_util::FutureExt;
use tokio::task::JoinSet;
use tracing::{Instrument, Span};

use crate::module::{CallError, GuestRequest, Module};
use crate::response::Response;
use crate::state::{Generation, Snapshot, StateReader};
use entries::{Entries, Miss};
pub use hot_requests::RequestStats;
use hot_requests::{HotRequests, hottest};
pub use in_flight::Outcome;
use in_flight::{InFlight, Role, RunResult};
pub use key::RequestRef;

/// How often a request waits for the run of another that turns out not to be
/// for it, before it has one of its own.
const MAX_JOINS: u32 = 4;

/// Remembers the answers of modules. Cheap to clone.
#[derive(Clone)]
pub struct ResponseCache {
    /// Nothing where nothing is to be remembered.
    storage: Option<Arc<Storage>>,
    hot_requests: Arc<HotRequests>,
}

struct Storage {
    entries: Entries,
    in_flight: Arc<InFlight>,
}

impl ResponseCache {
    /// A cache of this many bytes; of 0 remembers nothing.
    #[must_use]
    pub fn new(capacity: ByteSize) -> Self {
        let storage =
            |capacity| Storage { entries: Entries::new(capacity), in_flight: Arc::default() };
        let capacity = capacity.as_u64();
        Self {
            storage: (capacity > 0).then(|| Arc::new(storage(capacity))),
            hot_requests: Arc::default(),
        }
    }

    /// The answer to a question, where it is remembered and still what the
    /// module would answer on this snapshot.
    #[must_use]
    pub fn find(
        &self,
        module: &Module,
        request_ref: RequestRef<'_>,
        snapshot: &Snapshot,
    ) -> Option<Arc<Response>> {
        self.storage.as_ref()?.entries.find(module.digest(), request_ref, snapshot).ok()
    }

    /// The answer to a request on a state that is not older than the request:
    /// remembered, of a run that others wait for, or of a run of its own.
    ///
    /// # Errors
    /// Where the module gives no answer. Errors are not remembered, and a shared
    /// run's error is passed on to identical requests only: another request under
    /// the same key, whose headers differ, has one run of its own.
    pub async fn get_or_run(
        &self,
        module: &Module,
        request: Arc<GuestRequest>,
        state: &StateReader,
    ) -> Outcome {
        let Some(storage) = &self.storage else { return self.alone(module, request, state).await };
        let request_ref = RequestRef::from(&*request);
        let arrival = state.peek().generation();
        for _ in 0..MAX_JOINS {
            let found = storage.entries.find(module.digest(), request_ref, &state.peek());
            let key = match found {
                Ok(response) => return Ok(response),
                Err(Miss::Shared(key)) => key,
                Err(Miss::Pass) => break,
            };
            let (run, role) = storage.in_flight.join(&key, || {
                let run = run(Arc::clone(storage), module.clone(), request.clone(), state.clone());
                task(run.instrument(Span::current()), arrival, Arc::clone(&request)).boxed()
            });
            let is_leader = role == Role::Leader;
            let result = run.await;
            let response = match &result.response {
                Ok(response) => Arc::clone(response),
                Err(_) if !is_leader && !result.applies_to(&request) => break,
                // What went wrong on a state that is gone may go well now.
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
        let response = self.alone(module, request.clone(), state).await?;
        // Or the next ones would have to wait for another's failure, too.
        storage.entries.insert(module.digest(), request_ref, &response);
        Ok(response)
    }

    /// A run for one request, which no other waits for.
    async fn alone(
        &self,
        module: &Module,
        request: Arc<GuestRequest>,
        state: &StateReader,
    ) -> Outcome {
        let response = alone(module, request, state).await?;
        self.hot_requests.count(module.digest(), &response);
        Ok(response)
    }

    /// Remembers a module's answer to its question, in place of any before.
    pub fn insert(&self, module: &Module, response: &Arc<Response>) {
        if let Some(storage) = &self.storage {
            storage.entries.insert(module.digest(), RequestRef::from(response.request()), response);
        }
    }

    /// What a module is asked, no more than this many: what is asked most
    /// first.
    #[must_use]
    pub fn hottest(&self, module: &Module, count: usize) -> Vec<RequestStats> {
        let mut stats = Vec::new();
        if let Some(storage) = &self.storage {
            storage.entries.add(module.digest(), &mut stats);
        }
        self.hot_requests.add(module.digest(), &mut stats);
        hottest(stats, count)
    }

    /// Drops the responses that were asked for once and not again.
    #[cfg(feature = "cli")]
    pub(crate) fn release_unused(&self) {
        if let Some(storage) = &self.storage {
            storage.entries.release_unused();
        }
    }

    /// The bytes that are in use.
    #[must_use]
    pub fn size(&self) -> ByteSize {
        ByteSize::b(self.storage.as_ref().map_or(0, |storage| storage.entries.size()))
    }
}

/// A run for one request.
async fn alone(module: &Module, request: Arc<GuestRequest>, state: &StateReader) -> Outcome {
    let place = module.acquire().await?;
    let snapshot = state.snapshot();
    let generation = snapshot.generation();
    let (of, asked) = (module.clone(), Arc::clone(&request));
    let make = move |response| Response::new(&of, RequestRef::from(&*asked), response, generation);
    place.execute_then(request, snapshot, make).await.map(Arc::new).map_err(Into::into)
}

/// A run in a task of its own, so that those who wait for it are woken when it
/// has ended and no sooner, and that a panic is an error to all of them. It ends
/// when nobody waits for it any more.
async fn task(
    run: impl Future<Output = RunResult> + Send + 'static,
    started_on: Generation,
    request: Arc<GuestRequest>,
) -> RunResult {
    let mut tasks = JoinSet::new();
    tasks.spawn(run);
    match tasks.join_next().await {
        Some(Ok(result)) => result,
        Some(Err(error)) => {
            let response = Err(Arc::new(CallError::Host(error.to_string())));
            RunResult { response, started_on, request }
        }
        None => unreachable!("there is one"),
    }
}

/// A run for all who wait for it. Its answer is remembered before they go on.
async fn run(
    storage: Arc<Storage>,
    module: Module,
    request: Arc<GuestRequest>,
    state: StateReader,
) -> RunResult {
    let request_ref = RequestRef::from(&*request);
    let started_on = state.peek().generation();
    // Another run may have ended since it was looked for.
    let found = storage.entries.find(module.digest(), request_ref, &state.peek());
    if let Ok(response) = found {
        return RunResult { response: Ok(response), started_on, request };
    }
    let response = alone(&module, Arc::clone(&request), &state).await;
    if let Ok(response) = &response {
        storage.entries.insert(module.digest(), request_ref, response);
    }
    RunResult { response, started_on, request }
}
