//! Do clients that wait for a change get the failures of a module, and its recovery?

use std::sync::Arc;
use std::time::{Duration, Instant};

use relayer_rest_host::module::Grants;
use relayer_rest_host::registry::{FailurePolicy, Mount, SwapOutcome};
use relayer_rest_host::state::{ChainConfig, ChainKind, Stale};
use relayer_rest_tests::client::Client;
use relayer_rest_tests::component::{self, TRAP};
use relayer_rest_tests::events::Events;
use relayer_rest_tests::server::{TestServer, candidate, engine, extension, patient};
use relayer_rest_tests::wait::{until, within};
use serde_json::json;

/// The headers of a response that is text.
const TEXT: &[(&str, &[u8])] = &[("content-type", b"text/plain")];

/// Returns a component that responds with the text `fine`, or executes this instruction if the list
/// of chains is empty.
fn that_needs_a_chain(otherwise: &str) -> Vec<u8> {
    let module = r#"(module
            (import "relayer:rest/chains@0.1.0" "ids" (func $ids (param i32)))
            (memory (export "memory") 4)
            (data (i32.const 64) "content-typetext/plainfine")
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                i32.const 65536)
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32)
                (call $ids (i32.const 128))
                (if (i32.eqz (i32.load (i32.const 140))) (then OTHERWISE))
                (i32.store16 (i32.const 0) (i32.const 200))
                (i32.store (i32.const 4) (i32.const 32))
                (i32.store (i32.const 8) (i32.const 1))
                (i32.store (i32.const 32) (i32.const 64))
                (i32.store (i32.const 36) (i32.const 12))
                (i32.store (i32.const 40) (i32.const 76))
                (i32.store (i32.const 44) (i32.const 10))
                (i32.store (i32.const 12) (i32.const 86))
                (i32.store (i32.const 16) (i32.const 4))
                i32.const 0))"#;
    component::of_module(&module.replace("OTHERWISE", otherwise))
}

/// Starts a server with a component as an extension that executes this instruction without a chain,
/// and one chain.
async fn server(window: Duration, otherwise: &str) -> TestServer {
    let engine = engine(&patient()).with_grants(Grants::new(&["chains"]).unwrap());
    let policy = FailurePolicy { failures: 3, window, ..FailurePolicy::default() };
    let tool = extension("/ext/tool", &engine, &that_needs_a_chain(otherwise));
    let tool = tool.with_failure_policy(policy);
    let server = TestServer::builder().extension(tool).without_state().start().await;
    server.publisher.set_chains(vec![chain()]).unwrap();
    server
}

fn chain() -> ChainConfig {
    ChainConfig::new("a", ChainKind::CosmosSdk)
}

/// Opens a stream of the extension.
async fn follow(client: &mut Client) -> Events {
    let mut events = Events::open(client, "/ext/tool/followed", &[]).await;
    check(&mut events, "change", "fine").await;
    events
}

/// Checks the next event: the data of a change, or the status and the name of a failure.
async fn check(events: &mut Events, name: &str, expected: &str) {
    let event = events.next().await.unwrap();
    assert_eq!(event.name, name, "{event:?}");
    if name == "failed" {
        let data = event.json();
        let error = data["body"]["result"]["name"].as_str().unwrap();
        assert_eq!(format!("{} {error}", data["status"]), expected);
    } else {
        assert_eq!(event.data, expected);
    }
}

