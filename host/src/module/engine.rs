//! The compiler, and the pool from which instances are allocated.

use std::num::NonZeroUsize;
use std::sync::Arc;

use bytesize::ByteSize;
use wasmtime::component::Linker;
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::address_space::Reservation;
use super::code_cache::CodeCache;
use super::compiler::Compiler;
use super::epoch_ticker::EpochTicker;
use super::grants::Grants;
use super::header_grants::HeaderGrants;
use super::host_functions;
use super::instance::StoreData;
use super::limiter::Peaks;
use super::limits::{LimitError, Limits, bytes};
use super::slow_guest_pool::SlowGuestPool;
use super::slow_targets::SlowTargets;
use super::verify::{ResetVerifier, SPARE_SLOTS};
use super::wasi;
use crate::admission::Admission;
use crate::log_rate::LogRate;
use crate::response::CompressionPermits;

/// The maximum numbers of core instances, tables and memories in a component. Most
/// components have one or two of each. Runtimes of other languages add libraries and
/// adapters: Python's has 38 core instances, JavaScript's three memories. All memories
/// share the limit.
pub(super) const CORE_INSTANCES: u32 = 64;
const TABLES: u32 = 16;
const MEMORIES: u32 = 3;

/// The bytes of each memory and table that are cleared in place for the next instance: as
/// many as a request touches with a state of 700 workers. The rest is unmapped, and
/// faulted in again by the next instance that needs it. All of these bytes are cleared,
/// touched or not (`docs/decisions/008-reset.md`), so modules with a small memory are
/// fast.
const MEMORY_KEPT: usize = 320 << 10;

/// The maximum number of unused warm slots: used slots are reused before new ones are
/// touched. Stacks and tables in rotation would be in no CPU cache, and all of them would
/// stay resident.
const WARM_SLOTS: u32 = 1;

/// The stack of host functions, in addition to the instance's, in bytes.
const HOST_STACK: usize = 1 << 20;

/// The maximum number of frames in a backtrace: the function that trapped and some of its
/// callers.
pub(super) const BACKTRACE_FRAMES: usize = 4;

/// The bytes that the pool reserves for an element of a table.
const TABLE_ELEMENT: u64 = 16;

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
    compressing: CompressionPermits,
}

/// The options of an [`Engine`].
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The limits of its modules.
    pub limits: Limits,
    /// The interfaces of the contract that its modules may import. Default: all.
    pub grants: Grants,
    /// The response headers with effects beyond their mount that its modules may set.
    /// Default: none.
    pub headers: HeaderGrants,
    /// Whether its modules may also import WASI 0.2. It gives no access to the outside:
    /// no files, sockets, environment or arguments; a clock that stands still at the time
    /// of the relayer's last change, random numbers from a fixed seed, and stdout and
    /// stderr for the log. Default: no.
    pub wasi: bool,
    /// The folder for compiled code, so that it is not compiled again. Default: none.
    pub code_cache: Option<CodeCache>,
    /// The command that compiles untrusted components in a separate process, whose time
    /// and memory are bounded. Default: none; they are compiled in this process, with no
    /// bound on memory.
    pub compiler: Option<Compiler>,
}

