//! A tap on the cache: an observer receives each distinct miss of a module, with its response.
//!
//! A request that misses never waits for the observer. If the observer is too slow, misses are
//! dropped and counted.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use relayer_rest_sandbox::{Digest, GuestRequest, Module};
use relayer_rest_state::{Generation, Snapshot};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::in_flight::ResponseResult;

/// The maximum number of misses that wait for the observer. Each keeps its snapshot.
const MAX_WAITING: usize = 256;

/// The maximum size of the bodies of misses that wait, in bytes.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// The number of misses that are recognised when they are repeated.
const RECOGNISED: usize = 4096;

/// Passes misses on to an observer while there is one.
#[derive(Default)]
pub(crate) struct Tap(ArcSwapOption<Outlet>);

/// A miss of the observed module: a run for clients.
pub(crate) struct TappedRun {
    pub(crate) request: Arc<GuestRequest>,
    /// The snapshot on which the module ran.
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) response: ResponseResult,
    /// The time from the start of the run to its response.
    pub(crate) time: Duration,
    /// The peak size of the instance's memories and tables in bytes; 0 without a response.
    pub(crate) memory: usize,
    _bytes: OwnedSemaphorePermit,
}

/// The misses of a module, which are passed on until this is dropped.
pub(crate) struct TappedRuns {
    tap: Arc<Tap>,
    outlet: Arc<Outlet>,
    runs: mpsc::Receiver<TappedRun>,
}

/// The side of the requests.
struct Outlet {
    module: Digest,
    runs: mpsc::Sender<TappedRun>,
    bytes: Arc<Semaphore>,
    hasher: RandomState,
    recognised: Box<[AtomicU64]>,
    dropped: AtomicU64,
}

/// A run that is passed on if it completes.
pub(super) struct ObservedRun {
    outlet: Arc<Outlet>,
    request: Arc<GuestRequest>,
    snapshot: Arc<Snapshot>,
    start: Instant,
}

impl Tap {
    /// Passes the misses of this module on, instead of those for an earlier observer.
    pub(crate) fn open(self: &Arc<Self>, module: &Module) -> TappedRuns {
        let (sender, runs) = mpsc::channel(MAX_WAITING);
        let outlet = Arc::new(Outlet {
            module: module.digest(),
            runs: sender,
            bytes: Arc::new(Semaphore::new(MAX_WAITING_BYTES)),
            hasher: RandomState::new(),
            recognised: (0..RECOGNISED).map(|_| AtomicU64::new(0)).collect(),
            dropped: AtomicU64::new(0),
        });
        self.0.store(Some(Arc::clone(&outlet)));
        TappedRuns { tap: Arc::clone(self), outlet, runs }
    }

    /// Begins a run, which is passed on if its module is observed.
    pub(super) fn begin(
        &self,
        module: &Module,
        request: &Arc<GuestRequest>,
        snapshot: &Arc<Snapshot>,
    ) -> Option<ObservedRun> {
        let outlet = self.0.load();
        let outlet = outlet.as_ref().filter(|outlet| outlet.module == module.digest())?;
        Some(ObservedRun {
            outlet: Arc::clone(outlet),
            request: Arc::clone(request),
            snapshot: Arc::clone(snapshot),
            start: Instant::now(),
        })
    }
}

impl ObservedRun {
    /// Passes the run on with its result, unless neither the module nor its request is the cause
    /// of that.
    pub(super) fn complete(self, response: &ResponseResult, memory: usize) {
        if response.as_ref().is_err_and(|error| !error.is_module_failure()) {
            return;
        }
        let Self { outlet, request, snapshot, start } = self;
        let time = start.elapsed();
        let (recognised, hash) = outlet.recognise(&request, snapshot.generation());
        if recognised.load(Relaxed) == hash {
            return;
        }
        let body = response.as_ref().map_or(0, |response| response.plain().body.len());
        let size = u32::try_from(request.body.len() + body).unwrap_or(u32::MAX);
        let Ok(bytes) = Arc::clone(&outlet.bytes).try_acquire_many_owned(size) else {
            outlet.dropped.fetch_add(1, Relaxed);
            return;
        };
        let response = response.clone();
        let run = TappedRun { request, snapshot, response, time, memory, _bytes: bytes };
        match outlet.runs.try_send(run) {
            Ok(()) => recognised.store(hash, Relaxed),
            Err(TrySendError::Full(_)) => drop(outlet.dropped.fetch_add(1, Relaxed)),
            // The observer has ended.
            Err(TrySendError::Closed(_)) => {}
        }
    }
}