/// Causes failures until the circuit breaker trips.
async fn trip(server: &TestServer, mount: &Mount) {
    let mut client = server.connect().await;
    let mut number = 0;
    while mount.status().circuit().is_none() {
        client.get(&format!("/ext/tool/{number}")).await;
        number += 1;
        assert!(number < 10_000, "the circuit stays closed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_has_the_failure_the_open_circuit_and_the_recovery() {
    let server = server(Duration::from_secs(1), "unreachable").await;
    let mount = server.registry.at("/ext/tool").unwrap();
    let mut client = server.connect().await;
    let mut events = follow(&mut client).await;
    server.publisher.set_chains(Vec::new()).unwrap();
    check(&mut events, "failed", "500 Internal").await;
    trip(&server, &mount).await;
    check(&mut events, "failed", "503 ExtensionUnavailable").await;
    // The next health check closes the circuit.
    server.publisher.set_chains(vec![chain()]).unwrap();
    check(&mut events, "change", "fine").await;
    assert_eq!(mount.status().circuit(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_has_the_responses_of_the_module_that_replaces_a_failing_one() {
    // Neither the window nor the circuit ends during the test.
    let server = server(Duration::from_hours(1), "unreachable").await;
    let mount = server.registry.at("/ext/tool").unwrap();
    let mut client = server.connect().await;
    let mut events = follow(&mut client).await;
    server.publisher.set_chains(Vec::new()).unwrap();
    check(&mut events, "failed", "500 Internal").await;
    trip(&server, &mount).await;
    check(&mut events, "failed", "503 ExtensionUnavailable").await;
    let mended = candidate(component::of_response(200, TEXT, b"mended"));
    let report = mount.swap(mended, &server.publisher.reader()).await;
    assert_eq!(report.outcome, SwapOutcome::Swapped);
    check(&mut events, "change", "mended").await;
    mount.rollback().unwrap();
    check(&mut events, "failed", "500 Internal").await;
}

/// A failed run says nothing about the relayer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_while_the_state_is_stale_is_not_confirmed() {
    let server = server(Duration::from_hours(1), "unreachable").await;
    let mut client = server.connect().await;
    let mut events = follow(&mut client).await;
    let since = Instant::now();
    server.publisher.set_stale(Some(Stale { since, chains: true }));
    assert_eq!(events.next().await.unwrap().name, "stale");
    server.publisher.set_chains(Vec::new()).unwrap();
    check(&mut events, "failed", "500 Internal").await;
    server.publisher.set_chains(vec![chain()]).unwrap();
    check(&mut events, "change", "fine").await;
    server.publisher.set_stale(None);
    check(&mut events, "confirmed", "{}").await;
}

/// At most four evaluations of a mount run at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_module_without_end_does_not_delay_the_events_of_other_mounts() {
    let server = server(Duration::from_hours(1), "(loop (br 0))").await;
    let runs = || server.registry.at("/ext/tool").unwrap().status().module().unwrap().runs;
    let mut streams = Vec::new();
    for number in 0..6 {
        let mut client = server.connect().await;
        let path = format!("/ext/tool/{number}");
        let mut events = Events::open(&mut client, &path, &[]).await;
        check(&mut events, "change", "fine").await;
        streams.push((client, events));
    }
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/chains", &[]).await;
    events.next().await.unwrap();
    let before = runs();
    server.publisher.set_chains(Vec::new()).unwrap();
    let event = within("the event", events.next()).await.unwrap();
    assert_eq!(event.json()["result"], json!([]));
    until("its evaluations begin", || runs() == before + 4).await;
    server.publisher.set_chains(vec![chain()]).unwrap();
    let event = within("the event", events.next()).await.unwrap();
    assert_eq!(event.json()["result"][0], "a");
    assert_eq!(runs(), before + 4, "more evaluations at once");

    // The runs end with the server, and with them the thread that waits for them.
    let registry = Arc::downgrade(&server.registry);
    drop((server, events, client, streams));
    until("nothing is left of the server", || registry.strong_count() == 0).await;
}

/// The requests of an entry may not all fail: the module may read more before it fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_sent_only_to_clients_of_equal_requests() {
    let text = component::of_response(200, TEXT, b"same");
    let engine = engine(&patient());
    let policy = FailurePolicy { failures: 1_000, ..FailurePolicy::default() };
    let tool = extension("/ext/tool", &engine, &component::that_returns_its_query());
    let tool = tool.with_failure_policy(policy);
    let server = TestServer::builder().extension(tool).start().await;
    let mount = server.registry.at("/ext/tool").unwrap();
    // Neither module is on probation after rollbacks.
    let report = mount.swap(candidate(text), &server.publisher.reader()).await;
    assert_eq!(report.outcome, SwapOutcome::Swapped);
    let mut streams = Vec::new();
    for query in ["trap", "trap", "a", "b", "trap"] {
        let mut client = server.connect().await;
        let path = format!("/ext/tool/a?{query}");
        let mut events = Events::open(&mut client, &path, &[]).await;
        check(&mut events, "change", "same").await;
        streams.push((client, events, query));
    }
    assert_eq!(server.live.status().entries, 1);
    mount.rollback().unwrap();
    for (_, events, query) in &mut streams {
        match *query {
            "trap" => check(events, "failed", "500 Internal").await,
            query => check(events, "change", query).await,
        }
    }
    // Equal requests share the failure: one run for each of three queries, and one that was first.
    let status = server.live.status();
    assert!(status.entries == 3 && status.runs <= 4, "{status:?}");
    mount.rollback().unwrap();
    for (_, events, _) in &mut streams {
        check(events, "change", "same").await;
    }
    until("they share an entry again", || server.live.status().entries == 1).await;
}

/// Modules can read each header, and that of one client may be the cause of a failure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_not_sent_to_clients_with_other_headers() {
    let engine = engine(&patient());
    let policy = FailurePolicy { failures: 1_000, ..FailurePolicy::default() };
    let tool = extension("/ext/tool", &engine, &component::that_traps_at("range", 1));
    let server = TestServer::builder().extension(tool.with_failure_policy(policy)).start().await;
    let mount = server.registry.at("/ext/tool").unwrap();
    let text = component::of_response(200, TEXT, b"same");
    let report = mount.swap(candidate(text), &server.publisher.reader()).await;
    assert_eq!(report.outcome, SwapOutcome::Swapped);
    let mut streams = Vec::new();
    for range in ["bytes=0-1", "", "bytes=0-1", ""] {
        let mut client = server.connect().await;
        let headers = [("range", range)];
        let headers = if range.is_empty() { &[][..] } else { &headers };
        let mut events = Events::open(&mut client, "/ext/tool/a", headers).await;
        check(&mut events, "change", "same").await;
        streams.push((client, events, range));
    }
    assert_eq!(server.live.status().entries, 1);
    mount.rollback().unwrap();
    for (_, events, range) in &mut streams {
        // The response to the others has no text.
        let data = if range.is_empty() { "406 NotAcceptable" } else { "500 Internal" };
        check(events, "failed", data).await;
    }
    assert_eq!(server.live.status().entries, 2);
}

/// A module is rolled back if it fails at a request to which the previous one responds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_after_a_failure_is_a_change_without_a_failure() {
    let old = component::of_response(200, TEXT, b"old");
    let server = TestServer::builder().component(&old).start().await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/a", &[]).await;
    check(&mut events, "change", "old").await;
    assert!(server.swap(component::that_traps_later("\"new\"")).await.is_accepted());
    check(&mut events, "change", "\"new\"").await;
    assert_eq!(server.get(TRAP).await.text(), "old");
    check(&mut events, "change", "old").await;
}
