//! Which imports may an extension have, and how is a failing one handled?

use std::fs;
use std::path::Path;
use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_host::module::{Engine, EngineOptions, Grants, HeaderGrants, Limits, Module};
use relayer_rest_host::registry::{Candidate, FailurePolicy, Mount, Outcome, Registry, Rejection};
use relayer_rest_host::state::{ChainConfig, ChainKind};
use relayer_rest_tests::client::{Answer, Client};
use relayer_rest_tests::command;
use relayer_rest_tests::component::{self, TRAP};
use relayer_rest_tests::server::{TestServer, candidate, engine};

/// Each interface that can be granted, with a function in it and the function's number of
/// `i32` parameters.
const INTERFACES: [(&str, &str, usize); 7] = [
    ("version", "components", 1),
    ("chains", "ids", 1),
    ("state", "current", 1),
    ("snapshot", "unconfirmed-since", 1),
    ("request", "header", 3),
    ("mount", "path", 1),
    ("log", "log", 3),
];

#[test]
fn each_grant_is_withheld_and_given() {
    let all = engine(&Limits::default());
    for (name, function, numbers) in INTERFACES {
        let component = component::that_imports(name, function, numbers);
        let others = INTERFACES.map(|(other, ..)| other);
        let others: Vec<_> = others.into_iter().filter(|other| *other != name).collect();
        let engine = all.clone().with_grants(Grants::of(&others).unwrap());
        let error = Module::from_bytes(&engine, "tool.wasm", &component).unwrap_err().to_string();
        let granted = others.join(", ");
        let start = format!(
            "module tool.wasm: imports relayer:rest/{name}@0.1.0, which it is not granted \
             (granted: {granted}); where it may, write grants = [\"version\", \"chains\", \
             \"state\", \"snapshot\", \"request\", \"mount\", \"log\"] into its [[extension]]"
        );
        assert_eq!(error, start);
        let engine = all.clone().with_grants(Grants::of(&[name]).unwrap());
        assert!(Module::from_bytes(&engine, "tool.wasm", &component).is_ok(), "{name}");
    }
}

fn extension(path: &str, grants: &[&str], component: &[u8]) -> Mount {
    let engine = engine(&Limits::default()).with_grants(Grants::of(grants).unwrap());
    let module = Module::from_bytes(&engine, "tool", component).unwrap().named("tool");
    Mount::extension(path.parse().unwrap(), module)
}

async fn server(extension: Mount) -> TestServer {
    let api = Mount::api(Module::embedded(&engine(&Limits::default())).unwrap());
    TestServer::of_registry(Registry::new(api).with(extension).unwrap()).await
}

/// The grants apply to candidates, too.
#[tokio::test]
async fn a_candidate_imports_what_its_mount_is_granted() {
    let plain = component::of_answer(204, "a", b"b");
    let server = server(extension("/ext/tool", &["chains"], &plain)).await;
    let mount = server.registry.at("/ext/tool").unwrap();
    let state = server.publisher.reader();
    let curious = component::that_imports("request", "header", 3);
    let refused = mount.swap(candidate(curious), &state).await.outcome;
    let Outcome::Rejected { reason: Rejection::Invalid, message } = refused else {
        panic!("{refused:?}")
    };
    let both = "mount /ext/tool: module new.wasm: imports relayer:rest/request@0.1.0, which it is not granted (granted: chains)";
    assert!(message.starts_with(both), "{message}");
    let honest = component::that_imports("chains", "ids", 1);
    assert_eq!(mount.swap(candidate(honest), &state).await.outcome, Outcome::Swapped);
}

