//! Does a hostile module affect only its own requests?

use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_host::conformance::Dialect;
use relayer_rest_host::module::{Failures, Limits, Module};
use relayer_rest_host::registry::{Candidate, FailurePolicy, Rejection, SwapOutcome};
use relayer_rest_tests::client::Client;
use relayer_rest_tests::component::{self, hostile, parts, sections};
use relayer_rest_tests::server::{TestServer, candidate, engine, extension, patient};
use relayer_rest_tests::watcher::Watcher;

/// The number of requests from each client, and of clients for each module.
const ROUNDS: usize = 3;
const CLIENTS: usize = 6;

/// The engine copies the names of the functions in a backtrace at each trap.
#[tokio::test]
async fn modules_with_huge_function_names_are_rejected() {
    let component = |length| sections::module(&sections::trap_below(&"n".repeat(length)), 1);
    let load = |length| Module::from_bytes(&engine(&patient()), "names", &component(length));
    assert!(load(100_000).is_ok());
    let error = load(4 << 20).unwrap_err().to_string();
    assert!(
        error.contains("128.0 MiB for its function names (`wasm-tools strip` removes them)"),
        "{error}"
    );
}

/// The body has 2 MiB, and its values would take more than 256 MiB.
#[tokio::test]
async fn candidates_with_too_many_json_values_are_rejected() {
    let server = TestServer::start().await;
    let json = format!("[{}0]", "[],".repeat(720_000));
    let headers = [("content-type", &b"application/json"[..])];
    let component = component::of_response(200, &headers, json.as_bytes());
    let candidate = Candidate { dialect: Some(Dialect::V0_7), ..candidate(component) };
    let report = server.swap_as(candidate).await;
    let SwapOutcome::Rejected { reason: Rejection::Nonconforming, message } = report.outcome else {
        panic!("{:?}", report.outcome)
    };
    assert!(message.contains("its JSON values exceed 256.0 MiB"), "{message}");
    assert_eq!(server.get("/version").await.status, 200);
}

/// A hostile module, the outcome of its requests, and the counter of its failures.
struct Case {
    name: &'static str,
    component: Vec<u8>,
    response: (u16, &'static str),
    counted: fn(&Failures) -> u64,
}

fn cases() -> Vec<Case> {
    let case = |name, component, response, counted| Case { name, component, response, counted };
    let trapped: fn(&Failures) -> u64 = |failures| failures.trapped;
    let timed_out: fn(&Failures) -> u64 = |failures| failures.timed_out;
    let invalid: fn(&Failures) -> u64 = |failures| failures.invalid;
    let internal = (500, "Internal");
    let bad = (502, "BadModuleResponse");
    vec![
        case("spin", component::of_handler("(loop br 0) unreachable"), (504, "Timeout"), timed_out),
        case("recursion", hostile::recursion(), internal, trapped),
        case("memory-bomb", hostile::memory_bomb(), internal, trapped),
        case("table-bomb", hostile::table_bomb(), internal, trapped),
        case("huge-body", hostile::huge_body(), bad, invalid),
        case("endless-headers", hostile::endless_headers(), bad, invalid),
        case("large-headers", hostile::large_headers(), bad, invalid),
        case("invalid-status", component::with_response(99, "a", b"b"), bad, invalid),
        case("bad-header", component::with_response(200, "a", b"b\r\nc: d"), bad, invalid),
        case("framing", component::with_response(200, "content-length", b"0"), bad, invalid),
        case("log-flood", hostile::log_flood(), (504, "Timeout"), timed_out),
        case("trap-late", hostile::trap_late(), internal, trapped),
        case("trap-in-start", hostile::trap_in_start(), internal, trapped),
        case("spin-in-start", hostile::spin_in_start(), (504, "Timeout"), timed_out),
        case("bad-pointer", component::of_handler("i32.const -4"), internal, trapped),
        case("greedy-start", hostile::greedy_start(), internal, trapped),
        case("fills-tables", parts::that_fills_tables(), (504, "Timeout"), timed_out),
        case("allocator-traps", hostile::allocator("unreachable"), internal, trapped),
        case(
            "allocator-spins",
            hostile::allocator("(loop br 0) i32.const 0"),
            (504, "Timeout"),
            timed_out,
        ),
        case("allocator-lies", hostile::allocator("i32.const -8"), internal, trapped),
        case("trap-after-response", hostile::trap_after_response(), internal, trapped),
    ]
}

/// Returns a policy under which the circuit breaker stays closed.
fn patience() -> FailurePolicy {
    FailurePolicy { failures: 1_000, window: Duration::from_millis(1), ..FailurePolicy::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_modules_fail_only_their_own_requests() {
    let limits = |response: (u16, &str)| Limits {
        time: if response.0 == 504 { Duration::from_millis(20) } else { patient().time },
        memory: ByteSize::mib(4),
        body: ByteSize::mib(1),
        concurrency: 4,
        queue: 100,
        ..patient()
    };
    let mut server = TestServer::builder();
    let cases = cases();
    for case in &cases {
        let path = format!("/ext/{}", case.name);
        let mount = extension(&path, &engine(&limits(case.response)), &case.component);
        server = server.extension(mount.with_failure_policy(patience()));
    }
    let server = server.start().await;
    let watcher = Watcher::start(server.address);
    let mut pending = Vec::new();
    for case in &cases {
        for client in 0..CLIENTS {
            let address = server.address;
            let name = case.name;
            let response = case.response;
            pending.push(tokio::spawn(async move {
                let mut http = Client::http1(address).await;
                for round in 0..ROUNDS {
                    // Each path is distinct, so that each request takes a run.
                    let path = format!("/ext/{name}/{client}/{round}");
                    let found = http.get(&path).await;
                    assert_eq!(
                        (found.status.as_u16(), found.error_name().as_str()),
                        response,
                        "{path}"
                    );
                }
            }));
        }
    }
    for pending in pending {
        pending.await.unwrap();
    }
    watcher.stop().await;
    for case in &cases {
        let status = server.registry.at(&format!("/ext/{}", case.name)).unwrap().status();
        let failures = status.module().unwrap().failures;
        let count = (CLIENTS * ROUNDS) as u64;
        assert_eq!(
            ((case.counted)(&failures), failures.module_failures()),
            (count, count),
            "{}",
            case.name
        );
    }
}
