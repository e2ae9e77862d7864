//! How is a failing extension handled?

use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_host::module::{Grants, Limits};
use relayer_rest_host::registry::{Candidate, FailurePolicy, Mount, Rejection, SwapOutcome};
use relayer_rest_host::state::{ChainConfig, ChainKind};
use relayer_rest_tests::client::Client;
use relayer_rest_tests::component::{self, TRAP};
use relayer_rest_tests::server::{TestServer, candidate, engine, extension, patient};
use relayer_rest_tests::wait::until;

fn tool(grants: &[&str], component: &[u8]) -> Mount {
    let engine = engine(&patient()).with_grants(Grants::new(grants).unwrap());
    extension("/ext/tool", &engine, component)
}

async fn server(extension: Mount) -> TestServer {
    TestServer::builder().extension(extension).without_state().start().await
}

fn chain() -> ChainConfig {
    ChainConfig::new("a", ChainKind::CosmosSdk)
}

/// Returns a policy of few failures, in a window that does not end during a test. Health
/// checks do not run during a test either, because the first one is as late.
fn policy() -> FailurePolicy {
    FailurePolicy { failures: 3, window: Duration::from_hours(1), ..FailurePolicy::default() }
}

/// Causes three failures, which trip the circuit breaker.
async fn trip(http: &mut Client) {
    for number in 0..3 {
        let response = http.get(&format!("/ext/tool/{number}")).await;
        assert_eq!((response.status.as_u16(), &*response.error_name()), (500, "Internal"));
    }
    assert_eq!(http.get("/ext/tool/0").await.error_name(), "ExtensionUnavailable");
}

/// Causes failures until the circuit breaker trips, however many of them are within its
/// window.
async fn trip_within(http: &mut Client, mount: &Mount) {
    let mut number = 0;
    while mount.status().circuit().is_none() {
        http.get(&format!("/ext/tool/{number}")).await;
        number += 1;
        assert!(number < 10_000, "the circuit stays closed");
    }
}

#[tokio::test]
async fn the_circuit_opens_after_failures() {
    let tool = tool(&["chains"], &component::that_needs_a_chain());
    let server = server(tool.with_failure_policy(policy())).await;
    server.publisher.set_chains(Vec::new()).unwrap();
    let mount = server.registry.at("/ext/tool").unwrap();
    let mut http = server.connect().await;
    assert_eq!(http.get("/ext/tool/spare").await.status, 204);
    trip(&mut http).await;
    let runs = mount.status().module().unwrap().runs;
    for path in ["/ext/tool/0", "/ext/tool/0?other"] {
        let response = http.get(path).await;
        response.check_error(
            503,
            "ExtensionUnavailable",
            "this extension failed too often and is out of service for now; try again later",
        );
        let wait: u32 = response.header("retry-after").parse().unwrap();
        assert!((1_800..=3_600).contains(&wait), "{wait}");
        assert!(response.header("x-relayer-module").starts_with("tool@"));
    }
    assert_eq!(http.get("/ext/tool/spare").await.status, 204, "it is cached");
    let status = mount.status();
    assert_eq!(status.module().unwrap().runs, runs, "the module does not run");
    let reason = status.circuit().unwrap().reason.clone();
    let start = "3 of 4 runs failed; last: the module trapped: ";
    assert!(reason.starts_with(start), "{reason}");
    assert_eq!(http.get("/chains").await.status, 200, "the API does not notice");
}

#[tokio::test]
async fn the_circuit_closes_after_a_health_check() {
    let tool = tool(&["chains"], &component::that_needs_a_chain());
    let policy = FailurePolicy { window: Duration::from_secs(1), ..policy() };
    let server = server(tool.with_failure_policy(policy)).await;
    let mount = server.registry.at("/ext/tool").unwrap();
    let mut http = server.connect().await;
    // The circuit breaker trips again after it was closed.
    for _ in 0..2 {
        server.publisher.set_chains(Vec::new()).unwrap();
        trip_within(&mut http, &mount).await;
        // Health checks fail until there is a chain.
        server.publisher.set_chains(vec![chain()]).unwrap();
        until("the circuit is closed", || mount.status().circuit().is_none()).await;
        assert_eq!(http.get("/ext/tool").await.status, 204);
    }
}

/// A client that repeats one request fails only its own requests.
#[tokio::test]
async fn repetitions_of_one_failing_request_do_not_open_the_circuit() {
    let component = component::that_traps_later("1");
    let server = server(tool(&[], &component).with_failure_policy(policy())).await;
    let mut http = server.connect().await;
    for number in 0..50 {
        let response = http.get(&format!("/ext/tool{TRAP}?{number}")).await;
        assert_eq!(response.error_name(), "Internal");
        let honest = http.get(&format!("/ext/tool/{number}")).await;
        assert_eq!(honest.status, 200, "{number}");
    }
    assert_eq!(server.registry.at("/ext/tool").unwrap().status().circuit(), None);
}

