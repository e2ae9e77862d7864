//! Can modules be hot-swapped without any effect on clients but that of the new module?

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use relayer_rest_host::module::{DEFAULT_MODULE, Digest};
use relayer_rest_host::registry::{Rejection, SwapOutcome, SwapReport, SwapStep};
use relayer_rest_host::state::RelayerState;
use relayer_rest_tests::component;
use relayer_rest_tests::server::{TestServer, candidate, engine, extension, label, patient, short};
use relayer_rest_tests::wait::until;

use super::{check_rejected, server};

#[tokio::test]
async fn a_swapped_module_serves_and_is_named_in_responses() {
    let server = TestServer::start().await;
    let old = label(DEFAULT_MODULE);
    assert_eq!(server.get("/chains").await.header("x-relayer-module"), old);
    let new = component::noted(DEFAULT_MODULE, "new");
    let report = server.swap_as(candidate(new.clone())).await;
    assert_eq!(report.outcome, SwapOutcome::Swapped);
    assert_eq!(report.from, Some(Digest::new(DEFAULT_MODULE).to_string()));
    assert_eq!(report.to, Some(Digest::new(&new).to_string()));
    let steps: Vec<_> = report.steps.iter().map(|step| step.step).collect();
    let all = [
        SwapStep::Read,
        SwapStep::Compile,
        SwapStep::Probe,
        SwapStep::Compare,
        SwapStep::Warm,
        SwapStep::Activate,
    ];
    assert_eq!(steps, all);
    assert_eq!(report.differences, []);
    let response = server.get("/chains").await;
    assert_eq!(response.header("x-relayer-module"), label(&new));
    // The swap has warmed the cache, so the request needed no run.
    assert_eq!(server.registry.at("/").unwrap().status().module().unwrap().runs, 0);
}

/// The host's own responses name the module, too.
#[tokio::test]
async fn errors_of_the_host_name_the_module() {
    let component = component::of_handler("unreachable");
    let server = server(&component, &patient()).await;
    let response = server.get("/").await;
    assert_eq!(response.status, 500);
    assert_eq!(response.header("x-relayer-module"), label(&component));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swaps_under_load_lose_no_request() {
    const CLIENTS: usize = 6;
    let body = |letter: &str| format!("\"{}\"", letter.repeat(3_000));
    let modules = ["a", "b"].map(|letter| {
        let body = body(letter);
        let json: (&str, &[u8]) = ("content-type", b"application/json");
        (component::of_response(200, &[json], body.as_bytes()), body)
    });
    let server = Arc::new(server(&modules[0].0, &patient()).await);
    let responses = modules.clone().map(|(component, body)| (label(&component), body));
    let done = Arc::new(AtomicBool::new(false));
    let count = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let server = server.clone();
            let done = done.clone();
            let count = count.clone();
            let responses = responses.clone();
            tokio::spawn(async move {
                let mut client = server.connect().await;
                let mut seen = [0_u64; 2];
                while !done.load(Relaxed) {
                    // Some responses are cached, and others are not.
                    let path = format!("/{}", count.fetch_add(1, Relaxed) % (50 + number as u64));
                    let response = client.get(&path).await;
                    assert_eq!(response.status, 200);
                    let label = response.header("x-relayer-module");
                    let body = &response.body;
                    let is_of = |(name, whole): &(String, String)| label == *name && body == whole;
                    let place = responses.iter().position(is_of);
                    seen[place.expect("a response is wholly of one of the modules")] += 1;
                }
                seen
            })
        })
        .collect();
    for swap in 0..50 {
        let (component, _) = &modules[(swap + 1) % 2];
        let report = server.swap(component.clone()).await;
        assert_eq!(report.outcome, SwapOutcome::Swapped, "{report:?}");
    }
    done.store(true, Relaxed);
    for client in clients {
        let seen = client.await.unwrap();
        assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    }
}

/// The old module completes its requests, however long they take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_in_flight_are_completed_by_the_old_module() {
    // The swap completes first, at the latest when the request takes long enough.
    let mut count = 500_000_000;
    while !is_completed_by_the_old_module(count).await {
        count = count.checked_mul(2).expect("a swap takes less than two seconds");
    }
}

