//! Does an overloaded server blame its modules for the overload?

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use futures_util::future::join_all;
use relayer_rest_host::module::{CallError, Limits, Module, RunPermit};
use relayer_rest_host::state::StatePublisher;
use relayer_rest_tests::client::Client;
use relayer_rest_tests::component;
use relayer_rest_tests::server::{TestServer, engine, extension, patient, request};

fn limits() -> Limits {
    Limits {
        concurrency: 1_000,
        memory: ByteSize::mib(1),
        response_cache: ByteSize::b(0),
        ..patient()
    }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, Into::into)
}

/// Runs this number of requests on a module at once.
async fn run_all(module: &Module, count: usize) -> Vec<Result<(), CallError>> {
    let snapshot = StatePublisher::new().reader().snapshot();
    let runs = (0..count).map(|number| {
        let module = module.clone();
        let snapshot = Arc::clone(&snapshot);
        let request = request("GET", &format!("/{number}"), &[]);
        tokio::spawn(async move {
            RunPermit::acquire(&module).await?.execute(request, snapshot).await.map(drop)
        })
    });
    join_all(runs).await.into_iter().map(Result::unwrap).collect()
}

/// With 40 guests for each processor, each has to wait for 40 times as long as one alone.
#[tokio::test]
async fn time_spent_waiting_for_a_processor_is_not_counted() {
    let component = component::that_takes(20_000_000);
    let module = |limits: &Limits| Module::from_bytes(&engine(limits), "slow", &component).unwrap();
    let start = Instant::now();
    run_all(&module(&limits()), 1).await.remove(0).unwrap();
    let alone = start.elapsed();
    let module = module(&Limits { time: 20 * alone, ..limits() });
    for result in run_all(&module, 40 * processors()).await {
        result.unwrap();
    }
    assert_eq!(module.failures().module_failures(), 0);
}

#[tokio::test]
async fn requests_that_wait_too_long_for_a_processor_are_rejected() {
    let limits =
        Limits { time: Duration::from_millis(100), queue_wait: Duration::ZERO, ..limits() };
    let component = component::of_handler("(loop br 0) unreachable");
    let module = Module::from_bytes(&engine(&limits), "spins", &component).unwrap();
    let count = 8 * processors();
    let errors: Vec<_> =
        run_all(&module, count).await.into_iter().map(|result| result.unwrap_err()).collect();
    let starved = errors.iter().filter(|error| matches!(error, CallError::Starved(_))).count();
    let timed_out = errors.iter().filter(|error| matches!(error, CallError::Timeout(..))).count();
    assert_eq!(starved + timed_out, count, "{errors:?}");
    // At most one guest for each processor can have used up its time.
    assert!(timed_out <= processors(), "{timed_out} of {count}");
    let failures = module.failures();
    assert_eq!(
        (failures.module_failures(), failures.overloaded),
        (timed_out as u64, starved as u64)
    );
}

/// A single thread serves the sockets, and 300 clients overload the processors.
#[tokio::test]
async fn health_probes_succeed_under_overload() {
    let component = component::that_takes_but_at_livez(20_000_000);
    // A busy machine may need more than the default.
    let limits = Limits { queue_wait: patient().queue_wait, ..Limits::default() };
    let tool = extension("/ext/tool", &engine(&limits), &component);
    let server = TestServer::builder().extension(tool).workers(1).start().await;
    let mut probe = server.connect().await;
    assert_eq!(probe.get("/ext/tool/livez").await.status, 204);
    let address = server.address;
    let clients = (0..300).map(|client| {
        tokio::spawn(async move {
            let mut http = Client::http1(address).await;
            for round in 0..2 {
                let response = http.get(&format!("/ext/tool/work/{client}/{round}")).await;
                if response.status != 204 {
                    assert_eq!(response.error_name(), "Overloaded");
                    assert_eq!(response.header("retry-after"), "1");
                }
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut probes = 0;
    while clients.iter().any(|client| !client.is_finished()) {
        assert_eq!(probe.get("/ext/tool/livez").await.status, 204);
        tokio::time::sleep(Duration::from_millis(1)).await;
        probes += 1;
    }
    assert!(probes > 0);
    for client in clients {
        client.await.unwrap();
    }
    let status = server.registry.at("/ext/tool").unwrap().status();
    assert_eq!((status.circuit(), status.module().unwrap().failures.module_failures()), (None, 0));
}