/// The mount path is known initially, and after a swap.
#[tokio::test]
async fn an_extension_is_told_where_it_is() {
    let telling = component::that_tells_its_mount();
    let server = server(extension("/ext/tool", &["mount"], &telling)).await;
    assert_eq!(server.get("/ext/tool/x").await.text(), "/ext/tool");
    let mount = server.registry.at("/ext/tool").unwrap();
    let other = candidate(component::noted(&telling, "other"));
    let report = mount.swap(other, &server.publisher.reader()).await;
    assert_eq!(report.outcome, Outcome::Swapped);
    assert_eq!(report.differences, []);
    assert_eq!(server.get("/ext/tool/x").await.text(), "/ext/tool");
    assert_eq!(server.swap(telling).await.outcome, Outcome::Swapped);
    assert_eq!(server.get("/x").await.text(), "/");
}

fn chain() -> ChainConfig {
    ChainConfig::new("a", ChainKind::CosmosSdk)
}

/// Returns a policy with a short window, for tests.
fn budget() -> FailurePolicy {
    FailurePolicy { faults: 3, within: Duration::from_millis(500), ..FailurePolicy::default() }
}

/// Causes three failures, which trip the circuit breaker.
async fn take_out(http: &mut Client) {
    for number in 0..3 {
        let answer = http.get(&format!("/ext/tool/{number}")).await;
        assert_eq!((answer.status.as_u16(), &*answer.error_name()), (500, "Internal"));
    }
}

#[tokio::test]
async fn an_extension_that_fails_too_often_is_out_of_service_until_it_answers() {
    let tool = extension("/ext/tool", &["chains"], &component::that_needs_a_chain());
    let server = server(tool.with_failure_policy(budget())).await;
    server.publisher.set_chains(Vec::new()).unwrap();
    let mount = server.registry.at("/ext/tool").unwrap();
    let mut http = server.connect().await;
    assert_eq!(http.get("/ext/tool/spare").await.status, 204);
    take_out(&mut http).await;
    let runs = mount.status().module.runs;
    for path in ["/ext/tool/0", "/ext/tool/0?other"] {
        let answer = http.get(path).await;
        answer.check_error(
            503,
            "ExtensionUnavailable",
            "this extension failed too often and is out of service for now; try again later",
        );
        assert_eq!(answer.header("retry-after"), "1");
        assert!(answer.header("x-relayer-module").starts_with("tool@"));
    }
    assert_eq!(http.get("/ext/tool/spare").await.status, 204, "it is remembered");
    let status = mount.status();
    assert_eq!(status.module.runs, runs, "it is not asked");
    let reason = status.circuit.unwrap().reason;
    let start = "it failed 3 times in 4 runs, at last because the module trapped: ";
    assert!(reason.starts_with(start), "{reason}");
    assert_eq!(http.get("/chains").await.status, 200, "the API does not notice");
    // Health checks fail until there is a chain.
    server.publisher.set_chains(vec![chain()]).unwrap();
    http.get_until("/ext/tool", |answer| answer.status == 204).await;
    while mount.status().circuit.is_some() {
        http.get("/ext/tool").await;
    }
    // The circuit breaker trips again, after as many failures as the first time.
    server.publisher.set_chains(Vec::new()).unwrap();
    take_out(&mut http).await;
    assert_eq!(http.get("/ext/tool/0").await.error_name(), "ExtensionUnavailable");
}

/// A client that repeats one request fails only its own requests.
#[tokio::test]
async fn one_request_that_fails_does_not_take_an_extension_out_however_often_it_comes() {
    let component = component::that_traps_later("1");
    let budget = FailurePolicy { within: Duration::from_hours(1), ..budget() };
    let server = server(extension("/ext/tool", &[], &component).with_failure_policy(budget)).await;
    let mut http = server.connect().await;
    for number in 0..50 {
        let answer = http.get(&format!("/ext/tool{TRAP}?{number}")).await;
        assert_eq!(answer.error_name(), "Internal");
        let honest = http.get(&format!("/ext/tool/{number}")).await;
        assert_eq!(honest.status, 200, "{number}");
    }
    assert_eq!(server.registry.at("/ext/tool").unwrap().status().circuit, None);
}

