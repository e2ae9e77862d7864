//! Are requests served from the cache without a run of the module?

use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_host::cache::{RequestRef, ResponseCache};
use relayer_rest_host::module::{Limits, Module};
use relayer_rest_host::state::{RelayerState, StatePublisher, sample};
use relayer_rest_tests::client::Response;
use relayer_rest_tests::component;
use relayer_rest_tests::server::{TestServer, engine, patient, request};
use relayer_rest_tests::wait::until;

use super::{CacheTest, one_run};

#[tokio::test]
async fn cached_responses_need_no_run() {
    let server = TestServer::builder()
        .component(&component::that_spins_on_spin())
        .limits(&one_run())
        .start()
        .await;
    let mut client = server.connect().await;
    for path in ["/", "/a", "/a?b"] {
        assert_eq!(client.get(path).await.status, 204);
    }
    assert_eq!(client.request("POST", "/a").await.status, 204);
    let mut other = server.connect().await;
    let api = server.api();
    let runs = || api.status().module().unwrap().runs;
    let before = runs();
    let spinning = tokio::spawn(async move { other.get("/spin").await });
    until("the only permit is taken", || runs() > before).await;
    assert_eq!(client.get("/new").await.status, 503);
    for path in ["/", "/a", "/a?b"] {
        assert_eq!(client.get(path).await.status, 204);
        assert_eq!(client.request("HEAD", path).await.status, 204);
    }
    assert_eq!(client.request("POST", "/a").await.status, 204);
    assert_eq!(client.get("/a?c").await.status, 204, "the query is not read");
    for (method, path) in [("GET", "/b"), ("POST", "/"), ("PUT", "/a")] {
        assert_eq!(client.request(method, path).await.status, 503, "{method} {path}");
    }
    spinning.abort();
}

#[tokio::test]
async fn all_kept_parts_of_a_request_count_towards_the_size() {
    let test = CacheTest::new(Some(&component::that_counts()), &patient());
    let long = "X".repeat(10_000);
    let size = || test.cache.size().as_u64();
    for (method, target, headers) in [
        (&long[..], "/", &[][..]),
        ("GET", &format!("/{long}"), &[]),
        ("GET", "/", &[("x-count", &long[..])]),
    ] {
        let before = size();
        let request = request(method, target, headers);
        test.cache.get_or_run(&test.module, request, &test.state).await.unwrap();
        let more = size() - before;
        assert!((10_000..40_000).contains(&more), "{more}");
    }
}

const ENDPOINTS: [&str; 4] = ["/version", "/chains", "/chain/ibc-0", "/state"];

#[tokio::test]
async fn a_change_invalidates_only_responses_derived_from_it() {
    let test = CacheTest::new(None, &patient());
    for path in ENDPOINTS.into_iter().chain(["/chain/none", "/nothing"]) {
        assert!(!test.is_cached(path), "{path}");
        test.request(path).await;
        assert!(test.is_cached(path), "{path}");
    }
    test.publisher.set_state(RelayerState::default());
    assert!(!test.is_cached("/state"));
    for path in ["/version", "/chains", "/chain/ibc-0", "/chain/none", "/nothing"] {
        assert!(test.is_cached(path), "{path}");
    }
    test.publisher.remove_chain(&"ibc-0".into());
    for path in ["/chains", "/chain/ibc-0"] {
        assert!(!test.is_cached(path), "{path}");
    }
    for path in ["/version", "/chain/none", "/nothing"] {
        assert!(test.is_cached(path), "{path}");
    }
    assert_eq!(test.request("/chain/ibc-0").await, 404);
    assert!(test.is_cached("/chain/ibc-0"), "errors of the module are cached");
}

#[tokio::test]
async fn errors_of_the_host_are_not_cached() {
    let limits = Limits { time: Duration::from_millis(10), ..patient() };
    for code in ["unreachable", "(loop br 0) unreachable"] {
        let test = CacheTest::new(Some(&component::of_handler(code)), &limits);
        assert_eq!(test.request("/").await, 0);
        assert!(!test.is_cached("/"));
        assert_eq!(test.cache.size(), ByteSize::b(0));
    }
}

#[tokio::test]
async fn responses_that_depend_on_headers_are_distinguished() {
    let server = TestServer::builder().component(&component::that_counts()).start().await;
    let mut client = server.connect().await;
    let values = [("x-count", ""), ("x-count", "a"), ("x-count", "b")];
    for _ in 0..3 {
        for count in 0..values.len() {
            let response = client.request_with("GET", "/", &values[..count]).await;
            assert_eq!(usize::from(response.status.as_u16()), 200 + count);
            assert_eq!(response.header("vary"), "x-count, accept, prefer");
        }
    }
}

#[tokio::test]
async fn responses_are_cached_for_each_value_of_the_headers_read() {
    let test = CacheTest::new(Some(&component::that_counts()), &patient());
    let snapshot = test.state.snapshot();
    let cached = |headers: &[(&str, &str)]| {
        let request = request("GET", "/", headers);
        let request_ref = RequestRef::from(&*request);
        test.cache
            .find(&test.module, request_ref, &snapshot)
            .ok()
            .map(|response| response.status().as_u16())
    };
    let one = [("x-count", "1"), ("other", "1")];
    let two = [("x-count", "1"), ("x-count", "2")];
    for headers in [&one[..], &two] {
        assert_eq!(cached(headers), None);
        let request = request("GET", "/", headers);
        test.cache.get_or_run(&test.module, request, &test.state).await.unwrap();
    }
    assert_eq!(cached(&one), Some(201));
    assert_eq!(cached(&[("x-count", "1"), ("other", "2")]), Some(201));
    assert_eq!(cached(&two), Some(202));
    assert_eq!(cached(&[("x-count", "2"), ("x-count", "1")]), None);
    assert_eq!(cached(&[]), None);
}

