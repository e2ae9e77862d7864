//! Are components of `wasi:http` modules like all others: pure functions within limits?

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytesize::ByteSize;
use hyper::Method;
use hyper::header::HeaderName;
use relayer_rest_host::HttpLimits;
use relayer_rest_host::module::{
    Capsule, DebugOutput, Engine, EngineOptions, Grants, GuestRequest, Limits, Module, Redaction,
    RequestHeaders, RunPermit, RunRecord,
};
use relayer_rest_host::registry::SwapOutcome;
use relayer_rest_host::state::{ChainConfig, ChainKind, StatePublisher};
use relayer_rest_tests::cargo::{HTTP_GUEST, WASI_GUEST};
use relayer_rest_tests::client;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::server::{
    TestServer, candidate, engine, extension, label, patient, request,
};
use relayer_rest_tests::watcher::Watcher;

/// Creates an engine with WASI, whose modules may import nothing of the contract.
fn with_wasi(limits: &Limits, request_headers: RequestHeaders) -> Engine {
    let options = EngineOptions::from(limits);
    let grants = Grants::none();
    Engine::with(EngineOptions { wasi: true, grants, request_headers, ..options }).unwrap()
}

async fn server(limits: &Limits, request_headers: RequestHeaders) -> TestServer {
    let guest = extension("/ext/guest", &with_wasi(limits, request_headers), HTTP_GUEST);
    TestServer::builder().extension(guest).without_state().start().await
}

async fn patient_server() -> TestServer {
    server(&patient(), RequestHeaders::default()).await
}

fn runs(server: &TestServer) -> u64 {
    server.registry.at("/ext/guest").unwrap().status().module().unwrap().runs
}

/// Sends a request with a body, and returns the response with its head.
async fn post(address: SocketAddr, path: &str, body: &str) -> String {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    client::raw(address, (head + body).as_bytes()).await
}

#[tokio::test]
async fn a_component_sees_the_request_below_its_mount() {
    let server = patient_server().await;
    let mut http = server.connect().await;
    let target = http.get("/ext/guest/target/a%20b?c=d").await;
    assert_eq!(target.text(), "Method::Get Some(Scheme::Http) localhost /target/a%20b?c=d");
    assert_eq!(target.header("content-type"), "text/plain");
    let delete = http.request("DELETE", "/ext/guest/target").await;
    assert_eq!(delete.text(), "Method::Delete Some(Scheme::Http) localhost /target");
    let other = http.request("PURGE", "/ext/guest/target").await;
    assert!(other.text().starts_with("Method::Other(\"PURGE\") "), "{}", other.text());
    // The host responds to HEAD from the response to GET.
    let head = http.request("HEAD", "/ext/guest/target").await;
    assert_eq!((head.status.as_u16(), head.text()), (200, ""));
    assert_eq!(http.get("/ext/guest/status/418").await.status, 418);
    assert_eq!(http.get("/ext/guest/empty").await.text(), "");
    assert_eq!(http.get("/ext/guest/other").await.status, 404);
}

#[tokio::test]
async fn responses_are_cached_by_what_the_component_read() {
    let server = patient_server().await;
    let mut http = server.connect().await;
    let mut get = async |path: &str, headers: &[(&str, &str)]| {
        http.request_with("GET", &format!("/ext/guest/{path}"), headers).await
    };
    let first = get("header/accept-language", &[("accept-language", "de")]).await;
    assert_eq!((first.text(), first.header("vary")), ("de", "accept-language, accept, prefer"));
    let etag = first.header("etag").to_owned();
    let other_header = [("accept-language", "de"), ("accept", "text/plain")];
    assert_eq!(get("header/accept-language", &other_header).await.text(), "de");
    let unchanged = [("accept-language", "de"), ("if-none-match", &*etag)];
    assert_eq!(get("header/accept-language", &unchanged).await.status, 304);
    assert_eq!(runs(&server), 1);
    assert_eq!(get("header/accept-language", &[("accept-language", "fr")]).await.text(), "fr");
    assert_eq!(get("header/accept-language", &[]).await.text(), "");
    assert_eq!(runs(&server), 3);
    // The target is one value with the query.
    assert_eq!(get("header/accept-language?a", &[]).await.text(), "");
    assert_eq!(get("header/accept-language?a", &[]).await.text(), "");
    assert_eq!(runs(&server), 4);
    // This response depends on the method alone.
    for target in ["/ext/guest/put", "/ext/guest/put?a"] {
        let put = http.request_with("PUT", target, &[("accept", target)]).await;
        assert_eq!((put.text(), put.header("vary")), ("put", ""));
    }
    assert_eq!(runs(&server), 5);
}

