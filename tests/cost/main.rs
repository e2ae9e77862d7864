//! Does an instance of any component take more memory than its mount's limit? In a
//! process of its own, since all allocations are counted.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use relayer_rest_host::module::{Engine, Limits, LoadError, Module, RunPermit};
use relayer_rest_host::state::StatePublisher;
use relayer_rest_tests::component::sections::{FIELDS, GENERATORS, module};
use relayer_rest_tests::fuzz::sections;
use relayer_rest_tests::heap::Heap;
use relayer_rest_tests::server::{engine, request};

#[global_allocator]
static ALLOCATED: Heap = Heap::new();

/// Held exclusively during a measurement, in which allocations of other tests would be
/// counted, and shared at all other times, which are most of the time.
static MEASURING: RwLock<()> = RwLock::new(());

/// A test's share of [`MEASURING`].
struct Share(Option<RwLockReadGuard<'static, ()>>);

impl Share {
    fn new() -> Self {
        Self(Some(MEASURING.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Runs a measurement while no other test does anything.
    fn exclusively(&mut self, measure: impl FnOnce()) {
        self.0 = None;
        let exclusive = MEASURING.write().unwrap_or_else(PoisonError::into_inner);
        measure();
        drop(exclusive);
        *self = Self::new();
    }
}

/// Longer than any request takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(10);

/// The memory that a request takes in addition to its instance, in bytes.
const BESIDES: usize = 64 << 10;

/// The memory for the backtrace of a trap, as a multiple of the stack: an address and a
/// frame for each call, once for the message and once for the verifier.
const BACKTRACE: usize = 3;

/// The peak memory of an instance, in bytes.
#[derive(Debug)]
struct Taken {
    /// The bytes allocated on the host.
    host: usize,
    /// The bytes of its memories and tables.
    memory: usize,
    /// The bytes that a request may take in addition to its instance.
    besides: usize,
}

/// Loads a component, calls it twice, and returns the memory that the second instance
/// takes.
fn taken(
    share: &mut Share,
    engine: &Engine,
    component: &[u8],
) -> Result<(Module, Taken), LoadError> {
    let module = Module::from_bytes(engine, "generated", component)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let snapshot = StatePublisher::new().reader().snapshot();
    let mut taken = Taken { host: 0, memory: 0, besides: BESIDES };
    for _ in 0..2 {
        let permit = runtime.block_on(RunPermit::acquire(&module)).unwrap();
        let request = request("GET", "/", &[]);
        let mut response = None;
        share.exclusively(|| {
            taken.host = ALLOCATED.peak_of(|| {
                response = Some(runtime.block_on(permit.execute(request, snapshot.clone())));
            });
        });
        if let Some(Ok(response)) = response {
            taken.memory = response.memory;
        } else {
            let stack = to_usize(engine.limits().stack.as_u64());
            taken.besides = BESIDES + BACKTRACE * stack;
        }
    }
    Ok((module, taken))
}

/// Generates a component with this number of entries.
type Generate = Box<dyn Fn(usize) -> Vec<u8>>;

fn to_usize(size: u64) -> usize {
    usize::try_from(size).unwrap()
}

#[test]
fn instances_with_any_sections_stay_within_their_limit() {
    let mut share = Share::new();
    let limits = Limits { table: 100_000, time: PATIENCE, ..sections::limits() };
    let engine = engine(&limits);
    let limit = to_usize(limits.memory.as_u64());
    let fields = FIELDS.map(|(kind, fields)| -> (&str, Generate) {
        (kind, Box::new(move |count| module(&fields(count), 1)))
    });
    let others =
        GENERATORS.map(|(kind, generate)| -> (&str, Generate) { (kind, Box::new(generate)) });
    for (kind, generate) in fields.into_iter().chain(others) {
        let mut accepted = 0;
        let mut refused = 0;
        for count in [1, 40, 900, 9_000] {
            match taken(&mut share, &engine, &generate(count)) {
                Ok((module, taken)) => {
                    let cost = module.instance_cost();
                    let what = format!("{count} {kind}: {taken:?}, {cost:?}");
                    println!("{what}");
                    let estimated = to_usize(cost.host_bytes());
                    assert!(taken.host <= estimated + taken.besides, "{what}");
                    assert!(taken.host + taken.memory <= limit + taken.besides, "{what}");
                    accepted += 1;
                }
                Err(error) => {
                    println!("{count} {kind}: {error}");
                    refused += 1;
                    // Larger numbers would be rejected, too.
                    break;
                }
            }
        }
        assert!(accepted + refused > 0);
        assert!(accepted > 0 || kind == "tags", "{kind} is always refused");
    }
}

#[test]
fn components_with_generated_sections_stay_within_their_limit() {
    check_sections(12);
}

#[test]
fn components_of_wasm_smith_stay_within_their_limit() {
    check_smith(40);
}

#[test]
#[ignore = "slow: it covers more components"]
fn many_generated_components_stay_within_their_limit() {
    check_sections(60);
    check_smith(200);
}

/// Checks generated components with sections of several kinds.
fn check_sections(count: u32) {
    let mut random = fastrand::Rng::with_seed(7);
    check_generated(count, || {
        // Few enough instances and entries that many components can be loaded.
        let mut bytes = vec![random.u8(1..6)];
        for _ in 0..3 {
            bytes.extend([random.u8(..), random.u8(..3), random.u8(..)]);
        }
        sections::generate(&bytes)
    });
}

/// Checks components of `wasm-smith` with sections of all kinds.
fn check_smith(count: u32) {
    let mut random = fastrand::Rng::with_seed(7);
    check_generated(count, || {
        let mut bytes = vec![0; random.usize(500..8_000)];
        random.fill(&mut bytes);
        sections::generate_with_smith(&bytes).expect("the bytes are enough")
    });
}

/// Checks the memory that instances of this number of generated components take.
#[track_caller]
fn check_generated(count: u32, mut generate: impl FnMut() -> Vec<u8>) {
    let mut share = Share::new();
    // A request that timed out would still run while the next one is measured.
    let limits = Limits { time: PATIENCE, ..sections::limits() };
    let engine = engine(&limits);
    let limit = to_usize(limits.memory.as_u64());
    let mut ran = 0;
    for round in 0..count {
        match taken(&mut share, &engine, &generate()) {
            Ok((module, taken)) => {
                let what = format!("{round}: {taken:?}, {:?}", module.instance_cost());
                let estimated = to_usize(module.instance_cost().host_bytes());
                assert!(taken.host <= estimated + taken.besides, "{what}");
                assert!(taken.host + taken.memory <= limit + taken.besides, "{what}");
                ran += 1;
            }
            Err(error) => println!("{round}: {error}"),
        }
    }
    assert!(ran > count / 6, "{ran} of {count} can be loaded");
    println!("{ran} of {count} can be loaded");
}
