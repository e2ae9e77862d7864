//! Can modules be hot-swapped without any effect on clients but that of the new module,
//! and are unsuitable modules rejected?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_host::conformance::Dialect;
use relayer_rest_host::module::{DEFAULT_MODULE, Digest, Limits, Module};
use relayer_rest_host::registry::{
    Candidate, Mount, MountPath, Outcome, Registry, Rejection, Source, SwapLimits, SwapReport,
    SwapStep,
};
use relayer_rest_host::state::{RelayerState, sample};
use relayer_rest_tests::component::{self, TRAP};
use relayer_rest_tests::server::{TestServer, candidate, engine};

/// Starts a server with a component under these limits, and the sample state.
async fn server(component: &[u8], limits: &Limits) -> TestServer {
    TestServer::of_component(component, limits).await
}

/// Returns the `x-relayer-module` header of a component that serves the API.
fn label(component: &[u8]) -> String {
    format!("api@{}", short(component))
}

fn short(component: &[u8]) -> String {
    Digest::of(component).short()
}

#[track_caller]
fn check_rejected(report: &SwapReport, expected: Rejection, parts: &[&str]) {
    let Outcome::Rejected { reason, message } = &report.outcome else {
        panic!("not refused: {report:?}")
    };
    assert_eq!(*reason, expected, "{message}");
    assert!(message.starts_with("mount /: "), "{message}");
    for part in parts {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
}

#[tokio::test]
async fn a_module_is_exchanged_and_every_answer_names_its_own() {
    let server = TestServer::of_sample().await;
    let old = label(DEFAULT_MODULE);
    assert_eq!(server.get("/chains").await.header("x-relayer-module"), old);
    let new = component::noted(DEFAULT_MODULE, "new");
    let report = server.swap_as(candidate(new.clone())).await;
    assert_eq!(report.outcome, Outcome::Swapped);
    assert_eq!(report.from, Digest::of(DEFAULT_MODULE).to_string());
    assert_eq!(report.to, Some(Digest::of(&new).to_string()));
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
async fn an_error_in_a_modules_place_names_the_module() {
    let component = component::of_handler("unreachable");
    let server = server(&component, &Limits::default()).await;
    let answer = server.get("/").await;
    assert_eq!(answer.status, 500);
    assert_eq!(answer.header("x-relayer-module"), label(&component));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_swaps_under_load_are_seen_by_nobody() {
    const CLIENTS: usize = 6;
    let body = |letter: &str| format!("\"{}\"", letter.repeat(3_000));
    let modules = ["a", "b"].map(|letter| {
        let body = body(letter);
        let json: (&str, &[u8]) = ("content-type", b"application/json");
        (component::of_response(200, &[json], body.as_bytes()), body)
    });
    let server = Arc::new(server(&modules[0].0, &Limits::default()).await);
    let answers = modules.clone().map(|(component, body)| (label(&component), body));
    let (done, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (server, done, count) = (server.clone(), done.clone(), count.clone());
            let answers = answers.clone();
            tokio::spawn(async move {
                let mut client = server.connect().await;
                let mut seen = [0_u64; 2];
                while !done.load(Relaxed) {
                    // Some responses are cached, and others are not.
                    let path = format!("/{}", count.fetch_add(1, Relaxed) % (50 + number as u64));
                    let answer = client.get(&path).await;
                    assert_eq!(answer.status, 200);
                    let (label, body) = (answer.header("x-relayer-module"), &answer.body);
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
async fn a_request_in_flight_is_finished_by_the_module_that_began_it() {
    let limits = Limits { time: Duration::from_mins(1), ..Limits::default() };
    let engine = engine(&limits);
    // It takes some seconds, and only the client's request runs it.
    let old = component::that_takes(4_000_000_000);
    let slow = Module::from_bytes(&engine, "old", &old).unwrap().named("slow");
    let slow = Mount::extension("/slow".parse().unwrap(), slow);
    let api = Mount::api(Module::embedded(&engine).unwrap());
    let server = Arc::new(TestServer::of_registry(Registry::new(api).with(slow).unwrap()).await);
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

#[tokio::test]
async fn a_trial_changes_nothing_and_lists_what_would_be_different() {
    let server = TestServer::of_sample().await;
    for _ in 0..3 {
        server.get("/chain/ibc-0").await;
    }
    server.get("/version").await;
    let answers = component::of_response(203, &[("x-new", b"1")], b"[1]");
    let trial = Candidate { dialect: Some(Dialect::Any), dry_run: true, ..candidate(answers) };
    let report = server.swap_as(trial).await;
    assert_eq!(report.outcome, Outcome::DryRun);
    assert_eq!(report.compared, 5);
    let asked: Vec<_> =
        report.differences.iter().map(|one| (one.request.as_str(), one.count)).collect();
    assert_eq!(
        asked,
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
        (change.what.as_str(), change.from.as_deref(), change.to.as_deref())
    };
    assert_eq!(change(0), ("status", Some("200"), Some("203")));
    assert_eq!(change(1), ("header content-type", Some("application/json"), None));
    assert_eq!(change(2), ("header x-new", None, Some("1")));
    assert_eq!(changes[3].what, "body");
    assert_eq!(changes[3].to.as_deref(), Some("[1]"));
    assert_eq!(changes.len(), 4);
    assert_eq!(server.get("/chains").await.header("x-relayer-module"), label(DEFAULT_MODULE));
    assert_eq!(server.registry.at("/").unwrap().status().previous, None);
}

/// Requests are known even if responses are not cached.
#[tokio::test]
async fn questions_of_clients_are_compared_where_no_answer_is_remembered() {
    let limits = Limits { response_cache: ByteSize::b(0), ..Limits::default() };
    let server = server(&component::of_answer(201, "a", b"b"), &limits).await;
    for _ in 0..3 {
        server.get("/some/where?a=b").await;
    }
    let report = server.swap(component::of_answer(202, "a", b"b")).await;
    let first = &report.differences[0];
    assert_eq!((first.request.as_str(), first.count), ("GET /some/where", 3));
}

/// The comparison and the warmed cache use the newest state, not that from before the
/// candidate was compiled and probed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_is_compared_on_the_newest_state() {
    let server = Arc::new(TestServer::of_sample().await);
    let mount = server.registry.at("/").unwrap();
    for number in 0.. {
        let new = component::noted(DEFAULT_MODULE, &number.to_string());
        let swapping = tokio::spawn({
            let (server, new) = (server.clone(), new.clone());
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
        assert_eq!(swapping.await.unwrap().outcome, Outcome::Swapped);
        if is_in_time {
            break;
        }
    }
    assert_eq!(server.get("/state").await.status, 200);
    assert_eq!(mount.status().module.runs, 0);
}

/// Holds for each form of a response, and even if the module sets the header itself.
#[tokio::test]
async fn every_answer_names_its_module() {
    let server = TestServer::of_sample().await;
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

/// The start function may never end.
#[tokio::test]
async fn a_module_that_does_not_start_is_refused() {
    let limits = Limits { time: Duration::from_millis(50), ..Limits::default() };
    let server = server(&component::of_answer(204, "a", b"b"), &limits).await;
    let report = server.swap(component::hostile::spin_in_start()).await;
    check_rejected(&report, Rejection::Failures, &["the module took longer than 50ms"]);
    let report = server.swap(component::hostile::trap_in_start()).await;
    check_rejected(&report, Rejection::Failures, &["the module trapped: wasm trap: "]);
}

/// The cause comes first in the message.
#[tokio::test]
async fn why_a_module_trapped_is_said_and_where() {
    let server = server(&component::of_answer(204, "a", b"b"), &Limits::default()).await;
    let parts = [
        "the module trapped: wasm trap: wasm `unreachable` instruction executed; ",
        "it wanted 128.0 MiB of memory, where limits.memory is 64.0 MiB; ",
        "in reserve, called by render, called by ",
    ];
    check_rejected(
        &server.swap(component::that_wants_too_much()).await,
        Rejection::Failures,
        &parts,
    );
}

/// The message names the mount of an extension.
#[tokio::test]
async fn an_extension_that_traps_is_refused() {
    let engine = engine(&Limits::default());
    let tool = Module::embedded(&engine).unwrap().named("tool");
    let mount = Mount::extension("/ext/tool".parse().unwrap(), tool);
    let api = Mount::api(Module::embedded(&engine).unwrap());
    let server = TestServer::of_registry(Registry::new(api).with(mount).unwrap()).await;
    let mount = server.registry.at("/ext/tool").unwrap();
    let traps = candidate(component::of_handler("unreachable"));
    let report = mount.swap(traps, &server.publisher.reader()).await;
    let Outcome::Rejected { reason: Rejection::Failures, message } = report.outcome else {
        panic!("{report:?}")
    };
    assert!(message.starts_with("mount /ext/tool: module new.wasm: "), "{message}");
}

/// Requests of clients are repeated with the headers that the module read.
#[tokio::test]
async fn questions_of_clients_are_asked_again_with_their_headers() {
    let server = server(&component::that_counts(), &Limits::default()).await;
    let headers = [("x-count", "1"), ("x-other", "2")];
    assert_eq!(server.connect().await.ask_with("GET", "/a", &headers).await.status, 201);
    let new = component::of_answer(200, "x-a", b"b");
    let report = server.swap(new).await;
    let difference = report.differences.iter().find(|one| one.request == "GET /a").unwrap();
    assert_eq!(difference.changes[0].from.as_deref(), Some("201"));
}

#[tokio::test]
async fn the_module_in_service_is_no_candidate() {
    let server = TestServer::of_sample().await;
    let report = server.swap_as(candidate(DEFAULT_MODULE.to_vec())).await;
    assert_eq!(report.outcome, Outcome::Unchanged);
    assert!(server.registry.at("/").unwrap().rollback().is_err());
}

#[tokio::test]
async fn components_that_cannot_serve_are_refused_and_say_why() {
    let server = TestServer::of_sample().await;
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
        (b"no".to_vec(), vec!["is not WebAssembly"]),
        (wat::parse_str("(module)").unwrap(), vec!["is a core module"]),
        (whole[..whole.len() / 2].to_vec(), vec!["is not a valid component"]),
        (world(""), vec!["does not export relayer:rest/handler@0.1.0", "api-module"]),
        (newer, vec!["exports relayer:rest/handler@0.9.0", "relayer:rest/handler@0.1.0"]),
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
async fn imports_beyond_the_contract_are_each_named() {
    let server = TestServer::of_sample().await;
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
        ["other:thing/first@1.2.0", "other:thing/second@1.2.0", "it can import relayer:rest/"];
    check_rejected(&report, Rejection::Invalid, &parts);
}

#[tokio::test]
async fn imports_of_another_version_are_named_with_both() {
    let server = TestServer::of_sample().await;
    let newer = replace(DEFAULT_MODULE, b"relayer:rest/chains@0.1.0", b"relayer:rest/chains@0.9.0");
    let report = server.swap_as(candidate(newer)).await;
    let part = "relayer:rest/chains@0.9.0 (the host has version 0.1.0)";
    check_rejected(&report, Rejection::Invalid, &[part]);
}

#[tokio::test]
async fn a_module_that_fails_when_it_is_asked_is_refused() {
    let limits = Limits { time: Duration::from_millis(50), ..Limits::default() };
    let server = server(&component::of_answer(200, "a", b"b"), &limits).await;
    for (component, part) in [
        (component::of_handler("unreachable"), "trapped"),
        (component::of_handler("(loop br 0) unreachable"), "took longer than 50ms"),
        (component::of_answer(200, "connection", b"close"), "header connection is the host's"),
    ] {
        check_rejected(&server.swap(component).await, Rejection::Failures, &[part, "GET /version"]);
    }
    assert_eq!(server.registry.at("/").unwrap().status().candidate, None);
}

/// The module passes the probe, whose requests are the same for all modules.
#[tokio::test]
async fn a_module_that_fails_at_what_clients_ask_is_refused() {
    let server = server(&component::of_answer(204, "a", b"b"), &Limits::default()).await;
    assert_eq!(server.get(TRAP).await.status, 204);
    let report = server.swap(component::that_traps_later("1")).await;
    check_rejected(&report, Rejection::Failures, &[TRAP, "trapped"]);
}

#[tokio::test]
async fn a_module_that_wants_more_memory_than_it_may_have_is_refused() {
    let server = server(&component::of_answer(200, "a", b"b"), &Limits::default()).await;
    let large = component::of_module(
        r#"(module
            (memory (export "memory") 1025)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 0)
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32) i32.const 0))"#,
    );
    let parts = ["wants more memory than the limit of 64.0 MiB", "raise limits.memory"];
    check_rejected(&server.swap(large).await, Rejection::Invalid, &parts);
}

#[tokio::test]
async fn a_module_of_another_dialect_is_refused() {
    let server = TestServer::of_sample().await;
    let component = component::of_response(200, &[("content-type", b"application/json")], b"[]");
    let report = server.swap_as(candidate(component)).await;
    let parts =
        ["does not speak the dialect 0.7", "version-entries", "/version: there is no entry"];
    check_rejected(&report, Rejection::Nonconforming, &parts);
    assert!(!report.verdict.unwrap().passes());
}

#[tokio::test]
async fn a_module_with_another_digest_than_was_asked_for_is_refused() {
    let server = TestServer::of_sample().await;
    let new = component::noted(DEFAULT_MODULE, "new");
    let (right, wrong) = (Digest::of(&new), Digest::of(b"other"));
    let with = |sha256| Candidate { sha256: Some(sha256), ..candidate(new.clone()) };
    let report = server.swap_as(with(wrong)).await;
    check_rejected(&report, Rejection::DigestMismatch, &[&right.to_string(), &wrong.to_string()]);
    assert_eq!(server.swap_as(with(right)).await.outcome, Outcome::Swapped);
}

#[tokio::test]
async fn a_file_that_is_not_there_or_too_large_is_refused() {
    let module = Module::embedded(&engine(&Limits::default())).unwrap();
    let limits = SwapLimits { size: ByteSize::kib(1), ..SwapLimits::default() };
    let mount = Mount::api(module).with_swap_limits(limits);
    let server = TestServer::of_registry(Registry::new(mount)).await;
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
        check_rejected(&report, Rejection::TooLarge, &["is larger than 1.0 KiB", "swap.size"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_that_takes_too_long_is_given_up_and_one_goes_on_at_a_time() {
    let limits = Limits { time: Duration::from_mins(1), ..Limits::default() };
    let module =
        Module::from_bytes(&engine(&limits), "old", &component::of_answer(200, "a", b"b")).unwrap();
    let time = Duration::from_millis(300);
    let mount = Mount::api(module).with_swap_limits(SwapLimits { time, ..SwapLimits::default() });
    let server = Arc::new(TestServer::of_registry(Registry::new(mount)).await);
    let spins = component::of_handler("(loop br 0) unreachable");
    let first = tokio::spawn({
        let (server, spins) = (server.clone(), spins.clone());
        async move { server.swap(spins).await }
    });
    while server.registry.at("/").unwrap().status().candidate.is_none() {
        tokio::task::yield_now().await;
    }
    check_rejected(&server.swap(spins.clone()).await, Rejection::Busy, &["try again"]);
    check_rejected(
        &first.await.unwrap(),
        Rejection::Timeout,
        &["longer than 300ms", "at the step probe", "swap.time"],
    );
    // The cancelled preflight ends, and the next one can run.
    while server.registry.at("/").unwrap().status().candidate.is_some() {
        tokio::task::yield_now().await;
    }
    let good = component::of_answer(201, "a", b"b");
    // On a busy machine that may be too slow as well, but it gets its turn.
    for _ in 0..100 {
        match server.swap(good.clone()).await.outcome {
            Outcome::Rejected { reason: Rejection::Timeout | Rejection::Busy, .. } => {
                tokio::time::sleep(time).await;
            }
            outcome => return assert_eq!(outcome, Outcome::Swapped),
        }
    }
    panic!("it took more than 300 ms a hundred times");
}

/// A compilation in this process cannot be cancelled: the next candidate waits for it,
/// but not for long.
#[tokio::test]
async fn a_module_that_takes_too_long_to_compile_is_given_up() {
    let module = Module::embedded(&engine(&Limits::default())).unwrap();
    let limits = SwapLimits { time: Duration::from_millis(5), ..SwapLimits::default() };
    let mut attempts = 0..100;
    let (server, report) = loop {
        attempts.next().expect("one of a hundred is at the step compile");
        let mount = Mount::api(module.clone()).with_swap_limits(limits.clone());
        let server = TestServer::of_registry(Registry::new(mount)).await;
        let report = server.swap_as(candidate(component::noted(DEFAULT_MODULE, "new"))).await;
        // On a busy machine the time can be over before the compilation.
        if !report.steps.is_empty() {
            break (server, report);
        }
    };
    check_rejected(&report, Rejection::Timeout, &["longer than 5ms", "at the step compile"]);
    let steps: Vec<_> = report.steps.iter().map(|step| step.step).collect();
    assert_eq!(steps, [SwapStep::Read]);
    let mount = server.registry.at("/").unwrap();
    assert_eq!(mount.status().candidate.unwrap().step, SwapStep::Compile);
    while mount.status().candidate.is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(server.get("/version").await.header("x-relayer-module"), label(DEFAULT_MODULE));
}

#[tokio::test]
async fn a_new_module_that_fails_is_replaced_by_the_one_before_and_barred() {
    let old = component::of_answer(204, "a", b"b");
    let server = server(&old, &Limits::default()).await;
    let new = component::that_traps_later("\"new\"");
    assert_eq!(server.swap(new.clone()).await.outcome, Outcome::Swapped);
    assert_eq!(server.get("/a").await.header("x-relayer-module"), label(&new));
    // The client is served nevertheless, by the previous module.
    let answer = server.get(TRAP).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-relayer-module")), (204, &*label(&old)));
    assert_eq!(server.get("/a").await.header("x-relayer-module"), label(&old));
    let status = server.registry.at("/").unwrap().status();
    assert_eq!(status.previous, None);
    assert_eq!(status.quarantined[0].digest, Digest::of(&new).to_string());
    assert!(status.quarantined[0].reason.contains("it failed 1 times in 2 runs"), "{status:?}");
    let parts = ["was taken out of service before", "trapped", "mend it"];
    check_rejected(&server.swap(new.clone()).await, Rejection::Quarantined, &parts);
    // The failed request is part of the comparison now: another module that fails at it
    // is rejected.
    let other = component::noted(&new, "not mended");
    check_rejected(&server.swap(other).await, Rejection::Failures, &[TRAP]);
    let mended = component::of_answer(200, "a", b"b");
    assert_eq!(server.swap(mended).await.outcome, Outcome::Swapped);
}

/// The module serves many requests when it fails. All of them get a response, and it is
/// rolled back once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_module_that_does_not_end_is_replaced_for_all_who_asked_it() {
    let old = component::of_answer(204, "a", b"b");
    let limits = Limits {
        time: Duration::from_millis(200),
        queue_wait: Duration::from_mins(1),
        ..Limits::default()
    };
    let server = Arc::new(server(&old, &limits).await);
    // It spins on a path that was not requested before.
    let new = component::that_spins_on_spin();
    assert_eq!(server.swap(new.clone()).await.outcome, Outcome::Swapped);
    let clients: Vec<_> = (0..20)
        .map(|number| {
            let server = server.clone();
            // Distinct paths of the same length, so that each takes a run.
            let ask =
                async move { server.get(&format!("/spi{}", char::from(b'a' + number))).await };
            tokio::spawn(ask)
        })
        .collect();
    for client in clients {
        let answer = client.await.unwrap();
        assert_eq!(answer.status, 204);
        assert_eq!(answer.header("x-relayer-module"), label(&old));
    }
    let status = server.registry.at("/").unwrap().status();
    assert_eq!(status.quarantined.len(), 1, "{status:?}");
    assert!(status.quarantined[0].reason.contains("took longer than 200ms"), "{status:?}");
}

/// A rollback in the meantime is not undone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_module_that_was_compared_with_another_than_serves_now_is_refused() {
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

/// The runs of a comparison do not count towards the active module.
#[tokio::test]
async fn a_comparison_is_no_part_of_service() {
    let server = server(&component::of_answer(204, "a", b"b"), &Limits::default()).await;
    assert_eq!(server.swap(component::of_answer(205, "a", b"b")).await.outcome, Outcome::Swapped);
    let trial = Candidate {
        dialect: Some(Dialect::Any),
        dry_run: true,
        ..candidate(component::of_answer(206, "a", b"b"))
    };
    let report = server.swap_as(trial).await;
    assert_eq!((report.outcome, report.compared), (Outcome::DryRun, 5));
    let module = server.registry.at("/").unwrap().status().module;
    assert_eq!((module.runs, module.failures.faults()), (0, 0));
}

/// Preflights have a permit of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_takes_no_place_of_a_client() {
    let limits = Limits {
        concurrency: 1,
        queue: 0,
        time: Duration::from_mins(1),
        response_cache: ByteSize::b(0),
        ..Limits::default()
    };
    let server = Arc::new(server(&component::of_answer(204, "a", b"b"), &limits).await);
    let swapping = tokio::spawn({
        let server = server.clone();
        async move { server.swap(component::of_handler("(loop br 0) unreachable")).await }
    });
    let mount = server.registry.at("/").unwrap();
    while mount.status().candidate.is_none_or(|candidate| candidate.step != SwapStep::Probe) {
        tokio::task::yield_now().await;
    }
    for _ in 0..20 {
        assert_eq!(server.get("/").await.status, 204);
    }
    assert!(!swapping.is_finished());
    swapping.abort();
}

/// The first module has no previous one to roll back to.
#[tokio::test]
async fn a_module_without_one_before_fails_and_stays() {
    let component = component::that_traps_later("1");
    let server = server(&component, &Limits::default()).await;
    for _ in 0..10 {
        let answer = server.get(TRAP).await;
        assert_eq!(answer.status, 500);
        assert_eq!(answer.header("x-relayer-module"), label(&component));
    }
}

#[tokio::test]
async fn a_module_that_has_served_for_long_may_fail_now_and_then() {
    let old = component::of_answer(204, "a", b"b");
    let server = server(&old, &Limits::default()).await;
    let new = component::that_traps_later("1");
    assert_eq!(server.swap(new.clone()).await.outcome, Outcome::Swapped);
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
async fn a_module_is_put_back_by_hand_and_that_is_undone_in_the_same_way() {
    let server = TestServer::of_sample().await;
    let mount = server.registry.at("/").unwrap();
    let error = mount.rollback().unwrap_err().to_string();
    assert!(error.starts_with("mount /: there is no module to go back to"), "{error}");
    let new = component::noted(DEFAULT_MODULE, "new");
    assert_eq!(server.swap_as(candidate(new.clone())).await.outcome, Outcome::Swapped);
    let (old, new) = (Digest::of(DEFAULT_MODULE), Digest::of(&new));
    for (from, digest) in [(new, old), (old, new), (new, old)] {
        assert_eq!(mount.rollback(), Ok((from, digest)));
        let label = format!("api@{}", digest.short());
        assert_eq!(server.get("/chains").await.header("x-relayer-module"), label);
    }
}

/// Cached responses are not used for another module.
#[tokio::test]
async fn answers_of_the_module_before_are_not_the_new_ones() {
    let server = TestServer::of_sample().await;
    let before = server.get("/state").await;
    let new = component::of_response(200, &[("content-type", b"application/json")], b"{}");
    assert_eq!(server.swap(new).await.outcome, Outcome::Swapped);
    assert_eq!(server.get("/state").await.body, "{}");
    server.registry.at("/").unwrap().rollback().unwrap();
    assert_eq!(server.get("/state").await.body, before.body);
    server.publisher.set_state(RelayerState::default());
    assert_ne!(server.get("/state").await.body, before.body);
}

#[tokio::test]
async fn an_extension_has_its_mount_and_sees_paths_below_it() {
    let engine = engine(&Limits::default());
    // For an unknown path, the embedded module names the path in its response.
    let extension = Module::embedded(&engine).unwrap().named("tool");
    let mount = Mount::extension("/ext/tool".parse().unwrap(), extension);
    let api = Mount::api(Module::embedded(&engine).unwrap());
    let server = TestServer::of_registry(Registry::new(api).with(mount).unwrap()).await;
    sample(&server.publisher);
    for (path, seen, name) in [
        ("/ext/tool/a/b", "/a/b", "tool"),
        ("/ext/tool", "/", "tool"),
        ("/ext/tool?a=b", "/", "tool"),
        ("/ext/tools", "/ext/tools", "api"),
        ("/ext", "/ext", "api"),
    ] {
        for _ in 0..2 {
            let answer = server.get(path).await;
            assert!(answer.text().contains(&format!("nothing is served at {seen};")), "{path}");
            let label = answer.header("x-relayer-module").to_owned();
            assert!(label.starts_with(&format!("{name}@")), "{path}: {label}");
        }
    }
    assert_eq!(server.get("/ext/tool/chains").await.body, server.get("/chains").await.body);
    // Each mount is swapped separately, and an extension does not need a dialect.
    let new = component::of_answer(201, "a", b"b");
    let mount = server.registry.at("/ext/tool").unwrap();
    let report = mount.swap(candidate(new), &server.publisher.reader()).await;
    assert_eq!(report.outcome, Outcome::Swapped);
    assert_eq!(server.get("/ext/tool/chains").await.status, 201);
    assert_eq!(server.get("/chains").await.status, 200);
}

#[tokio::test]
async fn mounts_that_overlap_are_refused() {
    let engine = engine(&Limits::default());
    let module = Module::embedded(&engine).unwrap();
    let mount =
        |path: &str, name| Mount::extension(path.parse().unwrap(), module.clone().named(name));
    let registry = || Registry::new(Mount::api(module.clone())).with(mount("/ext/a", "a")).unwrap();
    let error = registry().with(mount("/ext/a/b", "b")).unwrap_err().to_string();
    assert_eq!(error, "the mounts /ext/a and /ext/a/b overlap; mount one of them elsewhere");
    let root = Mount::extension(MountPath::root(), module.clone().named("b"));
    let error = registry().with(root).unwrap_err().to_string();
    assert!(error.starts_with("\"b\" cannot be mounted at /, where the API is"), "{error}");
    let error = registry().with(mount("/ext/b", "a")).unwrap_err().to_string();
    assert_eq!(error, "there are two modules of the name \"a\"; each needs one of its own");
    registry().with(mount("/ext/b", "b")).unwrap();
}