/// The reason that an engine could not be created.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A limit is out of its range.
    #[error("{0}")]
    Limits(#[from] LimitError),
    /// The engine could not be set up on this machine.
    #[error(
        "cannot set up the module engine: {reason:#}; {concurrency} instances of {memory} reserve {address_space} of address space: lower limits.concurrency, limits.memory or limits.table, or raise the limit of the process (ulimit -v, ulimit -d)"
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

impl From<&Limits> for EngineOptions {
    fn from(limits: &Limits) -> Self {
        Self {
            limits: limits.clone(),
            grants: Grants::all(),
            headers: HeaderGrants::default(),
            wasi: false,
            code_cache: None,
            compiler: None,
        }
    }
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
        let (wasmtime, reservation) = reserve(limits)?;
        let fault = |reason| setup(reason, limits, reservation);
        let mut linker = Linker::new(&wasmtime);
        host_functions::define(&mut linker).map_err(fault)?;
        if options.wasi {
            wasi::define(&mut linker).map_err(fault)?;
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
            compressing: CompressionPermits::default(),
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

    /// Returns the permits to compress responses of its modules.
    pub(crate) fn compressing(&self) -> &CompressionPermits {
        &self.compressing
    }

    /// Returns the memory of idle slots to the system, if no instance runs. No slot can
    /// be acquired meanwhile.
    #[cfg(feature = "cli")]
    pub(crate) fn release_idle_memory(&self) {
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
fn reserve(limits: &Limits) -> Result<(wasmtime::Engine, Reservation), EngineError> {
    let set_up = |reservation| {
        wasmtime::Engine::new(&running(limits, reservation)).map(|engine| (engine, reservation))
    };
    let (first, last) = Reservation::choices(limits, slots(limits) * MEMORIES);
    match first.and_then(|choice| set_up(choice).ok()) {
        Some(engine) => Ok(engine),
        None => set_up(last).map_err(|reason| setup(reason, limits, last)),
    }
}

fn setup(reason: wasmtime::Error, limits: &Limits, reservation: Reservation) -> EngineError {
    let count = u64::from(slots(limits));
    let memories = reservation.total(slots(limits) * MEMORIES);
    let tables = count * u64::from(TABLES) * u64::from(limits.table) * TABLE_ELEMENT;
    let stacks = count * stack(limits) as u64;
    EngineError::Setup {
        reason,
        concurrency: limits.concurrency,
        memory: limits.memory,
        address_space: ByteSize::b(memories.saturating_add(tables).saturating_add(stacks)),
    }
}

/// Returns the configuration for running instances.
fn running(limits: &Limits, reservation: Reservation) -> Config {
    let mut config = compiling(reservation);
    config
        .max_wasm_stack(bytes(limits.stack))
        .wasm_backtrace_max_frames(NonZeroUsize::new(BACKTRACE_FRAMES))
        // Gives the reset check access to an instance's memories.
        .coredump_on_trap(true)
        .async_stack_size(stack(limits))
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits)));
    config
}

/// Returns the configuration of the compiler: all settings that compiled code depends on.
/// The compiler process and the engine that runs the code share it.
pub(super) fn compiling(reservation: Reservation) -> Config {
    let mut config = Config::new();
    // Responses depend only on the request and the state: not on the rounding of this
    // machine, nor on other threads.
    config
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .concurrency_support(false)
        .epoch_interruption(true);
    // The contract does not need these, and the engine keeps state for them whose
    // size is not bounded by an instance's limits.
    config
        .wasm_shared_everything_threads(false)
        .wasm_stack_switching(false)
        .wasm_memory64(false)
        .wasm_component_model_error_context(false)
        .wasm_component_model_gc(false);
    reservation.configure(&mut config);
    config
}

/// Returns the number of slots: one for each concurrent request, one for background runs,
/// and spares for slots that are retired.
fn slots(limits: &Limits) -> u32 {
    limits.concurrency + 1 + SPARE_SLOTS
}

/// Returns the size of a fiber's stack, in bytes.
fn stack(limits: &Limits) -> usize {
    bytes(limits.stack) + HOST_STACK
}

fn pool(limits: &Limits) -> PoolingAllocationConfig {
    let count = slots(limits);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(count)
        .total_core_instances(count * CORE_INSTANCES)
        .max_core_instances_per_component(CORE_INSTANCES)
        .total_memories(count * MEMORIES)
        .max_memories_per_component(MEMORIES)
        .max_memory_size(bytes(limits.memory))
        .table_elements(limits.table as usize)
        .total_tables(count * TABLES)
        .max_tables_per_component(TABLES)
        .total_stacks(count)
        .linear_memory_keep_resident(MEMORY_KEPT)
        .table_keep_resident(MEMORY_KEPT)
        .max_unused_warm_slots(WARM_SLOTS)
        // Kernels report untouched pages as written.
        .pagemap_scan(Enabled::No);
    pool
}

#[cfg(test)]
mod tests {
    use super::{Engine, Limits, MEMORIES, MEMORY_KEPT, SPARE_SLOTS};
    use bytesize::ByteSize;

    #[test]
    fn instances_come_from_a_pool_that_has_the_limits() {
        let limits = Limits { concurrency: 3, memory: ByteSize::mib(7), ..Limits::default() };
        let engine = Engine::new(&limits).unwrap().wasmtime;
        let pool = engine.get_pooling_config().expect("the allocator is a pool");
        let count = 4 + SPARE_SLOTS;
        assert_eq!(pool.get_total_component_instances(), count);
        assert_eq!(pool.get_total_memories(), count * MEMORIES);
        assert_eq!(pool.get_total_stacks(), count);
        assert_eq!(pool.get_max_memory_size(), 7 << 20);
        assert_eq!(pool.get_memory_keep_resident(), MEMORY_KEPT);
    }

    #[test]
    fn guests_can_be_interrupted_and_compute_the_same_everywhere() {
        let engine = Engine::new(&Limits::default()).unwrap().wasmtime;
        assert!(engine.get_epoch_interruption());
        assert_eq!(engine.get_cranelift_nan_canonicalization(), Some(true));
        assert!(engine.get_relaxed_simd_deterministic());
    }
}
