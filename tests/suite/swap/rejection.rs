//! Are unsuitable modules rejected, with the reason?

use std::sync::Arc;
use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_host::module::{DEFAULT_MODULE, Digest, Limits, Module};
use relayer_rest_host::registry::{
    Candidate, Mount, Rejection, Source, SwapLimits, SwapOutcome, SwapReport, SwapStep,
};
use relayer_rest_tests::component::{self, TRAP};
use relayer_rest_tests::server::{TestServer, candidate, engine, extension, label, patient};
use relayer_rest_tests::wait::{DEADLINE, until, until_async};

use super::{check_rejected, server};

/// The start function may never end.
#[tokio::test]
async fn modules_with_a_failing_start_function_are_rejected() {
    let limits = Limits { time: Duration::from_millis(50), ..patient() };
    let server = server(&component::with_response(204, "a", b"b"), &limits).await;
    let report = server.swap(component::hostile::spin_in_start()).await;
    check_rejected(&report, Rejection::Failures, &["the module took longer than 50ms"]);
    let report = server.swap(component::hostile::trap_in_start()).await;
    check_rejected(&report, Rejection::Failures, &["the module trapped: wasm trap: "]);
}

/// The cause comes first in the message.
#[tokio::test]
async fn the_message_about_a_trap_names_cause_and_place() {
    let server = server(&component::with_response(204, "a", b"b"), &patient()).await;
    let parts = [
        "the module trapped: wasm trap: wasm `unreachable` instruction executed; ",
        "it requested 128.0 MiB of memory, but limits.memory is 64.0 MiB; ",
        "in reserve, called by render, and 1 function without a name",
    ];
    check_rejected(
        &server.swap(component::that_wants_too_much()).await,
        Rejection::Failures,
        &parts,
    );
}

/// The message names the mount of an extension.
#[tokio::test]
async fn a_trapping_extension_is_rejected_with_its_mount() {
    let tool = extension("/ext/tool", &engine(&patient()), DEFAULT_MODULE);
    let server = TestServer::builder().extension(tool).start().await;
    let mount = server.registry.at("/ext/tool").unwrap();
    let traps = candidate(component::of_handler("unreachable"));
    let report = mount.swap(traps, &server.publisher.reader()).await;
    let SwapOutcome::Rejected { reason: Rejection::Failures, message } = report.outcome else {
        panic!("{report:?}")
    };
    assert!(message.starts_with("mount /ext/tool: module new.wasm: "), "{message}");

    // The remedy lists the rules of an extension, not those of the API.
    let json = [("content-type", &b"application/json"[..])];
    let no_json = candidate(component::of_response(200, &json, b"{"));
    let report = mount.swap(no_json, &server.publisher.reader()).await;
    let SwapOutcome::Rejected { reason: Rejection::Nonconforming, message } = report.outcome else {
        panic!("{report:?}")
    };
    let remedy = "; list all with `relayer-rest check --mount /ext/tool`";
    assert!(message.contains("rule json: ") && message.ends_with(remedy), "{message}");
}

#[tokio::test]
async fn unsuitable_components_are_rejected_with_a_reason() {
    let server = TestServer::start().await;
    let world = |import: &str| {
        component::of_world(
            &format!(
                "package other:rest@0.1.0;
                 world api-module {{ {import} }}"
            ),
            r#"(module (memory (export "memory") 1)
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 0))"#,
        )
    };
    let whole = component::of_handler("unreachable");
    let newer = String::from_utf8_lossy(&component::of_handler("unreachable")).into_owned();
    assert!(newer.contains("relayer:rest/handler@0.1.0"));
    let newer = replace(&whole, b"relayer:rest/handler@0.1.0", b"relayer:rest/handler@0.9.0");
    for (component, parts) in [
        (b"no".to_vec(), vec!["not WebAssembly"]),
        (wat::parse_str("(module)").unwrap(), vec!["a core module"]),
        (whole[..whole.len() / 2].to_vec(), vec!["not a valid component"]),
        (world(""), vec!["does not export relayer:rest/handler@0.1.0", "api-module"]),
        (newer, vec!["but relayer:rest/handler@0.9.0", "relayer:rest/handler@0.1.0"]),
    ] {
        let report = server.swap_as(candidate(component)).await;
        let mut all = vec!["module new.wasm: "];
        all.extend(parts);
        check_rejected(&report, Rejection::Invalid, &all);
        assert_eq!(server.get("/chains").await.header("x-relayer-module"), label(DEFAULT_MODULE));
    }
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let places: Vec<_> =
        (0..bytes.len() - from.len()).filter(|place| bytes[*place..].starts_with(from)).collect();
    for place in places {
        bytes[place..place + from.len()].copy_from_slice(to);
    }
    bytes
}