/// Failures are rated relative to successes, however many distinct failing requests a
/// client makes up.
#[tokio::test]
async fn an_extension_that_fails_at_less_than_its_share_stays_in_service() {
    let component = component::that_traps_later("1");
    let budget = FailurePolicy { within: Duration::from_hours(1), ..budget() };
    let server = server(extension("/ext/tool", &[], &component).with_failure_policy(budget)).await;
    let mut http = server.connect().await;
    for number in 100..150 {
        assert_eq!(http.get(&format!("/ext/tool/{number}")).await.status, 200);
    }
    let trap = |number: usize| format!("/ext/tool/a/path/that/is/31/bytes/lo/{number}");
    for number in 100..149 {
        assert_eq!(http.get(&trap(number)).await.error_name(), "Internal", "{number}");
    }
    let mount = server.registry.at("/ext/tool").unwrap();
    assert_eq!(mount.status().circuit, None);
    assert_eq!(http.get(&trap(149)).await.error_name(), "Internal");
    assert!(mount.status().circuit.is_some());
}

/// While the circuit is open, requests of kinds that the extension is known to respond to
/// are run. Now and then another one is run as well (half-open), and closes the circuit
/// if it succeeds.
#[tokio::test]
async fn requests_of_clients_bring_an_extension_back() {
    let limits = Limits { response_cache: ByteSize::b(0), ..Limits::default() };
    let engine = engine(&limits).with_grants(Grants::of(&["chains"]).unwrap());
    let needy = component::that_needs_a_chain();
    let tool = Module::from_bytes(&engine, "tool", &needy).unwrap().named("tool");
    let tool = Mount::extension("/ext/tool".parse().unwrap(), tool);
    // No health check runs during the test.
    let budget = FailurePolicy { within: Duration::from_hours(1), ..budget() };
    let server = server(tool.with_failure_policy(budget)).await;
    server.publisher.set_chains(Vec::new()).unwrap();
    let mut http = server.connect().await;
    assert_eq!(http.get("/ext/tool/spare").await.status, 204);
    take_out(&mut http).await;
    let mount = server.registry.at("/ext/tool").unwrap();
    assert_eq!(http.get("/ext/tool/spare").await.status, 204);
    assert!(mount.status().circuit.is_some());
    // One of these requests is run, and fails.
    http.get_until("/ext/tool/7", |answer| answer.status == 500).await;
    assert_eq!(http.get("/ext/tool/7").await.error_name(), "ExtensionUnavailable");
    server.publisher.set_chains(vec![chain()]).unwrap();
    http.get_until("/ext/tool/8", |answer| answer.status == 204).await;
    assert_eq!(mount.status().circuit, None);
    assert_eq!(http.get("/ext/tool/0").await.status, 204);
}

/// A swap closes the circuit breaker.
#[tokio::test]
async fn a_swap_ends_an_outage() {
    let tool = extension("/ext/tool", &["chains"], &component::that_needs_a_chain());
    let budget = FailurePolicy { within: Duration::from_hours(1), ..budget() };
    let server = server(tool.with_failure_policy(budget)).await;
    server.publisher.set_chains(Vec::new()).unwrap();
    let mut http = server.connect().await;
    take_out(&mut http).await;
    let answer = http.get("/ext/tool/0").await;
    let wait: u32 = answer.header("retry-after").parse().unwrap();
    assert!((1_800..=3_600).contains(&wait), "{wait}");
    let mount = server.registry.at("/ext/tool").unwrap();
    let mended = candidate(component::of_answer(204, "a", b"b"));
    let report = mount.swap(mended, &server.publisher.reader()).await;
    assert_eq!(report.outcome, Outcome::Swapped);
    assert_eq!(http.get("/ext/tool/0").await.status, 204);
    // After a rollback to the failed module, the circuit is closed, too.
    mount.rollback().unwrap();
    assert_eq!(http.get("/ext/tool/0").await.error_name(), "Internal");
}

