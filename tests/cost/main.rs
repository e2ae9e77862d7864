//! Does an instance of any component take more memory than its mount's limit? Alone
//! in its process: everything that is allocated is counted.

use bytesize::ByteSize;
use peak_alloc::PeakAlloc;
use relayer_rest_host::module::{Engine, Limits, LoadError, Module};
use relayer_rest_host::state::StatePublisher;
use relayer_rest_tests::component::sections::GENERATORS;
use relayer_rest_tests::server::{engine, request};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// What a request takes besides its instance, in bytes.
const BESIDES: usize = 64 << 10;

/// What an instance of a component takes at its most, in bytes.
#[derive(Debug)]
struct Taken {
    /// What was allocated on the host.
    host: usize,
    /// Its memories and tables.
    memory: usize,
}

/// Loads a component, calls it, and returns what the second instance takes.
fn taken(engine: &Engine, component: &[u8]) -> Result<(Module, Taken), LoadError> {
    let module = Module::from_bytes(engine, "generated", component)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let snapshot = StatePublisher::new().reader().snapshot();
    let mut taken = Taken { host: 0, memory: 0 };
    for _ in 0..2 {
        let place = runtime.block_on(module.place()).unwrap();
        let request = request("GET", "/", &[]);
        let before = ALLOCATED.current_usage();
        ALLOCATED.reset_peak_usage();
        let answer = runtime.block_on(place.handle(request, snapshot.clone()));
        taken.host = ALLOCATED.peak_usage().saturating_sub(before);
        taken.memory = answer.unwrap_or_else(|error| panic!("{error}")).memory;
    }
    Ok((module, taken))
}

#[test]
fn instances_take_no_more_than_their_limit_whatever_their_sections() {
    let limits =
        Limits { memory: ByteSize::mib(1), table: 100_000, concurrency: 2, ..Limits::default() };
    let engine = engine(&limits);
    let limit = limits.memory.as_u64() as usize;
    for (kind, generate) in GENERATORS {
        let (mut accepted, mut refused) = (0, 0);
        for count in [1, 40, 900, 9_000] {
            match taken(&engine, &generate(count)) {
                Ok((module, taken)) => {
                    let cost = module.instance_cost();
                    let what = format!("{count} {kind}: {taken:?}, {cost:?}");
                    println!("{what}");
                    let estimated = cost.host_bytes() as usize;
                    assert!(taken.host <= estimated + BESIDES, "{what}");
                    assert!(taken.host + taken.memory <= limit + BESIDES, "{what}");
                    accepted += 1;
                }
                Err(error) => {
                    println!("{count} {kind}: {error}");
                    refused += 1;
                    // More of it would be refused as well.
                    break;
                }
            }
        }
        assert!(accepted + refused > 0);
        assert!(accepted > 0 || kind == "tags", "{kind} is always refused");
    }
}