/// A component that reads all headers depends on all of them, but not on their order, nor on
/// on headers that the host evaluates.
#[tokio::test]
async fn all_headers_are_one_input() {
    let server = patient_server().await;
    let mut http = server.connect().await;
    let mut get = async |headers: &[(&str, &str)]| {
        http.request_with("GET", "/ext/guest/headers", headers).await
    };
    let both = "accept: a\nx-b: 1\nx-b: 2\n";
    let first = get(&[("x-b", "1"), ("accept", "a"), ("x-b", "2")]).await;
    assert_eq!((first.text(), first.header("vary")), (both, "*"));
    for more in [
        ("accept-encoding", "identity"),
        ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("range", "bytes=0-1"),
        ("te", "trailers"),
        ("last-event-id", "1"),
        ("prefer", "wait=1"),
        ("traceparent", "00-11111111111111111111111111111111-2222222222222222-01"),
        ("x-request-id", "1"),
    ] {
        let response = get(&[("accept", "a"), ("x-b", "1"), ("x-b", "2"), more]).await;
        assert_eq!((response.status.as_u16(), response.text()), (200, both), "{more:?}");
    }
    assert_eq!(runs(&server), 1);
    assert_eq!(
        get(&[("x-b", "2"), ("accept", "a"), ("x-b", "1")]).await.text(),
        "accept: a\nx-b: 2\nx-b: 1\n"
    );
    assert_eq!(get(&[("accept", "a")]).await.text(), "accept: a\n");
    assert_eq!(get(&[]).await.text(), "");
    assert_eq!(runs(&server), 4);
    assert_eq!(get(&[("accept", "a")]).await.text(), "accept: a\n");
    assert_eq!(runs(&server), 4);
}

#[tokio::test]
async fn the_settings_limit_the_headers_that_a_component_sees() {
    let server = server(&patient(), RequestHeaders::new(&["accept"]).unwrap()).await;
    let mut http = server.connect().await;
    for agent in ["a", "b", "c"] {
        let headers = [("user-agent", agent), ("accept", "a")];
        let all = http.request_with("GET", "/ext/guest/headers", &headers).await;
        assert_eq!((all.text(), all.header("vary")), ("accept: a\n", "accept, prefer"));
        let one = http.request_with("GET", "/ext/guest/header/user-agent", &headers).await;
        assert_eq!(one.text(), "");
    }
    assert_eq!(runs(&server), 2);
}

#[tokio::test]
async fn bodies_of_requests_are_read_and_their_responses_are_not_shared() {
    let server = patient_server().await;
    for body in ["a", "b", "b"] {
        let response = post(server.address, "/ext/guest/echo", &body.repeat(10_000)).await;
        let (head, echoed) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert_eq!(echoed, body.repeat(10_000));
    }
    assert_eq!(runs(&server), 3);
    // Without a body, responses are cached as all others.
    for _ in 0..2 {
        assert!(post(server.address, "/ext/guest/echo", "").await.ends_with("\r\n\r\n"));
    }
    assert_eq!(runs(&server), 4);
    let chunked = "POST /ext/guest/echo HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
                   transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let response = client::raw(server.address, chunked.as_bytes()).await;
    assert!(response.ends_with("\r\n\r\nabcde"), "{response}");
    let large = post(server.address, "/ext/guest/echo", &"a".repeat((64 << 10) + 1)).await;
    assert!(large.starts_with("HTTP/1.1 413 "), "{large}");
}

/// A body beyond the budget of all bodies is discarded, which matters to its readers only.
#[tokio::test]
async fn bodies_of_requests_are_kept_within_a_budget() {
    let guest = with_wasi(&patient(), RequestHeaders::default());
    let guest = extension("/ext/guest", &guest, HTTP_GUEST);
    let http = HttpLimits {
        body: ByteSize::mib(65),
        idle: Duration::from_mins(10),
        ..HttpLimits::default()
    };
    let server = TestServer::builder().extension(guest).http(http).start().await;
    let large = "a".repeat((64 << 20) + 1);
    let response = post(server.address, "/ext/guest/echo", &large).await;
    assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
    assert!(
        response.contains("\"Overloaded\"") && response.contains("retry-after: "),
        "{response}"
    );
    let response = post(server.address, "/version", &large).await;
    assert!(response.starts_with("HTTP/1.1 405 "), "{response}");
    // The budget is free again.
    let response = post(server.address, "/ext/guest/echo", "a").await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
}