/// A swap to the same module closes the circuit without a wait, once the module's
/// dependencies are repaired.
#[tokio::test]
async fn the_same_module_again_ends_an_outage_where_it_answers() {
    let needy = component::that_needs_a_chain();
    let budget = FailurePolicy { within: Duration::from_hours(1), ..budget() };
    let server =
        server(extension("/ext/tool", &["chains"], &needy).with_failure_policy(budget)).await;
    server.publisher.set_chains(Vec::new()).unwrap();
    let mut http = server.connect().await;
    take_out(&mut http).await;
    let mount = server.registry.at("/ext/tool").unwrap();
    let state = server.publisher.reader();
    let refused = mount.swap(candidate(needy.clone()), &state).await.outcome;
    let Outcome::Rejected { reason: Rejection::Failures, message } = refused else {
        panic!("{refused:?}")
    };
    let start = "mount /ext/tool: module new.wasm: is out of service, and still fails: GET /: ";
    assert!(message.starts_with(start), "{message}");
    assert_eq!(http.get("/ext/tool/0").await.error_name(), "ExtensionUnavailable");
    server.publisher.set_chains(vec![chain()]).unwrap();
    let trial = Candidate { dry_run: true, ..candidate(needy.clone()) };
    assert_eq!(mount.swap(trial, &state).await.outcome, Outcome::DryRun);
    assert_eq!(http.get("/ext/tool/0").await.error_name(), "ExtensionUnavailable");
    assert_eq!(mount.swap(candidate(needy), &state).await.outcome, Outcome::CircuitClosed);
    assert_eq!(mount.status().circuit, None);
    assert_eq!(http.get("/ext/tool/0").await.status, 204);
}

