//! Which imports and headers may an extension have?

use relayer_rest_host::module::{Engine, EngineOptions, Grants, HeaderGrants, Module};
use relayer_rest_host::registry::{Mount, Rejection, SwapOutcome};
use relayer_rest_tests::component;
use relayer_rest_tests::server::{TestServer, candidate, engine, extension, patient};

/// Each interface that can be granted, with a function in it and the function's number of
/// `i32` parameters.
const INTERFACES: [(&str, &str, usize); 10] = [
    ("version", "components", 1),
    ("chains", "ids", 1),
    ("state", "current", 1),
    ("snapshot", "unconfirmed-since", 1),
    ("telemetry", "scraped", 1),
    ("commands", "clear-packets", 3),
    ("request", "header", 3),
    ("query", "get", 1),
    ("mount", "path", 1),
    ("log", "log", 3),
];

#[test]
fn each_grant_is_withheld_and_given() {
    let all = engine(&patient());
    for (name, function, numbers) in INTERFACES {
        let component = component::that_imports(name, function, numbers);
        let others = INTERFACES.map(|(other, ..)| other);
        let others: Vec<_> = others.into_iter().filter(|other| *other != name).collect();
        let engine = all.clone().with_grants(Grants::new(&others).unwrap());
        let error = Module::from_bytes(&engine, "tool.wasm", &component).unwrap_err().to_string();
        let granted = others.join(", ");
        let start = format!(
            "module tool.wasm: imports without a grant: relayer:rest/{name}@0.1.0 \
             (granted: {granted}); to grant them, set grants = [\"version\", \"chains\", \
             \"state\", \"snapshot\", \"telemetry\", \"commands\", \"request\", \"query\", \"mount\", \"log\"] in its [[extension]]"
        );
        assert_eq!(error, start);
        let engine = all.clone().with_grants(Grants::new(&[name]).unwrap());
        assert!(Module::from_bytes(&engine, "tool.wasm", &component).is_ok(), "{name}");
    }
}

fn tool(grants: &[&str], component: &[u8]) -> Mount {
    let engine = engine(&patient()).with_grants(Grants::new(grants).unwrap());
    extension("/ext/tool", &engine, component)
}

async fn server(extension: Mount) -> TestServer {
    TestServer::builder().extension(extension).without_state().start().await
}

/// The grants apply to candidates, too.
#[tokio::test]
async fn a_candidate_is_limited_to_the_grants_of_its_mount() {
    let plain = component::with_response(204, "a", b"b");
    let server = server(tool(&["chains"], &plain)).await;
    let mount = server.registry.at("/ext/tool").unwrap();
    let state = server.publisher.reader();
    let curious = component::that_imports("request", "header", 3);
    let refused = mount.swap(candidate(curious), &state).await.outcome;
    let SwapOutcome::Rejected { reason: Rejection::Invalid, message } = refused else {
        panic!("{refused:?}")
    };
    let both = "mount /ext/tool: module new.wasm: imports without a grant: relayer:rest/request@0.1.0 (granted: chains)";
    assert!(message.starts_with(both), "{message}");
    let honest = component::that_imports("chains", "ids", 1);
    assert_eq!(mount.swap(candidate(honest), &state).await.outcome, SwapOutcome::Swapped);
}

/// The mount path is known initially, and after a swap.
#[tokio::test]
async fn an_extension_knows_its_mount() {
    let returning = component::that_returns_its_mount();
    let server = server(tool(&["mount"], &returning)).await;
    assert_eq!(server.get("/ext/tool/x").await.text(), "/ext/tool");
    let mount = server.registry.at("/ext/tool").unwrap();
    let other = candidate(component::noted(&returning, "other"));
    let report = mount.swap(other, &server.publisher.reader()).await;
    assert_eq!(report.outcome, SwapOutcome::Swapped);
    assert_eq!(report.differences, []);
    assert_eq!(server.get("/ext/tool/x").await.text(), "/ext/tool");
    assert_eq!(server.swap(returning).await.outcome, SwapOutcome::Swapped);
    assert_eq!(server.get("/x").await.text(), "/");
}

/// Returns an extension at /ext/tool that always responds with this header, and has these
/// header grants.
fn with_header(name: &str, value: &str, granted: &[&str]) -> Mount {
    let headers = HeaderGrants::new(granted).unwrap();
    let options = EngineOptions { headers, ..EngineOptions::from(&patient()) };
    let engine = Engine::with(options).unwrap();
    let component = component::with_response(200, name, value.as_bytes());
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
        let status = server.registry.at("/ext/tool").unwrap().module().unwrap().failures();
        assert_eq!((status.invalid, status.module_failures()), (1, 1));
    }
    let server = server(with_header("alt-svc", "clear", &["nel", "alt-svc"])).await;
    assert_eq!(server.get("/ext/tool/a").await.header("alt-svc"), "clear");
}

/// The API's module shares the origin with the extensions.
#[tokio::test]
async fn the_api_needs_a_header_grant_too() {
    let component = component::with_response(200, "clear-site-data", b"\"*\"");
    let server = TestServer::builder().component(&component).start().await;
    assert_eq!(server.get("/").await.status, 502);
    let component = component::with_response(200, "set-cookie", b"a=b; Path=/");
    let server = TestServer::builder().component(&component).start().await;
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
            let response = client.get("/ext/tool").await;
            assert_eq!(
                (response.status.as_u16(), response.header("set-cookie")),
                expected,
                "{cookie}"
            );
        }
    }
}
