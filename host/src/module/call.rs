//! Runs one request: its permit, its instance and its time.

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

/// A request to a module.
#[derive(Debug, Clone)]
pub struct GuestRequest {
    /// The method.
    pub method: Method,
    /// The path as the client sent it, with the query.
    pub target: PathAndQuery,
    /// The headers, which the module can read by name.
    pub headers: HeaderMap,
}

/// A module's response, with its recorded reads.
#[derive(Debug)]
pub struct GuestResponse {
    /// The response.
    pub response: Response<Bytes>,
    /// The recorded reads that the response depends on.
    pub reads: ReadSet,
    /// The peak size of the instance's memories and tables, in bytes.
    pub memory: usize,
}

/// A permit for one of the concurrent runs.
pub struct RunPermit {
    module: Module,
    /// The run has its thread to itself, and no client waits for it.
    is_background: bool,
    _permit: OwnedSemaphorePermit,
}

/// The reason that a run has no response to send. Details are for the log: clients do not
/// get them.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The instance could not be created.
    #[error("the module could not be instantiated: {0:#}")]
    Instantiate(wasmtime::Error),
    /// The module trapped: it has a bug, or was refused memory. Contains the cause and
    /// the location.
    #[error("the module trapped: {0}")]
    Trap(String),
    /// The module exceeded its limit of processor time.
    #[error("the module took longer than {0:?}")]
    Timeout(Duration),
    /// The request waited too long for a processor and was cancelled after this time: the
    /// machine is busy with others.
    #[error("turned away after {0:?}: the processors are busy with other requests")]
    Starved(Duration),
    /// The queue was full, or the request waited in it for too long.
    #[error("turned away: too many requests are being handled")]
    Overloaded,
    /// The host failed while the module ran: a bug in the host.
    #[error("the host failed: {0}; this is a bug, please report it")]
    Host(String),
    /// The response violates HTTP, a limit or the module's grants.
    #[error("the module's answer is invalid: {0}")]
    Invalid(InvalidResponse),
}

impl CallError {
    /// Returns whether the failure is the module's fault.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        match self {
            Self::Trap(_) | Self::Timeout(_) | Self::Invalid(_) => true,
            Self::Instantiate(_) | Self::Overloaded | Self::Starved(_) | Self::Host(_) => false,
        }
    }

    /// Returns whether there are too many requests: neither the module nor the host has
    /// failed.
    #[must_use]
    pub fn is_overload(&self) -> bool {
        matches!(self, Self::Overloaded | Self::Starved(_))
    }
}

impl RunPermit {
    /// Runs the module on a fresh instance and this snapshot. Logs go to the current
    /// span.
    ///
    /// A guest that runs for longer than a tick continues on other threads. Dropping the
    /// future cancels the guest, at the latest when it next yields.
    pub async fn execute(
        self,
        request: Arc<GuestRequest>,
        snapshot: Arc<Snapshot>,
    ) -> Result<GuestResponse, CallError> {
        self.execute_then(request, snapshot, |answer| answer).await
    }

    /// Like [`RunPermit::execute`], but also applies `make` to the response on the thread
    /// of the guest, so that long work there does not block the thread of the socket.
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
        // The guest may continue on another thread, which does not have this span.
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
            // A background run already has its own thread.
            return guest.await;
        }
        // The time of a reset check is not the target's.
        let target = (!is_verified).then_some(target);
        let mut guest = Measured::new(targets, target, guest);
        let starts_elsewhere =
            is_verified || creates_slowly || target.is_some_and(|target| targets.is_slow(target));
        if starts_elsewhere || long_runs.is_full() {
            long_runs.count_start();
        } else {
            // The first tick may come soon after the guest started.
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
            // Boxed, because it is rare and large: it would enlarge the future of every
            // request.
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
    /// Waits for a permit to run a request.
    pub async fn acquire(&self) -> Result<RunPermit, CallError> {
        let Ok(permit) = self.engine().admission.admit().await else {
            self.stats().overloaded();
            return Err(CallError::Overloaded);
        };
        Ok(RunPermit { module: self.clone(), is_background: false, _permit: permit })
    }

    /// Waits for the permit that is reserved for background runs, such as preflights:
    /// clients never use it, and background runs use none of theirs. Their waits for a
    /// processor do not count.
    pub(crate) async fn acquire_background(&self) -> Result<RunPermit, CallError> {
        let permit =
            self.engine().admission.admit_background().await.map_err(|_| CallError::Overloaded)?;
        Ok(RunPermit { module: self.clone(), is_background: true, _permit: permit })
    }
}
