//! Is a module rolled back only if that helps?

use bytesize::ByteSize;
use relayer_rest_host::conformance::Dialect;
use relayer_rest_host::module::{Digest, Limits, Module};
use relayer_rest_host::registry::{Candidate, Mount, Outcome, Registry, Rejection};
use relayer_rest_tests::component::{self, TRAP};
use relayer_rest_tests::server::{TestServer, candidate, engine};

async fn server(component: &[u8]) -> TestServer {
    TestServer::of_component(component, &Limits::default()).await
}

/// If the previous module fails at the same requests, the new one is not to blame.
#[tokio::test]
async fn a_module_that_fails_like_the_one_before_stays() {
    let old = component::that_traps_later("\"old\"");
    let new = component::that_traps_later("\"new\"");
    let server = server(&old).await;
    assert_eq!(server.swap(new.clone()).await.outcome, Outcome::Swapped);
    for number in 0..20 {
        let trap = TRAP.replace("/x", &format!("{number:02}"));
        assert_eq!(server.get(&trap).await.status, 500);
        assert_eq!(server.get(TRAP).await.status, 500);
    }
    let status = server.registry.at("/").unwrap().status();
    assert_eq!(status.module.digest, Digest::of(&new).to_string());
    assert_eq!(status.previous, Some(Digest::of(&old).to_string()));
    assert_eq!(status.quarantined, []);
}

/// Each mount rolls back separately.
#[tokio::test]
async fn an_extension_goes_back_by_itself() {
    let engine = engine(&Limits::default());
    let old = component::of_answer(204, "a", b"b");
    let tool = Module::from_bytes(&engine, "tool", &old).unwrap().named("tool");
    let api = Mount::api(Module::embedded(&engine).unwrap());
    let mount = Mount::extension("/ext/tool".parse().unwrap(), tool);
    let server = TestServer::of_registry(Registry::new(api).with(mount).unwrap()).await;
    let mount = server.registry.at("/ext/tool").unwrap();
    let new = candidate(component::that_traps_later("1"));
    let report = mount.swap(new, &server.publisher.reader()).await;
    assert_eq!(report.outcome, Outcome::Swapped);
    let answer = server.get(&format!("/ext/tool{TRAP}")).await;
    let label = format!("tool@{}", Digest::of(&old).short());
    assert_eq!((answer.status.as_u16(), answer.header("x-relayer-module")), (204, &*label));
    assert_eq!(mount.status().quarantined.len(), 1);
}

#[tokio::test]
async fn a_module_that_was_taken_out_comes_back_where_that_is_asked_for() {
    let limits = Limits { response_cache: ByteSize::b(0), ..Limits::default() };
    let old = component::of_answer(204, "a", b"b");
    let server = TestServer::of_component(&old, &limits).await;
    let new = component::that_traps_later("1");
    assert_eq!(server.swap(new.clone()).await.outcome, Outcome::Swapped);
    assert_eq!(server.get(TRAP).await.status, 204);
    let refused = server.swap(new.clone()).await.outcome;
    let Outcome::Rejected { reason: Rejection::Quarantined, message } = refused else {
        panic!("{refused:?}")
    };
    assert!(message.contains("or have this one again with --force"), "{message}");
    let mount = server.registry.at("/").unwrap();
    assert_eq!(mount.status().quarantined.len(), 1);
    // The comparison uses the most frequent requests of clients.
    let mut client = server.connect().await;
    for number in 0..500 {
        assert_eq!(client.get(&format!("/{}", number % 125)).await.status, 204);
    }
    let again = Candidate { force: true, dialect: Some(Dialect::Any), ..candidate(new) };
    assert_eq!(server.swap_as(again).await.outcome, Outcome::Swapped);
    assert_eq!(mount.status().quarantined, []);
}
