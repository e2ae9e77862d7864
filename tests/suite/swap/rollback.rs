//! Is a module rolled back if, and only if, that helps?

use std::sync::Arc;
use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_host::conformance::Dialect;
use relayer_rest_host::module::{DEFAULT_MODULE, Digest, Limits};
use relayer_rest_host::registry::{Candidate, Rejection, SwapOutcome};
use relayer_rest_tests::component::{self, TRAP};
use relayer_rest_tests::server::{TestServer, candidate, engine, extension, label, patient};

use super::{check_rejected, server};

#[tokio::test]
async fn a_failing_new_module_is_rolled_back_and_quarantined() {
    let old = component::with_response(204, "a", b"b");
    let server = server(&old, &patient()).await;
    let new = component::that_traps_later("\"new\"");
    assert_eq!(server.swap(new.clone()).await.outcome, SwapOutcome::Swapped);
    assert_eq!(server.get("/a").await.header("x-relayer-module"), label(&new));
    // The client is served nevertheless, by the previous module.
    let response = server.get(TRAP).await;
    assert_eq!(
        (response.status.as_u16(), response.header("x-relayer-module")),
        (204, &*label(&old))
    );
    assert_eq!(server.get("/a").await.header("x-relayer-module"), label(&old));
    let status = server.registry.at("/").unwrap().status();
    assert_eq!(status.previous, None);
    assert_eq!(status.quarantined[0].digest, Digest::new(&new).to_string());
    assert!(status.quarantined[0].reason.contains("1 of 2 runs failed"), "{status:?}");
    let parts = ["quarantined: ", "trapped", "--force"];
    check_rejected(&server.swap(new.clone()).await, Rejection::Quarantined, &parts);
    // The failed request is part of the comparison now: another module that fails at it
    // is rejected.
    let other = component::noted(&new, "not mended");
    check_rejected(&server.swap(other).await, Rejection::Failures, &[TRAP]);
    let mended = component::with_response(200, "a", b"b");
    assert_eq!(server.swap(mended).await.outcome, SwapOutcome::Swapped);
}

/// The module serves many requests when it fails. All of them get a response, and it is
/// rolled back once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_new_module_is_rolled_back_for_all_waiting_clients() {
    let old = component::with_response(204, "a", b"b");
    let limits = Limits { time: Duration::from_millis(50), ..patient() };
    let server = Arc::new(server(&old, &limits).await);
    // It spins on a path that was not requested before.
    let new = component::that_spins_on_spin();
    assert_eq!(server.swap(new.clone()).await.outcome, SwapOutcome::Swapped);
    let clients: Vec<_> = (0..20)
        .map(|number| {
            let server = server.clone();
            // Distinct paths of the same length, so that each takes a run.
            let request =
                async move { server.get(&format!("/spi{}", char::from(b'a' + number))).await };
            tokio::spawn(request)
        })
        .collect();
    for client in clients {
        let response = client.await.unwrap();
        assert_eq!(response.status, 204);
        assert_eq!(response.header("x-relayer-module"), label(&old));
    }
    let status = server.registry.at("/").unwrap().status();
    assert_eq!(status.quarantined.len(), 1, "{status:?}");
    assert!(status.quarantined[0].reason.contains("took longer than 50ms"), "{status:?}");
}

/// The first module has no previous one to roll back to.
#[tokio::test]
async fn a_module_without_a_previous_one_is_not_rolled_back() {
    let component = component::that_traps_later("1");
    let server = server(&component, &patient()).await;
    for _ in 0..10 {
        let response = server.get(TRAP).await;
        assert_eq!(response.status, 500);
        assert_eq!(response.header("x-relayer-module"), label(&component));
    }
}

#[tokio::test]
async fn a_module_after_its_probation_may_fail_occasionally() {
    let old = component::with_response(204, "a", b"b");
    let server = server(&old, &patient()).await;
    let new = component::that_traps_later("1");
    assert_eq!(server.swap(new.clone()).await.outcome, SwapOutcome::Swapped);
    let mut client = server.connect().await;
    for number in 0..101 {
        assert_eq!(client.get(&format!("/{number}")).await.status, 200);
    }
    // Repetitions of one request count once, since a single client can send any number of
    // them.
    for number in 0..20 {
        assert_eq!(client.get(&format!("{TRAP}?{number}")).await.status, 500);
    }
    let trap = |number: u8| TRAP.replace('x', &number.to_string());
    for number in 0..3 {
        assert_eq!(client.get(&trap(number)).await.status, 500);
    }
    // Five distinct failures that the previous module does not have are too many.
    assert_eq!(client.get(&trap(3)).await.status, 204);
    assert_eq!(client.get("/a").await.header("x-relayer-module"), label(&old));
}

