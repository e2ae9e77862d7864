//! Components whose sections are generated from the input: by `wasm-smith`, with
//! entries of every kind, and here, with many entries of a few kinds.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use arbitrary::{Arbitrary, Unstructured};
use bytesize::ByteSize;
use relayer_rest_host::module::{CallError, Engine, Limits, Module};
use relayer_rest_host::state::StatePublisher;
use tokio::runtime::{Builder, Runtime};
use wasm_smith::{Config, Module as CoreModule};

use crate::component;
use crate::component::sections::{self, FIELDS};
use crate::server::request;

/// The most kinds of entries, entries of a kind, and instances. More of them take
/// long to compile, and are in `tests/cost`.
const MAX_KINDS: usize = 4;
const MAX_COUNT: usize = 3_000;
const MAX_INSTANCES: usize = 70;

/// Nothing takes as long, however busy the machine is.
const PATIENCE: Duration = Duration::from_mins(1);

/// Loads a component with many entries of a few kinds, and calls it.
pub fn sections(data: &[u8]) {
    check(&generate(data));
}

/// Loads a component that `wasm-smith` makes, and calls it.
pub fn generated(data: &[u8]) {
    if let Ok(component) = generate_with_smith(data) {
        check(&component);
    }
}

/// Loads a component and calls it: it takes neither more memory than its limit nor
/// more time, and never fails because of the host.
fn check(component: &[u8]) {
    static RUNNING: LazyLock<(Runtime, Engine)> = LazyLock::new(|| {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        (runtime, Engine::new(&limits()).unwrap())
    });
    let (runtime, engine) = &*RUNNING;
    let module = match Module::from_bytes(engine, "generated", component) {
        Ok(module) => module,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let memory = limits().memory.as_u64();
    assert!(module.instance_cost().total() <= memory, "{:?}", module.instance_cost());
    let snapshot = StatePublisher::new().reader().snapshot();
    let start = Instant::now();
    let answer = runtime.block_on(async {
        let place = module.acquire().await.unwrap();
        place.execute(request("GET", "/", &[]), Arc::clone(&snapshot)).await
    });
    assert!(start.elapsed() < PATIENCE, "it takes {:?}", start.elapsed());
    match answer {
        Ok(answer) => assert!(answer.memory as u64 <= memory, "{}", answer.memory),
        Err(CallError::Trap(_) | CallError::Timeout(_) | CallError::Invalid(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

/// The limits of generated components.
#[must_use]
pub fn limits() -> Limits {
    Limits {
        memory: ByteSize::mib(1),
        stack: ByteSize::kib(64),
        time: Duration::from_millis(50),
        concurrency: 2,
        ..Limits::default()
    }
}

/// Generates a component from these bytes. The first says how many instances of a
/// module there are, and each three after it are a kind of entries and their number.
#[must_use]
pub fn generate(data: &[u8]) -> Vec<u8> {
    let Some((instances, entries)) = data.split_first() else { return Vec::new() };
    let mut left: Vec<_> = FIELDS.iter().collect();
    let mut fields = String::new();
    for entry in entries.as_chunks::<3>().0.iter().take(MAX_KINDS) {
        // Each kind once: their names are in one module.
        let (_, generate) = left.swap_remove(usize::from(entry[0]) % left.len());
        let count = usize::from(u16::from_be_bytes([entry[1], entry[2]]));
        fields += &generate(count % MAX_COUNT);
    }
    sections::module(&fields, usize::from(*instances) % MAX_INSTANCES)
}

/// Generates a component of the contract's world around a core module of
/// `wasm-smith`, which calls the host's functions with whatever it computes.
///
/// # Errors
///
/// The bytes may be too few.
pub fn generate_with_smith(data: &[u8]) -> arbitrary::Result<Vec<u8>> {
    let mut input = Unstructured::new(data);
    let config = Config {
        available_imports: Some(component::imports()),
        exports: Some(wat::parse_str(EXPORTS).expect("it is well-formed")),
        max_imports: 20,
        // Proposals that the engine refuses: little would get to run.
        compact_imports_enabled: false,
        custom_descriptors_enabled: false,
        custom_page_sizes_enabled: false,
        exceptions_enabled: false,
        gc_enabled: false,
        memory64_enabled: false,
        min_uleb_size: 1,
        shared_everything_threads_enabled: false,
        threads_enabled: false,
        // What is larger is refused as well. The memory that is exported is one more.
        max_memories: 0,
        max_memory32_bytes: 1 << 20,
        max_table_elements: 10_000,
        ..Config::arbitrary(&mut input)?
    };
    let mut module = CoreModule::new(config, &mut input)?;
    // Loops that do not end only make this slow: limits of time have their own tests.
    module.ensure_termination(STEPS).expect("it has functions of its own only");
    Ok(component::of_core(&module.to_bytes()))
}

/// The calls and turns of loops of a core module.
const STEPS: u32 = 10_000;

/// What a module exports to be one of the contract's world.
const EXPORTS: &str = r#"(module
    (memory (export "memory") 2)
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
    (func (export "relayer:rest/handler@0.1.0#handle") (param i32 i32 i32 i32) (result i32)
        unreachable))"#;
