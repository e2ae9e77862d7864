//! Are requests served from the cache without a run of the module?

use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_host::cache::{RequestRef, ResponseCache};
use relayer_rest_host::module::{Limits, Module};
use relayer_rest_host::state::{RelayerState, StatePublisher, sample};
use relayer_rest_tests::client::Answer;
use relayer_rest_tests::component;
use relayer_rest_tests::server::{TestServer, engine, patient, request};
use relayer_rest_tests::wait::until;

use super::{Asked, one_run};

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
    assert_eq!(client.ask("POST", "/a").await.status, 204);
    let mut other = server.connect().await;
    let api = server.api();
    let runs = || api.status().module.runs;
    let before = runs();
    let spinning = tokio::spawn(async move { other.get("/spin").await });
    until("the only permit is taken", || runs() > before).await;
    assert_eq!(client.get("/new").await.status, 503);
    for path in ["/", "/a", "/a?b"] {
        assert_eq!(client.get(path).await.status, 204);
        assert_eq!(client.ask("HEAD", path).await.status, 204);
    }
    assert_eq!(client.ask("POST", "/a").await.status, 204);
    assert_eq!(client.get("/a?c").await.status, 204, "the query is not read");
    for (method, path) in [("GET", "/b"), ("POST", "/"), ("PUT", "/a")] {
        assert_eq!(client.ask(method, path).await.status, 503, "{method} {path}");
    }
    spinning.abort();
}

#[tokio::test]
async fn all_kept_parts_of_a_request_count_towards_the_size() {
    let asked = Asked::new(Some(&component::that_counts()), &patient());
    let long = "X".repeat(10_000);
    let size = || asked.cache.size().as_u64();
    for (method, target, headers) in [
        (&long[..], "/", &[][..]),
        ("GET", &format!("/{long}"), &[]),
        ("GET", "/", &[("x-count", &long[..])]),
    ] {
        let before = size();
        let request = request(method, target, headers);
        asked.cache.get_or_run(&asked.module, request, &asked.state).await.unwrap();
        let more = size() - before;
        assert!((10_000..40_000).contains(&more), "{more}");
    }
}

const ENDPOINTS: [&str; 4] = ["/version", "/chains", "/chain/ibc-0", "/state"];

#[tokio::test]
async fn a_change_invalidates_only_responses_derived_from_it() {
    let asked = Asked::new(None, &patient());
    for path in ENDPOINTS.into_iter().chain(["/chain/none", "/nothing"]) {
        assert!(!asked.remembers(path), "{path}");
        asked.ask(path).await;
        assert!(asked.remembers(path), "{path}");
    }
    asked.publisher.set_state(RelayerState::default());
    assert!(!asked.remembers("/state"));
    for path in ["/version", "/chains", "/chain/ibc-0", "/chain/none", "/nothing"] {
        assert!(asked.remembers(path), "{path}");
    }
    asked.publisher.remove_chain(&"ibc-0".into());
    for path in ["/chains", "/chain/ibc-0"] {
        assert!(!asked.remembers(path), "{path}");
    }
    for path in ["/version", "/chain/none", "/nothing"] {
        assert!(asked.remembers(path), "{path}");
    }
    assert_eq!(asked.ask("/chain/ibc-0").await, 404);
    assert!(asked.remembers("/chain/ibc-0"), "errors of the module are cached");
}

#[tokio::test]
async fn errors_of_the_host_are_not_cached() {
    let limits = Limits { time: Duration::from_millis(10), ..patient() };
    for code in ["unreachable", "(loop br 0) unreachable"] {
        let asked = Asked::new(Some(&component::of_handler(code)), &limits);
        assert_eq!(asked.ask("/").await, 0);
        assert!(!asked.remembers("/"));
        assert_eq!(asked.cache.size(), ByteSize::b(0));
    }
}

#[tokio::test]
async fn responses_that_depend_on_headers_are_distinguished() {
    let server = TestServer::builder().component(&component::that_counts()).start().await;
    let mut client = server.connect().await;
    let values = [("x-count", ""), ("x-count", "a"), ("x-count", "b")];
    for _ in 0..3 {
        for count in 0..values.len() {
            let answer = client.ask_with("GET", "/", &values[..count]).await;
            assert_eq!(usize::from(answer.status.as_u16()), 200 + count);
            assert_eq!(answer.header("vary"), "x-count");
        }
    }
}