#[tokio::test]
async fn each_import_beyond_the_contract_is_named() {
    let server = TestServer::start().await;
    let component = component::of_world(
        "package other:thing@1.2.0;
         interface first { f: func(); }
         interface second { g: func(); }
         world w { import first; import second; }",
        r#"(module
            (import "other:thing/first@1.2.0" "f" (func))
            (import "other:thing/second@1.2.0" "g" (func)))"#,
    );
    let report = server.swap_as(candidate(component)).await;
    let parts =
        ["other:thing/first@1.2.0", "other:thing/second@1.2.0", "allowed are relayer:rest/"];
    check_rejected(&report, Rejection::Invalid, &parts);
}

#[tokio::test]
async fn imports_of_another_version_are_named_with_both() {
    let server = TestServer::start().await;
    let newer = replace(DEFAULT_MODULE, b"relayer:rest/chains@0.1.0", b"relayer:rest/chains@0.9.0");
    let report = server.swap_as(candidate(newer)).await;
    let part = "relayer:rest/chains@0.9.0 (the host has version 0.1.0)";
    check_rejected(&report, Rejection::Invalid, &[part]);
}

#[tokio::test]
async fn modules_that_fail_test_requests_are_rejected() {
    let limits = Limits { time: Duration::from_millis(50), ..patient() };
    let server = server(&component::with_response(200, "a", b"b"), &limits).await;
    for (component, part) in [
        (component::of_handler("unreachable"), "trapped"),
        (component::of_handler("(loop br 0) unreachable"), "took longer than 50ms"),
        (
            component::with_response(200, "connection", b"close"),
            "header connection is reserved for the host",
        ),
    ] {
        check_rejected(&server.swap(component).await, Rejection::Failures, &[part, "GET /version"]);
    }
    assert_eq!(server.registry.at("/").unwrap().status().candidate, None);
}

/// The module passes the probe, whose requests are the same for all modules.
#[tokio::test]
async fn modules_that_fail_requests_of_clients_are_rejected() {
    let server = server(&component::with_response(204, "a", b"b"), &patient()).await;
    assert_eq!(server.get(TRAP).await.status, 204);
    let report = server.swap(component::that_traps_later("1")).await;
    check_rejected(&report, Rejection::Failures, &[TRAP, "trapped"]);
}

#[tokio::test]
async fn modules_with_too_much_initial_memory_are_rejected() {
    let server = server(&component::with_response(200, "a", b"b"), &patient()).await;
    let large = component::of_module(
        r#"(module
            (memory (export "memory") 1025)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 0)
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32) i32.const 0))"#,
    );
    let parts = ["needs more memory than the limit of 64.0 MiB", "raise limits.memory"];
    check_rejected(&server.swap(large).await, Rejection::Invalid, &parts);
}

#[tokio::test]
async fn modules_of_another_dialect_are_rejected() {
    let server = TestServer::start().await;
    let component = component::of_response(200, &[("content-type", b"application/json")], b"[]");
    let report = server.swap_as(candidate(component)).await;
    let parts = [
        "does not conform to dialect 0.7",
        "rule version-entries: on the state 'sample': GET /version: /0: expected {\"name\":\"ibc-relayer\",",
    ];
    check_rejected(&report, Rejection::Nonconforming, &parts);
    assert!(!report.verdict.unwrap().passes());
}

#[tokio::test]
async fn modules_with_another_digest_are_rejected() {
    let server = TestServer::start().await;
    let new = component::noted(DEFAULT_MODULE, "new");
    let right = Digest::new(&new);
    let wrong = Digest::new(b"other");
    let with = |sha256| Candidate { sha256: Some(sha256), ..candidate(new.clone()) };
    let report = server.swap_as(with(wrong)).await;
    check_rejected(&report, Rejection::DigestMismatch, &[&right.to_string(), &wrong.to_string()]);
    assert_eq!(server.swap_as(with(right)).await.outcome, SwapOutcome::Swapped);
}