#[tokio::test]
async fn a_manual_rollback_can_be_undone() {
    let server = TestServer::start().await;
    let mount = server.registry.at("/").unwrap();
    let error = mount.rollback().unwrap_err().to_string();
    assert!(error.starts_with("mount /: no previous module to roll back to"), "{error}");
    let new = component::noted(DEFAULT_MODULE, "new");
    assert_eq!(server.swap_as(candidate(new.clone())).await.outcome, SwapOutcome::Swapped);
    let old = Digest::new(DEFAULT_MODULE);
    let new = Digest::new(&new);
    for (from, digest) in [(new, old), (old, new), (new, old)] {
        assert_eq!(mount.rollback(), Ok((from, digest)));
        let label = format!("api@{}", digest.short());
        assert_eq!(server.get("/chains").await.header("x-relayer-module"), label);
    }
}

/// If the previous module fails at the same requests, the new one is not to blame.
#[tokio::test]
async fn a_module_that_fails_like_the_previous_one_stays() {
    let old = component::that_traps_later("\"old\"");
    let new = component::that_traps_later("\"new\"");
    let server = server(&old, &patient()).await;
    assert_eq!(server.swap(new.clone()).await.outcome, SwapOutcome::Swapped);
    for number in 0..20 {
        let trap = TRAP.replace("/x", &format!("{number:02}"));
        assert_eq!(server.get(&trap).await.status, 500);
        assert_eq!(server.get(TRAP).await.status, 500);
    }
    let status = server.registry.at("/").unwrap().status();
    assert_eq!(status.module().unwrap().digest, Digest::new(&new).to_string());
    assert_eq!(status.previous, Some(Digest::new(&old).to_string()));
    assert_eq!(status.quarantined, []);
}

/// Each mount rolls back separately.
#[tokio::test]
async fn extensions_are_rolled_back_separately() {
    let engine = engine(&patient());
    let old = component::with_response(204, "a", b"b");
    let tool = extension("/ext/tool", &engine, &old);
    let server = TestServer::builder().extension(tool).start().await;
    let mount = server.registry.at("/ext/tool").unwrap();
    let new = candidate(component::that_traps_later("1"));
    let report = mount.swap(new, &server.publisher.reader()).await;
    assert_eq!(report.outcome, SwapOutcome::Swapped);
    let response = server.get(&format!("/ext/tool{TRAP}")).await;
    let label = format!("tool@{}", Digest::new(&old).short());
    assert_eq!((response.status.as_u16(), response.header("x-relayer-module")), (204, &*label));
    assert_eq!(mount.status().quarantined.len(), 1);
}

#[tokio::test]
async fn a_manual_rollback_can_restore_a_quarantined_module() {
    let limits = Limits { response_cache: ByteSize::b(0), ..patient() };
    let old = component::with_response(204, "a", b"b");
    let server = TestServer::builder().component(&old).limits(&limits).start().await;
    let new = component::that_traps_later("1");
    assert_eq!(server.swap(new.clone()).await.outcome, SwapOutcome::Swapped);
    assert_eq!(server.get(TRAP).await.status, 204);
    let refused = server.swap(new.clone()).await.outcome;
    let SwapOutcome::Rejected { reason: Rejection::Quarantined, message } = refused else {
        panic!("{refused:?}")
    };
    assert!(message.contains("or this one with --force"), "{message}");
    let mount = server.registry.at("/").unwrap();
    assert_eq!(mount.status().quarantined.len(), 1);
    // The comparison uses the most frequent requests of clients.
    let mut client = server.connect().await;
    for number in 0..500 {
        assert_eq!(client.get(&format!("/{}", number % 125)).await.status, 204);
    }
    let again = Candidate { force: true, dialect: Some(Dialect::Any), ..candidate(new) };
    assert_eq!(server.swap_as(again).await.outcome, SwapOutcome::Swapped);
    assert_eq!(mount.status().quarantined, []);
}