#[tokio::test]
async fn a_flood_of_other_paths_stays_within_the_limit_and_evicts_no_endpoint() {
    let limits = Limits { response_cache: ByteSize::kib(256), ..patient() };
    let test = CacheTest::new(None, &limits);
    for path in ENDPOINTS {
        test.request(path).await;
    }
    let mut forgotten = 0;
    for turn in 0..10_000 {
        let stranger = format!("/{turn}/{:x}", fastrand::u64(..));
        test.request(&stranger).await;
        if turn % 3 == 0 {
            test.request(&stranger).await;
        }
        if turn % 20 == 0 {
            for path in ENDPOINTS {
                forgotten += u32::from(!test.is_cached(path));
            }
        }
    }
    assert_eq!(forgotten, 0);
    assert!(test.cache.size() <= limits.response_cache);
    assert!(test.cache.size() > ByteSize::kib(128), "responses were cached");
}

#[tokio::test]
async fn responses_that_are_too_large_are_not_cached() {
    let limits = Limits { response_cache: ByteSize::kib(16), ..patient() };
    let body = vec![b'x'; 20 << 10];
    let test = CacheTest::new(Some(&component::of_response(200, &[], &body)), &limits);
    assert_eq!(test.request("/").await, 200);
    assert!(!test.is_cached("/"));
    assert_eq!(test.cache.size(), ByteSize::b(0));
}

/// All responses are the same with and without a cache.
#[tokio::test]
async fn responses_are_the_same_without_a_cache() {
    async fn server(response_cache: ByteSize) -> TestServer {
        let limits = Limits { response_cache, ..patient() };
        let server = TestServer::builder()
            .module(Module::embedded(&engine(&limits)).unwrap())
            .without_state()
            .start()
            .await;
        sample(&server.publisher);
        server
    }
    let servers = [server(ByteSize::mib(1)).await, server(ByteSize::b(0)).await];
    let mut clients = [servers[0].connect().await, servers[1].connect().await];
    let mut random = fastrand::Rng::with_seed(7);
    let mut etags = vec!["*".to_owned()];
    for turn in 0..1_000 {
        if random.u8(..) < 16 {
            let workers = random.usize(..60);
            for server in &servers {
                change(&server.publisher, turn, workers);
            }
        }
        let paths = ["/version", "/chains", "/chain/ibc-0", "/chain/none", "/state", "/nothing"];
        let path = random.choice(paths).unwrap();
        let method = random.choice(["GET", "GET", "GET", "HEAD", "POST"]).unwrap();
        let mut headers = Vec::new();
        if random.bool() {
            let encodings = ["gzip", "br", "zstd", "gzip, deflate, br, zstd", "identity", "*;q=0"];
            headers.push(("accept-encoding", random.choice(encodings).unwrap()));
        }
        let etag = random.choice(&etags).unwrap().clone();
        if random.bool() {
            headers.push(("if-none-match", &etag));
        }
        let mut responses = Vec::new();
        for client in &mut clients {
            responses.push(comparable(client.request_with(method, path, &headers).await));
        }
        assert_eq!(responses[0], responses[1], "{method} {path} {headers:?}");
        let etag = responses[0].header("etag");
        if !etag.is_empty() {
            etags.push(etag.to_owned());
        }
    }
}

fn change(publisher: &StatePublisher, turn: u64, workers: usize) {
    use relayer_rest_host::state::{Object, Worker};
    publisher.update_state(|state| {
        state.workers = (0..workers as u64)
            .map(|id| Worker {
                id: turn + id,
                object: Object::Wallet { chain_id: format!("chain-{id}").into() },
                data: None,
            })
            .collect();
    });
}

/// Returns a response without the headers that always differ.
fn comparable(mut response: Response) -> Response {
    for name in ["date", "x-request-id"] {
        assert!(response.headers.remove(name).is_some(), "{name}");
    }
    response
}

#[tokio::test]
async fn cached_responses_belong_to_one_module() {
    let modules =
        [component::with_response(200, "a", b"b"), component::with_response(201, "a", b"b")];
    let engine = engine(&patient());
    let modules = modules.map(|bytes| Module::from_bytes(&engine, "test", &bytes).unwrap());
    let cache = ResponseCache::new(ByteSize::mib(1));
    let publisher = StatePublisher::new();
    for _ in 0..2 {
        for (module, status) in modules.iter().zip([200, 201]) {
            let response =
                cache.get_or_run(module, request("GET", "/", &[]), &publisher.reader()).await;
            assert_eq!(response.unwrap().status(), status);
            let test = request("GET", "/", &[]);
            let snapshot = publisher.reader().snapshot();
            let found = cache.find(module, RequestRef::from(&*test), &snapshot).ok();
            let found = found.map(|response| response.status().as_u16());
            assert_eq!(found, Some(status));
        }
    }
}
