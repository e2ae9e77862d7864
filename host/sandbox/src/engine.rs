//! The engine: compiles modules, and holds the pool that their instances share.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytesize::ByteSize;
use relayer_rest_common::LimitError;
use relayer_rest_common::histogram::Times;
use relayer_rest_common::log_rate::LogRate;
use wasmtime::component::Linker;

use super::address_space::Reservation;
use super::admission::Admission;
use super::engine_config;
use super::epoch_ticker::EpochTicker;
use super::grants::Grants;
use super::host_functions;
use super::limiter::Peaks;
use super::limits::Limits;
use super::options::EngineOptions;
use super::slow_guest_pool::SlowGuestPool;
use super::slow_targets::SlowTargets;
use super::store::StoreData;
use super::verify::ResetVerifier;
use super::wasi_functions;

/// Compiles modules and runs them. One engine can serve all modules of a process; it is
/// cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(super) wasmtime: wasmtime::Engine,
    pub(super) linker: Arc<Linker<StoreData>>,
    pub(super) ticker: Arc<EpochTicker>,
    pub(super) admission: Arc<Admission>,
    pub(super) slow_guests: Arc<SlowGuestPool>,
    pub(super) slow_targets: Arc<SlowTargets>,
    pub(super) log_rate: Arc<LogRate>,
    pub(super) verifier: Arc<ResetVerifier>,
    pub(super) peaks: Arc<Peaks>,
    pub(super) options: Arc<EngineOptions>,
    /// The address space of each memory, on which compiled code depends.
    pub(super) reservation: Reservation,
}

/// The load of an engine.
#[derive(Debug, Clone)]
pub struct EngineLoad {
    /// The requests that run.
    pub running: usize,
    /// The requests that wait for an instance, or for a turn on the thread of their socket.
    pub waiting: usize,
    /// The times of the waits of requests since the start; a request can wait for a turn and then
    /// for an instance.
    pub waited: Times,
    /// The peak size of the memories and tables of one instance, in bytes.
    pub peak_memory: usize,
}

/// The reason that an engine could not be created.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A limit is out of its range.
    #[error("{0}")]
    Limits(#[from] LimitError),
    /// The engine could not be set up on this machine.
    #[error(
        "module engine: {reason:#}; {concurrency} instances of {memory} reserve {address_space} of address space: lower limits.concurrency, limits.memory or limits.table, or raise the limit of the process (ulimit -v, ulimit -d)"
    )]
    Setup {
        /// The cause.
        reason: wasmtime::Error,
        /// The maximum number of concurrent instances.
        concurrency: u32,
        /// The maximum memory of an instance.
        memory: ByteSize,
        /// The address space that all memories, tables and stacks reserve.
        address_space: ByteSize,
    },
    /// The thread of the epoch ticker could not be started.
    #[error("cannot start a thread: {0}; raise the limit of processes (ulimit -u)")]
    Thread(std::io::Error),
}

impl Engine {
    /// Creates an engine for modules under these limits.
    pub fn new(limits: &Limits) -> Result<Self, EngineError> {
        Self::with(limits.into())
    }

    /// Creates an engine with these options.
    pub fn with(options: EngineOptions) -> Result<Self, EngineError> {
        let limits = &options.limits;
        limits.check()?;
        let (wasmtime, reservation) = reserve(limits, options.quick_compilation)?;
        let setup_error = |reason| setup(reason, limits, reservation);
        let mut linker = Linker::new(&wasmtime);
        host_functions::define(&mut linker).map_err(setup_error)?;
        if options.wasi {
            wasi_functions::define(&mut linker).map_err(setup_error)?;
        }
        let ticker = EpochTicker::start(&wasmtime).map_err(EngineError::Thread)?;
        Ok(Self {
            wasmtime,
            linker: Arc::new(linker),
            ticker: Arc::new(ticker),
            admission: Arc::new(Admission::new(limits)),
            slow_guests: Arc::new(SlowGuestPool::new()),
            slow_targets: Arc::new(SlowTargets::new()),
            log_rate: Arc::new(LogRate::new(limits.log_rate.as_u64())),
            verifier: Arc::new(ResetVerifier::new(limits.verify_reset)),
            peaks: Arc::default(),
            options: Arc::new(options),
            reservation,
        })
    }

    /// Replaces the grants: modules may import these interfaces of the contract and no
    /// others.
    #[must_use]
    pub fn with_grants(self, grants: Grants) -> Self {
        let options = Arc::new(EngineOptions { grants, ..(*self.options).clone() });
        Self { options, ..self }
    }

    /// Returns the number of runs that did not start on the thread of their
    /// request, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn runs_started_elsewhere(&self) -> u64 {
        self.slow_guests.started()
    }

    /// Returns the load of the engine.
    #[must_use]
    pub fn load(&self) -> EngineLoad {
        let [running, waiting] = self.admission.admitted();
        let peak_memory = self.peaks.memory.load(Relaxed);
        EngineLoad { running, waiting, waited: self.admission.waited(), peak_memory }
    }

    /// Returns the engine's options.
    #[must_use]
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Returns the interfaces that its modules may import.
    #[must_use]
    pub fn grants(&self) -> &Grants {
        &self.options.grants
    }

    /// Returns the memory of idle slots to the system, if no instance runs. No slot can
    /// be acquired meanwhile.
    pub fn release_idle_memory(&self) {
        if let Some(_idle) = self.admission.try_hold_all(self.limits().concurrency) {
            self.wasmtime.release_idle_pool_memory();
        }
    }

    /// Returns the limits of its modules.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.options.limits
    }
}

/// Sets up an engine with the full reservation of address space if possible, and with the
/// smallest otherwise.
fn reserve(
    limits: &Limits,
    is_quick: bool,
) -> Result<(wasmtime::Engine, Reservation), EngineError> {
    let set_up = |reservation| {
        let mut config = engine_config::running(limits, reservation);
        if is_quick {
            engine_config::compile_quickly(&mut config);
        }
        wasmtime::Engine::new(&config).map(|engine| (engine, reservation))
    };
    let (first, last) = Reservation::choices(limits, engine_config::memories(limits));
    match first.and_then(|choice| set_up(choice).ok()) {
        Some(engine) => Ok(engine),
        None => set_up(last).map_err(|reason| setup(reason, limits, last)),
    }
}

fn setup(reason: wasmtime::Error, limits: &Limits, reservation: Reservation) -> EngineError {
    EngineError::Setup {
        reason,
        concurrency: limits.concurrency,
        memory: limits.memory,
        address_space: engine_config::address_space(limits, reservation),
    }
}
