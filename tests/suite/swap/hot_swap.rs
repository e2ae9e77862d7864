//! Can modules be hot-swapped without any effect on clients but that of the new module?

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use relayer_rest_host::module::{DEFAULT_MODULE, Digest, Limits};
use relayer_rest_host::registry::{Outcome, Rejection, SwapStep};
use relayer_rest_host::state::RelayerState;
use relayer_rest_tests::component;
use relayer_rest_tests::server::{TestServer, candidate, engine, extension};

use super::{check_rejected, label, server, short};

#[tokio::test]
async fn a_swapped_module_serves_and_is_named_in_responses() {
    let server = TestServer::start().await;
    let old = label(DEFAULT_MODULE);
    assert_eq!(server.get("/chains").await.header("x-relayer-module"), old);
    let new = component::noted(DEFAULT_MODULE, "new");
    let report = server.swap_as(candidate(new.clone())).await;
    assert_eq!(report.outcome, Outcome::Swapped);
    assert_eq!(report.from, Digest::new(DEFAULT_MODULE).to_string());
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
    let answer = server.get("/chains").await;
    assert_eq!(answer.header("x-relayer-module"), label(&new));
    // The swap has warmed the cache, so the request needed no run.
    assert_eq!(server.registry.at("/").unwrap().status().module.runs, 0);
}

/// The host's own responses name the module, too.
#[tokio::test]
async fn errors_of_the_host_name_the_module() {
    let component = component::of_handler("unreachable");
    let server = server(&component, &Limits::default()).await;
    let answer = server.get("/").await;
    assert_eq!(answer.status, 500);
    assert_eq!(answer.header("x-relayer-module"), label(&component));
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
    let server = Arc::new(server(&modules[0].0, &Limits::default()).await);
    let answers = modules.clone().map(|(component, body)| (label(&component), body));
    let done = Arc::new(AtomicBool::new(false));
    let count = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let server = server.clone();
            let done = done.clone();
            let count = count.clone();
            let answers = answers.clone();
            tokio::spawn(async move {
                let mut client = server.connect().await;
                let mut seen = [0_u64; 2];
                while !done.load(Relaxed) {
                    // Some responses are cached, and others are not.
                    let path = format!("/{}", count.fetch_add(1, Relaxed) % (50 + number as u64));
                    let answer = client.get(&path).await;
                    assert_eq!(answer.status, 200);
                    let label = answer.header("x-relayer-module");
                    let body = &answer.body;
                    let is_of = |(name, whole): &(String, String)| label == *name && body == whole;
                    let place = answers.iter().position(is_of);
                    seen[place.expect("an answer is wholly of one of the modules")] += 1;
                }
                seen
            })
        })
        .collect();
    for swap in 0..200 {
        let (component, _) = &modules[(swap + 1) % 2];
        let report = server.swap(component.clone()).await;
        assert_eq!(report.outcome, Outcome::Swapped, "{report:?}");
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
    let limits = Limits { time: Duration::from_mins(1), ..Limits::default() };
    let engine = engine(&limits);
    // It takes some seconds, and only the client's request runs it.
    let old = component::that_takes(4_000_000_000);
    let slow = extension("/slow", &engine, &old);
    let server = Arc::new(TestServer::builder().extension(slow).start().await);
    let mount = server.registry.at("/slow").unwrap();
    let in_flight = tokio::spawn({
        let server = server.clone();
        async move { server.get("/slow").await }
    });
    while mount.module().runs() == 0 {
        tokio::task::yield_now().await;
    }
    let new = component::of_answer(201, "a", b"b");
    let report = mount.swap(candidate(new.clone()), &server.publisher.reader()).await;
    assert_eq!(report.outcome, Outcome::Swapped);
    assert!(!in_flight.is_finished());
    assert_eq!(
        server.get("/slow").await.header("x-relayer-module"),
        format!("slow@{}", short(&new))
    );
    let answer = in_flight.await.unwrap();
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("x-relayer-module"), format!("slow@{}", short(&old)));
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
            let answer = client.ask_with(method, path, &headers).await;
            assert_eq!(answer.status, status);
            assert_eq!(answer.header("x-relayer-module"), label(DEFAULT_MODULE), "{method} {path}");
        }
    }
    let claims = component::of_answer(200, "x-relayer-module", b"api@000000000000");
    assert_eq!(server.swap(claims.clone()).await.outcome, Outcome::Swapped);
    let answer = server.get("/").await;
    let labels: Vec<_> = answer.headers.get_all("x-relayer-module").iter().collect();
    assert_eq!(labels, [label(&claims).as_str()]);
}

#[tokio::test]
async fn the_active_module_is_not_swapped_again() {
    let server = TestServer::start().await;
    let report = server.swap_as(candidate(DEFAULT_MODULE.to_vec())).await;
    assert_eq!(report.outcome, Outcome::Unchanged);
    assert!(server.registry.at("/").unwrap().rollback().is_err());
}

/// A rollback in the meantime is not undone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_conflicts_with_a_rollback_during_its_preflight() {
    let limits = Limits { time: Duration::from_mins(1), ..Limits::default() };
    let server = Arc::new(server(&component::of_answer(201, "a", b"b"), &limits).await);
    let second = component::of_answer(202, "a", b"b");
    assert_eq!(server.swap(second).await.outcome, Outcome::Swapped);
    // The preflight takes a second, or more on a busy machine.
    let slow = component::that_takes(10_000_000);
    let swapping = tokio::spawn({
        let server = server.clone();
        async move { server.swap(slow).await }
    });
    let mount = server.registry.at("/").unwrap();
    while mount.status().candidate.is_none_or(|candidate| candidate.step != SwapStep::Probe) {
        tokio::task::yield_now().await;
    }
    mount.rollback().unwrap();
    check_rejected(&swapping.await.unwrap(), Rejection::Conflict, &["swap again"]);
    assert_eq!(server.get("/").await.status, 201);
}

/// Cached responses are not used for another module.
#[tokio::test]
async fn cached_responses_are_not_used_for_another_module() {
    let server = TestServer::start().await;
    let before = server.get("/state").await;
    let new = component::of_response(200, &[("content-type", b"application/json")], b"{}");
    assert_eq!(server.swap(new).await.outcome, Outcome::Swapped);
    assert_eq!(server.get("/state").await.body, "{}");
    server.registry.at("/").unwrap().rollback().unwrap();
    assert_eq!(server.get("/state").await.body, before.body);
    server.publisher.set_state(RelayerState::default());
    assert_ne!(server.get("/state").await.body, before.body);
}