/// Swaps the module of a request in flight that takes this long. Returns `false` if the
/// request was completed before the swap.
async fn is_completed_by_the_old_module(count: u32) -> bool {
    let old = component::that_takes(count);
    let slow = extension("/slow", &engine(&patient()), &old);
    let server = Arc::new(TestServer::builder().extension(slow).start().await);
    let mount = server.registry.at("/slow").unwrap();
    let in_flight = tokio::spawn({
        let server = server.clone();
        async move { server.get("/slow").await }
    });
    until("the request runs", || mount.module().unwrap().runs() > 0).await;
    let new = component::with_response(201, "a", b"b");
    let report = mount.swap(candidate(new.clone()), &server.publisher.reader()).await;
    assert_eq!(report.outcome, SwapOutcome::Swapped);
    let is_in_flight = !in_flight.is_finished();
    let label = |component| format!("slow@{}", short(component));
    assert_eq!(server.get("/slow").await.header("x-relayer-module"), label(&new));
    let response = in_flight.await.unwrap();
    assert_eq!(response.status, 204);
    assert_eq!(response.header("x-relayer-module"), label(&old));
    is_in_flight
}

/// Holds for each form of a response, and even if the module sets the header itself.
#[tokio::test]
async fn every_form_of_response_names_its_module() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let etag = client.get("/chains").await.header("etag").to_owned();
    for (method, path, headers, status) in [
        ("HEAD", "/chains", vec![], 200),
        ("GET", "/chains", vec![("if-none-match", etag.as_str())], 304),
        ("POST", "/chains", vec![], 405),
        ("GET", "/nothing", vec![], 404),
    ] {
        for _ in 0..2 {
            let response = client.request_with(method, path, &headers).await;
            assert_eq!(response.status, status);
            assert_eq!(
                response.header("x-relayer-module"),
                label(DEFAULT_MODULE),
                "{method} {path}"
            );
        }
    }
    let claims = component::with_response(200, "x-relayer-module", b"api@000000000000");
    assert_eq!(server.swap(claims.clone()).await.outcome, SwapOutcome::Swapped);
    let response = server.get("/").await;
    let labels: Vec<_> = response.headers.get_all("x-relayer-module").iter().collect();
    assert_eq!(labels, [label(&claims).as_str()]);
}

#[tokio::test]
async fn the_active_module_is_not_swapped_again() {
    let server = TestServer::start().await;
    let report = server.swap_as(candidate(DEFAULT_MODULE.to_vec())).await;
    assert_eq!(report.outcome, SwapOutcome::Unchanged);
    assert!(server.registry.at("/").unwrap().rollback().is_err());
}

/// A rollback in the meantime is not undone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_conflicts_with_a_rollback_during_its_preflight() {
    // The preflight lasts until the rollback, at the latest when requests take long enough.
    let mut count = 50_000_000;
    let (server, report) = loop {
        let attempt = swap_during_rollback(count).await;
        if attempt.1.outcome != SwapOutcome::Swapped {
            break attempt;
        }
        count = count.checked_mul(2).expect("a rollback takes less than some seconds");
    };
    check_rejected(&report, Rejection::Conflict, &["swap again"]);
    assert_eq!(server.get("/").await.status, 201);
}

/// Rolls back during the preflight of a module whose requests take this long.
async fn swap_during_rollback(count: u32) -> (Arc<TestServer>, SwapReport) {
    let server = Arc::new(server(&component::with_response(201, "a", b"b"), &patient()).await);
    let second = component::with_response(202, "a", b"b");
    assert_eq!(server.swap(second).await.outcome, SwapOutcome::Swapped);
    let swapping = tokio::spawn({
        let server = server.clone();
        async move { server.swap(component::that_takes(count)).await }
    });
    let mount = server.api();
    let is_probed =
        || mount.status().candidate.is_some_and(|candidate| candidate.step == SwapStep::Probe);
    until("the candidate is probed", || is_probed() || swapping.is_finished()).await;
    mount.rollback().unwrap();
    (server, swapping.await.unwrap())
}

/// Cached responses are not used for another module.
#[tokio::test]
async fn cached_responses_are_not_used_for_another_module() {
    let server = TestServer::start().await;
    let before = server.get("/state").await;
    let new = component::of_response(200, &[("content-type", b"application/json")], b"{}");
    assert_eq!(server.swap(new).await.outcome, SwapOutcome::Swapped);
    assert_eq!(server.get("/state").await.body, "{}");
    server.registry.at("/").unwrap().rollback().unwrap();
    assert_eq!(server.get("/state").await.body, before.body);
    server.publisher.set_state(RelayerState::default());
    assert_ne!(server.get("/state").await.body, before.body);
}