/// Failures are rated relative to successes, however many distinct failing requests a
/// client makes up.
#[tokio::test]
async fn the_circuit_stays_closed_below_the_failure_rate() {
    let component = component::that_traps_later("1");
    let server = server(tool(&[], &component).with_failure_policy(policy())).await;
    let mut http = server.connect().await;
    for number in 100..150 {
        assert_eq!(http.get(&format!("/ext/tool/{number}")).await.status, 200);
    }
    let trap = |number: usize| format!("/ext/tool/a/path/that/is/31/bytes/lo/{number}");
    for number in 100..149 {
        assert_eq!(http.get(&trap(number)).await.error_name(), "Internal", "{number}");
    }
    let mount = server.registry.at("/ext/tool").unwrap();
    assert_eq!(mount.status().circuit(), None);
    assert_eq!(http.get(&trap(149)).await.error_name(), "Internal");
    assert!(mount.status().circuit().is_some());
}

/// While the circuit is open, requests of kinds that the extension is known to respond to
/// are run. Now and then another one is run as well (half-open), and closes the circuit
/// if it succeeds.
#[tokio::test]
async fn a_successful_trial_request_closes_the_circuit() {
    let limits = Limits { response_cache: ByteSize::b(0), ..patient() };
    let engine = engine(&limits).with_grants(Grants::new(&["chains"]).unwrap());
    let needy = component::that_needs_a_chain();
    let tool = extension("/ext/tool", &engine, &needy);
    let server = server(tool.with_failure_policy(policy())).await;
    server.publisher.set_chains(Vec::new()).unwrap();
    let mut http = server.connect().await;
    assert_eq!(http.get("/ext/tool/spare").await.status, 204);
    trip(&mut http).await;
    let mount = server.registry.at("/ext/tool").unwrap();
    assert_eq!(http.get("/ext/tool/spare").await.status, 204);
    assert!(mount.status().circuit().is_some());
    // One of these requests is run, and fails.
    http.get_until("/ext/tool/7", |response| response.status == 500).await;
    assert_eq!(http.get("/ext/tool/7").await.error_name(), "ExtensionUnavailable");
    server.publisher.set_chains(vec![chain()]).unwrap();
    http.get_until("/ext/tool/8", |response| response.status == 204).await;
    assert_eq!(mount.status().circuit(), None);
    assert_eq!(http.get("/ext/tool/0").await.status, 204);
}

/// A swap closes the circuit breaker.
#[tokio::test]
async fn a_swap_closes_the_circuit() {
    let tool = tool(&["chains"], &component::that_needs_a_chain());
    let server = server(tool.with_failure_policy(policy())).await;
    server.publisher.set_chains(Vec::new()).unwrap();
    let mut http = server.connect().await;
    trip(&mut http).await;
    let response = http.get("/ext/tool/0").await;
    let wait: u32 = response.header("retry-after").parse().unwrap();
    assert!((1_800..=3_600).contains(&wait), "{wait}");
    let mount = server.registry.at("/ext/tool").unwrap();
    let mended = candidate(component::with_response(204, "a", b"b"));
    let report = mount.swap(mended, &server.publisher.reader()).await;
    assert_eq!(report.outcome, SwapOutcome::Swapped);
    assert_eq!(http.get("/ext/tool/0").await.status, 204);
    // After a rollback to the failed module, the circuit is closed, too.
    mount.rollback().unwrap();
    assert_eq!(http.get("/ext/tool/0").await.error_name(), "Internal");
}

/// A swap to the same module closes the circuit without a wait, once the module's
/// dependencies are repaired.
#[tokio::test]
async fn a_swap_to_the_same_module_closes_the_circuit_if_it_passes() {
    let needy = component::that_needs_a_chain();
    let server = server(tool(&["chains"], &needy).with_failure_policy(policy())).await;
    server.publisher.set_chains(Vec::new()).unwrap();
    let mut http = server.connect().await;
    trip(&mut http).await;
    let mount = server.registry.at("/ext/tool").unwrap();
    let state = server.publisher.reader();
    let refused = mount.swap(candidate(needy.clone()), &state).await.outcome;
    let SwapOutcome::Rejected { reason: Rejection::Failures, message } = refused else {
        panic!("{refused:?}")
    };
    let start = "mount /ext/tool: module new.wasm: the health check failed, the circuit stays open: GET /: ";
    assert!(message.starts_with(start), "{message}");
    assert_eq!(http.get("/ext/tool/0").await.error_name(), "ExtensionUnavailable");
    server.publisher.set_chains(vec![chain()]).unwrap();
    let trial = Candidate { dry_run: true, ..candidate(needy.clone()) };
    assert_eq!(mount.swap(trial, &state).await.outcome, SwapOutcome::DryRun);
    assert_eq!(http.get("/ext/tool/0").await.error_name(), "ExtensionUnavailable");
    assert_eq!(mount.swap(candidate(needy), &state).await.outcome, SwapOutcome::CircuitClosed);
    assert_eq!(mount.status().circuit(), None);
    assert_eq!(http.get("/ext/tool/0").await.status, 204);
}

/// Failures that are far enough apart do not trip the circuit breaker.
#[tokio::test]
async fn failures_that_are_far_apart_do_not_open_the_circuit() {
    let tool = tool(&["chains"], &component::that_needs_a_chain());
    let policy = FailurePolicy { window: Duration::from_millis(1), ..policy() };
    let server = server(tool.with_failure_policy(policy)).await;
    server.publisher.set_chains(Vec::new()).unwrap();
    let mut http = server.connect().await;
    for number in 0..10 {
        let response = http.get(&format!("/ext/tool/{number}")).await;
        assert_eq!(response.error_name(), "Internal");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