/// Failures that are far enough apart do not trip the circuit breaker.
#[tokio::test]
async fn an_extension_may_fail_now_and_then() {
    let tool = extension("/ext/tool", &["chains"], &component::that_needs_a_chain());
    let budget = FailurePolicy { within: Duration::from_millis(1), ..budget() };
    let server = server(tool.with_failure_policy(budget)).await;
    server.publisher.set_chains(Vec::new()).unwrap();
    let mut http = server.connect().await;
    for number in 0..10 {
        let answer = http.get(&format!("/ext/tool/{number}")).await;
        assert_eq!(answer.error_name(), "Internal");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Each bundled extension takes a line at the beginning of the settings.
#[tokio::test]
async fn extensions_that_come_along_are_mounted_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("rest.toml");
    let defaults = command::run(program(), &["config", "default"]).await.stdout;
    let uncommented = |line: &str| match line.strip_prefix("# ") {
        Some(line) if line.starts_with("extension = [") || line.starts_with("    { name = ") => {
            line.to_owned()
        }
        Some("]") => "]".to_owned(),
        _ => line.to_owned(),
    };
    let settings: Vec<_> = defaults.lines().map(uncommented).collect();
    fs::write(&config, settings.join("\n")).unwrap();
    let checked = command::run(program(), &["config", "check", config.to_str().unwrap()]).await;
    assert_eq!(checked.status, Some(0), "{}{}", checked.stdout, checked.stderr);
    let args = ["--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()];
    let serving = command::serve(program(), &args).await;
    let mut http = Client::http1(serving.address()).await;
    let found =
        |answer: &Answer| (answer.status.as_u16(), answer.header("content-type").to_owned());
    let page = http.get("/ext/dashboard").await;
    assert_eq!(found(&page), (200, "text/html; charset=utf-8".to_owned()));
    assert!(page.text().starts_with("<!doctype html>"), "{}", page.text());
    let data = http.get("/ext/dashboard/data").await;
    assert_eq!(found(&data), (200, "application/json".to_owned()));
    assert!(data.text().contains("07-tendermint-1"), "{}", data.text());
    let health = http.get("/ext/health/readyz?chain=ibc-0").await;
    assert_eq!((health.status.as_u16(), health.text()), (200, "ok"));
    let health = http.get("/ext/health/readyz?chain=ibc-2").await;
    assert_eq!(health.status, 503);
    assert!(health.text().contains("[-]chain/ibc-2 failed: not configured\n"), "{}", health.text());
    let metrics = http.get("/ext/metrics").await;
    assert_eq!(found(&metrics), (200, "text/plain; version=0.0.4; charset=utf-8".to_owned()));
    let workers = "\nrelayer_workers{kind=\"Client\",src_chain=\"ibc-0\",dst_chain=\"ibc-1\"} 2\n";
    assert!(metrics.text().contains(workers), "{}", metrics.text());
    let label = metrics.header("x-relayer-module");
    assert!(label.starts_with("metrics@"), "{label}");
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_relayer-rest-under-test"))
}

/// Returns an extension at /ext/tool that always responds with this header, and has these
/// header grants.
fn with_header(name: &str, value: &str, granted: &[&str]) -> Mount {
    let headers = HeaderGrants::new(granted).unwrap();
    let options = EngineOptions { headers, ..EngineOptions::from(&Limits::default()) };
    let engine = Engine::with(options).unwrap();
    let component = component::of_answer(200, name, value.as_bytes());
    let module = Module::from_bytes(&engine, "tool", &component).unwrap().named("tool");
    Mount::extension("/ext/tool".parse().unwrap(), module)
}

#[tokio::test]
async fn headers_with_effect_beyond_the_mount_need_a_grant() {
    for name in [
        "strict-transport-security",
        "service-worker-allowed",
        "clear-site-data",
        "alt-svc",
        "x-accel-redirect",
        "x-sendfile",
    ] {
        let server = server(with_header(name, "/", &[])).await;
        let refused = server.get("/ext/tool/a").await;
        assert_eq!((refused.status.as_u16(), refused.header(name)), (502, ""), "{name}");
        assert_eq!(refused.error_name(), "BadModuleResponse");
        let status = server.registry.at("/ext/tool").unwrap().module().failures();
        assert_eq!((status.invalid, status.faults()), (1, 1));
    }
    let server = server(with_header("alt-svc", "clear", &["nel", "alt-svc"])).await;
    assert_eq!(server.get("/ext/tool/a").await.header("alt-svc"), "clear");
}

/// The API's module shares the origin with the extensions.
#[tokio::test]
async fn the_api_needs_a_grant_as_well() {
    let component = component::of_answer(200, "clear-site-data", b"\"*\"");
    let server = TestServer::of_component(&component, &Limits::default()).await;
    assert_eq!(server.get("/").await.status, 502);
    let component = component::of_answer(200, "set-cookie", b"a=b; Path=/");
    let server = TestServer::of_component(&component, &Limits::default()).await;
    assert_eq!(server.get("/").await.header("set-cookie"), "a=b; Path=/");
}

#[tokio::test]
async fn cookies_are_confined_to_the_mount() {
    for (cookie, granted, expected) in [
        ("a=b", &[][..], (200, "a=b; Path=/ext/tool")),
        ("a=b; Path=/; Secure", &[], (200, "a=b; Secure; Path=/ext/tool")),
        ("a=b; Path=/ext/tool/x", &[], (200, "a=b; Path=/ext/tool/x")),
        ("a=b; Domain=localhost", &[], (502, "")),
        ("__Host-a=b; Secure; Path=/", &[], (502, "")),
        ("__Host-a=b; Secure; Path=/", &["set-cookie"], (200, "__Host-a=b; Secure; Path=/")),
    ] {
        let server = server(with_header("set-cookie", cookie, granted)).await;
        let mut client = server.connect().await;
        // The second response is a cached one.
        for _ in 0..2 {
            let answer = client.get("/ext/tool").await;
            assert_eq!((answer.status.as_u16(), answer.header("set-cookie")), expected, "{cookie}");
        }
    }
}
