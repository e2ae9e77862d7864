//! Do requests leave memory behind in the process? In a process of its own, so that the
//! memory of other tests is not counted.

use std::thread;

use bytesize::ByteSize;
use relayer_rest_host::module::{CallError, Limits, Module, RunPermit};
use relayer_rest_host::state::StatePublisher;
use relayer_rest_tests::component::secrets;
use relayer_rest_tests::measure::resident_memory;
use relayer_rest_tests::server::{engine, request};

/// Runs a request, and returns whether it succeeds.
async fn run(module: &Module, path: &str) -> Result<(), CallError> {
    let snapshot = StatePublisher::new().reader().snapshot();
    let permit = RunPermit::acquire(module).await?;
    permit.execute(request("GET", path, &[]), snapshot).await.map(drop)
}

#[test]
fn memory_does_not_grow_over_requests() {
    check_requests(20_000);
}

#[test]
#[ignore = "slow: it finds a smaller leak"]
fn memory_does_not_grow_over_many_requests() {
    check_requests(250_000);
}

/// Runs this number of requests, half of which trap, and checks the memory of the process.
fn check_requests(count: usize) {
    const THREADS: usize = 2;
    const ROUNDS: usize = 20;
    let per_thread = count / THREADS / ROUNDS;
    let limits = Limits {
        concurrency: 8,
        response_cache: ByteSize::b(0),
        memory: ByteSize::mib(8),
        ..Limits::default()
    };
    let keeps = Module::from_bytes(&engine(&limits), "keeps", &secrets::keeper()).unwrap();
    let mut after = Vec::new();
    for _ in 0..ROUNDS {
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let runtime =
                        tokio::runtime::Builder::new_current_thread().enable_time().build();
                    runtime.unwrap().block_on(async {
                        for number in 0..per_thread {
                            let path = [secrets::WRITE, secrets::WRITE_AND_TRAP][number % 2];
                            assert_eq!(run(&keeps, path).await.is_ok(), number % 2 == 0);
                        }
                    });
                });
            }
        });
        after.push(resident_memory());
    }
    assert_eq!(keeps.runs(), count as u64);
    assert_eq!(keeps.failures().trapped, count as u64 / 2);
    // The first round is a warm-up.
    let before = after[1];
    let now = after[ROUNDS - 1];
    assert!(now * 100 <= before * 105, "{after:?}");
}