#[tokio::test]
async fn bodies_of_responses_are_collected() {
    let server = patient_server().await;
    let mut http = server.connect().await;
    let body = http.get("/ext/guest/stream/3000").await.body;
    assert_eq!(body.len(), 3000 << 10);
    let is_expected = |(number, piece): (usize, &[u8])| {
        piece.iter().all(|byte| usize::from(*byte - b'0') == number % 10)
    };
    assert!(body.chunks(1024).enumerate().all(is_expected));
    let trailers = http.get("/ext/guest/trailers").await;
    assert_eq!((trailers.text(), trailers.header("trailer")), ("body", ""));
    let length = http.get("/ext/guest/length/5").await;
    assert_eq!((length.text(), length.header("content-length")), ("12345", "5"));
}

#[tokio::test]
async fn no_request_leaves_the_host() {
    let server = patient_server().await;
    let mut http = server.connect().await;
    let target = format!("/ext/guest/fetch/{}", server.address);
    assert_eq!(http.get(&target).await.text(), "ErrorCode::HttpRequestDenied");
}

#[tokio::test]
async fn headers_follow_the_rules_of_the_interface() {
    let server = patient_server().await;
    let fields = server.get("/ext/guest/fields").await;
    let (done, forbidden) = ("Ok(())", "Err(HeaderError::Forbidden)");
    let (invalid, immutable) = ("Err(HeaderError::InvalidSyntax)", "Err(HeaderError::Immutable)");
    let results = [done, done, forbidden, invalid, invalid, done, done, immutable].join(", ");
    assert_eq!(fields.text(), format!("[{results}] [\"1\", \"2\"] true [3, 1]"));
}

/// Makes requests to which the component responds, so that its circuit breaker stays closed.
async fn succeed(server: &TestServer, name: &str) {
    for number in 0..2 {
        let response = server.get(&format!("/ext/guest/target/{name}/{number}")).await;
        assert_eq!(response.status, 200);
    }
}

