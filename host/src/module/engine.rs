//! The compiler, and the pool that instances come from.

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

/// What a component may consist of: core instances, tables and memories. Most
/// have one or two; the runtimes of other languages come with libraries and
/// adapters, those of Python with 38 instances and those of JavaScript with three
/// memories. All memories share the limit.
pub(super) const CORE_INSTANCES: u32 = 64;
const TABLES: u32 = 16;
const MEMORIES: u32 = 3;

/// How much of an instance's memory is cleared in place for the next one, in bytes: what
/// the state of 700 workers touches. What a memory has beyond that is unmapped, and
/// faulted in again by the next instance that needs it. The whole is cleared, touched or
/// not (`docs/decisions/008-reset.md`), so a module with a small memory is a fast one.
const MEMORY_KEPT: usize = 320 << 10;

/// What was used before is used again before anything new is touched: stacks
/// and tables that take turns are in no cache, and all stay with the process.
const WARM_SLOTS: u32 = 1;

/// What the host's functions have of the stack beyond what the instance has, in
/// bytes.
const HOST_STACK: usize = 1 << 20;

/// The frames of a backtrace: the function that trapped and some of its callers.
pub(super) const BACKTRACE_FRAMES: usize = 4;

/// What the pool reserves for an element of a table, in bytes.
const TABLE_ELEMENT: u64 = 16;

/// Compiles modules and runs them. One engine serves a process; it is cheap
/// to clone.
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

/// What an engine is to be like.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// What its modules may use.
    pub limits: Limits,
    /// Which interfaces of the contract its modules may import. Default: all.
    pub grants: Grants,
    /// Which response headers beyond their mount its modules may set. Default: none.
    pub headers: HeaderGrants,
    /// Whether its modules may import WASI 0.2 as well, of which nothing leads
    /// outside: no files, sockets, environment or arguments; a clock that stands
    /// still at the time when the relayer last changed, random numbers from a
    /// fixed seed, and stdout and stderr for the log. Default: they may not.
    pub wasi: bool,
    /// The folder for compiled code, so that what is there need not be compiled
    /// again. Default: none.
    pub code_cache: Option<CodeCache>,
    /// The command that compiles untrusted components in a process of its own,
    /// whose time and memory are bounded. Default: none; they are compiled in
    /// this process, and nothing bounds the memory that this takes.
    pub compiler: Option<Compiler>,
}

/// There is no engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A limit is out of its range.
    #[error("{0}")]
    Limits(#[from] LimitError),
    /// This machine cannot run modules.
    #[error(
        "cannot set up the module engine: {reason:#}; {concurrency} instances of {memory} reserve {address_space} of address space: lower limits.concurrency, limits.memory or limits.table, or raise the limit of the process (ulimit -v, ulimit -d)"
    )]
    Setup {
        /// Why not.
        reason: wasmtime::Error,
        /// How many instances were wanted.
        concurrency: u32,
        /// How much memory each may have.
        memory: ByteSize,
        /// How much address space their memories, tables and stacks reserve.
        address_space: ByteSize,
    },
    /// The engine's clock has no thread.
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
    /// An engine for modules under these limits.
    pub fn new(limits: &Limits) -> Result<Self, EngineError> {
        Self::with(limits.into())
    }

    /// An engine that is like this.
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

    /// The same, whose modules may import these interfaces of the contract and
    /// no others.
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

    /// What it is like.
    #[must_use]
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// The interfaces that its modules may import.
    #[must_use]
    pub fn grants(&self) -> &Grants {
        &self.options.grants
    }

    /// Whose turn it is to have an answer of its modules compressed.
    pub(crate) fn compressing(&self) -> &CompressionPermits {
        &self.compressing
    }

    /// Returns the memory of slots that have no instance to the system, if no instance
    /// runs: slots cannot be had meanwhile.
    #[cfg(feature = "cli")]
    pub(crate) fn release_idle_memory(&self) {
        if let Some(_idle) = self.admission.try_hold_all(self.limits().concurrency) {
            self.wasmtime.release_idle_pool_memory();
        }
    }

    /// What modules may use.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.options.limits
    }
}

/// Sets up an engine with as much address space as there is.
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

/// How instances run.
fn running(limits: &Limits, reservation: Reservation) -> Config {
    let mut config = compiling(reservation);
    config
        .max_wasm_stack(bytes(limits.stack))
        .wasm_backtrace_max_frames(NonZeroUsize::new(BACKTRACE_FRAMES))
        // Access to the memories of an instance that is verified.
        .coredump_on_trap(true)
        .async_stack_size(stack(limits))
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits)));
    config
}

/// How modules are compiled: all that compiled code depends on. The process that
/// compiles and the one that runs the code have this in common.
pub(super) fn compiling(reservation: Reservation) -> Config {
    let mut config = Config::new();
    // An answer depends on the request and the state, on nothing else: not on
    // how this machine rounds, nor on what another thread does.
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

/// How many instances there can be: one more than clients have, for looking at modules,
/// and those that take the place of slots that were retired.
fn slots(limits: &Limits) -> u32 {
    limits.concurrency + 1 + SPARE_SLOTS
}

/// The bytes of a fiber's stack.
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
        // Kernels report pages as written that nothing touched.
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
