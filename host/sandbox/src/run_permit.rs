//! Runs one request: its permit, its instance and its time.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use relayer_rest_state::{Command, Snapshot};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tracing::Span;

use super::call_error::CallError;
use super::cost::Placement;
use super::guest_time::GuestTime;
use super::module::Module;
use super::read_set::{MAX_COMMANDS, ReadSet};
use super::request::GuestRequest;
use super::response::InvalidResponse;
use super::run_record::{Recorder, Run};
use super::slow_guest_pool::Start;
use super::slow_targets::RecordedRun;
use super::socket_steps;
use super::socket_turn::SocketTurn;
use super::store::StoreData;

/// A module's response, with its recorded reads.
#[derive(Debug)]
pub struct GuestResponse {
    /// The response.
    pub response: Response<Bytes>,
    /// The recorded reads that the response depends on.
    pub reads: ReadSet,
    /// The commands to the relayer, in their order, which are not executed yet.
    pub commands: Vec<Command>,
    /// The peak size of the instance's memories and tables, in bytes.
    pub memory: usize,
}

/// A permit for one of the concurrent runs.
pub struct RunPermit {
    module: Module,
    /// The run has its thread to itself, and no client waits for it.
    is_background: bool,
    turn: Option<SocketTurn>,
    _permit: OwnedSemaphorePermit,
}

impl RunPermit {
    /// Waits for a permit to run a request on this module.
    pub async fn acquire(module: &Module) -> Result<Self, CallError> {
        let Ok(permit) = module.engine().admission.admit().await else {
            module.stats().overloaded();
            return Err(CallError::Overloaded);
        };
        Ok(Self::new(module, permit))
    }

    /// Waits for the turn of a guest on this thread, and for a permit. The turn comes first, so
    /// that requests that wait for it have no permits, which are fewer.
    ///
    /// Must not be called by the holder of another such permit on the same thread.
    pub async fn acquire_in_turn(module: &Module) -> Result<Self, CallError> {
        let turn = if module.long_steps().is_open() {
            let admission = &module.engine().admission;
            let Ok(turn) = SocketTurn::take(admission, module.limits().queue_wait).await else {
                module.stats().overloaded();
                return Err(CallError::Overloaded);
            };
            Some(turn)
        } else {
            None
        };
        if let Some(permit) = module.engine().admission.try_admit() {
            return Ok(Self { turn, ..Self::new(module, permit) });
        }
        // Guests that need the turn may have the permits.
        drop(turn);
        Self::acquire(module).await
    }

    fn new(module: &Module, permit: OwnedSemaphorePermit) -> Self {
        Self { module: module.clone(), is_background: false, turn: None, _permit: permit }
    }

    /// Waits for the permit that is reserved for background runs, such as preflights:
    /// clients never use it, and background runs use none of theirs. Their waits for a
    /// processor do not count.
    pub async fn acquire_background(module: &Module) -> Result<Self, CallError> {
        let permit = module.engine().admission.admit_background().await;
        let permit = permit.map_err(|_| CallError::Overloaded)?;
        Ok(Self { is_background: true, ..Self::new(module, permit) })
    }

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
        self.execute_then(request, snapshot, |response| response).await
    }

    /// Executes the request, and applies `make` to the response on the thread of the
    /// guest, so that long work there does not block the thread of the socket.
    pub async fn execute_then<T: Send + 'static>(
        self,
        request: Arc<GuestRequest>,
        snapshot: Arc<Snapshot>,
        make: impl FnOnce(GuestResponse) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let module = self.module.clone();
        module.stats().run();
        let result = self.run(&module, request, snapshot, make).await;
        if let Err(error) = &result {
            module.stats().failed(error);
        }
        result
    }

    async fn run<T: Send + 'static>(
        mut self,
        module: &Module,
        request: Arc<GuestRequest>,
        snapshot: Arc<Snapshot>,
        make: impl FnOnce(GuestResponse) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let slow_guests = &module.engine().slow_guests;
        let limits = module.limits();
        let targets = &module.engine().slow_targets;
        let is_background = self.is_background;
        let turns = (!is_background).then(|| slow_guests.turns());
        let creates_slowly = module.instances().placement() == Placement::Background;
        let time = GuestTime::start(limits.time, turns);
        let target = targets.target(module.mount(), &request);
        let is_recorded = Recorder::of(&request).is_some();
        let is_verified = module.engine().verifier.is_due();
        // The guest may continue on another thread, which does not have this span.
        let span = Span::current();
        // Dropped after the guest.
        let mut turn = self.turn.take();
        let guest = self.execute_on_fresh_instance(
            request,
            snapshot,
            Arc::clone(&time),
            span,
            is_verified,
            make,
        );
        let guest = time.meter(guest);
        if is_background {
            // A background run already has its own thread.
            time.leave_sockets();
            return guest.await;
        }
        // The time of a reset check is not the target's.
        let target = (!is_verified).then_some(target);
        let mut guest = RecordedRun::new(targets, target, module.engine().ticker.ticks(), guest);
        let starts_elsewhere = is_verified
            || creates_slowly
            || target.is_some_and(|target| targets.is_slow(target))
            || slow_guests.is_full()
            || !module.long_steps().is_open();
        if starts_elsewhere {
            turn = None;
        } else if turn.is_none() {
            let admission = &module.engine().admission;
            turn = SocketTurn::take(admission, limits.queue_wait).await.ok();
        }
        let permit = turn.as_ref().and_then(|_| module.long_steps().acquire());
        let start = if let (Some(turn), Some(permit)) = (&mut turn, permit) {
            let result = socket_steps::run(&mut guest, turn, permit, slow_guests).await;
            if let Some(response) = result {
                return response;
            }
            Start::OnSocketThread
        } else {
            Start::InPool
        };
        drop(turn);
        time.leave_sockets();
        let end = async {
            let error = time.end(limits.queue_wait).await;
            if matches!(error, CallError::Timeout(..)) && (is_recorded || !time.is_idle()) {
                // The guest ends at its next tick; dropped before, it would have no location
                // and no record.
                sleep(limits.queue_wait).await;
            }
            error
        };
        // Boxed, because it is rarer than the rest, and larger.
        Box::pin(slow_guests.run(start, guest, end)).await.unwrap_or_else(Err)
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
            let instances = module.instances();
            let image = module.initial_image();
            Box::pin(module.engine().verifier.verify(instances, image, &snapshot, &time)).await?;
        }
        let instances = module.instances();
        let mut store = instances.store(Arc::clone(&time), Arc::clone(&request), snapshot, span);
        let mut result = match instances.instantiate(&mut store).await {
            Ok(handle) => instances.call(&mut store, &handle, &request).await,
            Err(error) => Err(error),
        };
        if result.is_ok() && time.is_over() {
            result = Err(CallError::Timeout(module.limits().time, None));
        }
        let StoreData { snapshot: mut tracked, limiter, wasi, .. } = store.into_data();
        if wasi.is_some_and(|wasi| wasi.has_read_time()) {
            tracked.changed();
        }
        let (snapshot, reads, commands) = tracked.into_record();
        if result.is_ok() && commands.len() > MAX_COMMANDS {
            result = Err(CallError::Invalid(InvalidResponse::TooManyCommands));
        }
        if let Some(recorder) = Recorder::of(&request) {
            recorder.record(&Run {
                module,
                request: &request,
                snapshot: &snapshot,
                reads: &reads,
                is_background: self.is_background,
                commands: &commands,
                result: result.as_ref(),
            });
        }
        let response = result?;
        let memory = limiter.peak_memory();
        Ok(make(GuestResponse { response, reads, commands, memory }))
    }
}
