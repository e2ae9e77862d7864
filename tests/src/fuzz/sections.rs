//! Components whose sections are generated from the input: several kinds, and many
//! entries of each.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use relayer_rest_host::module::{CallError, Engine, Limits, Module};
use relayer_rest_host::state::StatePublisher;
use tokio::runtime::{Builder, Runtime};

use crate::component::sections::{self, FIELDS};
use crate::server::request;

/// The most kinds of entries, entries of a kind, and instances. More of them take
/// long to compile, and are in `tests/cost`.
const MAX_KINDS: usize = 4;
const MAX_COUNT: usize = 3_000;
const MAX_INSTANCES: usize = 70;

/// Nothing takes as long, however busy the machine is.
const PATIENCE: Duration = Duration::from_mins(1);

/// Loads a generated component and calls it: it takes neither more memory than its
/// limit nor more time, and never fails because of the host.
pub fn sections(data: &[u8]) {
    static RUNNING: LazyLock<(Runtime, Engine)> = LazyLock::new(|| {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        (runtime, Engine::new(&limits()).unwrap())
    });
    let (runtime, engine) = &*RUNNING;
    let module = match Module::from_bytes(engine, "generated", &generate(data)) {
        Ok(module) => module,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let memory = limits().memory.as_u64();
    assert!(module.instance_cost().total() <= memory, "{:?}", module.instance_cost());
    let snapshot = StatePublisher::new().reader().snapshot();
    let start = Instant::now();
    let answer = runtime.block_on(async {
        let place = module.place().await.unwrap();
        place.handle(request("GET", "/", &[]), Arc::clone(&snapshot)).await
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