impl Outlet {
    /// Returns the hash of a miss, and the place in which the hash of the last one like it is
    /// stored. A miss whose place was taken by another one is not recognised when it is repeated.
    fn recognise(&self, request: &GuestRequest, generation: Generation) -> (&AtomicU64, u64) {
        let GuestRequest { method, target, headers, body, .. } = request;
        let mut hasher = self.hasher.build_hasher();
        (method, target.as_str(), body, generation).hash(&mut hasher);
        for (name, value) in headers {
            (name, value).hash(&mut hasher);
        }
        let hash = hasher.finish();
        let place = usize::try_from(hash % RECOGNISED as u64).unwrap_or(0);
        (&self.recognised[place], hash)
    }
}

impl TappedRuns {
    /// Waits for the next miss. After [`close`](Self::close), returns those that still wait, and
    /// then `None`.
    pub(crate) async fn next(&mut self) -> Option<TappedRun> {
        self.runs.recv().await
    }

    /// Ends the observation.
    pub(crate) fn close(&mut self) {
        let outlet = Some(&self.outlet);
        // Another observer may have begun.
        let is_own = |open: &Option<Arc<Outlet>>| {
            open.as_ref().zip(outlet).is_some_and(|(open, own)| Arc::ptr_eq(open, own))
        };
        self.tap.0.rcu(|open| if is_own(open) { None } else { open.clone() });
        self.runs.close();
    }

    /// Returns the number of misses that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.outlet.dropped.load(Relaxed)
    }

    /// Drops the misses that still wait, and counts them as dropped.
    pub(crate) fn discard(&mut self) {
        self.close();
        while self.runs.try_recv().is_ok() {
            self.outlet.dropped.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for TappedRuns {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_WAITING, Tap};
    use crate::cache::in_flight::ResponseResult;
    use crate::registry::test_module;
    use relayer_rest_sandbox::{CallError, GuestRequest};
    use relayer_rest_state::{Snapshot, StatePublisher};
    use std::sync::Arc;
    use std::time::Duration;

    fn request(number: usize) -> Arc<GuestRequest> {
        let target = format!("/{number}").parse().unwrap();
        Arc::new(GuestRequest::new(http::Method::GET, target, http::HeaderMap::new()))
    }

    fn failed(error: CallError) -> ResponseResult {
        Err(Arc::new(error))
    }

    /// Completes a run of module 0 that exceeds its time.
    fn run(tap: &Tap, snapshot: &Arc<Snapshot>, number: usize) {
        let observed = tap.begin(&test_module(0), &request(number), snapshot).unwrap();
        observed.complete(&failed(CallError::Timeout(Duration::ZERO, None)), 0);
    }

    #[tokio::test]
    async fn misses_beyond_the_bound_are_counted_and_not_waited_for() {
        let tap = Arc::<Tap>::default();
        let mut runs = tap.open(&test_module(0));
        let snapshot = StatePublisher::new().reader().snapshot();
        for number in 0..MAX_WAITING + 3 {
            run(&tap, &snapshot, number);
        }
        assert_eq!(runs.dropped(), 3);
        assert_eq!(runs.next().await.unwrap().request.target, "/0");
        // A miss that was dropped is not a repeated one.
        run(&tap, &snapshot, MAX_WAITING);
        assert_eq!(runs.dropped(), 3);
        runs.close();
        let mut last = None;
        while let Some(run) = runs.next().await {
            last = Some(run.request.target.clone());
        }
        assert_eq!(last.unwrap(), format!("/{MAX_WAITING}").as_str());
    }

    #[tokio::test]
    async fn only_distinct_misses_of_the_module_are_passed_on() {
        let tap = Arc::<Tap>::default();
        let publisher = StatePublisher::new();
        let before = publisher.reader().snapshot();
        assert!(tap.begin(&test_module(0), &request(0), &before).is_none(), "nothing observes");
        let mut runs = tap.open(&test_module(0));
        assert!(tap.begin(&test_module(1), &request(0), &before).is_none(), "another module");
        publisher.set_chains(Vec::new()).unwrap();
        let after = publisher.reader().snapshot();
        for snapshot in [&before, &before, &after] {
            run(&tap, snapshot, 0);
        }
        // The module did not run.
        let refused = tap.begin(&test_module(0), &request(1), &after).unwrap();
        refused.complete(&failed(CallError::Overloaded), 0);
        let observed = tap.begin(&test_module(0), &request(2), &after).unwrap();
        runs.close();
        assert!(tap.begin(&test_module(0), &request(3), &after).is_none());
        observed.complete(&failed(CallError::Timeout(Duration::ZERO, None)), 0);
        let mut generations = Vec::new();
        while let Some(run) = runs.next().await {
            generations.push(run.snapshot.generation());
        }
        assert_eq!(generations, [before.generation(), after.generation()]);
        assert_eq!(runs.dropped(), 0);
    }
}