#[tokio::test]
async fn responses_are_cached_for_each_value_of_the_headers_read() {
    let asked = Asked::new(Some(&component::that_counts()), &patient());
    let snapshot = asked.state.snapshot();
    let remembered = |headers: &[(&str, &str)]| {
        let request = request("GET", "/", headers);
        let question = RequestRef::from(&*request);
        asked
            .cache
            .find(&asked.module, question, &snapshot)
            .ok()
            .map(|answer| answer.status().as_u16())
    };
    let one = [("x-count", "1"), ("other", "1")];
    let two = [("x-count", "1"), ("x-count", "2")];
    for headers in [&one[..], &two] {
        assert_eq!(remembered(headers), None);
        let request = request("GET", "/", headers);
        asked.cache.get_or_run(&asked.module, request, &asked.state).await.unwrap();
    }
    assert_eq!(remembered(&one), Some(201));
    assert_eq!(remembered(&[("x-count", "1"), ("other", "2")]), Some(201));
    assert_eq!(remembered(&two), Some(202));
    assert_eq!(remembered(&[("x-count", "2"), ("x-count", "1")]), None);
    assert_eq!(remembered(&[]), None);
}

#[tokio::test]
async fn a_flood_of_other_paths_stays_within_the_limit_and_evicts_no_endpoint() {
    let limits = Limits { response_cache: ByteSize::kib(256), ..patient() };
    let asked = Asked::new(None, &limits);
    for path in ENDPOINTS {
        asked.ask(path).await;
    }
    let mut forgotten = 0;
    for turn in 0..10_000 {
        let stranger = format!("/{turn}/{:x}", fastrand::u64(..));
        asked.ask(&stranger).await;
        if turn % 3 == 0 {
            asked.ask(&stranger).await;
        }
        if turn % 20 == 0 {
            for path in ENDPOINTS {
                forgotten += u32::from(!asked.remembers(path));
            }
        }
    }
    assert_eq!(forgotten, 0);
    assert!(asked.cache.size() <= limits.response_cache);
    assert!(asked.cache.size() > ByteSize::kib(128), "responses were cached");
}

#[tokio::test]
async fn responses_that_are_too_large_are_not_cached() {
    let limits = Limits { response_cache: ByteSize::kib(16), ..patient() };
    let body = vec![b'x'; 20 << 10];
    let asked = Asked::new(Some(&component::of_response(200, &[], &body)), &limits);
    assert_eq!(asked.ask("/").await, 200);
    assert!(!asked.remembers("/"));
    assert_eq!(asked.cache.size(), ByteSize::b(0));
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
        let mut answers = Vec::new();
        for client in &mut clients {
            answers.push(comparable(client.ask_with(method, path, &headers).await));
        }
        assert_eq!(answers[0], answers[1], "{method} {path} {headers:?}");
        let etag = answers[0].header("etag");
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
fn comparable(mut answer: Answer) -> Answer {
    for name in ["date", "x-request-id"] {
        assert!(answer.headers.remove(name).is_some(), "{name}");
    }
    answer
}

#[tokio::test]
async fn cached_responses_belong_to_one_module() {
    let modules = [component::of_answer(200, "a", b"b"), component::of_answer(201, "a", b"b")];
    let engine = engine(&patient());
    let modules = modules.map(|bytes| Module::from_bytes(&engine, "test", &bytes).unwrap());
    let cache = ResponseCache::new(ByteSize::mib(1));
    let publisher = StatePublisher::new();
    for _ in 0..2 {
        for (module, status) in modules.iter().zip([200, 201]) {
            let answer =
                cache.get_or_run(module, request("GET", "/", &[]), &publisher.reader()).await;
            assert_eq!(answer.unwrap().status(), status);
            let asked = request("GET", "/", &[]);
            let snapshot = publisher.reader().snapshot();
            let found = cache.find(module, RequestRef::from(&*asked), &snapshot).ok();
            let found = found.map(|answer| answer.status().as_u16());
            assert_eq!(found, Some(status));
        }
    }
}
