//! Is a candidate compared on the requests of clients and the newest state, without an
//! effect on service?

use std::sync::Arc;

use bytesize::ByteSize;
use relayer_rest_host::conformance::Dialect;
use relayer_rest_host::module::{DEFAULT_MODULE, Limits};
use relayer_rest_host::registry::{Candidate, SwapOutcome, SwapStep};
use relayer_rest_tests::component;
use relayer_rest_tests::server::{TestServer, candidate, label, patient};
use relayer_rest_tests::wait::until;

use super::server;

#[tokio::test]
async fn a_dry_run_lists_the_differences_and_changes_nothing() {
    let server = TestServer::start().await;
    for _ in 0..3 {
        server.get("/chain/ibc-0").await;
    }
    server.get("/version").await;
    let responses = component::of_response(203, &[("x-new", b"1")], b"[1]");
    let trial = Candidate { dialect: Some(Dialect::Any), dry_run: true, ..candidate(responses) };
    let report = server.swap_as(trial).await;
    assert_eq!(report.outcome, SwapOutcome::DryRun);
    assert_eq!(report.compared, 5);
    let requested: Vec<_> =
        report.differences.iter().map(|one| (one.request.as_str(), one.count)).collect();
    assert_eq!(
        requested,
        [
            ("GET /chain/ibc-0", 3),
            ("GET /version", 1),
            ("GET /chains", 0),
            ("GET /state", 0),
            ("GET /chain/ibc-1", 0),
        ]
    );
    let changes = &report.differences[0].changes;
    let change = |place: usize| {
        let change = &changes[place];
        (change.part.as_str(), change.from.as_deref(), change.to.as_deref())
    };
    assert_eq!(change(0), ("status", Some("200"), Some("203")));
    assert_eq!(change(1), ("header content-type", Some("application/json"), None));
    assert_eq!(change(2), ("header x-new", None, Some("1")));
    assert_eq!(changes[3].part, "body");
    assert_eq!(changes[3].to.as_deref(), Some("[1]"));
    assert_eq!(changes.len(), 4);
    assert_eq!(server.get("/chains").await.header("x-relayer-module"), label(DEFAULT_MODULE));
    assert_eq!(server.registry.at("/").unwrap().status().previous, None);
}

/// Requests are known even if responses are not cached.
#[tokio::test]
async fn requests_of_clients_are_compared_without_a_cache() {
    let limits = Limits { response_cache: ByteSize::b(0), ..patient() };
    let server = server(&component::with_response(201, "a", b"b"), &limits).await;
    for _ in 0..3 {
        server.get("/some/where?a=b").await;
    }
    let report = server.swap(component::with_response(202, "a", b"b")).await;
    let first = &report.differences[0];
    assert_eq!((first.request.as_str(), first.count), ("GET /some/where", 3));
}

/// The comparison and the warmed cache use the newest state, not that from before the
/// candidate was compiled and probed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn candidates_are_compared_on_the_newest_state() {
    let server = Arc::new(TestServer::start().await);
    let mount = server.registry.at("/").unwrap();
    for number in 0.. {
        let new = component::noted(DEFAULT_MODULE, &number.to_string());
        let swapping = tokio::spawn({
            let server = server.clone();
            let new = new.clone();
            async move { server.swap_as(candidate(new)).await }
        });
        let is_probed = || {
            let candidate = mount.status().candidate;
            candidate.is_some_and(|candidate| candidate.step == SwapStep::Probe)
        };
        while !is_probed() && !swapping.is_finished() {
            tokio::task::yield_now().await;
        }
        let is_in_time = is_probed();
        server.publisher.update_state(|state| state.chains.reverse());
        assert_eq!(swapping.await.unwrap().outcome, SwapOutcome::Swapped);
        if is_in_time {
            break;
        }
    }
    assert_eq!(server.get("/state").await.status, 200);
    assert_eq!(mount.status().module().unwrap().runs, 0);
}

/// Requests of clients are repeated with the headers that the module read.
#[tokio::test]
async fn requests_of_clients_are_repeated_with_their_headers() {
    let server = server(&component::that_counts(), &patient()).await;
    let headers = [("x-count", "1"), ("x-other", "2")];
    assert_eq!(server.connect().await.request_with("GET", "/a", &headers).await.status, 201);
    let new = component::with_response(200, "x-a", b"b");
    let report = server.swap(new).await;
    let difference = report.differences.iter().find(|one| one.request == "GET /a").unwrap();
    assert_eq!(difference.changes[0].from.as_deref(), Some("201"));
}

/// The runs of a comparison do not count towards the active module.
#[tokio::test]
async fn comparisons_do_not_count_towards_the_active_module() {
    let server = server(&component::with_response(204, "a", b"b"), &patient()).await;
    assert_eq!(
        server.swap(component::with_response(205, "a", b"b")).await.outcome,
        SwapOutcome::Swapped
    );
    let trial = Candidate {
        dialect: Some(Dialect::Any),
        dry_run: true,
        ..candidate(component::with_response(206, "a", b"b"))
    };
    let report = server.swap_as(trial).await;
    assert_eq!((report.outcome, report.compared), (SwapOutcome::DryRun, 5));
    let module = server.api().module().unwrap();
    assert_eq!((module.runs(), module.module_failures()), (0, 0));
}

/// Preflights have a permit of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preflights_take_no_permits_of_clients() {
    let limits = Limits { concurrency: 1, queue: 0, response_cache: ByteSize::b(0), ..patient() };
    let server = Arc::new(server(&component::with_response(204, "a", b"b"), &limits).await);
    let swapping = tokio::spawn({
        let server = server.clone();
        async move { server.swap(component::of_handler("(loop br 0) unreachable")).await }
    });
    let mount = server.registry.at("/").unwrap();
    let is_probed =
        || mount.status().candidate.is_some_and(|candidate| candidate.step == SwapStep::Probe);
    until("the candidate is probed", is_probed).await;
    for _ in 0..20 {
        assert_eq!(server.get("/").await.status, 204);
    }
    assert!(!swapping.is_finished());
    swapping.abort();
}
