//! The engine's configuration, derived from the limits.

use std::num::NonZeroUsize;

use bytesize::ByteSize;
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig, Strategy};

use super::address_space::Reservation;
use super::limits::{Limits, bytes};

/// The slots of the pool in excess of concurrent requests. When this many have been
/// retired, nothing runs any more.
pub(super) const SPARE_SLOTS: u32 = 4;

/// The maximum numbers of core instances, tables and memories in a component. Most
/// components have one or two of each. Runtimes of other languages add libraries and
/// adapters: Python's has 38 core instances, JavaScript's three memories. All memories
/// share the limit.
pub(super) const MAX_CORE_INSTANCES: u32 = 64;
const MAX_TABLES: u32 = 16;
const MAX_MEMORIES: u32 = 3;

/// The bytes of each memory and table that are cleared in place for the next instance: as
/// many as a request touches with a state of 700 workers. The rest is unmapped, and
/// faulted in again by the next instance that needs it. All of these bytes are cleared,
/// touched or not (`docs/decisions/008-reset.md`), so modules with a small memory are
/// fast. A multiple of the huge pages that guests may have, 64 KiB, as the rest is unmapped in whole
/// pages.
const MEMORY_KEPT: usize = 320 << 10;

/// The maximum number of unused warm slots: used slots are reused before new ones are
/// touched. Stacks and tables in rotation would be in no CPU cache, and all of them would
/// stay resident.
const MAX_WARM_SLOTS: u32 = 1;

/// The stack of host functions, in addition to the instance's, in bytes.
const HOST_STACK: usize = 1 << 20;

/// The maximum number of frames in a backtrace: the functions of a panic in
/// Rust's standard library, and some of its callers.
pub(super) const MAX_BACKTRACE_FRAMES: usize = 16;

/// The bytes that the pool reserves for an element of a table.
const TABLE_ELEMENT: u64 = 16;

/// Returns the configuration for running instances.
pub(super) fn running(limits: &Limits, reservation: Reservation) -> Config {
    let mut config = compiling(reservation);
    config
        .max_wasm_stack(bytes(limits.stack))
        .wasm_backtrace_max_frames(NonZeroUsize::new(MAX_BACKTRACE_FRAMES))
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

/// Sets the compiler that is fast, and whose code is slow, if it is part of this build.
pub(super) fn compile_quickly(config: &mut Config) {
    if cfg!(feature = "quick-compilation") {
        // It has no canonical NaN.
        config.strategy(Strategy::Winch).cranelift_nan_canonicalization(false);
    }
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
        .total_core_instances(count * MAX_CORE_INSTANCES)
        .max_core_instances_per_component(MAX_CORE_INSTANCES)
        .total_memories(count * MAX_MEMORIES)
        .max_memories_per_component(MAX_MEMORIES)
        .max_memory_size(bytes(limits.memory))
        .table_elements(limits.table as usize)
        .total_tables(count * MAX_TABLES)
        .max_tables_per_component(MAX_TABLES)
        .total_stacks(count)
        .linear_memory_keep_resident(MEMORY_KEPT)
        .table_keep_resident(MEMORY_KEPT)
        .max_unused_warm_slots(MAX_WARM_SLOTS)
        // Kernels report untouched pages as written.
        .pagemap_scan(Enabled::No);
    pool
}

/// Returns the number of memories in the pool.
pub(super) fn memories(limits: &Limits) -> u32 {
    slots(limits) * MAX_MEMORIES
}

/// Returns the address space that all memories, tables and stacks reserve.
pub(super) fn address_space(limits: &Limits, reservation: Reservation) -> ByteSize {
    let count = u64::from(slots(limits));
    let memories = reservation.total(memories(limits));
    let tables = count * u64::from(MAX_TABLES) * u64::from(limits.table) * TABLE_ELEMENT;
    let stacks = count * stack(limits) as u64;
    ByteSize::b(memories.saturating_add(tables).saturating_add(stacks))
}

#[cfg(test)]
mod tests {
    use super::{Limits, MAX_MEMORIES, MEMORY_KEPT, SPARE_SLOTS};
    use crate::Engine;
    use bytesize::ByteSize;

    #[test]
    fn instances_come_from_a_pool_with_the_limits() {
        let limits = Limits { concurrency: 3, memory: ByteSize::mib(7), ..Limits::default() };
        let engine = Engine::new(&limits).unwrap().wasmtime;
        let pool = engine.get_pooling_config().expect("the allocator is a pool");
        let count = 4 + SPARE_SLOTS;
        assert_eq!(pool.get_total_component_instances(), count);
        assert_eq!(pool.get_total_memories(), count * MAX_MEMORIES);
        assert_eq!(pool.get_total_stacks(), count);
        assert_eq!(pool.get_max_memory_size(), 7 << 20);
        assert_eq!(pool.get_memory_keep_resident(), MEMORY_KEPT);
    }

    #[test]
    fn guests_are_interruptible_and_deterministic() {
        let engine = Engine::new(&Limits::default()).unwrap().wasmtime;
        assert!(engine.get_epoch_interruption());
        assert_eq!(engine.get_cranelift_nan_canonicalization(), Some(true));
        assert!(engine.get_relaxed_simd_deterministic());
    }
}
