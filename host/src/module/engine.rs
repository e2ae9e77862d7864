//! The compiler, and the pool that instances come from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytesize::ByteSize;
use wasmtime::component::Linker;
use wasmtime::{
    Cache, CacheConfig, Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig,
};

use super::compiler::CodeCache;
use super::grants::Grants;
use super::header_grants::HeaderGrants;
use super::imports;
use super::instance::Call;
use super::limits::{LimitError, Limits, bytes};
use super::long_runs::LongRuns;
use super::ticker::Ticker;
use super::wasi;
use crate::admission::Admission;
use crate::answer::Turns;
use crate::log_rate::LogRate;

/// What a component may consist of: core instances, tables and memories. Most
/// have one or two; the runtimes of other languages come with libraries and
/// adapters, those of Python with 38 instances and those of JavaScript with three
/// memories. All memories share the limit.
pub(super) const CORE_INSTANCES: u32 = 64;
const TABLES: u32 = 16;
const MEMORIES: u32 = 3;

/// What of an instance's memory stays with the process for the next one, in
/// bytes: what the state of some thousand workers touches. More makes larger
/// answers faster, and all others slower that come after one: what stays is
/// cleared for each request, whether it was touched again or not.
const MEMORY_KEPT: usize = 1 << 20;

/// What was used before is used again before anything new is touched: stacks
/// and tables that take turns are in no cache, and all stay with the process.
const WARM_SLOTS: u32 = 1;

/// What the host's functions have of the stack beyond what the instance has, in
/// bytes.
const HOST_STACK: usize = 1 << 20;

/// How much compiled code is kept, in bytes: some hundreds of modules.
const CACHE_SIZE: u64 = 128 << 20;

/// Compiles modules and runs them. One engine serves a process; it is cheap
/// to clone.
#[derive(Clone)]
pub struct Engine {
    pub(super) wasmtime: wasmtime::Engine,
    pub(super) linker: Arc<Linker<Call>>,
    pub(super) ticker: Arc<Ticker>,
    pub(super) admission: Arc<Admission>,
    pub(super) long_runs: Arc<LongRuns>,
    pub(super) log_rate: Arc<LogRate>,
    pub(super) options: Arc<EngineOptions>,
    compressing: Turns,
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
    /// Where it keeps what it compiles, so that what is there need not be
    /// compiled again. Default: nowhere.
    pub code_cache: Option<CodeCache>,
}

/// There is no engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A limit is out of its range.
    #[error("{0}")]
    Limits(#[from] LimitError),
    /// What is compiled cannot be kept.
    #[error("code cache {}: {reason:#}; choose a folder of your own with --code-cache DIR, or do without with --no-code-cache", folder.display())]
    CodeCache {
        /// Why not.
        reason: wasmtime::Error,
        /// The folder.
        folder: PathBuf,
    },
    /// This machine cannot run modules.
    #[error(
        "cannot set up the module engine: {reason:#}; {concurrency} instances of {memory} may be more than the system can reserve: lower limits.concurrency or limits.memory"
    )]
    Setup {
        /// Why not.
        reason: wasmtime::Error,
        /// How many instances were wanted.
        concurrency: u32,
        /// How much memory each may have.
        memory: ByteSize,
    },
}

impl From<&Limits> for EngineOptions {
    fn from(limits: &Limits) -> Self {
        let (limits, headers) = (limits.clone(), HeaderGrants::default());
        Self { limits, grants: Grants::all(), headers, wasi: false, code_cache: None }
    }
}

impl Engine {
    /// An engine for modules under these limits.
    pub fn new(limits: &Limits) -> Result<Self, EngineError> {
        Self::with(limits.into())
    }

    /// An engine that is like this.
    pub fn with(options: EngineOptions) -> Result<Self, EngineError> {
        let EngineOptions { limits, code_cache, .. } = &options;
        limits.check()?;
        let cache = code_cache.as_ref().map(|kept| cache(&kept.folder)).transpose()?;
        let fault = |reason| EngineError::Setup {
            reason,
            concurrency: limits.concurrency,
            memory: limits.memory,
        };
        let wasmtime = wasmtime::Engine::new(&running(&options, cache)).map_err(fault)?;
        let mut linker = Linker::new(&wasmtime);
        imports::define(&mut linker).map_err(fault)?;
        if options.wasi {
            wasi::define(&mut linker).map_err(fault)?;
        }
        let ticker = Ticker::start(&wasmtime).map_err(|error| fault(error.into()))?;
        Ok(Self {
            wasmtime,
            linker: Arc::new(linker),
            ticker: Arc::new(ticker),
            admission: Arc::new(Admission::new(limits)),
            long_runs: Arc::new(LongRuns::new()),
            log_rate: Arc::new(LogRate::new(limits.log_rate.as_u64())),
            options: Arc::new(options),
            compressing: Turns::default(),
        })
    }

    /// The same, whose modules may import these interfaces of the contract and
    /// no others.
    #[must_use]
    pub fn with_grants(self, grants: Grants) -> Self {
        let options = Arc::new(EngineOptions { grants, ..(*self.options).clone() });
        Self { options, ..self }
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
    pub(crate) fn compressing(&self) -> &Turns {
        &self.compressing
    }

    /// The folder in which it keeps what it compiles.
    #[must_use]
    pub fn code_cache(&self) -> Option<&Path> {
        self.options.code_cache.as_ref().map(|kept| &*kept.folder)
    }

    /// What modules may use.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.options.limits
    }
}

/// Where compiled code is kept.
pub(super) fn cache(folder: &Path) -> Result<Cache, EngineError> {
    let mut config = CacheConfig::new();
    config.with_directory(folder).with_files_total_size_soft_limit(CACHE_SIZE);
    Cache::new(config)
        .map_err(|reason| EngineError::CodeCache { reason, folder: folder.to_owned() })
}

/// How instances run.
fn running(options: &EngineOptions, cache: Option<Cache>) -> Config {
    let limits = &options.limits;
    let mut config = compiling(cache);
    config
        .max_wasm_stack(bytes(limits.stack))
        .async_stack_size(bytes(limits.stack) + HOST_STACK)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits)));
    config
}

/// How modules are compiled: all that compiled code depends on.
pub(super) fn compiling(cache: Option<Cache>) -> Config {
    let mut config = Config::new();
    // An answer depends on the request and the state, on nothing else: not on
    // how this machine rounds, nor on what another thread does.
    config
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .concurrency_support(false)
        .cache(cache)
        .epoch_interruption(true);
    config
}

fn pool(limits: &Limits) -> PoolingAllocationConfig {
    // One more than clients have: for looking at modules.
    let count = limits.concurrency + 1;
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
        .pagemap_scan(Enabled::Auto);
    pool
}

#[cfg(test)]
mod tests {
    use super::{Engine, Limits, MEMORIES, MEMORY_KEPT};
    use bytesize::ByteSize;

    #[test]
    fn instances_come_from_a_pool_that_has_the_limits() {
        let limits = Limits { concurrency: 3, memory: ByteSize::mib(7), ..Limits::default() };
        let engine = Engine::new(&limits).unwrap().wasmtime;
        let pool = engine.get_pooling_config().expect("the allocator is a pool");
        assert_eq!(pool.get_total_component_instances(), 4);
        assert_eq!(pool.get_total_memories(), 4 * MEMORIES);
        assert_eq!(pool.get_total_stacks(), 4);
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
