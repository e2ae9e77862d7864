//! One request: its place among those that run, its run, and its time.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Response};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::yield_now;
use tracing::Span;

use super::cost::Placement;
use super::guest_time::GuestTime;
use super::instance::StoreData;
use super::load::Module;
use super::read_set::ReadSet;
use super::response::InvalidResponse;
use super::slow_targets::Measured;
use crate::state::Snapshot;

/// What a module is asked.
#[derive(Debug, Clone)]
pub struct GuestRequest {
    /// The method.
    pub method: Method,
    /// The path as the client sent it, and what follows the `?`.
    pub target: PathAndQuery,
    /// The headers, which the module can ask for by name.
    pub headers: HeaderMap,
}

/// What a module answers.
#[derive(Debug)]
pub struct GuestResponse {
    /// The answer.
    pub response: Response<Bytes>,
    /// What it was made from.
    pub reads: ReadSet,
    /// The most memory that the instance had, in bytes.
    pub memory: usize,
}

/// A place for one request among those that run at once.
pub struct RunPermit {
    module: Module,
    /// It has the thread that it is on to itself, and no client waits for it.
    is_background: bool,
    _permit: OwnedSemaphorePermit,
}

/// A module gave no answer that can be sent. What is in it is for the log:
/// clients are not told.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No instance could be made.
    #[error("the module could not be instantiated: {0:#}")]
    Instantiate(wasmtime::Error),
    /// The module trapped: a bug in it, or it wanted more memory than it may.
    /// Why, and where.
    #[error("the module trapped: {0}")]
    Trap(String),
    /// The module used more processor time than it may.
    #[error("the module took longer than {0:?}")]
    Timeout(Duration),
    /// The request waited for a processor for too long, and was given up after this
    /// time: the machine is busy with others.
    #[error("turned away after {0:?}: the processors are busy with other requests")]
    Starved(Duration),
    /// There is no place for the request, or there was none for too long.
    #[error("turned away: too many requests are being handled")]
    Overloaded,
    /// The host failed while the module ran: a bug in the host.
    #[error("the host failed: {0}; this is a bug, please report it")]
    Host(String),
    /// The module answered what HTTP does not allow.
    #[error("the module's answer is invalid: {0}")]
    Invalid(InvalidResponse),
}

impl CallError {
    /// Whether it is the module that is to blame.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        match self {
            Self::Trap(_) | Self::Timeout(_) | Self::Invalid(_) => true,
            Self::Instantiate(_) | Self::Overloaded | Self::Starved(_) | Self::Host(_) => false,
        }
    }

    /// Whether there are too many requests: neither the module nor the host fails.
    #[must_use]
    pub fn is_overload(&self) -> bool {
        matches!(self, Self::Overloaded | Self::Starved(_))
    }
}

impl RunPermit {
    /// Asks the module, on a fresh instance and on this snapshot. Logs go to
    /// the present span.
    ///
    /// A guest that runs for longer than a tick does so on other threads. Where
    /// what is returned is dropped, the guest is gone, at the latest with its
    /// next turn.
    pub async fn execute(
        self,
        request: Arc<GuestRequest>,
        snapshot: Arc<Snapshot>,
    ) -> Result<GuestResponse, CallError> {
        self.execute_then(request, snapshot, |answer| answer).await
    }

    /// The same, and makes something of the answer where the guest ran: what takes
    /// long there is no affair of the thread that has the socket.
    pub(crate) async fn execute_then<T: Send + 'static>(
        self,
        request: Arc<GuestRequest>,
        snapshot: Arc<Snapshot>,
        make: impl FnOnce(GuestResponse) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let module = self.module.clone();
        module.stats().run();
        let answer = self.run(&module, request, snapshot, make).await;
        if let Err(error) = &answer {
            module.stats().fault(error);
        }
        answer
    }

    async fn run<T: Send + 'static>(
        self,
        module: &Module,
        request: Arc<GuestRequest>,
        snapshot: Arc<Snapshot>,
        make: impl FnOnce(GuestResponse) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let (long_runs, limits) = (&module.engine().slow_guests, module.limits());
        let (targets, is_aside) = (&module.engine().slow_targets, self.is_background);
        let turns = (!is_aside).then(|| long_runs.turns());
        let creates_slowly = module.placement() == Placement::Aside;
        let time = GuestTime::start(limits.time, turns, creates_slowly);
        let target = targets.target(module.mount_path(), &request);
        let is_verified = module.engine().verifier.is_due();
        // It may go on on another thread, which knows nothing of the request.
        let span = Span::current();
        let guest = self.execute_on_fresh_instance(
            request,
            snapshot,
            Arc::clone(&time),
            span,
            is_verified,
            make,
        );
        let guest = time.meter(guest);
        if is_aside {
            // It has a thread of its own already.
            return guest.await;
        }
        // What a check takes says nothing of the target.
        let target = (!is_verified).then_some(target);
        let mut guest = Measured::new(targets, target, guest);
        let starts_elsewhere =
            is_verified || creates_slowly || target.is_some_and(|target| targets.is_slow(target));
        if starts_elsewhere || long_runs.is_full() {
            long_runs.count_start();
        } else {
            // The first tick may come soon after the guest began.
            for _ in 0..2 {
                let turn = poll_fn(|context| Poll::Ready(guest.poll_unpin(context))).await;
                if let Poll::Ready(answer) = turn {
                    return answer;
                }
                yield_now().await;
            }
            guest.record();
        }
        long_runs.finish(guest, time.end(limits.queue_wait)).await.unwrap_or_else(Err)
    }

    async fn execute_on_fresh_instance<T>(
        self,
        request: Arc<GuestRequest>,
        snapshot: Arc<Snapshot>,
        time: Arc<GuestTime>,
        span: Span,
        is_verified: bool,
        make: impl FnOnce(GuestResponse) -> T,
    ) -> Result<T, CallError> {
        let module = &self.module;
        module.engine().verifier.check_slots()?;
        let _running = module.engine().ticker.run();
        if is_verified {
            // Rare, and large: each request would have the room for it.
            Box::pin(module.verify_reset(&snapshot, &time)).await?;
        }
        let mut store = module.store(Arc::clone(&time), Arc::clone(&request), snapshot, span);
        let handle = module.instantiate(&mut store).await?;
        let response = module.call(&mut store, &handle, &request).await?;
        if time.is_over() {
            return Err(CallError::Timeout(module.limits().time));
        }
        let StoreData { mut view, limiter, wasi, .. } = store.into_data();
        if wasi.is_some_and(|wasi| wasi.has_read_time()) {
            view.changed();
        }
        let (reads, memory) = (view.into_reads(), limiter.peak_memory());
        Ok(make(GuestResponse { response, reads, memory }))
    }
}

impl Module {
    /// Waits for a place for a request.
    pub async fn acquire(&self) -> Result<RunPermit, CallError> {
        let Ok(permit) = self.engine().admission.admit().await else {
            self.stats().turned_away();
            return Err(CallError::Overloaded);
        };
        Ok(RunPermit { module: self.clone(), is_background: false, _permit: permit })
    }

    /// Waits for the place that is kept for looking at modules: clients never
    /// have it, and it takes none of theirs. How long the module waits for a
    /// processor does not count.
    pub(crate) async fn acquire_background(&self) -> Result<RunPermit, CallError> {
        let permit =
            self.engine().admission.admit_background().await.map_err(|_| CallError::Overloaded)?;
        Ok(RunPermit { module: self.clone(), is_background: true, _permit: permit })
    }
}