#[tokio::test]
async fn missing_and_oversized_files_are_rejected() {
    let module = Module::embedded(&engine(&patient())).unwrap();
    let limits = SwapLimits { size: ByteSize::kib(1), ..SwapLimits::default() };
    let mount = Mount::api(module).with_swap_limits(limits);
    let server = TestServer::builder().mount(mount).start().await;
    let missing = Candidate::new(Source::File("/nowhere/x.wasm".into()));
    let parts = ["module /nowhere/x.wasm: cannot be read: ", "check the path"];
    check_rejected(&server.swap_as(missing).await, Rejection::Unreadable, &parts);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [0; 1025]).unwrap();
    for source in [
        Source::File(file.path().to_owned()),
        Source::Bytes { name: "x".to_owned(), bytes: vec![0; 1025].into() },
    ] {
        let report = server.swap_as(Candidate::new(source)).await;
        check_rejected(&report, Rejection::TooLarge, &["larger than 1.0 KiB", "swap.size"]);
    }
}

/// Starts a server with this time limit for swaps.
async fn with_swap_time(time: Duration) -> Arc<TestServer> {
    let old = component::with_response(200, "a", b"b");
    let module = Module::from_bytes(&engine(&patient()), "old", &old).unwrap();
    let mount = Mount::api(module).with_swap_limits(SwapLimits { time, ..SwapLimits::default() });
    Arc::new(TestServer::builder().mount(mount).start().await)
}

/// Swaps in endless candidates, or ones that compile for long, with time limits that
/// double until the earlier steps of the preflight take a tenth, so that a candidate without these
/// faults has the time for all. Returns the server, the limit, and the report.
async fn exceed(
    mut component: impl FnMut() -> Vec<u8>,
    steps: &[SwapStep],
) -> (Arc<TestServer>, Duration, SwapReport) {
    let mut time = Duration::from_millis(20);
    loop {
        let server = with_swap_time(time).await;
        let report = server.swap(component()).await;
        let taken: f64 = report.steps.iter().map(|step| step.millis).sum();
        let is_ample = time.as_secs_f64() * 1e3 > 10.0 * taken;
        if is_ample && report.steps.iter().map(|step| step.step).eq(steps.iter().copied()) {
            return (server, time, report);
        }
        assert!(time < DEADLINE, "{report:?}");
        time *= 2;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preflight_beyond_the_time_limit_is_cancelled() {
    let spins = component::of_handler("(loop br 0) unreachable");
    let steps = [SwapStep::Read, SwapStep::Compile];
    let (server, time, report) = exceed(|| spins.clone(), &steps).await;
    let parts = [&*format!("no result within {time:?} (step probe)"), "swap.time"];
    check_rejected(&report, Rejection::Timeout, &parts);
    // The preflight ends, and the next one can run.
    until("the preflight ends", || server.api().status().candidate.is_none()).await;
    let good = component::with_response(201, "a", b"b");
    let is_swapped = async || match server.swap(good.clone()).await.outcome {
        SwapOutcome::Swapped => true,
        // On a busy machine it may take longer than the limit, too.
        outcome => {
            assert!(matches!(
                outcome,
                SwapOutcome::Rejected { reason: Rejection::Timeout | Rejection::Busy, .. }
            ));
            false
        }
    };
    until_async("the next module is swapped", is_swapped).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_swaps_are_rejected() {
    let server = with_swap_time(DEADLINE).await;
    let spins = component::of_handler("(loop br 0) unreachable");
    let first = tokio::spawn({
        let server = server.clone();
        let spins = spins.clone();
        async move { server.swap(spins).await }
    });
    until("the first swap begins", || server.api().status().candidate.is_some()).await;
    check_rejected(&server.swap(spins).await, Rejection::Busy, &["try again"]);
    first.abort();
}

/// A compilation in this process cannot be cancelled: the next candidate waits for it,
/// but not for long.
#[tokio::test]
async fn a_compilation_beyond_the_time_limit_is_abandoned() {
    let mut blocks = 500;
    let hard = || {
        // Twice as many take about four times as long, so that the limit is exceeded on each machine.
        // 64,000 take gigabytes.
        blocks = 16_000.min(2 * blocks);
        component::hard_to_compile(blocks)
    };
    let (server, time, report) = exceed(hard, &[SwapStep::Read]).await;
    let part = format!("no result within {time:?} (step compile); raise swap.time in the settings");
    let remedy = ", or make the module smaller";
    check_rejected(&report, Rejection::Timeout, &[&part, remedy]);
    let mount = server.api();
    assert_eq!(mount.status().candidate.unwrap().step, SwapStep::Compile);
    until("the compilation ends", || mount.status().candidate.is_none()).await;
    assert_eq!(server.get("/version").await.status, 200);
}