/// Limits under which a component soon exceeds one.
fn tight() -> Limits {
    Limits {
        time: Duration::from_millis(500),
        body: ByteSize::kib(64),
        memory: ByteSize::mib(16),
        ..patient()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn components_stay_within_limits() {
    let server = server(&tight(), RequestHeaders::default()).await;
    let watcher = Watcher::start(server.address);
    assert_eq!(server.get("/ext/guest/stream/64").await.body.len(), 64 << 10);
    for (path, status, name) in [
        ("stream/65", 502, "BadModuleResponse"),
        ("spin", 504, "Timeout"),
        ("hoard/bodies", 502, "BadModuleResponse"),
        ("hoard/bytes", 500, "Internal"),
        ("hoard/fields", 500, "Internal"),
        ("hoard/headers", 502, "BadModuleResponse"),
        ("hoard/texts", 500, "Internal"),
    ] {
        succeed(&server, path).await;
        let response = server.get(&format!("/ext/guest/{path}")).await;
        assert_eq!((response.status.as_u16(), &*response.error_name()), (status, name), "{path}");
    }
    watcher.stop().await;
}

/// Runs the component alone, and returns the reason that it has no response.
async fn reason(module: &Module, path: &str) -> String {
    let permit = RunPermit::acquire(module).await.unwrap();
    let snapshot = StatePublisher::new().reader().snapshot();
    let ended = permit.execute(request("GET", path, &[]), Arc::clone(&snapshot)).await;
    ended.unwrap_err().to_string()
}

#[tokio::test]
async fn an_invalid_response_has_a_reason() {
    let limits = Limits { body: ByteSize::kib(64), memory: ByteSize::mib(16), ..patient() };
    let engine = with_wasi(&limits, RequestHeaders::default());
    let module = Module::from_bytes(&engine, "guest", HTTP_GUEST).unwrap();
    let server = server(&limits, RequestHeaders::default()).await;
    for (path, reason_of) in [
        ("/unset", "there is none; the component must call response-outparam.set"),
        (
            "/error",
            "it is the error ErrorCode::InternalError(Some(\"as the test wants it\")) of wasi:http",
        ),
        ("/unfinished", "its body is incomplete; the component must call outgoing-body.finish"),
        ("/unfinished/forgotten", "its body is incomplete"),
        ("/length/4", "its header content-length is 4, but its body has 5 bytes"),
        ("/length/6", "its header content-length is 6, but its body has 5 bytes"),
        ("/stream/100", "the body has 65.0 KiB; the maximum is 64.0 KiB (limits.body)"),
        ("/hoard/headers", "it has 129 headers; the maximum is 128 (limits.headers)"),
        ("/status/100", "status 100 is not from 200 to 599"),
    ] {
        let message = reason(&module, path).await;
        let start = format!("the module's response is invalid: {reason_of}");
        assert!(message.starts_with(&start), "{path}: {message}");
        succeed(&server, &path[1..]).await;
        let response = server.get(&format!("/ext/guest{path}")).await;
        let status = (response.status.as_u16(), &*response.error_name());
        assert_eq!(status, (502, "BadModuleResponse"), "{path}");
    }
    let message = reason(&module, "/hoard/bytes").await;
    assert!(message.contains("of memory, but limits.memory is 16.0 MiB"), "{message}");
}

/// Both kinds of modules can replace each other.
#[tokio::test]
async fn a_component_is_swapped_for_a_module_of_the_contract_and_back() {
    let server = patient_server().await;
    let swap = async |component: &[u8]| {
        let mount = server.registry.at("/ext/guest").unwrap();
        let report = mount.swap(candidate(component.to_owned()), &server.publisher.reader()).await;
        assert_eq!(report.outcome, SwapOutcome::Swapped, "{report:?}");
        report
    };
    assert_eq!(server.get("/ext/guest/headers").await.text(), "");
    let report = swap(WASI_GUEST).await;
    // The responses were compared on the requests of clients.
    assert_eq!(report.differences.len(), 1, "{report:?}");
    let response = server.get("/ext/guest/headers").await;
    assert_eq!(response.text(), "nothing");
    assert_eq!(response.header("x-relayer-module"), label(WASI_GUEST).replace("api", "guest"));
    swap(HTTP_GUEST).await;
    let before = runs(&server);
    assert_eq!(server.get("/ext/guest/headers").await.text(), "");
    // The swap has warmed the cache.
    assert_eq!(runs(&server), before);
}

#[tokio::test]
async fn a_component_has_the_time_of_the_state_and_equal_random_numbers() {
    let server = patient_server().await;
    let now = || {
        let time = server.publisher.reader().snapshot().changed().time;
        time.duration_since(UNIX_EPOCH).unwrap().as_nanos().to_string()
    };
    let mut http = server.connect().await;
    assert_eq!(http.get("/ext/guest/time").await.text(), now());
    let random = http.get("/ext/guest/random/1").await.text().to_owned();
    server.publisher.set_chain(ChainConfig::new("a", ChainKind::CosmosSdk));
    assert_eq!(http.get("/ext/guest/time").await.text(), now());
    assert_eq!(http.get("/ext/guest/random/2").await.text(), random);
}

/// The other engine has the settings in the capsule.
#[tokio::test]
async fn a_capsule_of_a_component_has_the_same_outcome_on_another_engine() {
    let load = |engine: &Engine| Module::from_bytes(engine, "guest", HTTP_GUEST).unwrap();
    let publisher = StatePublisher::new();
    publisher.set_chain(ChainConfig::new("a", ChainKind::CosmosSdk));
    for visible in [RequestHeaders::default(), RequestHeaders::new(&["x-b"]).unwrap()] {
        let module = load(&with_wasi(&patient(), visible.clone()));
        let mut replaying = None;
        for (target, part) in [
            ("/echo", "\"body\": \"a body\""),
            ("/target/a?b=c", "localhost /target/a?b=c"),
            ("/header/x-b", "\"body\": \"of b\""),
            ("/headers", "x-b: of b"),
            ("/time", "\"kind\": \"response\""),
            ("/random", "\"kind\": \"response\""),
            ("/unset", "response-outparam.set"),
            ("/hoard/memory", "\"kind\": \"trap\""),
        ] {
            let headers = [("x-a", "of a"), ("x-b", "of b"), ("host", "localhost")];
            let name = |name: &str| name.parse::<HeaderName>().unwrap();
            let headers = headers.map(|(key, value)| (name(key), value.parse().unwrap()));
            let request = GuestRequest {
                body: "a body".into(),
                ..GuestRequest::new(
                    Method::POST,
                    target.parse().unwrap(),
                    headers.into_iter().collect(),
                )
            };
            let snapshot = publisher.reader().snapshot();
            let run = RunRecord::from_run(&module, request, snapshot).await.unwrap();
            let capsule = Capsule::new(&run, "1", UNIX_EPOCH, &Redaction::default()).unwrap();
            let json = String::from_utf8(capsule.to_json().unwrap()).unwrap();
            let (_, outcome) = json.split_once("\"outcome\"").unwrap();
            assert!(outcome.contains(part), "{target}: {json}");
            if target == "/headers" {
                let has_all = visible == RequestHeaders::default();
                assert_eq!(outcome.contains("x-a: of a"), has_all, "{json}");
            }
            let capsule = Capsule::parse(json.as_bytes()).unwrap();
            let replaying = replaying
                .get_or_insert_with(|| load(&Engine::with(capsule.engine_options()).unwrap()));
            let replay = capsule.replay(replaying, &DebugOutput::default()).await;
            let replay = replay.unwrap().unwrap();
            assert!(replay.is_same && replay.missing.is_empty(), "{target}: {replay:?}");
        }
    }
}

#[test]
fn a_component_needs_wasi() {
    let refused = Module::from_bytes(&engine(&patient()), "guest", HTTP_GUEST);
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("wasi:http/types@0.2."), "{message}");
    let remedy = "(to allow WASI, set wasi = true in its [[extension]], or in [module])";
    assert!(message.contains(remedy), "{message}");
}

#[test]
fn other_versions_of_wasi_http_are_rejected() {
    let engine = with_wasi(&patient(), RequestHeaders::default());
    let handler = |name: &str| {
        let text = format!(
            "(component (component $c) (instance $i (instantiate $c)) (export \"{name}\" (instance $i)))"
        );
        Module::from_bytes(&engine, "m", &wat::parse_str(text).unwrap()).unwrap_err().to_string()
    };
    assert_eq!(
        handler("wasi:http/handler@0.3.0"),
        "module m: exports wasi:http/handler@0.3.0, but the host has wasi:http 0.2; build it for wasi:http/incoming-handler@0.2"
    );
    let neither = "module m: does not export relayer:rest/handler@0.1.0, which the world api-module requires, or wasi:http/incoming-handler@0.2";
    let message = handler("wasi:http/incoming-handler@0.1.0");
    assert!(
        message.starts_with(&format!("{neither}, but wasi:http/incoming-handler@0.1.0")),
        "{message}"
    );
    let message = handler("wasi:http/incoming-handler@0.2.0");
    assert!(
        message.contains("wasi:http/incoming-handler@0.2.0 has no function handle"),
        "{message}"
    );
}

/// The settings and the commands name the same key.
#[tokio::test]
async fn a_component_is_mounted_by_the_settings() {
    let folder = Folder::new();
    let module = folder.join("guest.wasm");
    let config = folder.join("rest.toml");
    fs::write(&module, HTTP_GUEST).unwrap();
    let settings = "[[extension]]\nname = 'guest'\nmodule = 'guest.wasm'\n";
    fs::write(&config, settings).unwrap();
    let checked = ["config", "check", config.to_str().unwrap()];
    let ended = Program::new(&checked).run().await;
    assert_eq!(ended.status, Some(1));
    assert!(ended.stdout.contains("set wasi = true in"), "{}", ended.stdout);
    let ended = Program::new(&["check", "--dialect", "any", module.to_str().unwrap()]).run().await;
    assert_eq!(ended.status, Some(0), "{}{}", ended.stdout, ended.stderr);
    let line = "\nneeds    grants = [], wasi = true (as an extension)\n";
    assert!(ended.stdout.contains(line), "{}", ended.stdout);

    let settings = format!("{settings}wasi = true\nrequest-headers = ['x-a']\n");
    fs::write(&config, &settings).unwrap();
    let serving = Program::server().args(["--config", config.to_str().unwrap()]).start().await;
    let mut http = serving.connect().await;
    let headers = [("x-a", "1"), ("x-b", "2")];
    let response = http.request_with("GET", "/ext/guest/headers", &headers).await;
    assert_eq!(response.text(), "x-a: 1\n");
    drop(serving);

    fs::write(&config, settings.replace("x-a", "host")).unwrap();
    let ended = Program::new(&checked).run().await;
    assert_eq!(ended.status, Some(2));
    let problem = "header host is evaluated by the host, and not visible to components; remove it";
    assert!(
        format!("{}{}", ended.stdout, ended.stderr).contains(problem),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
}
